package measure_test

import (
	"math"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/measure"
)

// answerOf returns the answer of probabilities that are rounded to float32, as a network's are, and what becomes of
// them.
func answerOf(by layer.Link, probabilities ...float64) (measure.Answer, []float64) {
	var p []float64
	for _, v := range probabilities {
		p = append(p, float64(float32(v)))
	}
	return measure.AnswerOf(layer.Head{Features: 2, Logits: len(p), Link: by}, p), p
}

// Probabilities of classes are made to sum to 1, and the class is the first of the largest. A probability above ½
// becomes what the others leave, which still have digits if it rounds to 1. Otherwise all are divided by their sum, so
// that equal ones stay equal.
func TestProbabilitiesOfClassesSumToOne(t *testing.T) {
	t.Parallel()
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
		{[]float64{0.9, 0.2}, []float64{0.8, 0.2}, 0}, // the others are the exact ones
	} {
		got, p := answerOf(layer.Softmax, c.given...)
		sum, entropy := 0.0, 0.0
		for j, v := range p {
			sum += v
			if v > 0 {
				entropy -= v * math.Log(v)
			}
			if !approx.Relative(v, c.want[j], 1e-6) {
				t.Errorf("%v: p[%d] = %v, want %v", c.given, j, v, c.want[j])
			}
		}
		if !approx.Equal(sum, 1, 1e-15) || got.Class != c.class || got.Confidence != p[c.class] {
			t.Errorf("%v: class %d with %v of %v, want class %d", c.given, got.Class, got.Confidence, sum, c.class)
		}
		if !approx.Equal(got.Entropy, entropy, 1e-14) {
			t.Errorf("%v: entropy %v, want %v", c.given, got.Entropy, entropy)
		}
	}
	// The largest of three equal probabilities is not what rounding leaves of the others.
	if _, p := answerOf(layer.Softmax, 1./3, 1./3, 1./3); p[0] != p[1] || p[1] != p[2] {
		t.Errorf("equal probabilities became %v", p)
	}
	// -p log p of p = 1 - 4e-12 has the digits of 4e-12.
	got, _ := answerOf(layer.Softmax, 1e-12, 3e-12, 1)
	want := -1e-12*math.Log(1e-12) - 3e-12*math.Log(3e-12) + 4e-12
	if !approx.Relative(got.Entropy, want, 1e-6) {
		t.Errorf("entropy %v, want %v", got.Entropy, want)
	}
}

// Confidence and entropy of independent labels are the mean and the sum over the labels.
func TestProbabilitiesOfLabelsAreIndependent(t *testing.T) {
	t.Parallel()
	got, _ := answerOf(layer.Sigmoid, 0.5, 0.75, 0, 1, 0.25, 0.5000001)
	half := float64(float32(0.5000001))
	if want := (0.5 + 0.75 + 1 + 1 + 0.75 + half) / 6; got.Class != 3 || !approx.Equal(got.Confidence, want, 1e-15) {
		t.Errorf("class %d with confidence %v, want 3 with %v", got.Class, got.Confidence, want)
	}
	binary := func(p float64) float64 { return -p*math.Log(p) - (1-p)*math.Log(1-p) }
	if want := binary(0.5) + 2*binary(0.25) + binary(half); !approx.Equal(got.Entropy, want, 1e-14) {
		t.Errorf("entropy %v, want %v", got.Entropy, want)
	}
}

// The confidence in an answer that is right or wrong is the probability that it is right, be it small or 0.
func TestTheConfidenceInAnAnswerIsThatItIsRight(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true, Correctness: true}
	for _, p := range []float64{0, 1e-300, 0.1, 0.5, 0.9, 1 - 1e-12, 1} {
		given := []float64{1 - p, p}
		got := measure.AnswerOf(h, given)
		want := 0.0
		for _, v := range []float64{p, 1 - p} {
			if v > 0 {
				want -= v * math.Log(v)
			}
		}
		if got.Class != layer.Right || !approx.Relative(got.Confidence, p, 1e-15) ||
			!approx.Equal(got.Entropy, want, 1e-14) {
			t.Errorf("p(right) = %v: %+v, want entropy %v", p, got, want)
		}
		if sum := given[0] + given[1]; sum != 1 {
			t.Errorf("p(right) = %v: probabilities of %v", p, sum)
		}
	}
}

func TestAnAnswerDoesNotChange(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true}
	logp, logits := []float64{-3, -0.05}, []float32{0, -1}
	if !measure.ChangesClass(h, logp, logits) {
		t.Error("the class does not change, which tells nothing")
	}
	if h.Correctness = true; measure.ChangesClass(h, logp, logits) {
		t.Error("the answer changes")
	}
}
