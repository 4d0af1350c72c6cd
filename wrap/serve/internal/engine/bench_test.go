package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// constantOutputs is a model that costs nothing: what is measured is the engine.
func constantOutputs(_ context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	n := inputs[0].Shape[0]
	return []tensor.Tensor{
		{Name: "probabilities", Shape: []int64{n, 10}, Data: zeros[:10*n]},
		{Name: "ood_score", Shape: []int64{n}, Data: zeros[:n]},
	}, nil
}

var zeros = make([]float32, 1<<12)

// share has clients send b.N requests between them.
func share(b *testing.B, clients int, send func(i int, inputs []tensor.Tensor) error) {
	var wg sync.WaitGroup
	var sent atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			in := rowsOf(1, 1, 784)
			for i := int(sent.Add(1)); i <= b.N; i = int(sent.Add(1)) {
				if err := send(i, in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// What the engine costs a request of 784 numbers, beside the inference.
func BenchmarkDo(b *testing.B) {
	for _, clients := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			var batches atomic.Int64
			run := func(ctx context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
				batches.Add(1)
				return constantOutputs(ctx, in)
			}
			e := New(Config{MaxBatch: 64, Delay: time.Millisecond, Run: run})
			defer e.Close(context.Background())
			share(b, clients, func(_ int, in []tensor.Tensor) error {
				_, err := e.Do(b.Context(), in)
				return err
			})
			b.ReportMetric(float64(b.N)/float64(batches.Load()), "requests/batch")
		})
	}
}

// A thousand engines in two slots, which 64 clients ask in turn.
func BenchmarkManyEngines(b *testing.B) {
	slots := NewSlots(2)
	engines := make([]*Engine, 1000)
	for i := range engines {
		engines[i] = New(Config{Run: constantOutputs, Delay: time.Millisecond, Slots: slots})
		defer engines[i].Close(context.Background())
	}
	share(b, 64, func(i int, in []tensor.Tensor) error {
		_, err := engines[i%len(engines)].Do(b.Context(), in)
		return err
	})
}

// A model that keeps a core busy for 1 ms a batch and 20 µs a row, and 64 clients that each come
// back at once: what of the throughput of whole batches is left.
func BenchmarkSaturation(b *testing.B) {
	cost := func(rows int64) time.Duration {
		return time.Millisecond + time.Duration(rows)*20*time.Microsecond
	}
	var batches atomic.Int64
	run := func(ctx context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
		batches.Add(1)
		for start := time.Now(); time.Since(start) < cost(in[0].Shape[0]); {
		}
		return constantOutputs(ctx, in)
	}
	e := New(Config{MaxBatch: 64, Delay: 2 * time.Millisecond, Run: run})
	defer e.Close(context.Background())
	share(b, 64, func(_ int, in []tensor.Tensor) error {
		_, err := e.Do(b.Context(), in)
		return err
	})
	b.ReportMetric(float64(b.N)/float64(batches.Load()), "requests/batch")
	b.ReportMetric(float64(cost(64))/64*float64(b.N)/float64(b.Elapsed()), "of-whole-batches")
}
