package score

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// What scores have in common is computed once, and makes no difference.
func TestScoresTogetherAreThoseOfEach(t *testing.T) {
	s := newScene(Softmax, 5, 24, 300, 41)
	list := must(fitScores("", s.Training, true))
	if len(list) < 17 {
		t.Fatalf("%d scores", len(list))
	}
	x := drawn(rand.New(rand.NewPCG(41, 1)), 150, s.k, s.d)
	for i, got := range must(allValues(t.Context(), list, x)) {
		if want := list[i].Values(*x); !slices.Equal(got, want) {
			t.Errorf("%s: %v, by itself %v", list[i].Name, got, want)
		}
	}
}

// However many are held out, scores are compared on so many, and the one that serves is measured on all
// in distribution.
func TestScoresAreComparedOnABoundedNumber(t *testing.T) {
	const of = 60
	rng := rand.New(rand.NewPCG(42, 1))
	all := HeldOut{Val: drawn(rng, 3*of/2, 3, 4), OOD: drawn(rng, 2*of+1, 3, 4)}
	some := HeldOut{Val: &Examples{K: 3, D: 4, Link: Softmax}, OOD: &Examples{K: 3, D: 4, Link: Softmax}}
	for i := range of { // two of three, and every other
		some.Val.add(all.Val.slice(i*3/2, i*3/2+1))
		some.OOD.add(all.OOD.slice(2*i, 2*i+1))
	}
	served, _, tried, err := choose(t.Context(), "", nil, all, of)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range tried {
		s, _ := Find(got.Name)
		f := must(s.Fit(nil))
		if want, err := metrics.Detect(f.Values(*some.Val), f.Values(*some.OOD)); err != nil || got.OOD != want {
			t.Errorf("%s: %+v, of some by hand %+v, %v", got.Name, got.OOD, want, err)
		}
	}
	want := Serve(&served.Fitted, served.Fitted.Values(*all.Val))
	if !slices.Equal(served.Quantiles, want.Quantiles) {
		t.Error("quantiles are not those of all")
	}
	_, _, tried, err = choose(t.Context(), "energy", nil, all, of)
	if err != nil || tried[0].N != all.OOD.N {
		t.Errorf("one alone is measured on %+v, %v", tried, err)
	}
}
