package drift

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// An Index is the population stability index of the last examples of a stream against the validation data: with the
// fractions o of the one and e of the other in B bins
//
//	PSI = Σ (o_b - e_b) ln(o_b / e_b) ≥ 0,
//
// which is the sum of both Kullback-Leibler divergences between them, in nats (Kullback and Leibler, "On Information
// and Sufficiency", 1951). ½ is added to the counts of the stream, so that empty bins are finite. It is not safe for
// concurrent use.
type Index struct {
	share  []float64 // [B], e
	logs   []float64 // [B], ln e
	m      float64   // validation examples
	window []int32   // bins of the last examples, a ring
	next   int       // index in it
	full   bool
	counts []int // [B]
}

// A Reading is the index and what to compare it with. Without drift, and with at least 5 examples in each bin,
// PSI/(1/n + 1/m) has nearly a χ² distribution with B-1 degrees of freedom (Yurdakul and Naranjo, "Statistical
// properties of the population stability index", 2020), for n examples in the window and m validation examples.
type Reading struct {
	PSI      float64
	Expected float64 // (B-1)(1/n + 1/m): its mean without drift
	Level95  float64 // its 95 % quantile without drift
	Examples int     // n
}

const maxWindow = 1 << 24

// NewIndex returns an index over a window of this many examples, with weights validation examples in each bin. For
// Expected and Level95 to hold, each bin should expect at least 5 examples of the window.
func NewIndex(weights []int, window int) *Index {
	total := checkWeights(weights)
	if window < 1 || window > maxWindow {
		panic(fmt.Sprintf("drift: a window of %d examples, want 1 to %d", window, maxWindow))
	}
	x := &Index{m: total, window: make([]int32, window), counts: make([]int, len(weights))}
	for _, w := range weights {
		e := float64(w) / total
		x.share, x.logs = append(x.share, e), append(x.logs, math.Log(e))
	}
	return x
}

func checkWeights(weights []int) (total float64) {
	if len(weights) == 0 {
		panic("drift: no bins")
	}
	for i, w := range weights {
		if w < 1 {
			panic(fmt.Sprintf("drift: bin %d weighs %d, want 1 or more", i, w))
		}
		total += float64(w)
	}
	return total
}

// Add adds an example in a bin, in place of the oldest if the window is full.
func (x *Index) Add(bin int) {
	x.counts[bin]++
	if x.full {
		x.counts[x.window[x.next]]--
	}
	x.window[x.next] = int32(bin)
	if x.next++; x.next == len(x.window) {
		x.next, x.full = 0, true
	}
}

// Read returns the index of the examples in the window, 0 if there are none.
func (x *Index) Read() Reading {
	n := x.next
	if x.full {
		n = len(x.window)
	}
	r := Reading{Examples: n}
	if n == 0 {
		return r
	}
	bins := float64(len(x.counts))
	for b, c := range x.counts {
		o := (float64(c) + 0.5) / (float64(n) + 0.5*bins)
		r.PSI += (o - x.share[b]) * (math.Log(o) - x.logs[b])
	}
	noise := 1/float64(n) + 1/x.m
	r.Expected = (bins - 1) * noise
	if bins > 1 {
		r.Level95 = distuv.ChiSquared{K: bins - 1}.Quantile(0.95) * noise
	}
	return r
}

// Reset empties the window.
func (x *Index) Reset() {
	x.next, x.full = 0, false
	clear(x.counts)
}
