package inbound

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// free is the memory of an incomplete message, in bytes, up to which it is not counted: about a frame. Most messages
// are smaller and never take the lock.
const free = 16<<10 + 256

// A connection that needs memory while requests have all of it waits for patience before it, or another, is closed.
// If incomplete messages alone exceed their bound, one is closed at once.
const (
	patience = time.Second
	pause    = 2 * time.Millisecond
)

// A Counter counts the incomplete messages on the connections of one server. Use New to make one.
type Counter struct {
	memory *semaphore.Weighted
	most   int64
	log    *slog.Logger

	mu         sync.Mutex
	unfinished int64           // bytes counted of incomplete messages
	conns      map[*conn]int64 // the same by connection, for those that ever had some
	closed     int             // connections closed since the last log entry
	logged     time.Time
}

// New returns a counter that reserves the bytes of messages in memory. Incomplete messages together may have at most
// so many of them. Connections closed for that are logged at most once a minute.
func New(memory *semaphore.Weighted, most int64, log *slog.Logger) *Counter {
	return &Counter{memory: memory, most: most, log: log, conns: map[*conn]int64{}}
}

// Unfinished returns how many bytes of incomplete messages are counted.
func (k *Counter) Unfinished() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unfinished
}

// try counts n more bytes of incomplete messages if there is room for them. If there is none, beyond reports whether
// incomplete messages alone exceed their bound.
func (k *Counter) try(c *conn, n int64) (ok, beyond bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns[c] += 0 // makes it a candidate to be closed
	if beyond = k.unfinished+n > k.most; beyond || !k.memory.TryAcquire(n) {
		return false, beyond
	}
	k.unfinished += n
	k.conns[c] += n
	return true, false
}

// finish counts n bytes less of incomplete messages. Their memory stays reserved.
func (k *Counter) finish(c *conn, n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unfinished -= n
	k.conns[c] -= n
}

// forget removes a connection of which nothing is counted any more.
func (k *Counter) forget(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

// cut closes the connection with most bytes of incomplete messages. It returns false if that one is closing already,
// and the caller should wait for it.
func (k *Counter) cut() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var largest *conn
	for c, n := range k.conns {
		if largest == nil || n > k.conns[largest] {
			largest = c
		}
	}
	if largest == nil || largest.cut.Swap(true) {
		return false
	}
	if k.closed++; time.Since(k.logged) > time.Minute {
		k.log.Warn("gRPC connection closed: incomplete messages use too much memory",
			"client", largest.RemoteAddr().String(), "bytes", k.conns[largest], "closed", k.closed)
		k.closed, k.logged = 0, time.Now()
	}
	_ = largest.socket.Close() // TLS would wait for the client
	return true
}

// Credentials returns the credentials of a server whose connections are counted.
func (k *Counter) Credentials(of credentials.TransportCredentials) credentials.TransportCredentials {
	return counting{of, k}
}

type counting struct {
	credentials.TransportCredentials
	counter *Counter
}

// Clone is called for each server.
func (t counting) Clone() credentials.TransportCredentials {
	return counting{t.TransportCredentials.Clone(), t.counter}
}

func (t counting) ServerHandshake(socket net.Conn) (net.Conn, credentials.AuthInfo, error) {
	clear, auth, err := t.TransportCredentials.ServerHandshake(socket)
	if err != nil {
		return clear, auth, err
	}
	c := &conn{Conn: clear, socket: socket, counter: t.counter, preface: preface, streams: map[uint32]*stream{}}
	return c, info{auth, c}, nil
}

// info gives a call access to its connection.
type info struct {
	credentials.AuthInfo
	conn *conn
}

// Take hands a message of so many bytes, as it was sent, over to the handler of a call with this context. It returns
// the bytes reserved for it, 0 for a small message, which the handler must release.
func Take(ctx context.Context, size int64) int64 {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return 0
	}
	i, ok := p.AuthInfo.(info)
	if !ok {
		return 0
	}
	return i.conn.take(size)
}

// A conn is a connection whose incoming messages are counted.
type conn struct {
	net.Conn // without TLS
	socket   net.Conn
	counter  *Counter
	cut      atomic.Bool

	// For the reader only.
	preface int // bytes of it still to come
	in      frames
	padding int // of the current frame

	mu      sync.Mutex
	out     frames
	streams map[uint32]*stream // open streams
	last    uint32             // the newest of them
	whole   []message
	gone    bool
}

