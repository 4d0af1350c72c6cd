package metrics

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn returns weights of n draws, and the examples drawn.
func drawn(rng *rand.Rand, n int) (weights []int32, examples []int) {
	weights = make([]int32, n)
	for range n {
		weights[rng.IntN(n)]++
	}
	for i, w := range weights {
		for range w {
			examples = append(examples, i)
		}
	}
	return weights, examples
}

func figuresOf(m *Statistics, weights ...[]int32) map[string]float64 {
	values := make([]float64, len(m.columns))
	m.figures(weights, values)
	by := map[string]float64{}
	for i, of := range m.columns {
		by[of.key] = values[i]
	}
	return by
}

func resampled(t *testing.T, sizes []int, of []*Statistics, o ResampleOptions) []map[string]Series {
	t.Helper()
	series, err := Resample(t.Context(), sizes, of, o)
	if err != nil {
		t.Fatal(err)
	}
	return series
}

func wantFigures(t *testing.T, got, want map[string]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("figures %v, want %v", got, want)
	}
	for name, v := range want {
		wantClose(t, name, got[name], v)
	}
}

// probabilityFigures are those of Probabilities, each taken its own way.
func probabilityFigures(t *testing.T, c *Classifier, uncertainty []float64, wrong []bool) map[string]float64 {
	t.Helper()
	r := c.Result()
	return map[string]float64{
		"error": r.Error, "nll": r.NLL, "ece": r.ECE, "brier": r.Brier, "debiased_ce": debiased(c.bins, float64(c.n)),
		"aurc": aurc(uncertainty, wrong), "risk80": slowRisk(uncertainty, wrong, 0.8), "risk90": slowRisk(uncertainty, wrong, 0.9),
		"risk95": slowRisk(uncertainty, wrong, 0.95),
	}
}

// slowRisk counts, of the least uncertain examples, the mistakes, and of those as uncertain as the
// last of them their mean.
func slowRisk(uncertainty []float64, wrong []bool, coverage float64) float64 {
	kept := int(math.Ceil(coverage*float64(len(wrong)) - 1e-9))
	edge := slices.Sorted(slices.Values(uncertainty))[kept-1]
	var below, mistakes, tied, tiedMistakes float64
	for i, u := range uncertainty {
		var is float64
		if wrong[i] {
			is = 1
		}
		switch {
		case u < edge:
			below++
			mistakes += is
		case u == edge:
			tied++
			tiedMistakes += is
		}
	}
	return (mistakes + tiedMistakes*(float64(kept)-below)/tied) / float64(kept)
}

// The fast figures of weighted examples are those of the examples written out.
func TestFiguresOfResampledProbabilities(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(21, 1))
	for _, k := range []int{2, 5} {
		for _, n := range []int{1, 7, 20, 150} {
			logp, labels := randomRows(rng, n, k)
			for i := range n / 3 { // ties
				copy(logp[i*k:(i+1)*k], logp[:k])
			}
			m := classified(t, logp, k, labels, 0).Probabilities(0)
			weights, examples := drawn(rng, n)
			c := NewClassifier(k, 0)
			var uncertainty []float64
			var wrong []bool
			for _, i := range examples {
				row := logp[i*k : (i+1)*k]
				if err := c.Add(row, labels[i]); err != nil {
					t.Fatal(err)
				}
				top := slices.Index(row, slices.Max(row))
				var rest float64
				for j, v := range row {
					if j != top {
						rest += math.Exp(v)
					}
				}
				uncertainty, wrong = append(uncertainty, rest), append(wrong, top != labels[i])
			}
			want := probabilityFigures(t, c, uncertainty, wrong)
			wantFigures(t, figuresOf(m, weights), want)

			s := c.Selective()
			wantClose(t, "AURC", s.AURC, want["aurc"])
			wantClose(t, "Risk80", s.Risk80, want["risk80"])
			wantClose(t, "Risk90", s.Risk90, want["risk90"])
			wantClose(t, "Risk95", s.Risk95, want["risk95"])
		}
	}
}

