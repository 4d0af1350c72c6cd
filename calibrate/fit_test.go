package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
)

// task is a problem on which variances help: some validation examples lie far from
// the training set and have labels that the logits know nothing of.
type task struct{ train, val, ood *rows.Batch }

func newTask(h layer.Head, seed uint64) task {
	m := newMixture(h, 3, 2, seed)
	t := task{train: m.draw(700, 0), val: m.draw(500, 0), ood: m.draw(300, 8)}
	random := m.draw(75, 8)
	for range random.N {
		if h.MultiLabel() {
			for range h.Logits {
				random.Targets = append(random.Targets, m.toss(0.5))
			}
		} else {
			random.Labels = append(random.Labels, m.rng.IntN(h.Classes()))
		}
	}
	t.val.Append(random)
	return t
}

// thinned leaves every n-th validation example.
func (t task) thinned(n int) task {
	every := func(s *rows.Batch) *rows.Batch {
		var kept []int
		for i := 0; i < s.N; i += n {
			kept = append(kept, i)
		}
		return s.Pick(kept)
	}
	return task{t.train, every(t.val), every(t.ood)}
}

func fit(t testing.TB, c *Curvature, val, ood *rows.Batch, o FitOptions) *Fitted {
	t.Helper()
	f, err := Fit(t.Context(), c, val, ood, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// nll is the mean -log p of the labels, or of the targets.
func nll(h layer.Head, logp []float64, s *rows.Batch) float64 {
	var sum float64
	for i, y := range s.Labels {
		sum -= logp[i*h.Classes()+int(y)] / float64(len(s.Labels))
	}
	for i, y := range s.Targets {
		sum -= logp[2*i+int(y)] / float64(len(s.Targets))
	}
	return sum
}

// objective is what tuning minimises: the NLL, and that of half an example more whose
// prediction is wrong.
func objective(h layer.Head, logp, margin []float64, s *rows.Batch) float64 {
	v, n := nll(h, logp, s), float64(len(margin))
	for _, g := range margin {
		v += 0.5 * math.Log1p(math.Exp(g)/float64(h.Categories()-1)) / n / n
	}
	return v
}

// auroc is that of the mf0 scores of a calibration.
func auroc(t *testing.T, c *Calibration, val, ood *rows.Batch) float64 {
	t.Helper()
	scores := func(s *rows.Batch) []float64 {
		return c.Scores([]*score.Fitted{&servedMF0(1).Fitted}, s.Features, s.Logits, s.N)[0]
	}
	v, err := metrics.AUROC(scores(val), scores(ood), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// gridTolerance is the error of the tables that tuning reads, in nats, on logits
// of common size (see meanfield.Curve).
const gridTolerance = 1e-5

func TestFitIsNoWorseThanItsGridAndTemperatureScaling(t *testing.T) {
	t.Parallel()
	for i, h := range []layer.Head{
		{Logits: 4, Features: 6, Bias: true, Link: layer.Softmax},
		{Logits: 1, Features: 5, Bias: true, Link: layer.Sigmoid},
		{Logits: 5, Features: 6, Bias: true, Link: layer.Sigmoid},
		{Logits: 4, Features: 6, Bias: true, Link: layer.OneVsRest},
	} {
		task := newTask(h, uint64(800+i))
		val, n := task.val, task.val.N
		for _, structure := range []Structure{Full, Kronecker} {
			c := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true}, task.train, 0)
			for j, cov := range covariances {
				// Of softmax every covariance in both structures; of the others each once.
				if i > 0 && (i+j)%2 == 0 != (structure == Full) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", nameOf(h), structure, cov), func(t *testing.T) {
					t.Parallel()
					f := fit(t, c, val, task.ood, FitOptions{Covariance: cov, KeepClass: true})
					at := func(pair layer.Temperatures) *Predictions {
						c := f.Calibration
						c.Method, c.NLL = MF0, pair
						return c.Predict(val.Features, val.Logits, n)
					}
					exact := func(pair layer.Temperatures) float64 {
						p := at(pair)
						return objective(h, p.LogP, p.Margin, val)
					}
					optimum, loss, stdErr := f.optimum(t, val)
					got := exact(optimum)
					if tuned, got := f.chosen(t).NLL, nll(h, at(optimum).LogP, val); !approx.Equal(got, tuned,
						gridTolerance) {
						t.Errorf("NLL %v, tuned by tables to %v", got, tuned)
					}
					if loss > stdErr {
						t.Errorf("NLL is %v above the optimum, more than its standard error %v", loss, stdErr)
					}
					if v := exact(f.NLL); !approx.Equal(v-got, loss, gridTolerance) {
						t.Errorf("NLL %v, at the optimum %v, by tables %v apart", v, got, loss)
					}
					least := math.Inf(1)
					for i, act := range f.NLLGrid.Act {
						for j, tau := range f.NLLGrid.Tau {
							v := f.NLLGrid.Value[i][j]
							least = math.Min(least, v)
							if (i+j)%4 != 0 { // a quarter of the cells shows the axes
								continue
							}
							want := exact(layer.Temperatures{Act: act, Ens: tau * f.MedianVariance})
							if !approx.Equal(v, want, gridTolerance*math.Max(1, want)) {
								t.Errorf("grid at T_act %.3g, τ %.3g: NLL %v, want %v", act, tau, v, want)
							}
						}
					}
					if got > least+gridTolerance {
						t.Errorf("NLL %v, on the grid %v", got, least)
					}
					plainAt := func(temperature float64) float64 {
						logp, rest := Plain(h, val.Logits, n, temperature)
						return objective(h, logp, rest, val)
					}
					ts, plain := plainAt(f.TS), plainAt(1)
					if got > ts+1e-3 || ts > plain {
						t.Errorf("NLL %v, of temperature scaling %v, of plain %s %v", got, ts, h.Link, plain)
					}
					if got > ts-0.05 {
						t.Errorf("NLL %v, of temperature scaling %v: variances should help here", got, ts)
					}

					under := f.Calibration
					under.OOD = f.NLL
					best, second := auroc(t, &f.Calibration, val, task.ood), auroc(t, &under, val, task.ood)
					if best < second-ridge-gridTolerance {
						t.Errorf("AUROC %v under its own temperatures, %v under those for likelihood", best, second)
					}
					for i, row := range f.AUROCGrid.Value {
						for j, v := range row {
							if best < v-ridge-gridTolerance {
								t.Errorf("AUROC %v, at T_act %.3g, τ %.3g of the grid %v", best, f.AUROCGrid.Act[i], f.AUROCGrid.Tau[j], v)
							}
						}
					}
					if !f.OODTuned {
						t.Error("OODTuned is false")
					}
				})
			}
		}
	}
}

