//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package files

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }

func locked(error) bool { return false }

// removeOpen removes and closes a file, in this order, so that it is locked until it is gone.
func removeOpen(f *os.File) error { return errors.Join(os.Remove(f.Name()), f.Close()) }

// renameOpen gives a file another name.
func renameOpen(f *os.File, to string) error { return os.Rename(f.Name(), to) }
