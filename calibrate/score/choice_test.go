package score

import (
	"math/rand/v2"
	"reflect"
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
	some := HeldOut{Val: picked(all.Val, func(i int) bool { return i%3 != 2 }), OOD: all.OOD.thin(of)}
	if some.Val.N != of || some.OOD.N != of {
		t.Fatalf("%d and %d", some.Val.N, some.OOD.N)
	}
	for i := range of { // as spread over all
		if at := i * all.OOD.N / of; some.OOD.Leverage[i] != all.OOD.Leverage[at] || some.OOD.Logits[3*i] != all.OOD.Logits[3*at] ||
			some.OOD.Features[4*i+3] != all.OOD.Features[4*at+3] || some.OOD.Margin[i] != all.OOD.Margin[at] ||
			some.OOD.Variance[3*i+2] != all.OOD.Variance[3*at+2] {
			t.Fatalf("the %d-th is not that at %d", i, at)
		}
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
	if want := Serve(&served.Fitted, served.Fitted.Values(*all.Val)); !reflect.DeepEqual(served.Quantiles, want.Quantiles) {
		t.Error("quantiles are not those of all")
	}
	_, _, tried, err = choose(t.Context(), "energy", nil, all, of)
	if err != nil || tried[0].N != all.OOD.N {
		t.Errorf("one alone is measured on %+v, %v", tried, err)
	}
}

// picked are the examples at some places.
func picked(x *Examples, wanted func(i int) bool) *Examples {
	some := &Examples{K: x.K, D: x.D, Link: x.Link}
	for i := range x.N {
		if one := x.slice(i, i+1); wanted(i) {
			some.N++
			some.Features, some.Logits = append(some.Features, one.Features...), append(some.Logits, one.Logits...)
			some.Variance, some.Leverage = append(some.Variance, one.Variance...), append(some.Leverage, one.Leverage...)
			some.Margin = append(some.Margin, one.Margin...)
		}
	}
	return some
}
