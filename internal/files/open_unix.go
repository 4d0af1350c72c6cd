//go:build unix

package files

import (
	"errors"
	"syscall"
)

// nonblock lets the opening of a pipe return at once. Regular files do not know it.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY

func busy(err error) bool { return errors.Is(err, syscall.EAGAIN) }
