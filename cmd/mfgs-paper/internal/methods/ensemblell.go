package methods

import (
	"context"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// FitEnsemble fits M last layers on the features of labelled training examples, each from its own random start
// (Lakshminarayanan et al. 2017, with all other layers in common).
//
// Groups of about 512/K members share the order of examples, so that a step is two products of large matrices. An
// epoch takes 4·M·N·K·D floating-point operations.
func FitEnsemble(ctx context.Context, train *rows.Batch, h layer.Head, members int, o FitOptions) (*LastLayers,
	error) {
	return fitLayers(ctx, train, h, members, o, func(member, example int) bool { return false })
}

// fitLayers fits last layers by maximum likelihood, each without the examples that it leaves out.
func fitLayers(ctx context.Context, train *rows.Batch, h layer.Head, members int, o FitOptions,
	leavesOut func(member, example int) bool) (*LastLayers, error) {
	t, err := newTrainer(train, h, o, FitOptions{Epochs: 10, Start: 1 / math.Sqrt(3)})
	if err != nil {
		return nil, err
	}
	l, err := newLayers(h, o.Product, members)
	if err != nil {
		return nil, err
	}
	k := h.Logits
	for first := 0; first < members; {
		size, weights := l.group(first)
		for m := first; m < first+size; m++ {
			l.set(m, t.start(m))
		}
		progress := func(epochs int) { t.Progress(first*t.Epochs+size*epochs, members*t.Epochs) }
		err := t.descend(ctx, weights, uint64(first), progress, func(z []float64, example int, _ float64) {
			for j := range size {
				if own := z[j*k : (j+1)*k]; leavesOut(first+j, example) {
					clear(own)
				} else {
					crossEntropy(own, train.Labels[example])
				}
			}
		})
		if err != nil {
			return nil, err
		}
		first += size
	}
	return &LastLayers{l}, nil
}
