//go:build !linux

package serve

import (
	"errors"
	"net"
)

// dropNew is known of Linux alone.
func dropNew(*net.TCPListener) error { return errors.ErrUnsupported }
