package calibrate

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
)

// formulas are the mathematics of a [layer.Link].
type formulas struct {
	// curvature writes p_k and q_k = 1 - p_k of each logit at temperature 1, for the derivatives of the
	// training loss.
	curvature func(p, q []float64, logits []float32)

	// loss returns -log p of a label, and writes its derivative by each logit and the diagonal of the Fisher
	// information. For a sigmoid the label of its one logit is 0 or 1.
	loss func(gradient, fisher, logits []float64, label int) float64

	// predict writes the log-probabilities of logits ([layer.Head.Probabilities]) and returns the margin.
	predict func(logp, mu []float64) (margin float64)
}

var links = map[layer.Link]formulas{
	layer.Softmax:   {curvature: softmax, loss: softmaxLoss, predict: meanfield.Softmax},
	layer.Sigmoid:   {curvature: sigmoids, loss: sigmoidLoss, predict: meanfield.Sigmoids},
	layer.OneVsRest: {curvature: sigmoids, loss: oneVsRestLoss, predict: meanfield.OneVsRest},
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

// softmaxLoss is the loss of softmax(a): its gradient is p - e_y, and the information p(1-p).
func softmaxLoss(gradient, fisher, logits []float64, label int) float64 {
	top := slices.Max(logits)
	var sum float64
	for k, a := range logits {
		e := math.Exp(a - top)
		gradient[k] = e
		sum += e
	}
	for k, e := range gradient {
		p := e / sum
		gradient[k], fisher[k] = p, p*(1-p)
	}
	gradient[label]--
	return math.Log(sum) + top - logits[label]
}

// sigmoidLoss is the loss of σ(a): its derivative is σ - y, and the information σ(1-σ).
func sigmoidLoss(gradient, fisher, logits []float64, label int) float64 {
	a := logits[0]
	e := math.Exp(-math.Abs(a))
	p, q := 1/(1+e), e/(1+e)
	if a < 0 {
		p, q = q, p
	}
	gradient[0], fisher[0] = p-float64(label), p*q
	return math.Log1p(e) + math.Max(a, 0) - float64(label)*a
}

// oneVsRestLoss is the loss of σ(a_y)/Σσ(a_k): with p these quotients its gradient is (1-σ)(p - e_y), and the
// information (1-σ)²p(1-p).
func oneVsRestLoss(gradient, fisher, logits []float64, label int) float64 {
	meanfield.OneVsRest(gradient, logits)
	loss := -gradient[label]
	for k, logp := range gradient {
		p := math.Exp(logp)
		rest := 1 / (1 + math.Exp(logits[k])) // 1-σ
		gradient[k], fisher[k] = rest*p, rest*rest*p*(1-p)
		if k == label {
			gradient[k] -= rest
		}
	}
	return loss
}
