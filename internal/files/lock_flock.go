//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package files

import (
	"errors"
	"os"
	"syscall"
)

// lock locks an open file without waiting. The system releases the lock when the file
// is closed, and so however its process ends.
func lock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// locked reports whether lock failed because the file is locked.
func locked(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

// removeOpen removes and closes a file, in this order, so that it is locked until it is gone.
func removeOpen(f *os.File) error { return errors.Join(os.Remove(f.Name()), f.Close()) }

// renameOpen gives a file another name, under its lock.
func renameOpen(f *os.File, to string) error { return os.Rename(f.Name(), to) }