// All decisions of an example are drawn together.
func TestFiguresOfResampledDecisions(t *testing.T) {
	t.Parallel()
	const n, k = 40, 12
	rng := rand.New(rand.NewPCG(22, 1))
	one := NewMultiLabel(k, 0)
	rows, targets := make([][]float64, n), make([][]uint8, n)
	for i := range n {
		for range k {
			rows[i] = append(rows[i], pairs(rng.Float64())...)
			targets[i] = append(targets[i], uint8(rng.IntN(2)))
		}
		if err := one.Add(rows[i], targets[i]); err != nil {
			t.Fatal(err)
		}
	}
	weights, examples := drawn(rng, n)
	all := NewMultiLabel(k, 0)
	for _, i := range examples {
		if err := all.Add(rows[i], targets[i]); err != nil {
			t.Fatal(err)
		}
	}
	got, want, s := figuresOf(one.Decisions().Probabilities(0), weights), all.Result(), all.Decisions().Selective()
	wantFigures(t, got, map[string]float64{
		"error": want.Error, "nll": want.NLL, "ece": want.ECE, "brier": want.Brier,
		"debiased_ce": debiased(all.decisions.bins, n*k), "aurc": s.AURC, "risk80": s.Risk80, "risk90": s.Risk90,
		"risk95": s.Risk95,
	})
	// The uncertainty of an example is the expected part of wrong decisions, its loss the real one.
	for i := range n {
		var rest, wrong float64
		for j, y := range targets[i] {
			p := math.Exp(rows[i][2*j+1])
			rest += min(p, 1-p) / k
			if (p > 0.5) != (y == 1) {
				wrong += 1. / k
			}
		}
		wantClose(t, "uncertainty", one.decisions.kept.uncertainty[i], rest)
		wantClose(t, "wrong", one.decisions.kept.wrong[i], wrong)
	}
}

func TestFiguresOfResampledScores(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(23, 1))
	for _, sizes := range [][2]int{{1, 1}, {30, 50}, {200, 60}} {
		for _, levels := range []int{1, 4, 1 << 30} { // of 1, all scores are equal
			in, out := make([]float64, sizes[0]), make([]float64, sizes[1])
			for i := range in {
				in[i] = float64(rng.IntN(levels))
			}
			for i := range out {
				out[i] = float64(rng.IntN(levels)) * 1.3
			}
			out[0] = math.Inf(1)
			m, err := Detection(in, out, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			wIn, ofIn := drawn(rng, len(in))
			wOut, ofOut := drawn(rng, len(out))
			pick := func(from []float64, which []int) (picked []float64) {
				for _, i := range which {
					picked = append(picked, from[i])
				}
				return picked
			}
			want, err := Detect(pick(in, ofIn), pick(out, ofOut))
			if err != nil {
				t.Fatal(err)
			}
			wantFigures(t, figuresOf(m, wOut, wIn), map[string]float64{
				"accuracy": want.Accuracy, "auroc": want.AUROC, "aupr_in": want.AUPRIn, "aupr_out": want.AUPROut,
				"fpr95": want.FPR95, "fpr95_ood": want.FPR95OOD,
			})
			alone, err := Detection(in, out, 1, 0, "auroc")
			if err != nil {
				t.Fatal(err)
			}
			wantFigures(t, figuresOf(alone, wOut, wIn), map[string]float64{"auroc": want.AUROC})
		}
	}
	if _, err := Detection([]float64{1}, []float64{math.NaN()}, 0, 1); err == nil {
		t.Error("NaN was taken")
	}
}

func TestResamplesAreSeededAndPaired(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(24, 1))
	const n, k = 60, 3
	logp, labels := randomRows(rng, n, k)
	run := func(seed uint64) []map[string]Series {
		one, two := classified(t, logp, k, labels, 0), classified(t, logp, k, labels, 0)
		both := []*Statistics{one.Probabilities(0), two.Probabilities(0)}
		return resampled(t, []int{n}, both, ResampleOptions{Resamples: 50, Seed: seed})
	}
	a, b, other := run(3), run(3), run(4)
	for name, s := range a[0] {
		if !slices.Equal(s.Draws, b[0][name].Draws) {
			t.Errorf("%s: the same seed gave other draws", name)
		}
		if slices.Equal(s.Draws, other[0][name].Draws) {
			t.Errorf("%s: another seed gave the same draws", name)
		}
		if slices.ContainsFunc(s.Minus(a[1][name]).Draws, func(d float64) bool { return d != 0 }) {
			t.Errorf("%s: a method differs from itself", name)
		}
	}
}