// optimum returns the temperatures of the least NLL, before preference, and by
// how much NLL is larger at the chosen, with its standard error.
func (f *Fitted) optimum(t *testing.T, val *rows.Batch) (pair layer.Temperatures, loss, stdErr float64) {
	t.Helper()
	o := FitOptions{Lambda0: meanfield.Lambda0, KeepClass: f.Choice.KeepClass}
	s, err := fitSimple(t.Context(), f.Posterior.Head, val, &o)
	if err != nil {
		t.Fatal(err)
	}
	set, unit := s.t, s.t.unit
	copy(set.s2, f.Posterior.variancesOf(val))
	_, best, err := tuneNLL(t.Context(), &set.examples, f.MedianVariance, f.Lambda0)
	if err != nil {
		t.Fatal(err)
	}
	if got, least := mean(set.nll[0]), f.chosen(t).NLL; got != least {
		t.Errorf("NLL %v, of the candidate %v", got, least)
	}
	base := set.losses(0)
	set.evaluate([]float64{f.NLL.Act / unit}, f.NLL.Ens)
	loss, stdErr = pairedGain(set.losses(0), base)
	return layer.Temperatures{Act: best.act * unit, Ens: best.tau * f.MedianVariance}, loss, stdErr
}

// chosen returns the candidate whose damping the posterior has.
func (f *Fitted) chosen(t *testing.T) Candidate {
	t.Helper()
	i := slices.IndexFunc(f.Candidates, func(c Candidate) bool { return c.Epsilon == f.Posterior.Epsilon })
	if i < 0 || f.Candidates[i].Rho != f.Rho {
		t.Fatalf("ρ = %v, ε = %v is none of the candidates %+v", f.Rho, f.Posterior.Epsilon, f.Candidates)
	}
	return f.Candidates[i]
}

// alwaysRight returns examples whose label has the largest logit, by a little.
func alwaysRight(h layer.Head, n int) *rows.Batch {
	s := randomSet(h, n, 1, 813)
	clear(s.Logits)
	for i, y := range s.Labels {
		logitsOf(s, i)[y] = 0.5
	}
	return s
}

