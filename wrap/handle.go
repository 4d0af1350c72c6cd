package wrap

import (
	"errors"
	"sync"
)

// ErrClosed is the error of [Handle.Use] after [Handle.Close].
var ErrClosed = errors.New("the handle is closed")

// A Handle holds a Predictor that can be replaced while calls are running, as a server does for a new bundle. It is
// safe for concurrent use.
type Handle struct {
	mu      sync.Mutex
	current *counted // nil once closed
}

// counted is a Predictor with the number of its users, including the handle.
type counted struct {
	*Predictor
	users  int
	closed chan error
}

// NewHandle returns a handle that owns a Predictor.
func NewHandle(p *Predictor) *Handle { return &Handle{current: newCounted(p)} }

func newCounted(p *Predictor) *counted {
	if p == nil {
		panic("wrap: a handle on no predictor")
	}
	return &counted{Predictor: p, users: 1, closed: make(chan error, 1)}
}

// Use calls f with the Predictor, which stays open until f returns, whatever Swap and Close do meanwhile. It returns
// f's error, or ErrClosed.
func (h *Handle) Use(f func(*Predictor) error) error {
	h.mu.Lock()
	c := h.current
	if c != nil {
		c.users++
	}
	h.mu.Unlock()
	if c == nil {
		return ErrClosed
	}
	defer h.release(c)
	return f(c.Predictor)
}

// Swap replaces the Predictor for calls of Use that begin from now on; the handle owns the new one. The old one is
// closed when its last user is done, and the channel then receives the error of that, or nil. After Close, the new
// one is closed instead. If next is the Predictor that the handle holds already, nothing happens. A function called
// by Use must not wait for the channel.
func (h *Handle) Swap(next *Predictor) (closed <-chan error) {
	leaving := newCounted(next)
	h.mu.Lock()
	if h.current != nil && h.current.Predictor == next {
		h.mu.Unlock()
		leaving.closed <- nil
		return leaving.closed
	}
	if h.current != nil {
		h.current, leaving = leaving, h.current
	}
	h.mu.Unlock()
	h.release(leaving)
	return leaving.closed
}

// Close closes the Predictor when its last user is done, and waits for that. Further calls do nothing. A function
// called by Use must not call it.
func (h *Handle) Close() error {
	h.mu.Lock()
	leaving := h.current
	h.current = nil
	h.mu.Unlock()
	if leaving == nil {
		return nil
	}
	h.release(leaving)
	return <-leaving.closed
}

// release ends one use. The last one closes the Predictor.
func (h *Handle) release(c *counted) {
	h.mu.Lock()
	c.users--
	last := c.users == 0
	h.mu.Unlock()
	if last {
		c.closed <- c.Close()
	}
}