// Chance adds to a calibration error, and resampling adds as much again.
func TestDrawsOfCalibrationErrorsAreMovedToThem(t *testing.T) {
	t.Parallel()
	const n = 80
	logp, labels := honest(rand.New(rand.NewPCG(25, 1)), n)
	c := classified(t, logp, 2, labels, 0)
	by := resampled(t, []int{n}, []*Statistics{c.Probabilities(0)}, ResampleOptions{})[0]
	var mean float64
	for _, v := range by["ece"].Draws {
		mean += v / float64(len(by["ece"].Draws))
	}
	wantClose(t, "mean of ECE", mean, by["ece"].Value)
	if got, want := by["debiased_ce"].Value, c.Reliability().DebiasedCE; got != want {
		t.Errorf("debiased_ce is %v, want %v", got, want)
	}
}

// One example on which two methods differ is not a significant difference: a third of the draws do not contain it.
func TestOneExampleIsNoDifference(t *testing.T) {
	t.Parallel()
	const n = 200
	one, two := NewClassifier(2, 0), NewClassifier(2, 0)
	for i := range n {
		label := 1
		if i%10 == 0 {
			label = 0
		}
		p := 0.9
		if err := one.Add(pairs(p), label); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p = 0.1
		}
		if err := two.Add(pairs(p), label); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(10) {
		both := []*Statistics{one.Probabilities(0), two.Probabilities(0)}
		by := resampled(t, []int{n}, both, ResampleOptions{Seed: seed})
		c := NewCertainty(by[0], map[string]map[string]Series{"two": by[1]}, 0.95)
		d := c.Differences["two"]["error"]
		wantClose(t, "difference", d.Difference, 1./n)
		if d.Significant() || d.Interval[1] == 0 {
			t.Errorf("one more error of %d is %+v", n, d)
		}
		if i := c.Intervals["error"]; !(i[0] < 0.1 && i[1] > 0.1) {
			t.Errorf("error of 0.1: %v", i)
		}
	}
}

// Draws cannot show how uncertain an error of 0 is, but they show that two methods are the same.
func TestNoErrorHasNoInterval(t *testing.T) {
	t.Parallel()
	c := classified(t, pairs(0.9, 0.8, 0.7), 2, []int{1, 1, 1}, 0)
	by := resampled(t, []int{3}, []*Statistics{c.Probabilities(0)}, ResampleOptions{})
	got := NewCertainty(by[0], map[string]map[string]Series{"itself": by[0]}, 0.95)
	if i, ok := got.Intervals["error"]; ok {
		t.Errorf("no error of 3: %v", i)
	}
	if _, ok := got.Intervals["nll"]; !ok {
		t.Error("the NLL has no interval")
	}
	if d, ok := got.Differences["itself"]["error"]; !ok || d != (Difference{}) {
		t.Errorf("differs from itself by %v, %v", d, ok)
	}
}

// An infinite NLL has draws without the example, and no interval where all is infinite.
func TestIntervalsOfInfinities(t *testing.T) {
	t.Parallel()
	logp := append(pairs(0.25, 0.5), math.Inf(-1), 0)
	c := classified(t, logp, 2, []int{1, 1, 0}, 0)
	both := resampled(t, []int{3}, []*Statistics{c.Probabilities(0), c.Probabilities(0, "nll")}, ResampleOptions{})
	nll := both[0]["nll"]
	if !math.IsInf(nll.Value, 1) {
		t.Errorf("NLL %v, want infinity", nll.Value)
	}
	if alone := both[1]["nll"]; alone.Value != nll.Value || !slices.Equal(alone.Draws, nll.Draws) || len(both[1]) != 1 {
		t.Errorf("NLL alone %v, want %v", both[1], nll)
	}
	got, ok := nll.Interval(0.95)
	if !ok || got[0] < math.Log(4./3) || !math.IsInf(got[1], 1) {
		t.Errorf("interval %v, %v: want one from a finite value to infinity", got, ok)
	}
	same := map[string]Series{"nll": nll}
	certainty := NewCertainty(same, map[string]map[string]Series{"itself": same}, 0.95)
	if len(certainty.Intervals) != 0 || len(certainty.Differences["itself"]) != 0 {
		t.Errorf("infinities have bounds: %+v", certainty)
	}
}

