package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Draft is a hidden folder in which files are written before they are moved to its parent folder. It is for one
// goroutine.
//
// Its process holds a lock on a file in it, which the system releases however the process ends: so the next draft in
// the same folder knows what to remove. Without locks, nothing is removed.
type Draft struct {
	dir  string // where the files are moved to
	path string
	lock *os.File
	open []*File
}

// The contents of a draft's folder.
const (
	lockName = "lock" // contains the host's name
	newName  = "new"  // the files that are written
	oldName  = "old"  // a file being replaced
)

// abandonedFor is how long a draft of another host must be untouched to count as abandoned: not all network file
// systems show the locks of other hosts.
const abandonedFor = 24 * time.Hour

// NewDraft makes a draft in the folder dir, and removes drafts there whose process has ended.
func NewDraft(dir string) (*Draft, error) {
	Sweep(dir)
	refuse := func(err error) error { return &fs.PathError{Op: "write to", Path: dir, Err: bare(err)} }
	for {
		path := filepath.Join(dir, fmt.Sprintf(".mfgs-%016x.tmp", rand.Uint64()))
		err := os.Mkdir(path, FolderMode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, refuse(err)
		}
		l, err := holdLock(filepath.Join(path, lockName))
		if errors.Is(err, errSwept) {
			os.RemoveAll(path) // what the other process left
			continue
		}
		d := &Draft{dir: dir, path: path, lock: l}
		if err == nil {
			err = os.Mkdir(filepath.Join(path, newName), FolderMode)
		}
		if err != nil {
			d.Close()
			return nil, refuse(err)
		}
		return d, nil
	}
}

// errSwept reports that another process removed a new draft as abandoned, before it was locked.
var errSwept = errors.New("removed before it was locked")

// holdLock creates and locks the lock file of a new draft.
func holdLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, FileMode)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errSwept
	}
	if err != nil {
		return nil, err
	}
	// Write the name at once: a draft without it counts as another host's.
	_, _ = f.WriteString(hostname())
	if err := lock(f); locked(err) {
		f.Close()
		return nil, errSwept
	} else if err != nil {
		return f, nil // no locks here, so other processes remove nothing either
	}
	mine, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if s, err := os.Lstat(path); err != nil || !os.SameFile(s, mine) {
		f.Close()
		return nil, errSwept
	}
	return f, nil
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

// Sweep removes the drafts in a folder whose process has ended, as far as possible.
func Sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && isDraftName(e.Name()) {
			sweepDraft(dir, filepath.Join(dir, e.Name()))
		}
	}
}

func isDraftName(name string) bool {
	hex, begins := strings.CutPrefix(name, ".mfgs-")
	hex, ends := strings.CutSuffix(hex, ".tmp")
	return begins && ends && len(hex) == 16 && strings.Trim(hex, "0123456789abcdef") == ""
}

func sweepDraft(dir, path string) {
	f, err := openRegular(filepath.Join(path, lockName), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		os.Remove(path) // fails unless it is empty
		return
	}
	if err != nil {
		return
	}
	d := &Draft{dir: dir, path: path, lock: f}
	if lock(f) != nil {
		f.Close()
		return
	}
	host, err := io.ReadAll(io.LimitReader(f, 1024))
	ours := len(host) > 0 && string(host) == hostname()
	if err != nil || !ours && !d.untouched(time.Now().Add(-abandonedFor)) {
		f.Close()
		return
	}
	d.Close()
}

// errTouched ends a walk.
var errTouched = errors.New("changed since")

// untouched reports whether nothing in the draft has changed since a time.
func (d *Draft) untouched(since time.Time) bool {
	return filepath.WalkDir(d.path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && !info.ModTime().Before(since) {
			err = errTouched
		}
		return err
	}) == nil
}

// Close removes the draft and the files that have not been moved. If it fails, the next draft in the same folder
// removes the rest.
func (d *Draft) Close() error {
	for _, f := range d.open {
		f.abandon()
	}
	err := d.restore()
	for _, name := range []string{newName, oldName} {
		if err == nil {
			err = os.RemoveAll(filepath.Join(d.path, name))
		}
	}
	if d.lock == nil || err != nil {
		if d.lock != nil {
			d.lock.Close()
		}
		return err
	}
	removeOpen(d.lock) // last, so that the rest can be removed if this fails
	return os.Remove(d.path)
}

