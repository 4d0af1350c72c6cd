package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// state is the state of a request.
type state int

const (
	queued state = iota
	running
	answered
	left // its context has ended
)

// A request is one call of Do.
type request struct {
	ctx    context.Context
	inputs []tensor.Tensor
	rows   int
	bytes  int64
	layout uint64 // hash, equal for requests that can join each other
	since  time.Time

	// The rest belongs to the engine, under its lock.
	state      state
	part       int // number of its part of a failed batch; 0 for none
	batch      *batch
	first      int // its first row in the batch
	err        error
	done       chan struct{} // closed when answered
	prev, next *request
}

// newRequest checks the inputs of one call.
func newRequest(ctx context.Context, inputs []tensor.Tensor) (*request, error) {
	if len(inputs) == 0 {
		return nil, errors.New("the request has no inputs")
	}
	r := &request{ctx: ctx, inputs: inputs, layout: uint64(len(inputs)), done: make(chan struct{})}
	for i, t := range inputs {
		kind := t.Type()
		if kind == tensor.Undefined {
			return nil, fmt.Errorf("input %q has elements of type %T, which no tensor has", t.Name, t.Data)
		}
		if len(t.Shape) == 0 {
			return nil, fmt.Errorf("input %q is a scalar, want a first axis that counts examples", t.Name)
		}
		n, err := tensor.Elements(t.Shape)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", t.Name, err)
		}
		if int64(t.Len()) != n {
			return nil, fmt.Errorf("input %q has %d elements, want %d for its shape %s", t.Name, t.Len(), n,
				tensor.FormatShape(t.Shape))
		}
		if i == 0 {
			r.rows = int(t.Shape[0])
		}
		if t.Shape[0] < 1 || t.Shape[0] != int64(r.rows) {
			return nil, fmt.Errorf("input %q has %d examples, want as many as the others and at least one",
				t.Name, t.Shape[0])
		}
		r.bytes += size(t, kind, n)
		r.layout = mix(mix(r.layout, maphash.String(seed, t.Name)), uint64(kind))
		for _, d := range t.Shape[1:] {
			r.layout = mix(r.layout, uint64(d))
		}
	}
	return r, nil
}

var seed = maphash.MakeSeed()

// mix is a step of the FNV-1a hash on words.
func mix(h, word uint64) uint64 { return (h ^ word) * 1099511628211 }

// size returns the memory of a tensor of n elements.
func size(t tensor.Tensor, kind tensor.Type, n int64) int64 {
	if texts, ok := t.Data.([]string); ok {
		bytes := 16 * n
		for _, s := range texts {
			bytes += int64(len(s))
		}
		return bytes
	}
	bytes, _ := kind.Bytes(n)
	return bytes
}

// joins reports whether two requests can run in one batch: names, types and all axes but the first are
// equal.
func (r *request) joins(other *request) bool {
	return r.layout == other.layout && slices.EqualFunc(r.inputs, other.inputs, func(a, b tensor.Tensor) bool {
		return a.Name == b.Name && a.Type() == b.Type() && slices.Equal(a.Shape[1:], b.Shape[1:])
	})
}

// A queue is a list of requests, with their sums.
type queue struct {
	head, tail *request
	requests   int
	examples   int
	bytes      int64
}

func (q *queue) append(r *request) { q.insert(r, nil) }

// insert puts r before another request of the queue, or at its end.
func (q *queue) insert(r, next *request) {
	r.state, r.next, r.prev = queued, next, q.tail
	if next != nil {
		r.prev = next.prev
		next.prev = r
	} else {
		q.tail = r
	}
	if r.prev != nil {
		r.prev.next = r
	} else {
		q.head = r
	}
	q.requests++
	q.examples += r.rows
	q.bytes += r.bytes
}

// remove takes r out of the queue.
func (q *queue) remove(r *request, to state) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		q.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		q.tail = r.prev
	}
	r.state, r.prev, r.next = to, nil, nil
	q.requests--
	q.examples -= r.rows
	q.bytes -= r.bytes
}
