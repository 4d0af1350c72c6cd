package bundle

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exchange gives temp the name dir, and returns where what was at dir is now.
// It is atomic where the file system can exchange two names.
func exchange(temp, dir string) (old string, err error) {
	err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return exchangeByNames(temp, dir)
	}
	return temp, err
}
