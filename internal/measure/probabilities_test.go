package wrap

import (
	"math"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/link"
	"github.com/mfgs/mfgs/internal/approx"
)

// followed is what follows from probabilities, as a predictor has them: rounded to float32.
func followed(link link.Link, probabilities ...float64) *Prediction {
	logits := len(probabilities)
	p := &Prediction{}
	for _, v := range probabilities {
		p.Probabilities = append(p.Probabilities, float64(float32(v)))
	}
	p.follow(calibrate.Head{Features: 2, Logits: logits, Link: link}, nil)
	return p
}

// What follows from the probabilities of classes: they sum to 1, and the first of the largest is the class.
// One that is more than ½ is what the others leave, which have digits where it rounds to 1; else all are
// divided by their sum, so that equal ones stay equal.
func TestWhatFollowsFromProbabilitiesOfClasses(t *testing.T) {
	for _, c := range []struct {
		given, want []float64
		class       int
	}{
		{[]float64{0.2, 0.7, 0.1}, []float64{0.2, 0.7, 0.1}, 1},
		{[]float64{1e-12, 3e-12, 1}, []float64{1e-12, 3e-12, 1 - 4e-12}, 2},
		{[]float64{0, 1, 0}, []float64{0, 1, 0}, 1},
		{[]float64{0.5, 0.5}, []float64{0.5, 0.5}, 0},
		{[]float64{0.25, 0.375, 0.375}, []float64{0.25, 0.375, 0.375}, 1},
		{[]float64{1. / 3, 1. / 3, 1. / 3}, []float64{1. / 3, 1. / 3, 1. / 3}, 0},
		// These sum to ¾, the others to ½.
		{[]float64{0.25, 0.125, 0.125, 0.25}, []float64{1. / 3, 1. / 6, 1. / 6, 1. / 3}, 0},
		{[]float64{0.9, 0.2}, []float64{0.8, 0.2}, 0}, // the others are to be believed
	} {
		p := followed(link.Softmax, c.given...)
		sum, entropy := 0.0, 0.0
		for j, v := range p.Probabilities {
			sum += v
			if v > 0 {
				entropy -= v * math.Log(v)
			}
			if !approx.Relative(v, c.want[j], 1e-6) {
				t.Errorf("%v: p[%d] = %v, want %v", c.given, j, v, c.want[j])
			}
		}
		if !approx.Equal(sum, 1, 1e-15) || p.Class != c.class || p.Confidence != p.Probabilities[c.class] {
			t.Errorf("%v: class %d with %v of %v, want class %d", c.given, p.Class, p.Confidence, sum, c.class)
		}
		if !approx.Equal(p.Entropy, entropy, 1e-14) || p.Labels != nil {
			t.Errorf("%v: entropy %v, want %v; labels %v", c.given, p.Entropy, entropy, p.Labels)
		}
	}
	// The largest of three equal ones is not what rounding leaves of the others.
	third := followed(link.Softmax, 1./3, 1./3, 1./3).Probabilities
	if third[0] != third[1] || third[1] != third[2] {
		t.Errorf("equal probabilities became %v", third)
	}
	// -p log p of p = 1 - 4e-12 has the digits of 4e-12.
	p := followed(link.Softmax, 1e-12, 3e-12, 1)
	want := -1e-12*math.Log(1e-12) - 3e-12*math.Log(3e-12) + 4e-12
	if !approx.Relative(p.Entropy, want, 1e-6) {
		t.Errorf("entropy %v, want %v", p.Entropy, want)
	}
}

// What follows from the probabilities of independent labels: a label is told where its probability is
// more than ½, and confidence and entropy are the mean and the sum over the labels.
func TestWhatFollowsFromProbabilitiesOfLabels(t *testing.T) {
	p := followed(link.Sigmoid, 0.5, 0.75, 0, 1, 0.25, 0.5000001)
	if !slices.Equal(p.Labels, []int{1, 3, 5}) || p.Class != 3 || p.LabelNames != nil {
		t.Errorf("labels %v and class %d, want 1, 3 and 5, and 3", p.Labels, p.Class)
	}
	half := float64(float32(0.5000001))
	if want := (0.5 + 0.75 + 1 + 1 + 0.75 + half) / 6; !approx.Equal(p.Confidence, want, 1e-15) {
		t.Errorf("confidence %v, want %v", p.Confidence, want)
	}
	binary := func(p float64) float64 { return -p*math.Log(p) - (1-p)*math.Log(1-p) }
	if want := binary(0.5) + 2*binary(0.25) + binary(half); !approx.Equal(p.Entropy, want, 1e-14) {
		t.Errorf("entropy %v, want %v", p.Entropy, want)
	}
	if none := followed(link.Sigmoid, 0.5, 0.1); none.Labels == nil || len(none.Labels) != 0 {
		t.Errorf("labels %v, want an empty list", none.Labels)
	}
	named := &Prediction{Probabilities: []float64{0.9, 0.2, 0.6}}
	named.follow(calibrate.Head{Features: 2, Logits: 3, Link: link.Sigmoid}, []string{"a", "b", "c"})
	if !slices.Equal(named.LabelNames, []string{"a", "c"}) {
		t.Errorf("names %q, want a and c", named.LabelNames)
	}
}
