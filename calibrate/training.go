package calibrate

import (
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
)

// Training returns the data that scores are fitted to: the curvature's sums of features, the last layer's weights
// w [K,d] and bias b [K], which may be nil, and a sample of the examples.
func (c *Curvature) Training(w, b []float32, sample *rows.Batch) *score.Training {
	h, d := c.head, c.head.Features
	t := &score.Training{
		K: h.Logits, D: d, Link: h.Link, Missing: h.Missing, N: c.n,
		Gram: make([]float64, d*d), Sum: make([]float64, d),
		Leverages: c.leverages, Sample: score.Sample{M: sample.N, Features: sample.Features},
	}
	if w != nil {
		t.W, t.B = widened(w), make([]float64, h.Logits)
		copy(t.B, widened(b))
	}
	for i := range d {
		for j := i; j < d; j++ {
			v := c.moment(i, j)
			t.Gram[i*d+j], t.Gram[j*d+i] = v, v
		}
	}
	for g := range c.groups {
		row := c.c[g*(d+1) : (g+1)*(d+1)]
		add(t.Sum, row[:d])
		if c.groups > 1 {
			t.ClassSums, t.ClassCounts = append(t.ClassSums, row[:d]...), append(t.ClassCounts, int(row[d]))
		}
	}
	if c.directions {
		u := &score.Training{
			K: t.K, D: d, Link: t.Link, N: t.N, Gram: c.u, Sum: make([]float64, d),
			ClassSums: c.v, ClassCounts: t.ClassCounts,
		}
		for g := range c.groups {
			add(u.Sum, c.v[g*d:(g+1)*d])
		}
		t.Directions = u
	}
	return t
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
