package metrics

import (
	"cmp"
	"slices"
)

// Selective is the errors that are left if a classifier abstains where it is most uncertain. The uncertainty is
// 1 − max p, for multi-label heads the mean of 1 − p over the predicted sides: the expected error. The error of a
// multi-label example is the fraction of its labels that is wrong.
type Selective struct {
	// AURC is the area under the risk-coverage curve (Geifman and El-Yaniv, "Selective Classification for Deep
	// Neural Networks", 2017): the mean over i = 1 … n of the error among the i examples of least uncertainty.
	// 0 is best; an uncertainty that says nothing gives the error rate. Within a tie it is the expectation over
	// all orders.
	AURC   float64 `json:"aurc"`
	Risk80 float64 `json:"risk80"` // error among the 80 % of the examples with least uncertainty
	Risk90 float64 `json:"risk90"` // … 90 %
	Risk95 float64 `json:"risk95"` // … 95 %
}

// Selective returns the figures over the examples added so far, zero if there are none.
func (c *Classifier) Selective() Selective {
	if c.n == 0 {
		return Selective{}
	}
	r := newRanked(c.kept.uncertainty)
	return r.selective(c.kept.wrong, nil)
}

// coverages are those of Risk80, Risk90 and Risk95, in hundredths.
var coverages = [...]int{80, 90, 95}

// ranked is examples in the order of their uncertainty.
type ranked struct {
	order    []int32   // examples
	last     []bool    // of equal ones
	harmonic []float64 // 1 + ½ + … + 1/i
}

func newRanked(uncertainty []float64) *ranked {
	n := len(uncertainty)
	r := &ranked{order: make([]int32, n), last: make([]bool, n), harmonic: make([]float64, n+1)}
	for i := range r.order {
		r.order[i] = int32(i)
		r.harmonic[i+1] = r.harmonic[i] + 1/float64(i+1)
	}
	slices.SortFunc(r.order, func(a, b int32) int { return cmp.Compare(uncertainty[a], uncertainty[b]) })
	for i, e := range r.order {
		r.last[i] = i+1 == n || uncertainty[r.order[i+1]] != uncertainty[e]
	}
	return r
}

// selective computes the figures. weights are how often each example counts, in sum their number; nil counts
// each once.
//
// Among t equally uncertain examples with total loss o, after C examples with total loss M, the j-th has the
// expected risk (M + oj/t)/(C + j). With H the difference of the harmonic numbers of C+t and C these sum to
// MH + (o/t)(t − CH).
func (r *ranked) selective(losses []float64, weights []int32) Selective {
	var area float64
	var risks [len(coverages)]float64
	var before, tied int
	var lost, tiedLosses float64
	n, at := len(r.order), 0
	for i, e := range r.order {
		w := 1
		if weights != nil {
			w = int(weights[e])
		}
		tied += w
		tiedLosses += float64(w) * losses[e]
		if !r.last[i] {
			continue
		}
		// t = 0, if none was drawn, needs no branch, which would be mispredicted.
		h, t := r.harmonic[before+tied]-r.harmonic[before], float64(tied)
		area += lost * h
		if tiedLosses > 0 {
			area += tiedLosses / t * (t - float64(before)*h)
		}
		// In integers, rounded up.
		for ; at < len(coverages); at++ {
			kept := (coverages[at]*n + 99) / 100
			if kept > before+tied {
				break
			}
			risks[at] = (lost + tiedLosses*float64(kept-before)/t) / float64(kept)
		}
		before, lost = before+tied, lost+tiedLosses
		tied, tiedLosses = 0, 0
	}
	return Selective{area / float64(n), risks[0], risks[1], risks[2]}
}
