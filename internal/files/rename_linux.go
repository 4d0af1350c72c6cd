package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames from to to, which must not exist.
func renameNew(from, to string) error {
	err := renameat2(from, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, errors.ErrUnsupported) {
		return renameNewByNames(from, to)
	}
	return err
}

// exchange renames a to b, and returns the new path of what was at b: a, in one step,
// or else aside.
func exchange(a, b, aside string) (old string, err error) {
	err = renameat2(a, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, errors.ErrUnsupported) {
		return exchangeByNames(a, b, aside)
	}
	return a, err
}

func renameat2(from, to string, flags uint) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	if errors.Is(err, unix.EINVAL) { // a file system without the flag
		err = errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
