// Package disk opens the files of datasets, and says what is wrong with them.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/internal/files"
)

// MaxImage bounds the bytes of one image file.
const MaxImage = 256 << 20

// Open opens a non-empty regular file.
func Open(path string) (*os.File, int64, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, 0, Error(path, err)
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() > 0 {
		return f, fi.Size(), nil
	}
	f.Close()
	if err != nil {
		return nil, 0, Error(path, err)
	}
	return nil, 0, fmt.Errorf("%s: the file is empty", path)
}

// Error words what the file system said about path, whose name the system's own message
// repeats.
func Error(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such file or folder", path)
	}
	return fmt.Errorf("%s: %w", path, Bare(err))
}

// Bare drops the operation and path from a file system error.
func Bare(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// IsHidden reports whether a file or folder of this name is passed over without a word.
func IsHidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// IsImage reports whether a file of this name is taken for a PNG or JPEG file.
func IsImage(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".jpe", ".jfif":
		return true
	}
	return false
}

// ReadImage reads a bounded regular file. Its errors leave out the path.
func ReadImage(path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, Bare(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, Bare(err)
	}
	if err := CheckImage(fi.Size()); err != nil {
		return nil, err
	}
	b := make([]byte, fi.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, Bare(err)
	}
	return b, nil
}

// CheckImage refuses an image file of no bytes or too many.
func CheckImage(size int64) error {
	switch {
	case size == 0:
		return errors.New("the file is empty")
	case size > MaxImage:
		return fmt.Errorf("%d bytes are too many for an image, %d the most", size, MaxImage)
	}
	return nil
}
