package measure

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// Answer is what follows from the probabilities of one example.
type Answer struct {
	Class      int     // the most probable, the first of several
	Confidence float64 // the largest probability; of a multi-label head the mean over labels of max(p, 1-p)
	Entropy    float64 // nats; of K labels the sum of theirs
}

// AnswerOf returns what follows from the probabilities of the classes of a head. Those of a head of one
// label are made to sum to 1, which they do but for rounding: each has so many digits of its own that of
// one near 1 the others say how near. Where it is more than ½ it becomes what they leave.
func AnswerOf(h layer.Head, p []float64) (a Answer) {
	a.Class = floats.MaxIdx(p)
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
		a.Entropy = -*top * math.Log(*top)
	}
	a.Confidence = *top
	for j, v := range p {
		if j != a.Class && v > 0 { // 0 log 0 is 0
			a.Entropy -= v * math.Log(v)
		}
	}
	return a
}
