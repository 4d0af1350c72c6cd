package serve

import (
	"math/rand/v2"

	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// addSteps adds the memory of the results of all steps, whose number shows when the network has run.
func (c *call) addSteps(rev *revision, outputs []tensor.Tensor) error {
	if rev.steps == 0 {
		return nil
	}
	steps := int64(1)
	for _, d := range outputs[0].Shape[:1+rev.steps] {
		steps *= d
	}
	return c.add(steps * rev.resultBytes)
}

// observed returns what metrics observe: the predictions or, of an example with steps, which depend on each other, one
// that counts, as in the calibration.
func (rev *revision) observed(p *wrap.Predictor, inputs []tensor.Tensor, all []wrap.Prediction) []wrap.Prediction {
	if rev.steps == 0 {
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
