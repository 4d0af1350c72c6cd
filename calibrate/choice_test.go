package calibrate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

func TestTheSimplerMethodIsChosenWithoutASignificantGain(t *testing.T) {
	t.Parallel()
	repeat := func(values ...float64) []float64 {
		var all []float64
		for range 100 {
			all = append(all, values...)
		}
		return all
	}
	for _, test := range []struct {
		name             string
		own, scaled, mf0 []float64
		want             Method
	}{
		{"all alike", repeat(1, 2), repeat(1, 2), repeat(1, 2), MLE},
		{"temperature scaling gains less than 1/(2N)", repeat(1, 2), repeat(1-0.002, 2-0.002), repeat(1, 2), MLE},
		{"temperature scaling gains more", repeat(1, 2), repeat(1-0.003, 2-0.003), repeat(1, 2), TS},
		{"all of its gain is one example's", append(repeat(0, 0), 50), append(repeat(0.1, 0.1), 5), repeat(1, 1, 1)[:201], TS},
		{"mf0 gains within the noise", repeat(1, 2), repeat(0.5, 1.5), repeat(0.4, 1.59), TS},
		{"mf0 gains beyond it", repeat(1, 2), repeat(0.5, 1.5), repeat(0.4, 1.5), MF0},
		{"mf0 gains on the network, temperature scaling does not", repeat(1, 2), repeat(1, 2), repeat(0.9, 1.8), MF0},
		{"mf0 gains no more than the tables tell", repeat(1, 2), repeat(0.5, 1.5), repeat(0.5-5e-6, 1.5-5e-6), TS},
		{"mf0 loses", repeat(1, 2), repeat(0.5, 1.5), repeat(2, 3), TS},
	} {
		if got := climb(tried(test.own), tried(test.scaled)).mf0(tried(test.mf0)); got.Method != test.want {
			t.Errorf("%s: %s serves, want %s (%+v)", test.name, got.Method, test.want, got)
		}
	}
}

// tried is a method of such an NLL of each example, to which nothing is added.
func tried(nll []float64) trial { return trial{nll, mean(nll)} }

// What is gained on the half of an example that tuning adds is no reason.
func TestMF0IsNotChosenWithAHigherNLL(t *testing.T) {
	t.Parallel()
	simple, mf0 := trial{[]float64{3, 4}, 1}, trial{[]float64{2, 3}, 1.01}
	if got := climb(simple, simple).mf0(mf0); got.Method != MLE || !strings.Contains(got.String(), "higher NLL") {
		t.Errorf("%s (%+v)", got, got)
	}
	if mf0.nll = 1; climb(simple, simple).mf0(mf0).Method != MF0 {
		t.Error("mf0 does not serve with the same NLL")
	}
}

func TestChoiceNamesTheMethodAndTheReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		c    Choice
		want []string
	}{
		{Choice{Method: MF0, MF0Gain: 0.02, MF0Needed: 0.003}, []string{"mf0:", "0.02 nats", "0.003"}},
		{Choice{Method: TS, TSGain: 0.1, MF0Gain: -0.01, MF0Needed: 0.004}, []string{"temperature scaling:", "0.1 nats", "-0.01", "0.004"}},
		{Choice{Method: MLE, TSGain: 1e-4, TSNeeded: 1e-3, MF0Gain: 2e-4, MF0Needed: 5e-4}, []string{"network (uncalibrated):", "0.0001 nats", "0.001", "0.0002", "0.0005"}},
	} {
		for _, want := range test.want {
			if got := test.c.String(); !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
	}
}

func TestProbabilitiesAreThoseOfTheMethod(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax}
	task := newTask(h, 31)
	c := accumulate(t, CurvatureConfig{Head: h}, task.train, 0)
	f := fit(t, c, task.val, nil, FitOptions{Damping: Damping{Relative: 1}})
	n := task.val.N
	for method, temperature := range map[Method]float64{MLE: 1, TS: f.TS} {
		served := f.Calibration
		served.Method = method
		got := served.Predict(task.val.Features, task.val.Logits, n)
		logp, margin := Plain(h, task.val.Logits, n, temperature)
		wantSame(t, string(method)+": log p", got.LogP, logp, 0)
		wantSame(t, string(method)+": margin", got.Margin, margin, 0)
		// The scores stay mf0's.
		served.Method = MF0
		mf0 := served.Predict(task.val.Features, task.val.Logits, n)
		wantSame(t, string(method)+": scores", got.OODScore, mf0.OODScore, 0)
	}
}

