package methods

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/parallel"
)

// NewDropout draws last layers with dropped features (Gal and Ghahramani 2016, with dropout before the last layer
// only): each feature is dropped with probability rate, and the others are divided by 1-rate.
// weights are the network's, [K,D] with the bias, which is never dropped, in the last column.
//
// A draw is one classifier for all examples, rather than one mask per example. The logits of an example have the
// same distribution, and are products of matrices.
func NewDropout(ctx context.Context, weights []float64, h layer.Head, product parallel.Product, rate float64,
	samples int, seed uint64) (*LastLayers, error) {
	l, err := newLayers(h, product, samples)
	if err != nil {
		return nil, err
	}
	if err := checkWeights(weights, h); err != nil {
		return nil, err
	}
	if !(rate >= 0 && rate < 1) {
		return nil, fmt.Errorf("dropout rate %v, want 0 to less than 1", rate)
	}
	d := h.Dim()
	scale := 1 / (1 - rate)
	for m := range samples {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		rng := rand.New(rand.NewPCG(seed, uint64(m)))
		w := slices.Clone(weights)
		for j := range h.Features {
			factor := scale
			if rng.Float64() < rate {
				factor = 0
			}
			for c := range h.Logits {
				w[c*d+j] *= factor
			}
		}
		l.set(m, w)
	}
	return &LastLayers{l}, nil
}
