package serve

import (
	"sync"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
)

// statistics count the requests to a model, as the protocol reports them. They outlive revisions.
type statistics struct {
	mu  sync.Mutex
	all oip.ModelStatistics
	// executions adds up, for each request, its share of the examples in its batch.
	executions float64
}

// failed counts a request that failed.
func (s *statistics) failed(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.all.Requests.Fail, took)
}

// answered counts a request of n examples.
func (s *statistics) answered(a engine.Answer, n int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.all.Requests
	add(&r.Success, took)
	add(&r.Queue, a.Queue)
	add(&r.ComputeInfer, a.Compute)
	r.ComputeInput.Count++
	add(&r.ComputeOutput, max(0, took-a.Queue-a.Compute))
	s.all.Inferences += uint64(n)
	s.executions += float64(n) / float64(max(1, a.Batch))
	s.all.Last = uint64(time.Now().UnixMilli())
}

func add(t *oip.Times, d time.Duration) {
	t.Count++
	t.NS += uint64(max(0, d))
}

// snapshot returns the statistics under the model's name.
func (s *statistics) snapshot(name string) oip.ModelStatistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	all.Name, all.Version, all.Executions = name, version, uint64(s.executions+0.5)
	return all
}
