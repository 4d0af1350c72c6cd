//go:build !linux

package serve

import (
	"errors"
	"net"
)

// dropNew is implemented for Linux only.
func dropNew(*net.TCPListener) error { return errors.ErrUnsupported }
