package serve

import (
	"context"
	"math"
	"time"

	"golang.org/x/sync/semaphore"
)

// ImageBytes returns the memory that a request with an image reserves, or why it is refused.
func ImageBytes(file []byte) (int64, error) {
	memory := &reservation{of: semaphore.NewWeighted(math.MaxInt64), limit: math.MaxInt64}
	err := checkImage(file, false, memory)
	return memory.held, err
}

// Patterns returns the patterns of all routes.
func (s *Server) Patterns() []string {
	var all []string
	for _, r := range s.routes() {
		all = append(all, r.pattern)
	}
	return all
}

// Threads returns the threads per inference of the first bundle.
func (s *Server) Threads() int { return s.models[0].current.Load().threads }

// SharesTLS reports whether the HTTP server writes to the TLS configuration that gRPC copies concurrently.
func (s *Server) SharesTLS() bool { return s.webServer(context.Background()).TLSConfig == s.tls }

// SetMaxIdle sets how long streams may be idle, and returns a function that undoes it.
func SetMaxIdle(d time.Duration) (undo func()) {
	before := maxIdle
	maxIdle = d
	return func() { maxIdle = before }
}

// Unfinished returns how many bytes of incomplete gRPC messages are counted.
func (s *Server) Unfinished() int64 { return s.inbound.Unfinished() }

// Taken returns 0 if no memory is reserved.
func (s *Server) Taken() int64 {
	if !s.inFlight.TryAcquire(s.config.InFlight) {
		return 1
	}
	s.inFlight.Release(s.config.InFlight)
	return 0
}
