package methods

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// NewMonteCarlo draws samples of the logits of each example from N(a, S): deviations are Lz, S = LLᵀ and z normal.
// Each example has its own generator.
func NewMonteCarlo(ctx context.Context, cov Covariance, s *rows.Batch, k, samples int, seed uint64) (*Samples, error) {
	n, err := checkSet(s, k)
	if err != nil {
		return nil, err
	}
	if samples < 1 {
		return nil, fmt.Errorf("%d samples, want at least 1", samples)
	}
	if err := checkSize(n, samples*k, 4); err != nil {
		return nil, err
	}
	deviations := make([]float32, n*samples*k)
	err = eachCovariance(ctx, cov, s, k, func(i int, packed []float64) error {
		if err := cholesky(packed, k); err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		x := make([]float64, k)
		for m := range samples {
			clear(x)
			row := packed
			for c := range k { // add column c of L
				z := rng.NormFloat64()
				for j, u := range row[:k-c] {
					x[c+j] += z * u
				}
				row = row[k-c:]
			}
			for c, v := range x {
				deviations[(i*samples+m)*k+c] = float32(v)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return NewSamples(s.Logits, deviations, n, samples, k)
}
