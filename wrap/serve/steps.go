package serve

import (
	"math/rand/v2"

	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// resultsOf estimates the memory of the results of a request. An example has no more steps than its smallest input has
// numbers.
func (rev *revision) resultsOf(inputs []tensor.Tensor) int64 {
	n, most := inputs[0].Shape[0], int64(1)
	if rev.steps {
		most = int64(inputs[0].Len())
		for _, t := range inputs {
			most = min(most, int64(t.Len()))
		}
		most /= max(1, n)
	}
	return n * max(1, most) * rev.resultBytes
}

// observed returns what metrics observe: the predictions or, of an example with steps, which depend on each other, one
// that counts, as in the calibration.
func (rev *revision) observed(p *wrap.Predictor, inputs []tensor.Tensor, all []wrap.Prediction) []wrap.Prediction {
	if !rev.steps {
		return all
	}
	n := int(inputs[0].Shape[0])
	each := len(all) / n
	drawn := make([]wrap.Prediction, n)
	for i := range drawn {
		counted := p.CountedSteps(inputs, i, each)
		drawn[i] = all[i*each+counted[rand.IntN(len(counted))]]
	}
	return drawn
}
