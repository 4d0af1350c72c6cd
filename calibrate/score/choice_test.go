package score

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/approx"
)

// Products that scores share are computed once, with the same results.
func TestScoresTogetherAreThoseOfEach(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 5, 24, 300, 41)
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

// Scores are compared on a bounded number of validation examples, and the selected one is measured on all
// in-distribution ones.
func TestScoresAreComparedOnABoundedNumber(t *testing.T) {
	t.Parallel()
	const of = 60
	rng := rand.New(rand.NewPCG(42, 1))
	all := ValidationData{Val: drawn(rng, 3*of/2, 3, 4), OOD: drawn(rng, 2*of+1, 3, 4)}
	none := Examples{K: 3, D: 4, Link: layer.Softmax}
	some := ValidationData{Val: &none, OOD: new(none)}
	for i := range of { // two of three, and every other
		some.Val.add(all.Val.slice(i*3/2, i*3/2+1))
		some.OOD.add(all.OOD.slice(2*i, 2*i+1))
	}
	served, _, tried, err := selectAmong(t.Context(), "", nil, all, of)
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
	_, _, tried, err = selectAmong(t.Context(), "energy", nil, all, of)
	if err != nil || tried[0].N != all.OOD.N {
		t.Errorf("one alone is measured on %+v, %v", tried, err)
	}
}

// In- and out-of-distribution examples are resampled as two independent samples, each of its own size.
func TestTheRequiredGainIsThatOfTwoIndependentSamples(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(44, 1))
	held := ValidationData{Val: drawn(rng, 50, 3, 4), OOD: drawn(rng, 20, 3, 4)}
	_, _, tried, err := Select(t.Context(), "", nil, held)
	if err != nil {
		t.Fatal(err)
	}
	var all []*metrics.Statistics
	for _, c := range tried {
		s, _ := Find(c.Name)
		f := must(s.Fit(nil))
		all = append(all, must(metrics.Detection(f.Values(*held.Val), f.Values(*held.OOD), 0, 1, "auroc")))
	}
	var gains []metrics.Series
	figures := must(metrics.Resample(t.Context(), []int{50, 20}, all, metrics.ResampleOptions{}))
	for _, f := range figures[1:] {
		gains = append(gains, f["auroc"].Minus(figures[0]["auroc"]))
	}
	for i, needed := range metrics.ChanceGains(gains, 1-significance) {
		got, gain := tried[i+1], gains[i].Value
		if !approx.Equal(got.Gain, gain, 1e-12) || !approx.Equal(got.Needed, needed, 1e-12) {
			t.Errorf("%s gains %v of %v needed, want %v of %v", got.Name, got.Gain, got.Needed, gain, needed)
		}
	}
}

func TestALearnedScoreReportsWhetherItsOODDataAreSynthetic(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 4, 6, 300, 45)
	in, out := inAndOut(s)
	for name, c := range map[string]struct {
		held ValidationData
		want bool
	}{
		"synthetic": {ValidationData{Val: &in, Synthetic: &out}, true},
		"given":     {ValidationData{Val: &in, OOD: &out, Synthetic: &out}, false},
	} {
		_, got, _, err := Select(t.Context(), learned.Name, s.Training, c.held)
		if err != nil || got.Synthetic != c.want {
			t.Errorf("%s: synthetic is %v, want %v: %v", name, got.Synthetic, c.want, err)
		}
	}
}

// If in- and out-of-distribution examples have the same distribution, no score is better than another. One other than
// the default is then selected at most one time in twenty, for any number of candidates.
func TestAScoreIsSeldomChosenByChance(t *testing.T) {
	t.Parallel()
	const draws, n = 300, 60
	rng := rand.New(rand.NewPCG(43, 1))
	others, ahead := 0, 0
	for range draws {
		data := ValidationData{Val: drawn(rng, n, 4, 5), OOD: drawn(rng, n, 4, 5)}
		_, c, tried, err := Select(t.Context(), "", nil, data)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name != Default {
			others++
		}
		if slices.ContainsFunc(tried[1:], func(t Candidate) bool { return t.Gain > 0 }) {
			ahead++
		}
	}
	// Three standard errors above 5 %, rounded down.
	if most := 26; others > most || ahead < draws/2 {
		t.Errorf("another score was chosen in %d of %d draws, want at most %d; one was ahead in %d", others, draws, most, ahead)
	}
}
