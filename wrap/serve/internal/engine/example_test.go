package engine_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
)

// A model that doubles its input serves five callers.
func Example() {
	e := engine.New(engine.Config{
		Run: func(_ context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
			x := inputs[0].Data.([]float32)
			y := make([]float32, len(x))
			for i := range x {
				y[i] = 2 * x[i]
			}
			return []tensor.Tensor{{Name: "y", Shape: []int64{int64(len(y))}, Data: y}}, nil
		},
		MaxBatch: 64,
		Delay:    2 * time.Millisecond,
	})
	var wg sync.WaitGroup
	sums := make(chan float32, 5)
	for i := range 5 {
		wg.Go(func() {
			x := tensor.Tensor{Name: "x", Shape: []int64{1}, Data: []float32{float32(i)}}
			a, err := e.Do(context.Background(), []tensor.Tensor{x})
			if err != nil {
				fmt.Println(err)
				return
			}
			sums <- a.Outputs[0].Data.([]float32)[0]
		})
	}
	wg.Wait()
	close(sums)
	var sum float32
	for s := range sums {
		sum += s
	}
	fmt.Println(sum, e.Close(context.Background()))
	// Output: 20 <nil>
}