// The intervals of about 95 in 100 samples contain the true value.
func TestIntervalsHoldTheTruth(t *testing.T) {
	t.Parallel()
	const runs, n = 200, 200
	rng := rand.New(rand.NewPCG(26, 1))
	var entropy float64
	const steps = 100_000
	for i := range steps {
		p := 0.5 + (float64(i)+0.5)/steps/2
		entropy -= (p*math.Log(p) + (1-p)*math.Log(1-p)) / steps
	}
	// p is uniform on [½, 1], and right with probability p; scores are N(0,1) and N(1,1).
	truth := map[string]float64{
		"error": 0.25, "brier": 1. / 3, "nll": entropy, "auroc": math.Erfc(-0.5) / 2, "debiased_ce": 0,
		"debiased_ce of 0.2 too much": 0.2, // below
	}
	held := map[string]int{}
	for run := range runs {
		logp, labels := honest(rng, n)
		in, out := make([]float64, n), make([]float64, n)
		one := NewClassifier(2, 0)
		for i := range n {
			in[i], out[i] = rng.NormFloat64(), 1+rng.NormFloat64()
			p := 0.75 + 0.2*float64(i%2)
			label := 0
			if rng.Float64() < p-0.2 {
				label = 1
			}
			if err := one.Add(pairs(p), label); err != nil {
				t.Fatal(err)
			}
		}
		d, err := Detection(in, out, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		measured := []*Statistics{classified(t, logp, 2, labels, 0).Probabilities(0), d, one.Probabilities(0)}
		got := resampled(t, []int{n, n}, measured, ResampleOptions{Resamples: 200, Seed: uint64(run)})
		got[0]["auroc"], got[0]["debiased_ce of 0.2 too much"] = got[1]["auroc"], got[2]["debiased_ce"]
		for name, want := range truth {
			if i, ok := got[0][name].Interval(0.95); ok && i[0] <= want && want <= i[1] {
				held[name]++
			}
		}
	}
	// Four standard errors of 0.95, and a hundredth that 200 draws cost. Where the calibration error
	// is 0 the interval is wider than it need be.
	low := int(runs * (0.94 - 4*math.Sqrt(0.95*0.05/runs)))
	for name := range truth {
		if held[name] < low || name != "debiased_ce" && held[name] > runs*99/100 {
			t.Errorf("%s: %d of %d intervals hold the truth", name, held[name], runs)
		}
	}
}

func BenchmarkResample(b *testing.B) {
	const n, out, k, methods = 10_000, 13_724, 10, 5
	rng := rand.New(rand.NewPCG(1, 1))
	var measured []*Statistics
	for range methods {
		logp, labels := randomRows(rng, n, k)
		c := NewClassifier(k, 0)
		scores := make([]float64, n+out)
		for i := range scores {
			scores[i] = rng.NormFloat64()
		}
		for i, y := range labels {
			if err := c.Add(logp[i*k:(i+1)*k], y); err != nil {
				b.Fatal(err)
			}
		}
		d, err := Detection(scores[:n], scores[n:], 0, 1)
		if err != nil {
			b.Fatal(err)
		}
		measured = append(measured, c.Probabilities(0), d)
	}
	for b.Loop() {
		if _, err := Resample(b.Context(), []int{n, out}, measured, ResampleOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestResamplingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := classified(t, pairs(0.5, 0.7), 2, []int{0, 1}, 0)
	if _, err := Resample(ctx, []int{2}, []*Statistics{c.Probabilities(0)}, ResampleOptions{}); err == nil {
		t.Error("no error")
	}
}

func TestResamplingChecksSizesAndOptions(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"no samples":    func() { _, _ = Resample(t.Context(), nil, nil, ResampleOptions{}) },
		"no examples":   func() { _, _ = Resample(t.Context(), []int{3, 0}, nil, ResampleOptions{}) },
		"few resamples": func() { _, _ = Resample(t.Context(), []int{1}, nil, ResampleOptions{Resamples: -1}) },
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

func TestQuantileOfInfinities(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	if got := Quantile([]float64{0, inf, inf}, 0.75); got != inf {
		t.Errorf("got %v, want +Inf", got)
	}
}
