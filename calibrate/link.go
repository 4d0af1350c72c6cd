package calibrate

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
)

// formulas are what a [layer.Link] means. All that is not the same for every head follows
// from it and from the number of logits.
type formulas struct {
	least int // logits

	// separate says that every logit was trained by a binary likelihood of its own.
	// Second derivatives between the weights of two logits are then zero, and in mf0
	// each logit is divided by its own T_k and none by another's.
	separate bool

	// curvature writes p_k and 1 - p_k of each logit at temperature 1, as they stand
	// in the derivatives of the training loss.
	curvature func(p, rest []float64, logits []float32)

	// predict writes the log-probabilities of logits ([Head.Probabilities]) and returns the margin.
	predict func(logp, mu []float64) (margin float64)
}

var links = map[layer.Link]formulas{
	layer.Softmax:   {least: 2, curvature: softmax, predict: meanfield.Softmax},
	layer.Sigmoid:   {least: 1, separate: true, curvature: sigmoids, predict: meanfield.Sigmoids},
	layer.OneVsRest: {least: 2, separate: true, curvature: sigmoids, predict: meanfield.OneVsRest},
}

// coupled returns how many logits the blocks of the curvature couple: the full
// curvature is K/coupled blocks, each of coupled·D parameters.
func (h Head) coupled() int {
	if links[h.Link].separate {
		return 1
	}
	return h.Logits
}

// softmax writes p and 1-p.
//
// 1-p is formed as the sum of the other probabilities: a network that
// interpolates its training set has 1-p near 1e-9 and below, where the
// difference has few digits or none, and those differences are the curvature.
func softmax(p, rest []float64, logits []float32) {
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
		rest[k] = 1 - p[k] // p ≤ ½ but for the top class: nothing cancels
	}
	rest[top] = others / sum
}

// sigmoids writes σ(a) and σ(-a) of each logit, neither as a difference.
func sigmoids(p, rest []float64, logits []float32) {
	for k, a := range logits {
		e := math.Exp(-math.Abs(float64(a)))
		p[k], rest[k] = 1/(1+e), e/(1+e)
		if a < 0 {
			p[k], rest[k] = rest[k], p[k]
		}
	}
}

// Validate reports a head that the mathematics does not cover.
func (h Head) Validate() error {
	l, known := links[h.Link]
	switch {
	case h.Features < 1:
		return fmt.Errorf("head has %d features, want at least 1", h.Features)
	case !known:
		return fmt.Errorf("head has %w", h.Link.Validate())
	case h.Logits < l.least:
		return fmt.Errorf("%s head has %d logits, want at least %d", h.Link, h.Logits, l.least)
	}
	return nil
}
