package dataset

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

// maxImage bounds the bytes of one image file.
const maxImage = 256 << 20

// openRegular opens a non-empty regular file.
func openRegular(path string) (*os.File, int64, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, 0, pathError(path, err)
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() > 0 {
		return f, fi.Size(), nil
	}
	f.Close()
	if err != nil {
		return nil, 0, pathError(path, err)
	}
	return nil, 0, fmt.Errorf("%s: the file is empty", path)
}

// pathError describes a file system error about path, without repeating the path.
func pathError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such file or folder", path)
	}
	return fmt.Errorf("%s: %w", path, bareError(err))
}

// bareError drops the operation and path from a file system error.
func bareError(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// isHidden reports whether a file or folder of this name is skipped silently.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// isImageName reports whether a name is that of a PNG or JPEG file.
func isImageName(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".jpe", ".jfif":
		return true
	}
	return false
}

// readImageFile reads a bounded regular file. Its errors leave out the path.
func readImageFile(path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, bareError(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, bareError(err)
	}
	if err := checkImageSize(fi.Size()); err != nil {
		return nil, err
	}
	b := make([]byte, fi.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, bareError(err)
	}
	return b, nil
}

// checkImageSize refuses an image file of no bytes or too many.
func checkImageSize(size int64) error {
	switch {
	case size == 0:
		return errors.New("the file is empty")
	case size > maxImage:
		return fmt.Errorf("%d bytes are too many for an image, want at most %d", size, maxImage)
	}
	return nil
}
