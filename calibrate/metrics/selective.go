package metrics

import (
	"cmp"
	"slices"
)

// Selective says how well a classifier knows its mistakes: the errors that are left where it keeps
// silent about what it doubts most. Doubt is 1 − max p and, of many labels, the mean of 1 − p over
// the sides decided for, which are the expected errors; the error of an example of many labels is
// the fraction of them that is wrong.
type Selective struct {
	// AURC is the area under the risk-coverage curve (Geifman and El-Yaniv, "Selective Classification for Deep
	// Neural Networks", 2017): the mean over i = 1 … n of the error among the i examples of least uncertainty.
	// 0 is best; an uncertainty that says nothing gives the error rate. Within a tie it is the expectation over
	// all orders.
	AURC   float64 `json:"aurc"`
	Risk80 float64 `json:"risk80"` // error among the 80 % of the examples of least doubt
	Risk90 float64 `json:"risk90"` // … 90 %
	Risk95 float64 `json:"risk95"` // … 95 %
}

// Selective returns the figures over the examples added so far: the zero Selective if there
// are none.
func (c *Classifier) Selective() Selective {
	if c.n == 0 {
		return Selective{}
	}
	r := newRanked(c.kept.uncertainty)
	return r.selective(c.kept.wrong, nil)
}

// coverages are those of Risk80, Risk90 and Risk95, in hundredths.
var coverages = [...]int{80, 90, 95}

// ranked is examples in the order of their doubt.
type ranked struct {
	order    []int32   // examples
	last     []bool    // of those that are equal
	harmonic []float64 // 1 + ½ + … + 1/i
}

func newRanked(doubt []float64) *ranked {
	n := len(doubt)
	r := &ranked{order: make([]int32, n), last: make([]bool, n), harmonic: make([]float64, n+1)}
	for i := range r.order {
		r.order[i] = int32(i)
		r.harmonic[i+1] = r.harmonic[i] + 1/float64(i+1)
	}
	slices.SortFunc(r.order, func(a, b int32) int { return cmp.Compare(doubt[a], doubt[b]) })
	for i, e := range r.order {
		r.last[i] = i+1 == n || doubt[r.order[i+1]] != doubt[e]
	}
	return r
}

// selective returns the area under the risk-coverage curve, and the risks at the coverages.
// weights say how often an example is counted, as many times in all as there are examples; nil
// counts each once.
//
// Among t equal examples with the losses o, behind C with the losses M, the j-th has the expected
// risk (M + oj/t)/(C + j). With H for the difference of the harmonic numbers of C+t and C these sum
// to MH + (o/t)(t − CH).
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
		// None may have been drawn, of which no branch asks: it could not be foretold.
		h, t := r.harmonic[before+tied]-r.harmonic[before], float64(tied)
		area += lost * h
		if tiedLosses > 0 {
			area += tiedLosses / t * (t - float64(before)*h)
		}
		// In integers, rounded up: so many examples are kept.
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
