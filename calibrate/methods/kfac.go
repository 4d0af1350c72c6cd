package methods

import (
	"context"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/parallel"
)

// NewWeightSamples draws last layers from a posterior, of its Gaussian around the
// network's own weights (BNN(KFAC), Ritter et al. 2018, for the Kronecker structure).
func NewWeightSamples(ctx context.Context, p *calibrate.Posterior, product calibrate.Product, samples int,
	seed uint64) (*WeightSamples, error) {
	l, err := newLayers(p.Head, product, samples)
	if err != nil {
		return nil, err
	}
	errs := make([]error, samples)
	parallel.For(samples, func(first, last int) {
		w := make([]float64, p.Head.Logits*p.Head.Dim())
		for i := first; i < last; i++ {
			if errs[i] = context.Cause(ctx); errs[i] != nil {
				return
			}
			if errs[i] = p.SampleWeights(rand.New(rand.NewPCG(seed, uint64(i))), w); errs[i] != nil {
				return
			}
			l.set(i, w)
		}
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &WeightSamples{l}, nil
}
