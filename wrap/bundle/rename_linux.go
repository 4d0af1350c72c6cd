package bundle

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew gives the folder temp the name dir, which must be free.
func renameNew(temp, dir string) error {
	err := renameat2(temp, dir, unix.RENAME_NOREPLACE)
	if errors.Is(err, errors.ErrUnsupported) {
		return renameNewByNames(temp, dir)
	}
	return err
}

// exchange gives the folder temp the name dir, and returns where what was at
// dir is now. It is atomic where the file system can exchange two names.
func exchange(temp, dir string) (old string, err error) {
	err = renameat2(temp, dir, unix.RENAME_EXCHANGE)
	if errors.Is(err, errors.ErrUnsupported) {
		return exchangeByNames(temp, dir)
	}
	return temp, err
}

func renameat2(from, to string, flags uint) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	if errors.Is(err, unix.EINVAL) { // a file system that does not know the flag
		err = errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
