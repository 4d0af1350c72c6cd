package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew gives from the name to, which must be free.
func renameNew(from, to string) error {
	err := renameat2(from, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, errors.ErrUnsupported) {
		return renameNewByNames(from, to)
	}
	return err
}

// exchange gives a the name b, and returns where what was at b is now: at a, in
// one step, or else at aside.
func exchange(a, b, aside string) (old string, err error) {
	err = renameat2(a, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, errors.ErrUnsupported) {
		return exchangeByNames(a, b, aside)
	}
	return a, err
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
