//go:build unix

package files

import (
	"errors"
	"syscall"
)

// nonblock makes opening a pipe return at once. It has no effect on regular files.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY

func busy(err error) bool { return errors.Is(err, syscall.EAGAIN) }
