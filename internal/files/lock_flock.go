//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package files

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the lock of an open file without waiting. The system gives it back
// when the file is closed, and so when its process ends in whatever way.
func lock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// locked reports whether lock failed because another has the lock.
func locked(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

// removeOpen removes and closes a file, in this order: whoever opens it before finds it locked.
func removeOpen(f *os.File) error { return errors.Join(os.Remove(f.Name()), f.Close()) }

// renameOpen gives a file another name, under its lock.
func renameOpen(f *os.File, to string) error { return os.Rename(f.Name(), to) }
