package metrics

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// pairs returns log(1-p) and log p of each probability.
func pairs(p ...float64) []float64 {
	var logp []float64
	for _, v := range p {
		logp = append(logp, math.Log(1-v), math.Log(v))
	}
	return logp
}

// Two examples of three labels, worked out by hand.
func TestMultiLabelFiguresByHand(t *testing.T) {
	t.Parallel()
	logp := pairs(0.9, 0.2, 0.55, 0.3, 0.5, 0.85)
	targets := []uint8{1, 0, 0, 1, 0, 1}
	got, err := classifyMultiLabel(logp, 3, targets, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got.N != 2 {
		t.Errorf("N = %d, want 2", got.N)
	}
	// Wrong: 0.55 of an absent label and 0.3 of a present one; 0.5 is not above ½.
	wantClose(t, "Error", got.Error, 2./6)
	wantClose(t, "NLL", got.NLL, -(math.Log(0.9)+math.Log(0.8)+math.Log(0.45)+math.Log(0.3)+math.Log(0.5)+math.Log(0.85))/6)
	wantClose(t, "Brier", got.Brier, 2*(0.01+0.04+0.3025+0.49+0.25+0.0225)/6)
	// By the side decided for: (0.8,0.9] holds 0.9 and 0.85, both right, (0.7,0.8] 0.8,
	// right, (0.6,0.7] 0.7, wrong, (0.5,0.6] 0.55, wrong, (0.4,0.5] 0.5, right.
	wantClose(t, "ECE", got.ECE, (0.25+0.2+0.7+0.55+0.5)/6)
}

// Each label is a problem of two classes, and the figures are their means; only
// the bins of the ECE are filled by all together.
func TestMultiLabelIsManyProblemsOfTwoClasses(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(31, 1))
	const n, k = 50, 4
	var logp []float64
	var targets []uint8
	var apart [k]*Classifier
	for j := range apart {
		apart[j] = NewClassifier(2, 0)
	}
	for range n {
		for j := range k {
			p := 1 / (1 + math.Exp(3*rng.NormFloat64()))
			y := uint8(rng.IntN(2))
			logp, targets = append(logp, pairs(p)...), append(targets, y)
			if err := apart[j].Add(pairs(p), int(y)); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := classifyMultiLabel(logp, k, targets, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want InDomain
	for _, c := range apart {
		r := c.Result()
		want.Error += r.Error / k
		want.NLL += r.NLL / k
		want.Brier += r.Brier / k
	}
	if got.N != n {
		t.Errorf("N = %d, want %d", got.N, n)
	}
	wantClose(t, "Error", got.Error, want.Error)
	wantClose(t, "NLL", got.NLL, want.NLL)
	wantClose(t, "Brier", got.Brier, want.Brier)
	all := NewClassifier(2, 0)
	for i, y := range targets {
		if err := all.Add(logp[2*i:2*i+2], int(y)); err != nil {
			t.Fatal(err)
		}
	}
	wantClose(t, "ECE", got.ECE, all.Result().ECE)
}

// One label is equal to two classes with the same probabilities.
func TestOneLabelIsAsTwoClasses(t *testing.T) {
	t.Parallel()
	one, two := NewMultiLabel(1, 0), NewClassifier(2, 0)
	for i, p := range []float64{0.1, 0.7, 0.4, 0.95} {
		logp, y := pairs(p), i%2
		if err := errors.Join(one.Add(logp, []uint8{uint8(y)}), two.Add(logp, y)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := one.Result(), two.Result(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMultiLabelRefuses(t *testing.T) {
	t.Parallel()
	good := pairs(0.1, 0.7)
	m := NewMultiLabel(2, 0)
	if err := m.Add(good, []uint8{0, 1}); err != nil {
		t.Fatal(err)
	}
	before := m.Result()
	for want, add := range map[string]func() error{
		"example 1: label 1: label 2 is out of range":        func() error { return m.Add(good, []uint8{0, 2}) },
		"example 1: label 1: the probabilities sum to 1.4":   func() error { return m.Add([]float64{good[0], good[1], good[3], good[3]}, []uint8{0, 1}) },
		"example 1: label 0: the probabilities sum to NaN":   func() error { return m.Add([]float64{math.NaN(), 0, good[2], good[3]}, []uint8{0, 1}) },
		"example 1: label 0: the probabilities sum to 0, wa": func() error { return m.Add([]float64{math.Inf(-1), math.Inf(-1), good[2], good[3]}, []uint8{0, 1}) },
	} {
		if err := add(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if got := m.Result(); got != before {
			t.Errorf("%s: counted: %+v", want, got)
		}
	}
	for name, f := range map[string]func(){
		"no labels":       func() { NewMultiLabel(0, 0) },
		"too few":         func() { m.Add(good[:2], []uint8{0, 1}) },
		"too few targets": func() { m.Add(good, []uint8{0}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}

// classifyMultiLabel measures n examples of k labels: logp [n,k,2], targets [n,k].
func classifyMultiLabel(logp []float64, k int, targets []uint8, bins int) (InDomain, error) {
	m := NewMultiLabel(k, bins)
	for i := 0; i < len(targets); i += k {
		if err := m.Add(logp[2*i:2*(i+k)], targets[i:i+k]); err != nil {
			return InDomain{}, err
		}
	}
	return m.Result(), nil
}
