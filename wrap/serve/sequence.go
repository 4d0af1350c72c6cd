package serve

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// The parameters of a request that is a chunk of a sequence, as Triton's extension of the protocol has them.
const (
	sequenceID    = "sequence_id"
	sequenceStart = "sequence_start"
	sequenceEnd   = "sequence_end"
)

const (
	maxSequenceID = 1 << 10          // bytes
	sequenceIdle  = 10 * time.Minute // after which a sequence may be dropped
)

// A chunk says which sequence a request continues.
type chunk struct {
	id         string // "" for a request that continues none
	start, end bool
}

func chunkOf(p oip.Parameters) (k chunk, err error) {
	switch id := p[sequenceID].(type) {
	case nil:
	case string:
		if k.id = id; len(id) > maxSequenceID {
			return k, invalid("parameter %s: a string of %d bytes, want at most %d", sequenceID, len(id), maxSequenceID)
		}
	case int64:
		if id != 0 { // as Triton's clients say that there is none
			k.id = strconv.FormatInt(id, 10)
		}
	case uint64:
		k.id = strconv.FormatUint(id, 10)
	default:
		return k, invalid("parameter %s: want a whole number or a string", sequenceID)
	}
	if k.start, err = p.Bool(sequenceStart); err != nil {
		return k, err
	}
	if k.end, err = p.Bool(sequenceEnd); err == nil && k.id == "" && (k.start || k.end) {
		err = invalid("%s and %s need a %s that is neither 0 nor empty", sequenceStart, sequenceEnd, sequenceID)
	}
	return k, err
}

// A sequence is the state of a stream between two requests.
type sequence struct {
	turn  chan struct{} // of capacity 1: filled by the request that runs
	state []tensor.Tensor
	used  time.Time
	over  bool // no longer among the open ones
}

// sequences are those of a revision that have begun and not ended. The zero value has none.
type sequences struct {
	mu   sync.Mutex
	open map[string]*sequence
}

// find returns the sequence of a chunk when it is its turn, which done ends.
func (s *sequences) find(ctx context.Context, k chunk, p *wrap.Predictor) (*sequence, error) {
	for {
		most, _ := p.MaxStreams()
		q, err := s.get(k, most)
		if err != nil {
			return nil, err
		}
		select { // after the requests before
		case q.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case q.over && k.start: // that of a sequence that ended meanwhile
			<-q.turn
			continue
		case q.over || q.state == nil && !k.start:
			<-q.turn
			return nil, notBegun(k.id)
		case !k.start:
			return q, nil
		}
		if q.state, err = p.ZeroState(1); err != nil {
			s.done(k, q, nil)
			return nil, err
		}
		return q, nil
	}
}

func notBegun(id string) error {
	return invalid("the sequence %.70q is not open: it has not begun or has ended, or the bundle was loaded again; send the first request of a sequence with %s",
		id, sequenceStart)
}

// get returns the sequence of a chunk, or a new one if that begins it, of which there may be most.
func (s *sequences) get(k chunk, most int) (*sequence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.open[k.id]
	switch {
	case q != nil:
	case !k.start:
		return nil, notBegun(k.id)
	default:
		if len(s.open) >= most {
			s.dropIdle()
		}
		if len(s.open) >= most {
			return nil, oip.Errorf(oip.Overloaded, "%d sequences are open: end those that are over with %s", most, sequenceEnd)
		}
		if s.open == nil {
			s.open = map[string]*sequence{}
		}
		q = &sequence{turn: make(chan struct{}, 1)}
		s.open[k.id] = q
	}
	q.used = time.Now()
	return q, nil
}

// dropIdle drops sequences that nobody has used for long.
func (s *sequences) dropIdle() {
	for id, q := range s.open {
		if time.Since(q.used) < sequenceIdle {
			continue
		}
		select {
		case q.turn <- struct{}{}:
			q.over = true
			delete(s.open, id)
			<-q.turn
		default: // a request runs
		}
	}
}

// done keeps the state after a chunk, nil if that failed, and ends its turn.
func (s *sequences) done(k chunk, q *sequence, next []tensor.Tensor) {
	defer func() { <-q.turn }()
	if next != nil {
		q.state = next
	}
	if next == nil && !k.start || next != nil && !k.end {
		return
	}
	q.over = true // it has ended, or did not begin
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[k.id] == q {
		delete(s.open, k.id)
	}
}

// cloned copies tensors whose memory is that of a batch.
func cloned(list []tensor.Tensor) []tensor.Tensor {
	list = slices.Clone(list)
	for i, t := range list {
		list[i] = t.Clone()
	}
	return list
}
