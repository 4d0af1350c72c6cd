package methods

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Solver multiplies by a covariance Σ, H̃⁻¹ for infinitesimal bootstraps: it writes Σg to dst, which may be g,
// for each of m vectors g [K,D], class-major.
type Solver interface {
	SolveTo(dst, g []float64, m int) error
}

// NewBootstrap draws infinitesimal bootstraps of the last layer (Schulam and Saria 2019,
// RUE; paper, appendix B). A bootstrap sample has example i ω_i times, with ω multinomial over N draws, which
// to first order moves the weights by
//
//	Δ = -H̃⁻¹ Σᵢ (ωᵢ - 1) ∇ℓᵢ,  ∇ℓᵢ = (pᵢ - onehot(yᵢ)) ⊗ φᵢ
//
// Its covariance over samples is nearly H̃⁻¹JH̃⁻¹. train has labels and the network's logits. The cost is
// 2·samples·N·K·D floating-point operations and one solution per sample.
func NewBootstrap(ctx context.Context, train *rows.Batch, h layer.Head, solver Solver, product parallel.Product,
	samples int, seed uint64) (*WeightSamples, error) {
	l, err := newLayers(h, product, samples)
	if err != nil {
		return nil, err
	}
	if err := calibrate.CheckBatch(h, train, true); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	n, k, d := train.N, h.Logits, h.Dim()
	// Bounds on the columns of a product, and on the counts in memory.
	const columns, drawn = 4096, 1 << 26
	chunk := min(samples, max(1, min(columns/k, drawn/n)))
	rows := min(n, blockRows)
	counts := make([]int32, chunk*n)
	x, weighted := make([]float64, rows*d), make([]float64, rows*chunk*k)
	moves := make([]float64, chunk*k*d)
	for first := 0; first < samples; first += chunk {
		chunk := min(chunk, samples-first)
		parallel.For(chunk, func(begin, end int) {
			for j := begin; j < end; j++ {
				multinomial(counts[j*n:(j+1)*n], rand.New(rand.NewPCG(seed, uint64(first+j))))
			}
		})
		moves := moves[:chunk*k*d]
		clear(moves)
		for from := 0; from < n; from += rows {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			rows := min(rows, n-from)
			parallel.For(rows, func(begin, end int) {
				r, mu := make([]float64, k), make([]float64, k)
				for i := begin; i < end; i++ {
					augment(x[i*d:(i+1)*d], h, train.Features, from+i)
					residual(r, mu, train, from+i)
					row := weighted[i*chunk*k : (i+1)*chunk*k]
					for j := range chunk {
						w := float64(1 - counts[j*n+from+i]) // the minus sign of Δ
						for c, v := range r {
							row[j*k+c] = w * v
						}
					}
				}
			})
			if err := l.product.AddTransposedProduct(moves, weighted[:rows*chunk*k], x[:rows*d], rows, chunk*k,
				d); err != nil {
				return nil, err
			}
		}
		if err := solver.SolveTo(moves, moves, chunk); err != nil {
			return nil, err
		}
		for j := range chunk {
			l.set(first+j, moves[j*k*d:(j+1)*k*d])
		}
	}
	return &WeightSamples{l}, nil
}

// multinomial draws len(counts) times with replacement, and counts how often each index is drawn.
func multinomial(counts []int32, rng *rand.Rand) {
	clear(counts)
	n := uint64(len(counts))
	for range n {
		counts[rng.Uint64N(n)]++
	}
}

// residual writes p - onehot(y) of an example; mu is work space. If p_y is the largest, 1 - p_y is the sum of the
// others: for networks that interpolate it is far below the rounding error of p_y.
func residual(r, mu []float64, s *rows.Batch, example int) {
	k := len(r)
	top := 0
	for c, a := range s.Logits[example*k : (example+1)*k] {
		mu[c] = float64(a)
		if mu[c] > mu[top] {
			top = c
		}
	}
	rest := meanfield.OneMinusMax(meanfield.Softmax(r, mu), k)
	for c, v := range r {
		r[c] = math.Exp(v)
	}
	if y := s.Labels[example]; y == top {
		r[y] = -rest
	} else {
		r[y]--
	}
}