// twoMinima returns examples of two kinds, each with two positive logits: of one
// these are a hundred times as large, and so is the T that is best for it.
func twoMinima(h layer.Head, n int) *rows.Batch {
	s := randomSet(h, n, 1, 817)
	for i, y := range s.Labels {
		a := logitsOf(s, i)
		for k := range a {
			a[k] = -1000
		}
		a[y], a[(y+1)%h.Logits] = 20, 10
		if i%2 == 0 {
			a[y], a[(y+1)%h.Logits] = 0.2, 0.1
		}
	}
	return s
}

func TestTemperatureScalingIsTheBestOfAllTemperatures(t *testing.T) {
	t.Parallel()
	softmax := layer.Head{Logits: 5, Features: 4, Link: layer.Softmax}
	sigmoid := layer.Head{Logits: 1, Features: 4, Link: layer.Sigmoid}
	multi := layer.Head{Logits: 5, Features: 4, Link: layer.Sigmoid}
	rest := layer.Head{Logits: 5, Features: 4, Link: layer.OneVsRest}
	for name, s := range map[string]struct {
		head layer.Head
		set  *rows.Batch
	}{
		"overconfident":  {softmax, newMixture(softmax, 2, 7, 810).draw(400, 0)},
		"underconfident": {softmax, newMixture(softmax, 2, 0.1, 811).draw(400, 0)},
		"sigmoid":        {sigmoid, newMixture(sigmoid, 1, 3, 812).draw(400, 0)},
		"multi-label":    {multi, newMixture(multi, 1, 3, 815).draw(200, 0)},
		"one-vs-rest":    {rest, newMixture(rest, 2, 4, 816).draw(400, 0)},
		"two minima":     {rest, twoMinima(rest, 300)},
		"always right":   {softmax, alwaysRight(softmax, 100)},        // the coldest
		"noise":          {softmax, randomSet(softmax, 100, 30, 814)}, // the hottest
	} {
		n := s.set.N
		value := func(temperature float64) float64 {
			logp, rest := Plain(s.head, s.set.Logits, n, temperature)
			return objective(s.head, logp, rest, s.set)
		}
		got, _, err := newTuningSet(s.head, nil, s.set, true, meanfield.Lambda0, 1).temperatureScaling(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		best, least := 0.0, math.Inf(1)
		for _, temperature := range logSpace(minTS, maxTS, 1200) {
			if v := value(temperature); v < least {
				best, least = temperature, v
			}
		}
		if value(got) > least+1e-6 {
			t.Errorf("%s: T = %v with NLL %v, want %v with %v", name, got, value(got), best, least)
		}
		if got < minTS || got > maxTS {
			t.Errorf("%s: T = %v, outside [%v, %v]", name, got, minTS, maxTS)
		}
	}
}

func TestMedianIsTheMiddleOfTheSorted(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(910, 1))
	for n := 1; n < 200; n++ {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(rng.IntN(1 + n*(n%3))) // with ties, and all the same
		}
		before := slices.Clone(x)
		got := median(x)
		if !slices.Equal(x, before) {
			t.Fatal("the argument has changed")
		}
		slices.Sort(before)
		if got != before[n/2] {
			t.Errorf("median %v of %v", got, before)
		}
	}
	if got := median([]float64{math.NaN(), math.NaN()}); !math.IsNaN(got) {
		t.Errorf("median %v of NaN", got)
	}
}

func TestAUROCPairTakesTheLargestTauOfTheRidge(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 4, Features: 6, Bias: true, Link: layer.Softmax}
	task := newTask(h, 820)
	c := accumulate(t, CurvatureConfig{Head: h}, task.train, 0)
	p := mustPosterior(t, c, Hessian, 1)
	val, ood := newTuningSet(h, nil, task.val, true, meanfield.Lambda0, 1), newTuningSet(h, nil, task.ood, false,
		meanfield.Lambda0, 1)
	copy(val.s2, p.variancesOf(task.val))
	copy(ood.s2, p.variancesOf(task.ood))
	mid := median(val.s2)
	g, best, err := tuneAUROC(t.Context(), &val.examples, &ood.examples, mid, meanfield.Lambda0)
	if err != nil {
		t.Fatal(err)
	}
	at := func(act, tau float64) float64 {
		return -aurocSearch(&val.examples, &ood.examples, mid, meanfield.Lambda0).values([]float64{act}, tau)[0]
	}
	highest := at(best.act, best.tau)
	for i, act := range g.Act {
		for j, tau := range g.Tau {
			v := g.Value[i][j]
			if v != at(act, tau) {
				t.Errorf("grid at T_act %v, τ %v: %v, want %v", act, tau, v, at(act, tau))
			}
			if v > highest+ridge {
				t.Errorf("grid at T_act %v, τ %v: %v, the chosen pair has %v", act, tau, v, highest)
			}
			if v >= highest+ridge/2 && tau > best.tau {
				t.Errorf("τ = %v was taken, but τ = %v is as good", best.tau, tau)
			}
		}
	}
}