// What is fitted follows the unit of the logits: of logits c a, T_act and T are c times
// those of a, and the NLL is the same.
func TestTemperaturesFollowTheUnitOfTheLogits(t *testing.T) {
	t.Parallel()
	for _, h := range []layer.Head{
		{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax},
		{Logits: 1, Features: 4, Bias: true, Link: layer.Sigmoid},
		{Logits: 3, Features: 4, Bias: true, Link: layer.Sigmoid},
		{Logits: 3, Features: 4, Bias: true, Link: layer.OneVsRest},
	} {
		task := newTask(h, 77).thinned(5)
		c := accumulate(t, CurvatureConfig{Head: h}, task.train, 0)
		o := FitOptions{Damping: Damping{Relative: 1}, KeepClass: true} // matrix scaling has no unit
		want := fit(t, c, task.val, task.ood, o)
		for _, unit := range []float64{1 << 14, 1.0 / (1 << 14)} {
			scaled := func(s *rows.Batch) *rows.Batch {
				u := *s
				u.Logits = make([]float32, len(s.Logits))
				for i, a := range s.Logits {
					u.Logits[i] = float32(unit) * a
				}
				return &u
			}
			got := fit(t, c, scaled(task.val), scaled(task.ood), o)
			for name, pair := range map[string][2]float64{
				"T":                   {got.TS, want.TS},
				"T to tell apart":     {got.TSOOD, want.TSOOD},
				"T_act":               {got.NLL.Act, want.NLL.Act},
				"T_act to tell apart": {got.OOD.Act, want.OOD.Act},
				"T_act of the grid":   {got.NLLGrid.Act[3], want.NLLGrid.Act[3]},
			} {
				if !approx.Equal(pair[0]/unit, pair[1], 1e-9*pair[1]) {
					t.Errorf("%s, logits times %g: %s %v, want %v times that", nameOf(h), unit, name, pair[0], pair[1])
				}
			}
			if !approx.Equal(got.Candidates[0].NLL, want.Candidates[0].NLL, 1e-9) || !approx.Equal(got.NLL.Ens,
				want.NLL.Ens, 1e-9*want.NLL.Ens) {
				t.Errorf("%s, logits times %g: NLL %v and T_ens %v, want %v and %v", nameOf(h), unit, got.Candidates[0].NLL, got.NLL.Ens, want.Candidates[0].NLL, want.NLL.Ens)
			}
		}
	}
}

// A sure network that makes no error on a small validation set must not be made surer: of
// 50 examples none says how often it errs.
func TestFewValidationExamplesDoNotRaiseConfidence(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 5, Features: 4, Bias: true, Link: layer.Softmax}
	rng := rand.New(rand.NewPCG(5, 5))
	train := randomSet(h, 300, 3, 91)
	c := accumulate(t, CurvatureConfig{Head: h}, train, 0)
	val := randomSet(h, 50, 3, 92)
	for i := range val.Labels {
		a := logitsOf(val, i)
		for k := range a {
			a[k] = float32(rng.NormFloat64())
		}
		val.Labels[i] = rng.IntN(h.Logits)
		a[val.Labels[i]] += 30
	}
	f := fit(t, c, val, nil, FitOptions{Damping: Damping{Relative: 1}})
	if !(f.TS >= 1) {
		t.Errorf("T = %v, want at least 1", f.TS)
	}
	p := f.Predict(val.Features, val.Logits, 50)
	for i, g := range p.Margin {
		rest := meanfield.OneMinusMax(g, h.Logits)
		// Jeffreys expects half an error in 51.
		if !(rest > 1e-4) || math.IsNaN(rest) {
			t.Fatalf("example %d: 1 - max p = %v after 50 examples without an error", i, rest)
		}
	}
}
