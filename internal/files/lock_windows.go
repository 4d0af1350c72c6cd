package files

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks an open file without waiting. The system releases the lock when the file
// is closed, and so however its process ends. The
// locked byte is far beyond the end of the file, whose content can still be read.
func lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
}

// locked reports whether lock failed because the file is locked.
func locked(err error) bool { return errors.Is(err, windows.ERROR_LOCK_VIOLATION) }

// removeOpen closes and removes a file, which no other order allows.
func removeOpen(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) }

// renameOpen gives a file another name, and closes it before, which no other order allows: should
// another process open it in between, this fails.
func renameOpen(f *os.File, to string) error {
	f.Close()
	return os.Rename(f.Name(), to)
}
