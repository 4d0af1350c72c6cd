package calibrate

import (
	"fmt"
	"math"
)

// Link says how logits become probabilities.
type Link string

const (
	Softmax Link = "softmax" // K ≥ 2 classes that exclude each other
	Sigmoid Link = "sigmoid" // one logit: two classes, probabilities [1-p, p]
)

// Head describes the last layer, a = Wᵀφ + b.
type Head struct {
	Logits   int // K: columns of W
	Features int // d: rows of W
	Bias     bool
	Link     Link
}

// Dim returns D, the parameters per logit: d, plus one for a bias.
func (h Head) Dim() int {
	if h.Bias {
		return h.Features + 1
	}
	return h.Features
}

// Classes returns the number of classes that probabilities are given for: K,
// or two for a sigmoid head's one logit.
func (h Head) Classes() int {
	if h.Link == Sigmoid {
		return 2
	}
	return h.Logits
}

// Validate reports a head that the mathematics does not cover.
func (h Head) Validate() error {
	switch {
	case h.Features < 1:
		return fmt.Errorf("head has %d features, want at least 1", h.Features)
	case h.Link == Softmax && h.Logits < 2:
		return fmt.Errorf("softmax head has %d logits, want at least 2", h.Logits)
	case h.Link == Sigmoid && h.Logits != 1:
		return fmt.Errorf("sigmoid head has %d logits, want 1: multi-label heads are not supported", h.Logits)
	case h.Link != Softmax && h.Link != Sigmoid:
		return fmt.Errorf("head has link %q, want %q or %q", h.Link, Softmax, Sigmoid)
	}
	return nil
}

// augment writes φ and, where the head has a bias, the constant 1 to dst (D).
func (h Head) augment(dst []float64, phi []float32) {
	for i, v := range phi {
		dst[i] = float64(v)
	}
	if h.Bias {
		dst[len(phi)] = 1
	}
}

// probabilities writes p and 1-p of the head's logits at temperature 1.
//
// 1-p is formed as the sum of the other probabilities: a network that
// interpolates its training set has 1-p near 1e-9 and below, where the
// difference has few digits or none, and those differences are the curvature.
func (h Head) probabilities(p, rest []float64, logits []float32) {
	if h.Link == Sigmoid {
		// σ(a) and σ(-a), neither as a difference.
		e := math.Exp(-math.Abs(float64(logits[0])))
		small, large := e/(1+e), 1/(1+e)
		if logits[0] >= 0 {
			p[0], rest[0] = large, small
		} else {
			p[0], rest[0] = small, large
		}
		return
	}
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
