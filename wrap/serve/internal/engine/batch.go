package engine

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// A batch holds the requests that one inference answers.
type batch struct {
	requests []*request
	rows     int
	waiting  int // requests that have not left, under the engine's lock
	ctx      context.Context
	cancel   context.CancelFunc
	copied   chan struct{} // closed when the inputs of several requests are copied
	one      [1]*request   // first storage of requests: an idle server needs no more

	start   time.Time
	took    time.Duration
	outputs []tensor.Tensor
}

// gather copies the inputs of the batch's requests one after the other into buffers of s.
func (b *batch) gather(s *Slots) ([]tensor.Tensor, buffers) {
	first := b.requests[0]
	types, elements := make([]reflect.Type, len(first.inputs)), make([]int, len(first.inputs))
	for i, t := range first.inputs {
		types[i] = reflect.TypeOf(t.Data)
		elements[i] = t.Len() / first.rows * b.rows
	}
	g := s.take(types, elements)
	inputs := make([]tensor.Tensor, len(first.inputs))
	for i, t := range first.inputs {
		all := g[i].Slice(0, elements[i])
		for _, r := range b.requests {
			from := reflect.ValueOf(r.inputs[i].Data)
			at := r.first * (elements[i] / b.rows)
			reflect.Copy(all.Slice(at, at+from.Len()), from)
		}
		t.Data = all.Interface()
		t.Shape = append([]int64{int64(b.rows)}, t.Shape[1:]...)
		inputs[i] = t
	}
	return inputs, g
}

// check reports outputs that do not have the batch's rows.
func (b *batch) check() error {
	for _, t := range b.outputs {
		n, err := tensor.Elements(t.Shape)
		if err != nil || len(t.Shape) == 0 || t.Shape[0] != int64(b.rows) || int64(t.Len()) != n {
			return fmt.Errorf("the model gave output %q of shape %s with %d elements, want %d examples along its first axis",
				t.Name, tensor.FormatShape(t.Shape), t.Len(), b.rows)
		}
	}
	return nil
}

// answer returns a request's part of the outputs.
func (b *batch) answer(r *request) Answer {
	a := Answer{Outputs: b.outputs, Queue: b.start.Sub(r.since), Compute: b.took, Batch: b.rows}
	if len(b.requests) == 1 {
		return a
	}
	a.Outputs = make([]tensor.Tensor, len(b.outputs))
	for i, t := range b.outputs {
		a.Outputs[i] = t.Slice(r.first, r.first+r.rows)
	}
	return a
}

// A PanicError is a panic of the Runner.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of its goroutine, as from debug.Stack
}

// Error reports the value.
func (e *PanicError) Error() string { return fmt.Sprintf("the inference panicked: %v", e.Value) }

// call calls the runner and turns its panics into errors.
func (r Runner) call(ctx context.Context, inputs []tensor.Tensor) (outputs []tensor.Tensor, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return r(ctx, inputs)
}
