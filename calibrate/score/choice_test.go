package score

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/approx"
)

// Products that scores share are computed once, with the same results.
func TestScoresTogetherAreThoseOfEach(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 5, 24, 300, 41)
	list, _, err := fitScores("", s.Training, new(Examples), true)
	if err != nil || len(list) < 9 {
		t.Fatalf("%d scores, %v", len(list), err)
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
		if c.Name != c.Base {
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

// Where the default score cannot be fitted, the fallback takes its place, and the selection says why.
func TestTheFallbackReplacesADefaultThatCannotBeFitted(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 4, 6, 300, 46)
	rng := rand.New(rand.NewPCG(46, 1))
	in, out := drawn(rng, 60, s.k, s.d), drawn(rng, 60, s.k, s.d)
	unsampled := trainingOf(s.train, s.labels, s.w, s.b, s.link)
	unsampled.Sample = Sample{}
	for _, c := range []struct {
		training    *Training
		name, unfit string
	}{
		{s.Training, Default, ""},
		{unsampled, Fallback, "it needs a sample of the training data, and the bundle to update has none"},
		{nil, Fallback, "it needs training data other than the validation data"},
	} {
		served, got, _, err := Select(t.Context(), "", c.training, ValidationData{Val: in})
		if err != nil || served.Name != c.name || got.Name != c.name || got.Base != c.name || got.Unfit != c.unfit {
			t.Errorf("%s instead of %s: %+v, %v", served.Name, c.name, got, err)
		}
		if text := got.String(); !strings.HasSuffix(text, c.unfit) {
			t.Errorf("%q does not say %q", text, c.unfit)
		}
		_, got, tried, err := Select(t.Context(), "", c.training, ValidationData{Val: in, OOD: out})
		if err != nil || tried[0].Name != c.name || got.Base != c.name {
			t.Errorf("others are compared with %s, %+v, want %s: %v", tried[0].Name, got, c.name, err)
		}
	}
	if _, _, _, err := Select(t.Context(), Default, nil, ValidationData{Val: in}); !errors.Is(err, ErrNoFit) {
		t.Errorf("the default was requested, and cannot be fitted: %v", err)
	}
}
