package featurize

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A State is what a network that runs over streams passes from one chunk of them to the next: a tensor for each of its
// states, whose first axis counts the streams. It is not changed.
type State = []tensor.Tensor

// Streams reports whether the network passes a state from step to step, so that [Network.RunFrom] goes on where
// another call ended.
func (w *Network) Streams() bool { return len(w.states) > 0 }

// ZeroState is the state of n streams before their first step.
func (w *Network) ZeroState(n int) (State, error) {
	zeros, err := w.zeros(w.given(n))
	if err != nil {
		return nil, err
	}
	return w.taken(zeros, n)
}

// StateBytes is the memory of the state of one stream.
func (w *Network) StateBytes() (all int64) {
	for i := range w.states {
		s := &w.states[i]
		_, elements := s.Zeros(1)
		bytes, _ := s.Type.Bytes(int64(elements))
		all += bytes
	}
	return all
}

// Continue is RunFrom for an example, whose steps follow those that led to a state; nil is the beginning of a stream.
func (w *Network) Continue(ctx context.Context, ex *dataset.Example, from State) (Results, State, error) {
	b, err := w.ready(ex)
	if err != nil {
		return Results{}, nil, err
	}
	all, next, err := w.RunFrom(ctx, b.tensors(1), from)
	if err != nil {
		return Results{}, nil, err
	}
	return w.only(all, b, 0, ex), next, nil
}

// RunFrom is Run for a network that Streams: a chunk of each of some streams, at most a batch of them, with the state
// that they begin with, nil for zeros. It also returns the state that they end with.
func (w *Network) RunFrom(ctx context.Context, inputs []tensor.Tensor, from State) (Results, State, error) {
	n, err := w.count(inputs)
	if err != nil {
		return Results{}, nil, err
	}
	if n < 1 || n > w.batch {
		return Results{}, nil, fmt.Errorf("%d streams at once, want 1 to %d", n, w.batch)
	}
	states, err := w.placed(from, n)
	if err != nil {
		return Results{}, nil, err
	}
	r, next, err := w.inferFrom(ctx, inputs, n, states)
	if err != nil {
		return Results{}, nil, err
	}
	state, err := w.taken(next, n)
	return r, state, err
}

// given is the number of examples that the graph is given for n.
func (w *Network) given(n int) int {
	if w.fixed {
		return max(n, w.batch)
	}
	return n
}

// zeros are the states of n examples before the first step, as the graph takes them.
func (w *Network) zeros(n int) ([]tensor.Tensor, error) {
	zeros := make([]tensor.Tensor, len(w.states))
	for i := range w.states {
		s := &w.states[i]
		shape, elements := s.Zeros(n)
		data, err := s.Type.Make(elements)
		if err != nil {
			return nil, fmt.Errorf("state %q: %w", s.In, err)
		}
		zeros[i] = tensor.Tensor{Name: s.In, Shape: shape, Data: data}
	}
	return zeros, nil
}

// placed turns the state of n streams into what the graph takes: the axis of the streams is where it has it, or left
// out where it does not say which it is, and filled up to a fixed batch. It is nil for none.
func (w *Network) placed(from State, n int) ([]tensor.Tensor, error) {
	if from == nil {
		return nil, nil
	}
	if len(from) != len(w.states) {
		return nil, fmt.Errorf("%d tensors of a state, want %d", len(from), len(w.states))
	}
	states := make([]tensor.Tensor, len(from))
	for i, t := range from {
		s := &w.states[i]
		want, _ := s.Zeros(n)
		if s.Batch < 0 {
			want = slices.Insert(want, 0, 1)
		} else {
			want = slices.Insert(slices.Delete(want, s.Batch, s.Batch+1), 0, int64(n))
		}
		if t.Type() != s.Type || !slices.Equal(t.Shape, want) || s.Batch < 0 && n != 1 {
			return nil, fmt.Errorf("the state %q of %d streams is %v %v, want %v %v", s.In, n, t.Shape, t.Type(), want, s.Type)
		}
		if t.Name = s.In; s.Batch < 0 {
			t.Shape = t.Shape[1:]
		} else {
			if given := w.given(n); given != n {
				t = t.Pad(given)
			}
			t = moved(t, 0, s.Batch)
		}
		states[i] = t
	}
	return states, nil
}

// taken turns what the graph gives into the state of n streams.
func (w *Network) taken(next []tensor.Tensor, n int) (State, error) {
	state := make(State, len(next))
	for i, t := range next {
		s := &w.states[i]
		switch {
		case s.Batch >= 0:
			t = moved(t, s.Batch, 0)
			t = t.Slice(0, n)
		case n == 1:
			t.Shape = slices.Insert(slices.Clone(t.Shape), 0, 1)
		default:
			return nil, fmt.Errorf("the state %q has a fixed size, and no axis for %d streams: run them one by one", s.In, n)
		}
		t.Name = s.In
		state[i] = t
	}
	return state, nil
}

// moved returns a tensor with an axis in another place.
func moved(t tensor.Tensor, from, to int) tensor.Tensor {
	if from == to {
		return t
	}
	// [outer,a,b,inner] becomes [outer,b,a,inner], where a or b is the axis.
	first, last := min(from, to), max(from, to)
	size := func(axes []int64) int {
		n := 1
		for _, d := range axes {
			n *= int(d)
		}
		return n
	}
	outer, inner := size(t.Shape[:first]), size(t.Shape[last+1:])
	split := first + 1
	if from > to {
		split = last
	}
	a, b := size(t.Shape[first:split]), size(t.Shape[split:last+1])
	old := reflect.ValueOf(t.Data)
	data := reflect.MakeSlice(old.Type(), old.Len(), old.Len())
	for o := range outer {
		for i := range a {
			for j := range b {
				was, is := ((o*a+i)*b+j)*inner, ((o*b+j)*a+i)*inner
				reflect.Copy(data.Slice(is, is+inner), old.Slice(was, was+inner))
			}
		}
	}
	shape := slices.Delete(slices.Clone(t.Shape), from, from+1)
	t.Shape, t.Data = slices.Insert(shape, to, t.Shape[from]), data.Interface()
	return t
}
