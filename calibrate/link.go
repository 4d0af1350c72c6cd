package calibrate

import (
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
)

// formulas are the mathematics of a [layer.Link].
type formulas struct {
	// curvature writes p_k and q_k = 1 - p_k of each logit at temperature 1, for the derivatives of the
	// training loss.
	curvature func(p, q []float64, logits []float32)

	// predict writes the log-probabilities of logits ([layer.Head.Probabilities]) and returns the margin.
	predict func(logp, mu []float64) (margin float64)
}

var links = map[layer.Link]formulas{
	layer.Softmax:   {curvature: softmax, predict: meanfield.Softmax},
	layer.Sigmoid:   {curvature: sigmoids, predict: meanfield.Sigmoids},
	layer.OneVsRest: {curvature: sigmoids, predict: meanfield.OneVsRest},
}

// softmax writes p and q = 1-p.
//
// 1-p is the sum of the other probabilities. A network that interpolates its training set has 1-p near 1e-9
// and below, where the difference keeps few digits or none, and the curvature consists of those differences.
func softmax(p, q []float64, logits []float32) {
	top := 0
	for k, a := range logits {
		if a > logits[top] {
			top = k
		}
	}
	var others float64
	for k, a := range logits {
		p[k] = math.Exp(float64(a) - float64(logits[top]))
		if k != top {
			others += p[k]
		}
	}
	sum := 1 + others
	for k := range p {
		p[k] /= sum
		q[k] = 1 - p[k] // p ≤ ½ except for the top class: nothing cancels
	}
	q[top] = others / sum
}

// sigmoids writes σ(a) and σ(-a) of each logit, neither as a difference.
func sigmoids(p, q []float64, logits []float32) {
	for k, a := range logits {
		e := math.Exp(-math.Abs(float64(a)))
		p[k], q[k] = 1/(1+e), e/(1+e)
		if a < 0 {
			p[k], q[k] = q[k], p[k]
		}
	}
}
