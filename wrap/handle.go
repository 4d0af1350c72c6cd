package wrap

import (
	"errors"
	"sync"
)

// ErrClosed is what [Handle.Use] returns after [Handle.Close].
var ErrClosed = errors.New("the handle is closed")

// A Handle holds a Predictor that can be exchanged while calls are running, as a server does when a
// new bundle is there. It is safe for concurrent use.
type Handle struct {
	mu      sync.Mutex
	current *counted // nil once closed
}

// counted is a Predictor with the number of its users, the handle that holds it included.
type counted struct {
	*Predictor
	users  int
	closed chan error
}

// NewHandle returns a handle on a Predictor, which belongs to it from now on.
func NewHandle(p *Predictor) *Handle { return &Handle{current: newCounted(p)} }

func newCounted(p *Predictor) *counted {
	if p == nil {
		panic("wrap: a handle on no predictor")
	}
	return &counted{Predictor: p, users: 1, closed: make(chan error, 1)}
}

// Use calls f with the Predictor, which stays open until f returns, whatever Swap and Close do
// meanwhile. It returns f's error, or ErrClosed.
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

// Swap has calls of Use that begin from now on take another Predictor, which belongs to the handle.
// The one before is closed when its last user is done; the channel then has the error of that, or
// nil. After Close, it is the new one that is closed. The Predictor that the handle holds already
// stays, and nothing is closed. A function that Use calls must not wait for the channel.
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

// Close closes the Predictor when its last user is done, and waits for that. Calling it again does
// nothing. A function that Use calls must not call it.
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

// release ends one use, and closes the Predictor with the last.
func (h *Handle) release(c *counted) {
	h.mu.Lock()
	c.users--
	last := c.users == 0
	h.mu.Unlock()
	if last {
		c.closed <- c.Close()
	}
}
