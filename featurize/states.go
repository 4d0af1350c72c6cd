package featurize

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A State is what a network that runs over a stream passes from one chunk of it to the next. It is not changed.
type State []tensor.Tensor

// zeros is the state of n examples before the first step.
func (w *Network) zeros(n int) (State, error) {
	state := make(State, len(w.states))
	for i := range w.states {
		s := &w.states[i]
		shape, elements := s.Zeros(n)
		data, err := s.Type.Make(elements)
		if err != nil {
			return nil, fmt.Errorf("state %q: %w", s.In, err)
		}
		state[i] = tensor.Tensor{Name: s.In, Shape: shape, Data: data}
	}
	return state, nil
}

// next takes the state after the last step from the network's outputs.
func (w *Network) next(outputs []tensor.Tensor) State {
	state := make(State, len(w.states))
	copy(state, outputs[len(outputs)-len(w.states):])
	for i := range state {
		state[i].Name = w.states[i].In
	}
	return state
}

// Streams reports whether the network passes a state from step to step, so that [Network.Continue] goes on where
// another call ended.
func (w *Network) Streams() bool { return len(w.states) > 0 }

// Continue runs a network that Streams over the steps of an example that follow those of another: from is the state
// after these, nil for the beginning of a stream.
func (w *Network) Continue(ctx context.Context, ex *dataset.Example, from State) (Results, State, error) {
	b, err := w.ready(ex)
	if err != nil {
		return Results{}, nil, err
	}
	all, next, err := w.inferFrom(ctx, b.tensors(1), 1, from)
	if err != nil {
		return Results{}, nil, err
	}
	return w.only(all, b, 0, ex), next, nil
}

// RunFrom is Run for a batch of a network that Streams, with the state that each example begins with, nil for zeros,
// and the state that it ends with.
func (w *Network) RunFrom(ctx context.Context, inputs []tensor.Tensor, from State) (Results, State, error) {
	n, err := w.count(inputs)
	if err != nil {
		return Results{}, nil, err
	}
	if n < 1 || n > w.batch {
		return Results{}, nil, fmt.Errorf("%d streams at once, want 1 to %d", n, w.batch)
	}
	return w.inferFrom(ctx, inputs, n, from)
}
