// Package folder writes and checks folders of files with a sealed YAML manifest that has their hashes. A folder
// is written whole or not at all.
package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/option"
)

// Kind is a kind of folder.
type Kind struct {
	Noun     string   // "bundle"
	Manifest string   // name of the manifest
	Files    []string // names of all possible files, including the manifest
	Title    string   // first line of the manifest, a comment
	Largest  int64    // largest size of a manifest in bytes
}

// Options say what may be replaced.
type Options struct {
	Force bool     // replace a folder of the kind, or an empty one
	Keep  []string // files that must not be lost: a folder that holds one is not replaced
}

// A Put writes a file of the folder, and returns its SHA-256 in hex.
type Put func(name string, content func(io.Writer) error) (sha256 string, err error)

// A Create creates a file of a draft.
type Create func(d *files.Draft, name string) (io.WriteCloser, error)

// CheckTarget reports why Write would refuse dir, or could not write there, which it tries.
func (k *Kind) CheckTarget(dir string, o Options) error {
	path, _, err := k.target(dir, o)
	if err != nil {
		return err
	}
	return k.tryWriting(dir, path)
}

// Inside reports whether a path, which need not exist, lies in a folder or below.
func Inside(path, dir string) bool {
	folder, err := os.Stat(dir)
	if err != nil || !folder.IsDir() {
		return false
	}
	at, err := filepath.Abs(path)
	if err == nil {
		at, err = filepath.EvalSymlinks(filepath.Dir(at))
	}
	for err == nil {
		if s, e := os.Stat(at); e == nil && os.SameFile(s, folder) {
			return true
		}
		if at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	return false
}

// tryWriting creates a draft as Write does, and removes it; path is dir without links.
func (k *Kind) tryWriting(dir, path string) error {
	fail := func(err error) error {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // its path is that of a hidden file
		}
		return fmt.Errorf("%s cannot be written: %w: choose another folder, or change its permissions", dir, err)
	}
	draft, err := files.NewDraft(filepath.Dir(path))
	if err != nil {
		return fail(err)
	}
	defer draft.Close()
	f, err := draft.Create(filepath.Join(filepath.Base(path), k.Manifest))
	if err != nil {
		return fail(err)
	}
	if err := f.Close(); err != nil {
		return fail(err)
	}
	return nil
}

// target returns dir without links and whether it exists, and refuses what must not be replaced.
func (k *Kind) target(dir string, o Options) (path string, there bool, err error) {
	if path, err = filepath.Abs(dir); err != nil {
		return "", false, err
	}
	if s, err := os.Stat(filepath.Dir(path)); err != nil {
		return "", false, err
	} else if !s.IsDir() {
		return "", false, fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, false, nil
	} else if err != nil {
		return "", false, err
	}
	if !o.Force {
		return "", false, fmt.Errorf("%s: %w: use %s to replace it", dir, fs.ErrExist, option.Force)
	}
	// A link to a folder stays, and the folder is replaced.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", false, err
	}
	if err := k.replaceable(path, o.Keep); err != nil {
		return "", false, err
	}
	return path, true, nil
}

// replaceable refuses a folder that is not one of the kind, or has one of the files in keep.
func (k *Kind) replaceable(dir string, keep []string) error {
	folder, err := os.Stat(dir)
	if err != nil {
		return err
	}
	files.Sweep(dir) // drafts of killed programs
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	manifest := len(entries) == 0
	if err := k.holdsOnly(entries); err != nil {
		return fmt.Errorf("%s is not replaced: %w", dir, err)
	}
	for _, e := range entries {
		manifest = manifest || e.Name() == k.Manifest
	}
	if len(entries) > 0 && manifest {
		if err := k.isManifest(filepath.Join(dir, k.Manifest)); err != nil {
			return fmt.Errorf("%s is not replaced: %w", dir, err)
		}
	}
	if !manifest {
		return fmt.Errorf("%s is not replaced: it contains %s but no %s, so it is not a %s", dir, entries[0].Name(), k.Manifest, k.Noun)
	}
	for _, name := range keep {
		path, err := filepath.EvalSymlinks(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing to be lost
		}
		if err != nil {
			return err
		}
		// dir has no folders, so that a file in it lies directly there.
		s, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return err
		}
		if os.SameFile(s, folder) {
			return fmt.Errorf("%s is not replaced: %s would be lost with it; move one of them elsewhere", dir, name)
		}
	}
	return nil
}

// holdsOnly refuses a folder with an entry that is not a file of this kind.
func (k *Kind) holdsOnly(entries []fs.DirEntry) error {
	for _, e := range entries {
		if !slices.Contains(k.Files, e.Name()) || e.IsDir() {
			return fmt.Errorf("it contains %s, which is not a file of a %s", e.Name(), k.Noun)
		}
	}
	return nil
}

// isManifest refuses a file that was never a manifest of this kind, even a broken one: other programs have
// files of such names too.
func (k *Kind) isManifest(path string) error {
	data, err := files.Read(path, k.Largest)
	if err != nil {
		return err
	}
	if len(data) > 0 && !bytes.HasPrefix(data, []byte("# "+k.Title+"\n")) && !SealLine.Match(data) {
		return fmt.Errorf("its %s is not from a %s: remove it yourself, or choose another folder", k.Manifest, k.Noun)
	}
	return nil
}

// Write writes the folder dir, which must not exist unless o.Force is set, with the files that fill puts
// into it, the manifest last. After an error nothing has changed.
func (k *Kind) Write(dir string, o Options, fill func(Put) error) error {
	return k.WriteWith(dir, o, fill, Ordinary)
}

// Ordinary creates a file of a draft.
func Ordinary(d *files.Draft, name string) (io.WriteCloser, error) { return d.Create(name) }

// WriteWith is Write with the function that creates files, which tests replace by one that fails.
func (k *Kind) WriteWith(dir string, o Options, fill func(Put) error, create Create) error {
	dir, _, err := k.target(dir, o)
	if err != nil {
		return err
	}
	draft, err := files.NewDraft(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer draft.Close()
	base := filepath.Base(dir)
	err = fill(func(name string, content func(io.Writer) error) (string, error) {
		f, err := create(draft, filepath.Join(base, name))
		if err != nil {
			return "", err
		}
		h := sha256.New()
		if err := content(io.MultiWriter(f, h)); err != nil {
			return "", fmt.Errorf("writing %s: %w", name, err)
		}
		return hex.EncodeToString(h.Sum(nil)), f.Close()
	})
	if err != nil {
		return err
	}
	return k.move(draft, dir, o)
}

// move gives the folder of the draft the name dir.
func (k *Kind) move(draft *files.Draft, dir string, o Options) error {
	// dir may have changed while the draft was written.
	dir, there, err := k.target(dir, o)
	if err != nil {
		return err
	}
	base := filepath.Base(dir)
	if !there {
		return draft.MoveNew(base)
	}
	old, err := draft.Exchange(base)
	if err != nil {
		return err
	}
	if err := k.Discard(old); err != nil {
		kept, e := draft.Keep(old)
		return fmt.Errorf("the new %s is in place, but the old one at %s could not be removed: %w", k.Noun, kept, errors.Join(err, e))
	}
	return nil
}

// Discard removes a folder of the kind, unless it holds anything else.
func (k *Kind) Discard(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := k.holdsOnly(entries); err != nil {
		return fmt.Errorf("%s is not removed: %w", dir, err)
	}
	for _, name := range k.Files {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}
