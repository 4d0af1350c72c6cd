package measure

import (
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// Outcomes returns the served predictions of examples, with their labels or targets if known.
func Outcomes(c *calibrate.Calibration, b *rows.Batch) *conformal.Outcomes {
	h := c.Posterior.Head
	x := &conformal.Outcomes{Correctness: h.Correctness}
	x.Classes, x.Probabilities = h.Classes(), make([]float64, 0, b.N*h.Classes())
	for from := 0; from < b.N; from += rows.BlockSize {
		some := b.Slice(from, min(from+rows.BlockSize, b.N)) // bounds the memory of variances
		r := c.Predict(some.Features, some.Logits, some.N)
		x.Probabilities = append(x.Probabilities, ClassProbabilities(h, r.LogP)...)
		x.OODScores = append(x.OODScores, r.OODScore...)
	}
	if h.MultiLabel() {
		x.Targets = b.Targets
	} else {
		x.Labels = b.Labels
	}
	return x
}

// ClassProbabilities returns the probabilities of classes or, for multi-label heads, of the presence of each label.
func ClassProbabilities(h layer.Head, logp []float64) []float64 {
	c, width := h.Classes(), h.Probabilities()
	p := make([]float64, 0, len(logp)/width*c)
	for j, l := range logp {
		if width == c || j%2 == 1 {
			p = append(p, math.Min(math.Exp(l), 1))
		}
	}
	return p
}