// A message is complete and not taken over yet.
type message struct {
	stream        uint32
	size, counted int64
}

var errCut = errors.New("inbound: closed, since incomplete messages used too much memory")

// Read reads, and waits if there is no memory for what has arrived.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.received(p[:n]) {
		return 0, errCut
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent(p[:n])
	return n, err
}

func (c *conn) Close() error {
	c.mu.Lock()
	for id := range c.streams {
		c.end(id)
	}
	c.gone = true
	c.mu.Unlock()
	c.counter.forget(c)
	return c.Conn.Close()
}

// received counts what the client has sent; it returns false if the connection is closed for it.
func (c *conn) received(p []byte) bool {
	n := min(c.preface, len(p))
	c.preface -= n
	p = p[n:]
	for len(p) > 0 {
		piece, rest, whole := c.in.pass(p)
		p = rest
		if s, need := c.follow(piece, whole); need > 0 && !c.claim(s, need) {
			return false
		}
	}
	return true
}

// follow processes a piece of a frame. It returns the stream for which more bytes must be counted now.
func (c *conn) follow(piece []byte, whole bool) (s *stream, need int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.in.stream()
	switch kind := c.in.kind(); {
	case kind == typeData:
		if s = c.streams[id]; s == nil {
			return nil, 0 // the transport drops it
		}
		if s.read(c.unpadded(piece)); whole {
			need = c.settle(id, s)
		}
	case !whole:
	case kind == typeHeaders && id > c.last && !c.gone:
		c.last = id
		c.streams[id] = &stream{}
	case kind == typeReset:
		c.end(id)
	}
	return s, need
}

// unpadded removes padding from a piece of a DATA frame: RFC 9113, 6.1.
func (c *conn) unpadded(piece []byte) []byte {
	if c.in.flags()&flagPadded == 0 || len(piece) == 0 {
		return piece
	}
	at := c.in.length() - c.in.left - len(piece)
	if at == 0 {
		c.padding, piece, at = int(piece[0]), piece[1:], 1
	}
	return piece[:min(len(piece), max(0, c.in.length()-c.padding-at))]
}

// settle accounts for a DATA frame. It returns how many more bytes of the stream's message must be counted.
func (c *conn) settle(id uint32, s *stream) int64 {
	if s.done {
		if s.counted > 0 {
			c.whole = append(c.whole, message{id, s.size, s.counted})
			c.counter.finish(c, s.counted)
		}
		s.done, s.held, s.counted = false, 0, 0
		if s.have == 0 {
			return 0
		}
	}
	if s.held += cost(c.in.length()); s.held <= free {
		return 0
	}
	return s.held - s.counted
}

// claim counts n more bytes of an open stream. If there is no room it waits, and closes connections; it returns
// false if this one was closed.
func (c *conn) claim(s *stream, n int64) bool {
	id := c.in.stream()
	for waited := time.Duration(0); !c.cut.Load(); waited += pause {
		c.mu.Lock()
		if c.streams[id] != s {
			c.mu.Unlock()
			return true
		}
		ok, beyond := c.counter.try(c, n)
		if ok {
			s.counted += n
		}
		c.mu.Unlock()
		if ok {
			return true
		}
		if (beyond || waited >= patience) && c.counter.cut() {
			waited = 0
			continue
		}
		time.Sleep(pause)
	}
	return false
}

// sent finds streams that the server has ended.
func (c *conn) sent(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		_, rest, whole := c.out.pass(p)
		p = rest
		kind := c.out.kind()
		if whole && (kind == typeReset || (kind == typeHeaders || kind == typeData) && c.out.flags()&flagEnd != 0) {
			c.end(c.out.stream())
		}
	}
}

// end releases what is counted of a stream. c.mu is held.
func (c *conn) end(id uint32) {
	s := c.streams[id]
	if s == nil {
		return
	}
	delete(c.streams, id)
	n := s.counted
	if n > 0 {
		c.counter.finish(c, n)
	}
	c.whole = slices.DeleteFunc(c.whole, func(m message) bool {
		if m.stream == id {
			n += m.counted
		}
		return m.stream == id
	})
	if n > 0 {
		c.counter.memory.Release(n)
	}
}

// take hands over a message. Messages of the same size are interchangeable here.
func (c *conn) take(size int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.whole, func(m message) bool { return m.size == size })
	if i < 0 {
		return 0
	}
	n := c.whole[i].counted
	c.whole = slices.Delete(c.whole, i, i+1)
	return n
}
