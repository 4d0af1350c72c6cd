package measure

import (
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// Answer is the prediction from the probabilities of one example.
type Answer struct {
	Class      int     // see [layer.Head.Answer]
	Confidence float64 // its probability; for a multi-label head the mean of max(p, 1-p)
	Entropy    float64 // nats; for a multi-label head the sum over labels
}

// AnswerOf returns the prediction from the probabilities p of a head's classes. Unless the head is multi-label it
// normalises p in place, which sums to 1 but for rounding: small probabilities have more digits than one near 1, so
// that of the answer, if it is above ½, becomes 1 minus the others.
func AnswerOf(h layer.Head, p []float64) (a Answer) {
	a.Class = h.Answer(p)
	if h.MultiLabel() {
		for _, v := range p {
			a.Confidence += max(v, 1-v) / float64(len(p))
			if 0 < v && v < 1 {
				a.Entropy -= v*math.Log(v) + (1-v)*math.Log1p(-v)
			}
		}
		return a
	}
	rest := 0.0
	for j, v := range p {
		if j != a.Class {
			rest += v
		}
	}
	top := &p[a.Class]
	if rest < 0.5 {
		*top = 1 - rest
		a.Entropy = -*top * math.Log1p(-rest)
	} else {
		sum := rest + *top
		for j := range p {
			p[j] /= sum
		}
		if *top > 0 { // 0 log 0 is 0
			a.Entropy = -*top * math.Log(*top)
		}
	}
	a.Confidence = *top
	for j, v := range p {
		if j != a.Class && v > 0 {
			a.Entropy -= v * math.Log(v)
		}
	}
	return a
}
