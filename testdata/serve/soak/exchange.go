//go:build linux

package main

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/mfgs/mfgs/internal/files"
)

// A way is a way to replace the bundle in the folder to by another. Only the first is atomic; with the others the
// folder holds files of both or partial files for a moment.
type way struct {
	name string
	put  func(rng *rand.Rand, to string, from *bundle) error
}

var ways = []way{
	{"in one step", inOneStep},
	{"copied over", func(rng *rand.Rand, to string, from *bundle) error { return from.each(rng, to, copyOver) }},
	{"copied over in place", func(rng *rand.Rand, to string, from *bundle) error {
		return from.each(rng, to, func(path string, data []byte) error { return copyInPlace(rng, path, data) })
	}},
	{"renamed file by file", func(rng *rand.Rand, to string, from *bundle) error {
		return from.each(rng, to, renameOver)
	}},
	{"cut short, then copied", func(rng *rand.Rand, to string, from *bundle) error {
		err := from.each(rng, to, func(path string, data []byte) error {
			return os.Truncate(path, int64(rng.IntN(len(data)/2)))
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		pause(rng, 50)
		return from.each(rng, to, copyOver)
	}},
	{"half copied for a while", func(rng *rand.Rand, to string, from *bundle) error {
		err := from.each(rng, to, func(path string, data []byte) error {
			return copyOver(path, data[:rng.IntN(len(data))])
		})
		if err != nil {
			return err
		}
		pause(rng, 200)
		return from.each(rng, to, copyOver)
	}},
	{"folder renamed", func(rng *rand.Rand, to string, from *bundle) error {
		next, last := to+".next", to+".last"
		if err := os.CopyFS(next, os.DirFS(from.dir)); err != nil {
			return err
		}
		if err := os.Rename(to, last); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		pause(rng, 20)
		if err := os.Rename(next, to); err != nil {
			return err
		}
		return os.RemoveAll(last)
	}},
}

// each calls do for each file of the bundle, in random order.
func (b *bundle) each(rng *rand.Rand, to string, do func(path string, data []byte) error) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, i := range rng.Perm(len(entries)) {
		data, err := os.ReadFile(filepath.Join(b.dir, entries[i].Name()))
		if err == nil {
			err = do(filepath.Join(to, entries[i].Name()), data)
		}
		if err != nil {
			return err
		}
		pause(rng, 5)
	}
	return nil
}

// copyOver truncates and rewrites a file, as cp does.
func copyOver(path string, data []byte) error { return os.WriteFile(path, data, 0o644) }

// copyInPlace overwrites pieces of a file, as rsync --inplace does.
func copyInPlace(rng *rand.Rand, path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for at := 0; at < len(data); {
		n := min(len(data)-at, 1+rng.IntN(4<<20))
		if _, err := f.WriteAt(data[at:at+n], int64(at)); err != nil {
			return err
		}
		at += n
		pause(rng, 2)
	}
	return f.Truncate(int64(len(data)))
}

// renameOver writes a temporary file and renames it, as rsync does.
func renameOver(path string, data []byte) error {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// inOneStep replaces the folder atomically.
func inOneStep(_ *rand.Rand, to string, from *bundle) error {
	draft, err := files.NewDraft(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer draft.Close()
	name := filepath.Base(to)
	if err := os.CopyFS(draft.Path(name), os.DirFS(from.dir)); err != nil {
		return err
	}
	if _, err := os.Stat(to); errors.Is(err, fs.ErrNotExist) {
		return draft.MoveNew(name)
	}
	_, err = draft.Exchange(name)
	return err
}

// pause sleeps up to so many milliseconds.
func pause(rng *rand.Rand, most int) {
	time.Sleep(time.Duration(rng.IntN(most*1000)) * time.Microsecond)
}
