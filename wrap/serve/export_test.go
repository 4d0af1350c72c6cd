package serve

import (
	"context"
	"math"
	"time"

	"golang.org/x/sync/semaphore"
)

// ImageBytes is the memory that a request with an image reserves, or why it is refused.
func ImageBytes(file []byte) (int64, error) {
	memory := &reservation{of: semaphore.NewWeighted(math.MaxInt64), limit: math.MaxInt64}
	err := checkImage(file, false, memory)
	return memory.held, err
}

// Patterns are those of all routes.
func (s *Server) Patterns() []string {
	var all []string
	for _, r := range s.routes() {
		all = append(all, r.pattern)
	}
	return all
}

// Threads are those of one inference of the first bundle.
func (s *Server) Threads() int { return s.models[0].current.Load().threads }

// SharesTLS reports whether the HTTP server has the configuration of TLS that gRPC copies at the same time.
func (s *Server) SharesTLS() bool { return s.webServer(context.Background()).TLSConfig == s.tls }

// SetMaxIdle sets for how long streams may be idle, and returns how to undo it.
func SetMaxIdle(d time.Duration) (undo func()) {
	before := maxIdle
	maxIdle = d
	return func() { maxIdle = before }
}

// Unfinished is how many bytes are counted of messages of gRPC that are not whole.
func (s *Server) Unfinished() int64 { return s.inbound.Unfinished() }

// Taken is 0 where requests have no memory.
func (s *Server) Taken() int64 {
	if !s.inFlight.TryAcquire(s.config.InFlight) {
		return 1
	}
	s.inFlight.Release(s.config.InFlight)
	return 0
}