func TestAnotherDampingNeedsAStandardError(t *testing.T) {
	t.Parallel()
	base := Candidate{Rho: 1, NLL: 0.5}
	for _, test := range []struct {
		candidate, chosen Candidate
		want              bool
	}{
		{Candidate{Rho: 10, NLL: 0.49, Gain: 0.01, StdErr: 0.02}, base, false},
		{Candidate{Rho: 10, NLL: 0.49, Gain: 0.01, StdErr: 0.01}, base, false},
		{Candidate{Rho: 10, NLL: 0.49, Gain: 0.01, StdErr: 0.009}, base, true},
		{Candidate{Rho: 10, NLL: 0.51, Gain: -0.01, StdErr: 0.001}, base, false},
		{Candidate{Rho: 10, NLL: 0.5}, base, false},
		{Candidate{Rho: 10, NLL: 0.4999995, Gain: 5e-7, StdErr: 1e-7}, base, false}, // rounding
		// Against another that has passed, the lower NLL wins.
		{Candidate{Rho: 0.1, NLL: 0.48, Gain: 0.02, StdErr: 0.01}, Candidate{Rho: 10, NLL: 0.49, Gain: 0.01,
			StdErr: 0.001}, true},
		{Candidate{Rho: 0.1, NLL: 0.495, Gain: 0.005, StdErr: 0.001}, Candidate{Rho: 10, NLL: 0.49, Gain: 0.01,
			StdErr: 0.001}, false},
		{Candidate{Rho: 0.1, NLL: 0.48, Gain: 0.02, StdErr: 0.03}, Candidate{Rho: 10, NLL: 0.49, Gain: 0.01,
			StdErr: 0.001}, false},
	} {
		if got := test.candidate.beats(test.chosen); got != test.want {
			t.Errorf("%+v beats %+v: %v, want %v", test.candidate, test.chosen, got, test.want)
		}
	}
}

func TestPairedGainIsMeanAndStandardErrorOfDifferences(t *testing.T) {
	t.Parallel()
	a, b := []float64{1, 5, 2, 8}, []float64{0, 5, 3, 4}
	// Differences 1, 0, -1, 4: mean 1, squared deviations 0 + 1 + 4 + 9 = 14.
	gain, stdErr := pairedGain(a, b)
	if !approx.Equal(gain, 1, 1e-15) || !approx.Equal(stdErr, math.Sqrt(14./3/4), 1e-15) {
		t.Errorf("%v ± %v, want 1 ± %v", gain, stdErr, math.Sqrt(14./3/4))
	}
	if gain, stdErr := pairedGain(a[:1], b[:1]); gain != 1 || stdErr != 0 {
		t.Errorf("of one example: %v ± %v, want 1 ± 0", gain, stdErr)
	}
}