// restore puts back a file that was being replaced when the process failed, or was killed, between two renames.
func (d *Draft) restore() error {
	olds, err := os.ReadDir(filepath.Join(d.path, oldName))
	if err != nil {
		return nil // nothing was replaced in two steps
	}
	for _, old := range olds {
		from, to := filepath.Join(d.path, oldName, old.Name()), d.place(old.Name())
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := renameNew(from, to); err != nil {
			return fmt.Errorf("what was at %s is left at %s: %w", to, from, bare(err))
		}
	}
	return nil
}

// bare drops the operation and paths from a file system error.
func bare(err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	}
	return err
}

// named puts the final path of a file in an error, in place of that in the draft.
func (d *Draft) named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: d.place(name), Err: bare(err)}
}

// Path returns the path of a file or folder in the draft.
func (d *Draft) Path(name string) string { return filepath.Join(d.path, newName, name) }

func (d *Draft) place(name string) string { return filepath.Join(d.dir, name) }

// Create creates a file with its parent folders. Close it before moving anything. Errors have its final path.
func (d *Draft) Create(name string) (*File, error) {
	path := d.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), FolderMode); err != nil {
		return nil, d.named("create", name, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, FileMode)
	if err != nil {
		return nil, d.named("create", name, err)
	}
	file := &File{d: d, name: name, f: f, w: bufio.NewWriterSize(f, 1<<20)}
	d.open = append(d.open, file)
	return file, nil
}

// Put writes a file, with the content that content writes.
func (d *Draft) Put(name string, content func(io.Writer) error) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	defer f.abandon()
	if err := content(f); err != nil {
		return err
	}
	return f.Close()
}

// A File is a file of a draft. Writes are buffered.
type File struct {
	d      *Draft
	name   string
	f      *os.File
	w      *bufio.Writer
	closed bool
}

func (f *File) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	return n, f.d.named("write", f.name, err)
}

// Close syncs and closes the file.
func (f *File) Close() error {
	if f.closed {
		return f.d.named("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	err := f.w.Flush()
	if err == nil {
		err = syncFile(f.f)
	}
	if e := f.f.Close(); err == nil {
		err = e
	}
	return f.d.named("write", f.name, err)
}

func (f *File) abandon() {
	if !f.closed {
		f.closed = true
		f.f.Close()
	}
}

// Move moves a file to its final path, replacing a file there.
func (d *Draft) Move(name string) error {
	return d.move(name, func(from, to string) error { return os.Rename(from, to) })
}

// MoveNew moves a file or folder to its final path. If that exists the error is an [fs.ErrExist].
func (d *Draft) MoveNew(name string) error { return d.move(name, renameNew) }

// Exchange moves a file or folder to its final path, and returns the new path of what was there: in the draft, with
// which it is removed. If the system can exchange names, one of the two is at the path at any time; else a
// failure puts the old one back.
func (d *Draft) Exchange(name string) (old string, err error) {
	err = d.move(name, func(from, to string) error {
		old, err = exchange(from, to, filepath.Join(d.path, oldName, name))
		return err
	})
	return old, err
}

// Keep moves what [Draft.Exchange] returned out of the draft, to a hidden name beside its old path, and returns that.
func (d *Draft) Keep(old string) (string, error) {
	path := d.place(fmt.Sprintf(".%s.%08x.old", filepath.Base(old), rand.Uint32()))
	if err := renameNew(old, path); err != nil {
		return old, err
	}
	return path, nil
}

func (d *Draft) move(name string, rename func(from, to string) error) error {
	if slices.ContainsFunc(d.open, func(f *File) bool { return !f.closed }) {
		panic("files: moved before it was closed")
	}
	// The names in a folder must be on disk before the folder is moved.
	syncTree(d.Path(name))
	if err := rename(d.Path(name), d.place(name)); err != nil {
		return d.named("rename", name, err)
	}
	syncFolder(d.dir)
	return nil
}

// Write writes a file atomically, replacing an existing one.
func Write(path string, content func(io.Writer) error) (err error) {
	d, err := NewDraft(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	name := filepath.Base(path)
	if err := d.Put(name, content); err != nil {
		return err
	}
	return d.Move(name)
}

// syncFile is replaced by tests.
var syncFile = (*os.File).Sync

// syncTree syncs a folder and its sub-folders. Their files are synced already.
func syncTree(path string) {
	filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			syncFolder(path)
		}
		return nil
	})
}

// syncFolder makes the names in a folder survive a power failure, on systems that sync folders.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		syncFile(d)
		d.Close()
	}
}
