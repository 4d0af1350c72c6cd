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
	// referenceExamples bounds the examples of a reference. Each costs a prediction, and with more the bins would be
	// known better than any window of traffic can be.
	referenceExamples = 10_000
	// referenceBins is the number of bins of each quantity. A drift index wants 5 examples in each: windows of 160.
	referenceBins = 32
)

// newDriftReference returns the distribution of the predictions for at most referenceExamples validation examples, nil
// if there are fewer than two, and how many of them have another predicted class than the network's.
func newDriftReference(c *calibrate.Calibration, val *rows.Batch) (r *bundle.Reference, changes int, err error) {
	val = val.Subsample(referenceExamples)
	if val.N < 2 {
		return nil, 0, nil
	}
	h := c.Posterior.Head
	r = &bundle.Reference{Classes: make([]int, h.Classes())}
	var confidence, entropy, score []float64
	for from := 0; from < val.N; from += rows.BlockSize {
		some := val.Slice(from, min(from+rows.BlockSize, val.N))
		served := c.Predict(some.Features, some.Logits, some.N)
		probabilities := measure.ClassProbabilities(h, served.LogP)
		k, width := h.Logits, h.Probabilities()
		for i := range some.N {
			one := measure.AnswerOf(h, probabilities[i*h.Classes():(i+1)*h.Classes()])
			r.Classes[one.Class]++
			if measure.ChangesClass(h, served.LogP[i*width:(i+1)*width], some.Logits[i*k:(i+1)*k]) {
				changes++
			}
			confidence, entropy = append(confidence, one.Confidence), append(entropy, one.Entropy)
		}
		score = append(score, served.OODScore...)
	}
	for _, q := range []struct {
		name   string
		values []float64
		to     *drift.Reference
	}{{"confidence", confidence, &r.Confidence}, {"entropy", entropy, &r.Entropy}, {"ood_score", score, &r.OODScore}} {
		one, err := drift.NewReference(q.values, referenceBins)
		if err != nil {
			return nil, 0, fmt.Errorf("%s of the validation data: %w", q.name, err)
		}
		*q.to = *one
	}
	return r, changes, nil
}
