package files

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// An IrregularError reports a path that is not a regular file.
type IrregularError struct {
	Mode fs.FileMode
}

func (e *IrregularError) Error() string {
	what := "a special file"
	switch {
	case e.Mode.IsDir():
		return "not a regular file but a folder"
	case e.Mode&fs.ModeSymlink != 0:
		return "not a regular file but a link"
	case e.Mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case e.Mode&fs.ModeSocket != 0:
		what = "a socket"
	case e.Mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return "not a regular file but " + what + ": copy its content into a file first"
}

// Open opens a regular file for reading, following links. For anything else the error is an [*fs.PathError] of an
// [*IrregularError]. It never blocks, even if a pipe replaces the file meanwhile.
func Open(path string) (*os.File, error) {
	return openRegular(path, os.O_RDONLY)
}

func openRegular(path string, flag int) (*os.File, error) {
	// Check first: opening a device may have an effect.
	s, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, s); err != nil {
		return nil, err
	}
	return openNow(path, flag)
}

// openNow opens a file without waiting for another process.
func openNow(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|nonblock, 0)
	if s, e := os.Stat(path); busy(err) && e == nil && s.Mode().IsRegular() {
		// Another process has a lease on the file, and releases it if one waits.
		f, err = os.OpenFile(path, flag, 0)
	}
	return checked(f, path, err)
}

// checked returns an open file if it is regular.
func checked(f *os.File, path string, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	s, err := f.Stat()
	if err == nil {
		err = regular(path, s)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func regular(path string, s fs.FileInfo) error {
	if s.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "open", Path: path, Err: &IrregularError{s.Mode()}}
}

// OpenIn is [Open] for a file below root.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if s, e := root.Stat(name); busy(err) && e == nil && s.Mode().IsRegular() {
		f, err = root.Open(name)
	}
	return checked(f, name, err)
}

// Read reads a regular file of at most limit bytes. Its errors are those of [Open].
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("larger than %d bytes, the most that are read",
			limit)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// DirFS is [os.DirFS] with files opened by [Open].
func DirFS(dir string) fs.FS { return dirFS{os.DirFS(dir), dir} }

type dirFS struct {
	fs.FS
	dir string
}

func (d dirFS) Open(name string) (fs.File, error) {
	s, err := fs.Stat(d.FS, name)
	if err != nil || s.IsDir() {
		return d.FS.Open(name)
	}
	return Open(filepath.Join(d.dir, filepath.FromSlash(name)))
}
