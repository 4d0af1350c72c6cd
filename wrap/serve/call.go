package serve

import (
	"context"
	"errors"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
	"github.com/mfgs/mfgs/wrap/serve/internal/telemetry"
)

// A call is one request for predictions: the memory and time that it takes, and what metrics and traces record.
type call struct {
	reservation
	model  *model
	begun  time.Time
	cancel context.CancelFunc
	body   []byte // nil before it is read, or where it came by gRPC
	span   *telemetry.Span

	revision *revision     // that ran it; nil before
	answer   engine.Answer // of it
	examples int           // in it; 0 before
}

// begin begins a request to a model; get returns its headers. Over HTTP, an overloaded model refuses it before its body
// is read. A gRPC message names its model within itself, and is read first.
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
	c := &call{reservation: s.newReservation(), model: m, begun: time.Now()}
	ctx, c.span = s.tracing.Request(ctx, "infer", m.Name, get)
	ctx, c.cancel = context.WithTimeout(ctx, s.config.Timeout)
	return ctx, c, nil
}

// end ends a request, which was answered with err or, if err is nil, with a result.
func (c *call) end(err error) {
	took := time.Since(c.begun)
	c.cancel()
	c.release()
	c.span.End(err)
	if err != nil || c.examples == 0 { // without an error the handler panicked
		c.model.count(c.revision, err, took)
		return
	}
	bodies.give(c.body) // nothing reads it any more
	c.model.statistics.answered(c.answer, c.examples, took)
	c.revision.observer.Request(took, c.answer.Queue, c.answer.Compute)
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

// reasonOf returns the reason of a failure under which metrics count it.
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