// offPlane is a task for little damping: the training set lies in half of the
// dimensions, and validation examples outside of them have labels by chance.
func offPlane(h layer.Head, seed uint64) task {
	t := newTask(h, seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	half := h.Features / 2
	for _, s := range []*rows.Batch{t.train, t.val} {
		for i := range s.N {
			clear(phiOf(s, i)[half:])
		}
	}
	for i := range t.val.N {
		if i%5 == 0 {
			for j := half; j < h.Features; j++ {
				phiOf(t.val, i)[j] = float32(rng.NormFloat64())
			}
			t.val.Labels[i] = rng.IntN(h.Classes())
		}
	}
	return t
}

func TestDampingIsChosenByValidationLikelihood(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 4, Features: 8, Bias: true, Link: layer.Softmax}
	for name, test := range map[string]struct {
		task task
		rho  float64
	}{
		"ρ = 1 is as good as any": {task{train: newMixture(h, 3, 2, 830).draw(700, 0), val: newMixture(h, 3, 2, 831).draw(100, 0)}, 1},
		"less is better":          {offPlane(h, 832), 0.01},
	} {
		for _, structure := range []Structure{Full, Kronecker} {
			c := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, test.task.train, 0)
			f := fit(t, c, test.task.val, nil, FitOptions{})
			unit, err := c.MeanEigenvalue(Hessian)
			if err != nil {
				t.Fatal(err)
			}
			if f.Rho != test.rho {
				t.Errorf("%s, %s: ρ = %v of %+v, want %v", name, structure, f.Rho, f.Candidates, test.rho)
			}
			want := f.Candidates[0]
			for i, candidate := range f.Candidates {
				if candidate.Epsilon != candidate.Rho*unit {
					t.Errorf("%s, %s: ε = %v of ρ = %v, mean eigenvalue %v", name, structure, candidate.Epsilon, candidate.Rho, unit)
				}
				if i > 0 && candidate.Gain > math.Max(candidate.StdErr, 1e-5) && candidate.NLL < want.NLL {
					want = candidate
				}
				// The gain is the difference of the two means.
				if gain := f.Candidates[0].NLL - candidate.NLL; !approx.Equal(candidate.Gain, gain, 1e-9) {
					t.Errorf("%s, %s: gain %v at ρ = %v, NLL is lower by %v", name, structure, candidate.Gain, candidate.Rho, gain)
				}
			}
			if got := f.chosen(t); got != want {
				t.Errorf("%s, %s: chose %+v, want %+v", name, structure, got, want)
			}
			if f.Candidates[0].Rho != standard || f.Candidates[0].StdErr != 0 || len(f.Candidates) != 4 {
				t.Errorf("%s, %s: candidates %+v", name, structure, f.Candidates)
			}
			// What is kept belongs to the chosen, not to the last that was tried.
			again := fit(t, c, test.task.val, nil, FitOptions{Damping: Damping{Relative: f.Rho}})
			if !reflect.DeepEqual(again.Calibration, f.Calibration) || !reflect.DeepEqual(again.NLLGrid, f.NLLGrid) ||
				again.MedianVariance != f.MedianVariance {
				t.Errorf("%s, %s: fitted with ρ = %v alone differs", name, structure, f.Rho)
			}
			if _, loss, stdErr := f.optimum(t, test.task.val); loss > stdErr {
				t.Errorf("%s, %s: NLL is %v above the optimum, more than its standard error %v", name, structure, loss, stdErr)
			}
		}
	}
}

func TestAGivenDampingIsUsed(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 4, Link: layer.Softmax}
	task := newTask(h, 840)
	c := accumulate(t, CurvatureConfig{Head: h, Fisher: true}, task.train, 0)
	for _, cov := range covariances {
		unit, err := c.MeanEigenvalue(cov)
		if err != nil {
			t.Fatal(err)
		}
		for damping, epsilon := range map[Damping]float64{
			{Absolute: 1}:   1,
			{Absolute: 0.3}: 0.3,
			{Relative: 1}:   unit,
			{Relative: 3}:   3 * unit,
		} {
			f := fit(t, c, task.val, nil, FitOptions{Covariance: cov, Damping: damping})
			if f.Posterior.Epsilon != epsilon || f.Posterior.Covariance != cov || len(f.Candidates) != 1 {
				t.Errorf("%s %v: ε = %v of %s, %d candidates; want %v", cov, damping, f.Posterior.Epsilon, f.Posterior.Covariance, len(f.Candidates), epsilon)
			}
			if !approx.Relative(f.Rho*unit, epsilon, 1e-12) {
				t.Errorf("%s %v: ρ = %v, want %v", cov, damping, f.Rho, epsilon/unit)
			}
		}
	}
}

func TestFitWithoutOutOfDistributionData(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 4, Link: layer.Softmax}
	task := newTask(h, 850)
	f := fit(t, accumulate(t, CurvatureConfig{Head: h}, task.train, 0), task.val, nil, FitOptions{})
	if f.OOD != f.NLL || f.OODTuned || f.AUROCGrid.Value != nil {
		t.Errorf("OOD %v, NLL %v, tuned %v, grid %v", f.OOD, f.NLL, f.OODTuned, f.AUROCGrid)
	}
	if f.Lambda0 != meanfield.Lambda0 || f.Posterior.Covariance != Hessian {
		t.Errorf("zero options: λ₀ = %v, covariance %s", f.Lambda0, f.Posterior.Covariance)
	}
}

func TestFitIsDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	// Large enough for the matrix products to be cut for many processors.
	h := layer.Head{Logits: 70, Features: 80, Bias: true, Link: layer.Softmax}
	task := newTask(h, 860)
	var fitted []*Fitted
	for _, processors := range []int{1, 4} {
		runtime.GOMAXPROCS(processors)
		c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, task.train, 0)
		fitted = append(fitted, fit(t, c, task.val, task.ood, FitOptions{Covariance: Sandwich,
			Damping: Damping{Relative: 1}}))
	}
	for _, f := range fitted[1:] {
		if !reflect.DeepEqual(f, fitted[0]) {
			t.Errorf("fitted %+v and %+v", f.Candidates, fitted[0].Candidates)
		}
	}
}

