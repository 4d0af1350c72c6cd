package serve

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// maxConnections bounds the connections of an address: each takes some tens of kilobytes, even if nothing
// comes on it. Those beyond are closed at once.
const maxConnections = 8192

// listen opens an address; "" is none.
func listen(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen: %w", address, err)
	}
	return &limited{Listener: l}, nil
}

// limited is a listener of so many connections at a time.
type limited struct {
	net.Listener
	open atomic.Int64
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxConnections {
			return &counted{Conn: c, close: sync.OnceValue(func() error { l.open.Add(-1); return c.Close() })}, nil
		}
		l.open.Add(-1)
		c.Close()
	}
}

// counted is a connection that says when it is closed.
type counted struct {
	net.Conn
	close func() error
}

func (c *counted) Close() error { return c.close() }
