package calibration

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/drift"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/wrap/bundle"
)

const (
	// referenceExamples bounds the held-out examples of a reference: of more the bins would be known
	// better than by any window of what comes, and each costs a prediction.
	referenceExamples = 10_000
	// referenceBins are bins of each quantity: with 5 examples in each, as an index wants, windows of 160
	// are enough.
	referenceBins = 32
)

// refer returns how held-out examples, those that tune and those that set thresholds, are predicted, nil of
// too few.
func refer(c *calibrate.Calibration, val *rows.Batch) (*bundle.Reference, error) {
	val = val.Subsample(referenceExamples)
	if val.N < 2 {
		return nil, nil
	}
	h := c.Posterior.Head
	r := &bundle.Reference{Classes: make([]int, h.Classes())}
	var confidence, entropy, score []float64
	for from := 0; from < val.N; from += rows.BlockSize {
		some := val.Slice(from, min(from+rows.BlockSize, val.N))
		served := c.Predict(some.Features, some.Logits, some.N)
		probabilities := measure.ClassProbabilities(h, served.LogP)
		for i := range some.N {
			one := measure.AnswerOf(h, probabilities[i*h.Classes():(i+1)*h.Classes()])
			r.Classes[one.Class]++
			confidence, entropy = append(confidence, one.Confidence), append(entropy, one.Entropy)
		}
		score = append(score, served.OODScore...)
	}
	for _, q := range []struct {
		name   string
		values []float64
		to     *drift.Reference
	}{{"confidence", confidence, &r.Confidence}, {"entropy", entropy, &r.Entropy}, {"ood_score", score, &r.OODScore}} {
		known, err := drift.NewReference(q.values, referenceBins)
		if err != nil {
			return nil, fmt.Errorf("held-out %s: %w", q.name, err)
		}
		*q.to = *known
	}
	return r, nil
}
