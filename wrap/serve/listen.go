package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// maxConnections bounds the connections of a listener: each takes some tens of kilobytes even when idle. More are
// closed at once.
const maxConnections = 8192

// maxAdminConnections bounds the connections of Config.Admin.
const maxAdminConnections = 1024

// settle is how long a listener still accepts connections after it has begun to drop new ones: handshakes under way
// need a round trip to finish.
const settle = 500 * time.Millisecond

// linger is how long a server that shuts down waits for a request on an idle connection.
const linger = 2 * time.Second

// errStopped is the error of Accept once the listener is stopped and its backlog is empty.
var errStopped = errors.New("the listener is stopped")

// A listener bounds its connections, in all and per client, and can be stopped without losing any.
type listener struct {
	*net.TCPListener
	most, each int // connections in all, and per client
	log        *slog.Logger

	stopping atomic.Bool
	noticed  func() time.Time // when Accept first found that it is stopping

	mu     sync.Mutex
	conns  map[*conn]struct{}   // open connections
	of     map[netip.Prefix]int // their number by client
	closed int                  // connections closed at once since the last log entry
	logged time.Time
}

// listen opens an address, for at most so many connections, in all and per client; "" is none.
func listen(address string, most, each int, log *slog.Logger) (*listener, error) {
	if address == "" {
		return nil, nil
	}
	var c net.ListenConfig
	c.SetMultipathTCP(false) // stop needs a socket filter, which Linux does not attach to multipath sockets
	l, err := c.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen: %w: choose another address, or stop what uses it", address, err)
	}
	return newListener(l.(*net.TCPListener), most, each, log), nil
}

func newListener(l *net.TCPListener, most, each int, log *slog.Logger) *listener {
	return &listener{
		TCPListener: l, most: most, each: min(each, most), log: log,
		noticed: sync.OnceValue(time.Now), of: map[netip.Prefix]int{}, conns: map[*conn]struct{}{},
	}
}

// clientOf returns the key that connections are counted by: an IPv4 address, or the first 64 bits of an IPv6 address,
// which one host usually has to itself.
func clientOf(c net.Conn) netip.Prefix {
	a, _ := c.RemoteAddr().(*net.TCPAddr)
	ip := a.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits)
	return p
}

// Accept returns the next connection within the bounds, and errStopped after stop.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.next()
		if err != nil {
			return nil, err
		}
		if admitted := l.admit(c); admitted != nil {
			return admitted, nil
		}
		c.Close()
	}
}

// next accepts a connection. Once the listener is stopping, it accepts those that the kernel has completed, which
// closing the socket would reset, and ends when there are none.
func (l *listener) next() (net.Conn, error) {
	const pause, tries = 5 * time.Millisecond, 3
	for empty := 0; ; empty++ {
		c, err := l.TCPListener.Accept()
		if err == nil || !l.stopping.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
		// Without a filter, clients could keep the backlog from ever being empty. The time counts from here, not
		// from stop: servers pause for up to a second after some errors.
		if empty == tries || time.Since(l.noticed()) > settle {
			return nil, errStopped
		}
		if err := l.SetDeadline(time.Now().Add(pause)); err != nil {
			return nil, err
		}
	}
}

// stop makes Accept return errStopped once all connections that the kernel has completed are accepted. If the system
// supports it, new ones are dropped from now on: clients try again after a second and are then refused.
func (l *listener) stop(ctx context.Context) {
	if dropNew(l.TCPListener) == nil {
		select {
		case <-time.After(settle):
		case <-ctx.Done():
		}
	}
	l.stopping.Store(true)
	_ = l.SetDeadline(time.Now()) // wakes Accept; if the listener is closed, Accept has returned already
}

// admit counts a connection within the bounds, and returns nil for others.
func (l *listener) admit(inner net.Conn) *conn {
	client := clientOf(inner)
	l.mu.Lock()
	open, ofClient := len(l.conns), l.of[client]
	if open < l.most && ofClient < l.each {
		c := &conn{Conn: inner, of: l, client: client}
		l.conns[c] = struct{}{}
		l.of[client]++
		l.mu.Unlock()
		return c
	}
	l.closed++
	closed, due := l.closed, time.Since(l.logged) > time.Minute
	if due {
		l.closed, l.logged = 0, time.Now()
	}
	l.mu.Unlock()
	if due { // without the lock: writing the log may block
		l.log.Warn("connections closed: the limit is reached", "address", l.Addr().String(),
			"client", client.String(), "of_client", ofClient, "limit_of_client", l.each,
			"open", open, "limit", l.most, "closed", closed)
	}
	return nil
}

// awaitFirstByte waits, for linger at most, until each connection has received a byte, and closes the others.
func (l *listener) awaitFirstByte(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	unread := func(c *conn) bool { return !c.received.Load() }
	for len(l.selected(unread)) > 0 && ctx.Err() == nil {
		time.Sleep(tick)
	}
	for _, c := range l.selected(unread) {
		c.Close()
	}
}

// closeAll closes all connections.
func (l *listener) closeAll() {
	for _, c := range l.selected(func(*conn) bool { return true }) {
		c.Close()
	}
}

// selected returns the open connections for which which is true.
func (l *listener) selected(which func(*conn) bool) (all []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if which(c) {
			all = append(all, c)
		}
	}
	return all
}

// tick is the interval of polling.
const tick = 5 * time.Millisecond

// A conn is a counted connection.
type conn struct {
	net.Conn
	of       *listener
	client   netip.Prefix
	received atomic.Bool // a byte
	once     sync.Once
	err      error
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.received.Load() {
		c.received.Store(true)
	}
	return n, err
}

func (c *conn) Close() error {
	c.once.Do(func() {
		l := c.of
		l.mu.Lock()
		delete(l.conns, c)
		if l.of[c.client]--; l.of[c.client] == 0 {
			delete(l.of, c.client)
		}
		l.mu.Unlock()
		c.err = c.Conn.Close()
	})
	return c.err
}
