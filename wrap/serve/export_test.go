package serve

import (
	"math"

	"golang.org/x/sync/semaphore"
)

// ImageBytes is the memory that a request with an image reserves.
func ImageBytes(file []byte) int64 {
	memory := &reservation{of: semaphore.NewWeighted(math.MaxInt64), limit: math.MaxInt64}
	if err := checkImage(file, false, memory); err != nil {
		panic(err)
	}
	return memory.held
}

// Patterns are those of all routes.
func (s *Server) Patterns() []string {
	var all []string
	for _, r := range s.routes() {
		all = append(all, r.pattern)
	}
	return all
}
