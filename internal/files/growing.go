package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Growing is a file that is written piece by piece and outlives its process, so that the next can continue it. It is
// locked by one process at a time; the system releases the lock however that ends. The last piece may be cut off,
// which a reader must notice. It is for one goroutine.
type Growing struct {
	path string
	f    *os.File
	size int64
}

// ErrInUse reports that another process has locked a file or folder, or that the file system has no locks.
var ErrInUse = errors.New("in use by another process")

// Grow opens the regular file path, or makes an empty one. The error is an [ErrInUse] if it cannot be locked, and an
// [*IrregularError] if path is not a regular file, or a link.
func Grow(path string) (*Growing, error) {
	for {
		// Refuse a link: its name is never that of the file that it leads to.
		if s, err := os.Lstat(path); err == nil {
			if err := regular(path, s); err != nil {
				return nil, err
			}
		}
		f, err := openRegular(path, os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, FileMode)
			if errors.Is(err, fs.ErrExist) {
				continue // another process was faster
			}
		}
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			f.Close()
			if !locked(err) {
				err = fmt.Errorf("%w, or in a file system that has no locks: %w", ErrInUse, err)
			} else {
				err = ErrInUse
			}
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		s, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		// The previous process may have moved or removed it in the meantime.
		if there, err := os.Lstat(path); err == nil && os.SameFile(there, s) {
			return &Growing{path, f, s.Size()}, nil
		}
		f.Close()
	}
}

// Size returns the size in bytes.
func (g *Growing) Size() int64 { return g.size }

// ReadAt reads as os.File does.
func (g *Growing) ReadAt(p []byte, off int64) (int, error) { return g.f.ReadAt(p, off) }

// Write appends, without a buffer.
func (g *Growing) Write(p []byte) (int, error) {
	n, err := g.f.WriteAt(p, g.size)
	g.size += int64(n)
	return n, err
}

// Cut truncates the file to size bytes.
func (g *Growing) Cut(size int64) error {
	if err := g.f.Truncate(size); err != nil {
		return err
	}
	g.size = size
	return nil
}

// Move syncs the file and renames it within its folder, replacing a file there. Close it afterwards.
func (g *Growing) Move(name string) error {
	if err := syncFile(g.f); err != nil {
		return &fs.PathError{Op: "write", Path: g.path, Err: bare(err)}
	}
	to := filepath.Join(filepath.Dir(g.path), name)
	if err := renameOpen(g.f, to); err != nil {
		return &fs.PathError{Op: "rename", Path: to, Err: bare(err)}
	}
	syncFolder(filepath.Dir(to))
	return nil
}

// Remove removes the file, and closes it.
func (g *Growing) Remove() error { return removeOpen(g.f) }

// Close closes the file, which another process can then continue.
func (g *Growing) Close() error { return g.f.Close() }

// SweepGrowing removes the growing files of a folder that match a pattern (see [filepath.Match]), have not been written
// to for so long, and are not locked, as far as possible.
func SweepGrowing(dir, pattern string, unwritten time.Duration) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		s, err := e.Info()
		match, _ := filepath.Match(pattern, e.Name())
		if err != nil || !match || !s.Mode().IsRegular() || time.Since(s.ModTime()) < unwritten {
			continue
		}
		if g, err := Grow(filepath.Join(dir, e.Name())); err == nil {
			g.Remove()
		}
	}
}
