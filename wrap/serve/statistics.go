package serve

import (
	"sync"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
)

// statistics are what a model was asked, as the protocol has it. They outlive what is loaded.
type statistics struct {
	mu  sync.Mutex
	all oip.ModelStatistics
	// Examples of batches come one request at a time: this is the part of a batch that they make.
	executions float64
}

// failed counts a request that was not answered, and took so long.
func (s *statistics) failed(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.all.Requests.Fail, took)
}

// answered counts a request of n examples, which took so long in all.
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

// snapshot returns the statistics of the model of a name.
func (s *statistics) snapshot(name string) oip.ModelStatistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	all.Name, all.Version, all.Executions = name, version, uint64(s.executions+0.5)
	return all
}
