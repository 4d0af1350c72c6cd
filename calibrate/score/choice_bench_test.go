package score

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// BenchmarkChoose chooses between all scores of a head as large as ResNet-50's, by fitting and by
// what validation examples take.
func BenchmarkChoose(b *testing.B) {
	const k, d, m = 1000, 2048, 2048
	rng := rand.New(rand.NewPCG(17, 1))
	train := drawn(rng, m, k, d)
	t := &Training{
		K: k, D: d, Link: layer.Softmax, W: numbers(rng, k*d), B: numbers(rng, k), N: m, Gram: make([]float64, d*d),
		Sum: make([]float64, d), ClassSums: make([]float64, k*d), ClassCounts: make([]int, k),
		Sample: Sample{M: m, Features: train.Features},
	}
	phi := widened(train.Features, d).Data
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, general(phi, m, d), general(phi, m, d), 0, general(t.Gram, d, d))
	for i := range m {
		t.ClassCounts[i%k]++
		for j, v := range phi[i*d : (i+1)*d] {
			t.Sum[j] += v
			t.ClassSums[i%k*d+j] += v
		}
	}
	for _, n := range []int{300, 3000} {
		held := ValidationData{Val: drawn(rng, n, k, d), OOD: drawn(rng, n/2, k, d)}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				t.fitted.Clear()
				t.layerOnce = memo{}
				if _, _, _, err := Select(context.Background(), "", t, held); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// drawn draws n examples after a ReLU.
func drawn(rng *rand.Rand, n, k, d int) *Examples {
	x := &Examples{N: n, K: k, D: d, Link: layer.Softmax, Variance: numbers(rng, n*k)}
	x.Leverage, x.Margin = make([]float64, n), make([]float64, n)
	for range n * d {
		x.Features = append(x.Features, float32(max(0, rng.NormFloat64())))
	}
	for range n * k {
		x.Logits = append(x.Logits, float32(rng.NormFloat64()))
	}
	for i := range n {
		x.Leverage[i], x.Margin[i] = 1+rng.Float64(), rng.Float64()
	}
	return x
}