func TestVariancesThatDoNotHelpLeaveTemperatureScaling(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax}
	m := newMixture(h, 2, 3, 870) // overconfident alike everywhere
	c := accumulate(t, CurvatureConfig{Head: h}, m.draw(700, 0), 0)
	val := m.draw(2000, 0)
	f := fit(t, c, val, nil, FitOptions{Damping: Damping{Relative: 1}})
	if f.Method != TS {
		t.Errorf("τ = %v, served by %s", f.NLL.Ens/f.MedianVariance, f.Choice)
	}

	// Features noisier than the head was made for, by a factor that varies little:
	// the logits of some examples are too large by more than those of others.
	noisy := m.draw(2000, 0)
	for i, y := range noisy.Labels {
		scale := math.Exp(0.3 * m.rng.NormFloat64())
		for j, v := range phiOf(noisy, i) {
			center := m.means[int(y)*h.Features+j]
			phiOf(noisy, i)[j] = float32(center + scale*(float64(v)-center))
		}
	}
	m.relogit(noisy)
	f = fit(t, c, noisy, nil, FitOptions{Damping: Damping{Relative: 1}})
	pair, _, _ := f.optimum(t, noisy)
	if tau := pair.Ens / f.MedianVariance; f.Method != MF0 || !(tau < 10) {
		t.Errorf("τ = %v, want less than 10; variances help, and it is served by %s", tau, f.Choice)
	}
}

func TestRatioIsTheLargestOfTemperatureRatios(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 4, Features: 6, Bias: true, Link: layer.Softmax}
	var beyond [2]bool // for each of them, was it ever the larger?
	for seed := range uint64(4) {
		task := newTask(h, 880+seed)
		if seed%2 == 1 { // few examples, among which the largest ratio is hardly found
			const few = 5
			task.val = task.val.Slice(0, few)
		}
		f := fit(t, accumulate(t, CurvatureConfig{Head: h}, task.train, 0), task.val, task.ood,
			FitOptions{Damping: Damping{Relative: 1}})
		var largest [2]float64 // in and out of distribution
		for in, set := range []*rows.Batch{task.val, task.ood} {
			s2 := f.Posterior.variancesOf(set)
			for i := range set.N {
				for _, pair := range []layer.Temperatures{f.NLL, f.OOD} {
					for k := range h.Logits {
						for l := range h.Logits {
							a, b := s2[i*h.Logits+k]/pair.Ens, s2[i*h.Logits+l]/pair.Ens
							largest[in] = math.Max(largest[in], math.Sqrt((1+f.Lambda0*a)/(1+f.Lambda0*b)))
						}
					}
				}
			}
		}
		for in := range largest {
			beyond[in] = beyond[in] || largest[in] > largest[1-in]
		}
		if want := math.Max(largest[0], largest[1]); !approx.Relative(f.Ratio, want, 1e-12) || want < 1.1 {
			t.Errorf("Ratio %v, want %v", f.Ratio, want)
		}
	}
	if beyond != [2]bool{true, true} {
		t.Errorf("the largest ratio came in and out of distribution: %v, want both", beyond)
	}
}

func TestProgressOfFitRisesToTheEnd(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 4, Link: layer.Softmax}
	task := newTask(h, 890)
	c := accumulate(t, CurvatureConfig{Head: h}, task.train, 0)
	for _, ood := range []*rows.Batch{nil, task.ood} {
		var seen []int
		total := 0
		fit(t, c, task.val, ood, FitOptions{Progress: func(stage string, done, of int) {
			if stage == "scores" && done <= of { // what follows
				return
			}
			if stage != "tuning" || total != 0 && of != total {
				t.Errorf("stage %q, %d of %d after %d", stage, done, of, total)
			}
			seen, total = append(seen, done), of
		}})
		for i, done := range seen {
			if done != i {
				t.Errorf("progress %v of %d", seen, total)
			}
		}
		if seen[len(seen)-1] != total {
			t.Errorf("ended at %d of %d", seen[len(seen)-1], total)
		}
	}
}

