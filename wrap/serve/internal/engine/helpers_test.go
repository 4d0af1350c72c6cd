package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
)

var (
	errBad   = errors.New("an example is bad")
	errBlunt = errors.New("the runner was cancelled")
)

// bad and wild are first elements that the fake model fails and panics of.
const (
	bad  = -1
	wild = -2
)

// A fake is a model that works row by row, and remembers its batches. Its outputs are the sum and
// the product of each row, in float32, and the row's first element twice.
type fake struct {
	took func(rows int) time.Duration // how long it pretends to compute

	mu   sync.Mutex
	rows []int
	from []time.Time
	to   []time.Time
}

func (f *fake) run(ctx context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	start := time.Now()
	x := inputs[0].Data.([]float32)
	n := int(inputs[0].Shape[0])
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rows, f.from, f.to = append(f.rows, n), append(f.from, start), append(f.to, time.Now())
	}()
	if f.took != nil {
		select {
		case <-time.After(f.took(n)):
		case <-ctx.Done():
			return nil, errBlunt
		}
	}
	size := len(x) / n
	pairs, firsts := make([]float32, 0, 2*n), make([]int64, 0, 2*n)
	for row := range slices.Chunk(x, size) {
		switch row[0] {
		case bad:
			return nil, errBad
		case wild:
			panic("a wild example")
		}
		a, b := rowwise(row)
		pairs, firsts = append(pairs, a, b), append(firsts, int64(row[0]), int64(row[0]))
	}
	return []tensor.Tensor{
		{Name: "pairs", Shape: []int64{int64(n), 2}, Data: pairs},
		{Name: "firsts", Shape: []int64{int64(n), 2, 1}, Data: firsts},
	}, nil
}

func rowwise(row []float32) (sum, product float32) {
	product = 1
	for _, v := range row {
		sum += v * 1.1
		product *= 1 + v/1000
	}
	return sum, product
}

// batches are the sizes so far.
func (f *fake) batches() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.rows)
}

// request makes rows×width elements that begin with first, so that every request is another.
func rowsOf(first float32, rows, width int) []tensor.Tensor {
	data := make([]float32, rows*width)
	for i := range data {
		data[i] = first + float32(i)
	}
	return []tensor.Tensor{{Name: "x", Shape: []int64{int64(rows), int64(width)}, Data: data}}
}

func one(first float32) []tensor.Tensor { return rowsOf(first, 1, 4) }

// verify compares an answer with what the rows give alone, bit by bit.
func verify(a Answer, inputs []tensor.Tensor) error {
	alone, err := (&fake{}).run(context.Background(), inputs)
	if err != nil {
		return err
	}
	if len(a.Outputs) != len(alone) {
		return fmt.Errorf("%d outputs, want %d", len(a.Outputs), len(alone))
	}
	for i, want := range alone {
		got := a.Outputs[i]
		same := got.Name == want.Name && slices.Equal(got.Shape, want.Shape)
		switch w := want.Data.(type) {
		case []float32:
			same = same && slices.EqualFunc(got.Data.([]float32), w, func(a, b float32) bool {
				return math.Float32bits(a) == math.Float32bits(b)
			})
		case []int64:
			same = same && slices.Equal(got.Data.([]int64), w)
		}
		if !same {
			return fmt.Errorf("output %v, want %v", got, want)
		}
	}
	return nil
}

func constant(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// closeEngine drains an engine, so that no goroutine is left for the bubble to complain of.
func closeEngine(t testing.TB, e *Engine) {
	t.Helper()
	if err := e.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
}
