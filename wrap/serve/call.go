package serve

import (
	"context"
	"errors"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
	"github.com/mfgs/mfgs/wrap/serve/internal/telemetry"
)

// A call is one request for predictions: what it takes of memory and time, and what is told of it.
type call struct {
	reservation
	model   *model
	begun   time.Time
	cancel  context.CancelFunc
	body    []byte // nil before it is read, or where it came by gRPC
	span    *telemetry.Span
	serving *revision // nil until one has run it

	// Of what was run.
	answer   engine.Answer
	examples int
}

// begin begins a request to a model, whose headers get returns. Where it would be refused for load, it is so
// before its body is read: that is what takes the time.
func (s *Server) begin(ctx context.Context, name, version string, get func(header string) string) (
	context.Context, *call, error) {
	m, err := s.versioned(name, version)
	if err != nil {
		return ctx, nil, err
	}
	if rev := m.current.Load(); rev != nil {
		if err := rev.engine.Full(); err != nil {
			err = runError(ctx, err)
			m.count(rev, err, 0)
			return ctx, nil, err
		}
	}
	c := &call{reservation: s.reserve(), model: m, begun: time.Now()}
	ctx, c.span = s.tracing.Request(ctx, "infer", m.Name, get)
	ctx, c.cancel = context.WithTimeout(ctx, s.config.Timeout)
	return ctx, c, nil
}

// end ends a request, which was answered with an error or none.
func (c *call) end(err error) {
	took := time.Since(c.begun)
	c.cancel()
	c.release()
	c.span.End(err)
	if err != nil || c.examples == 0 { // none were run: the handler panicked
		c.model.count(c.serving, err, took)
		return
	}
	bodies.give(c.body) // what was answered is not read any more
	c.model.statistics.answered(c.answer, c.examples, took)
	c.serving.observer.Request(took, c.answer.Queue, c.answer.Compute)
}

// count counts a request that failed; rev may be nil.
func (m *model) count(rev *revision, err error, took time.Duration) {
	m.statistics.failed(took)
	if rev == nil {
		rev = m.current.Load()
	}
	if rev != nil {
		rev.observer.Failure(reasonOf(err))
	}
}

// reasonOf is the reason of a failure, as it is counted.
func reasonOf(err error) string {
	if errors.Is(err, errCutBody) || errors.Is(err, errLateBody) {
		return telemetry.Canceled
	}
	switch oip.StatusOf(err) {
	case oip.Overloaded, oip.TooLarge:
		return telemetry.Rejected
	case oip.Canceled, oip.Timeout:
		return telemetry.Canceled
	case oip.Internal:
		return telemetry.Backend
	}
	return telemetry.Other
}