func TestFitRefusesBadData(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 4, Link: layer.Softmax}
	c := accumulate(t, CurvatureConfig{Head: h}, randomSet(h, 50, 1, 900), 0)
	good := func() *rows.Batch { return randomSet(h, 20, 1, 901) }
	bad := func(f func(*rows.Batch)) *rows.Batch {
		s := good()
		f(s)
		return s
	}
	nan := float32(math.NaN())
	for _, test := range []struct {
		val, ood *rows.Batch
		o        FitOptions
		want     string
	}{
		{&rows.Batch{}, nil, FitOptions{}, "validation data: no examples"},
		{nil, nil, FitOptions{}, "validation data: no examples"},
		{good(), &rows.Batch{}, FitOptions{}, "out-of-distribution data: no examples"},
		{bad(func(s *rows.Batch) { s.Labels = nil }), nil, FitOptions{}, "validation data: 0 labels for 20 examples"},
		{bad(func(s *rows.Batch) { s.Labels = s.Labels[1:] }), nil, FitOptions{}, "validation data: 19 labels for 20 examples"},
		{bad(func(s *rows.Batch) { s.Labels[3] = 3 }), nil, FitOptions{}, "validation data: example 3 has label 3, want 0 to 2"},
		{bad(func(s *rows.Batch) { s.Labels[3] = -1 }), nil, FitOptions{}, "validation data: example 3 has no label"},
		{bad(func(s *rows.Batch) { s.Logits[17] = nan }), nil, FitOptions{}, "validation data: example 5: logit 2 is NaN"},
		{bad(func(s *rows.Batch) { s.Features[17] = nan }), nil, FitOptions{}, "validation data: example 4: feature 1 is NaN"},
		{bad(func(s *rows.Batch) { s.Features = s.Features[1:] }), nil, FitOptions{}, "validation data: 79 features and 60 logits for 20 examples, want 4 and 3 each"},
		{bad(func(s *rows.Batch) { s.Logits = s.Logits[1:] }), nil, FitOptions{}, "validation data: 80 features and 59 logits"},
		{good(), bad(func(s *rows.Batch) { s.Features[0] = nan }), FitOptions{}, "out-of-distribution data: example 0: feature 0 is NaN"},
		{good(), nil, FitOptions{Covariance: Fisher}, "fisher covariance needs the Fisher matrix"},
		{good(), nil, FitOptions{Covariance: "x"}, `Covariance "x"`},
		{good(), nil, FitOptions{Damping: Damping{Absolute: -1}}, "Damping -1"},
		{good(), nil, FitOptions{Damping: Damping{Relative: math.NaN()}}, "Damping NaN"},
		{good(), nil, FitOptions{Damping: Damping{Absolute: 1, Relative: 1}}, "both"},
		{bad(func(s *rows.Batch) { clear(s.Features) }), nil, FitOptions{}, "if all features or the curvature"},
	} {
		f, err := Fit(t.Context(), c, test.val, test.ood, test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) || f != nil {
			t.Errorf("error %v, want %q", err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("error of several lines: %v", err)
		}
	}
	multi := layer.Head{Logits: 3, Features: 4, Link: layer.Sigmoid}
	cm := accumulate(t, CurvatureConfig{Head: multi}, randomSet(multi, 50, 1, 902), 0)
	for want, change := range map[string]func(*rows.Batch){
		"0 targets for 20 examples: every example needs 3": func(s *rows.Batch) { s.Targets, s.Labels = nil, make([]int, 20) },
		"59 targets for 20 examples":                       func(s *rows.Batch) { s.Targets = s.Targets[1:] },
		"example 6: target 1 is 3, want 0 or 1":            func(s *rows.Batch) { s.Targets[19] = 3 },
	} {
		val := randomSet(multi, 20, 1, 903)
		change(val)
		if _, err := Fit(t.Context(), cm, val, nil, FitOptions{}); err == nil ||
			!strings.HasPrefix(err.Error(), "validation data: "+want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	unlabelled := good()
	unlabelled.Labels = nil
	fit(t, c, good(), unlabelled, FitOptions{Damping: Damping{Relative: 1}})
	labelled := good() // labels of out-of-distribution examples are no matter
	labelled.Labels[0] = 99
	fit(t, c, good(), labelled, FitOptions{Damping: Damping{Relative: 1}})
}

// Every training probability is 0 or 1 to the last bit: H is zero.
func TestFitOnCurvatureOfZero(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 4, Link: layer.Softmax}
	train := randomSet(h, 50, 1, 910)
	for i := range train.N {
		copy(logitsOf(train, i), []float32{0, 2000, -2000})
	}
	val := newMixture(h, 2, 1, 911).draw(50, 0)
	for _, structure := range []Structure{Full, Kronecker} {
		c := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, train, 0)
		if _, err := Fit(t.Context(), c, val, nil, FitOptions{}); err == nil || !strings.Contains(err.Error(), "give an absolute damping") {
			t.Errorf("%s: error %v", structure, err)
		}
		f := fit(t, c, val, nil, FitOptions{Damping: Damping{Absolute: 1}})
		if f.Rho != 0 || f.Candidates[0].Rho != 0 || f.Posterior.Epsilon != 1 {
			t.Errorf("%s: ρ = %v, ε = %v, want 0 and 1", structure, f.Rho, f.Posterior.Epsilon)
		}
		// Σ is the identity: every variance is |φ|².
		for i, v := range f.Posterior.variancesOf(val) {
			var norm float64
			for _, x := range phiOf(val, i/h.Logits) {
				norm += float64(x) * float64(x)
			}
			if !approx.Relative(v, norm, 1e-12) {
				t.Fatalf("%s: variance %v, want %v", structure, v, norm)
			}
		}
	}
}

func TestDampingIsReadAndWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Damping{
		"":           {},
		"auto":       {},
		"1":          {Absolute: 1},
		"0.25":       {Absolute: 0.25},
		"1e-9":       {Absolute: 1e-9},
		"rel:1":      {Relative: 1},
		"rel:0.001":  {Relative: 0.001},
		"rel:2.5e+3": {Relative: 2500},
	} {
		got, err := ParseDamping(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if again, err := ParseDamping(got.String()); err != nil || again != got {
			t.Errorf("%q, written %q, is read as %+v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"0", "-1", "NaN", "Inf", "+Inf", "1e999", "rel:", "rel:0", "rel:-1", "rel:auto", "Auto", "1 ", "1,5", "rel:rel:1", "relative"} {
		if got, err := ParseDamping(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) ||
			got != (Damping{}) {
			t.Errorf("%q: %+v, error %v", text, got, err)
		}
	}
	rng := rand.New(rand.NewPCG(920, 1))
	for range 1000 {
		want := Damping{Absolute: math.Exp(20 * rng.NormFloat64())}
		if rng.IntN(2) == 0 {
			want = Damping{Relative: want.Absolute}
		}
		if got, err := ParseDamping(want.String()); err != nil || got != want {
			t.Fatalf("%+v, written %q, is read as %+v, %v", want, want, got, err)
		}
	}
}

func TestFitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("enough")
	h := layer.Head{Logits: 3, Features: 4, Link: layer.Softmax}
	m := newMixture(h, 2, 1, 920)
	c := accumulate(t, CurvatureConfig{Head: h}, m.draw(100, 0), 0)
	_, err := Fit(ctx, c, m.draw(50, 0), nil, FitOptions{Progress: func(_ string, done, _ int) {
		if done == 1 {
			cancel(because)
		}
	}})
	if !errors.Is(err, because) {
		t.Errorf("error %v, want %v", err, because)
	}
}

// A usual validation example, under the temperatures for OOD detection, scores ½.
func TestTheUsualExampleScoresAHalf(t *testing.T) {
	t.Parallel()
	for _, h := range []layer.Head{
		{Logits: 4, Features: 6, Bias: true, Link: layer.Softmax}, {Logits: 1, Features: 6, Bias: true,
			Link: layer.Sigmoid}, {Logits: 3, Features: 6, Bias: true, Link: layer.Sigmoid},
	} {
		task := newTask(h, 3).thinned(5)
		c := accumulate(t, CurvatureConfig{Head: h, Structure: Full}, task.train, 0)
		for _, s := range score.All {
			if s.NeedsFitting() || !s.Suits(h) {
				continue
			}
			f := fit(t, c, task.val, task.ood, FitOptions{Damping: Damping{Relative: 1}, Score: s.Name})
			if f.OOD == f.NLL {
				t.Errorf("%+v: the pairs are the same, which tells nothing", h)
			}
			n := task.val.N
			p := f.Predict(task.val.Features, task.val.Logits, n)
			if got := median(p.OODScore); !approx.Equal(got, 0.5, 1e-9) || f.Score.Name != s.Name {
				t.Errorf("%+v, %s: the median of %d scores is %v, want 1/2", h, f.Score.Name, n, got)
			}
			if got := median(p.OODPercentile); !approx.Equal(got, 0.5, 1.0/float64(n)) {
				t.Errorf("%+v, %s: the median of %d percentiles is %v, want 1/2", h, s.Name, n, got)
			}
		}
	}
}
