package calibrate

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// predictive is mf0 of a set or, without a spread, its softmax, as any method's.
type predictive struct {
	h      layer.Head
	logits []float64
	s2     []float64
	spread float64
}

func (p *predictive) Len() int                { return len(p.logits) / p.h.Logits }
func (p *predictive) Probabilities() int      { return p.h.Logits }
func (p *predictive) MedianVariance() float64 { return p.spread }

func (p *predictive) Predictor() func(logp []float64, i int, t layer.Temperatures) float64 {
	e, k := newEvaluator(p.h, 0), p.h.Logits
	return func(logp []float64, i int, t layer.Temperatures) float64 {
		if p.spread == 0 {
			return e.plain(logp, p.logits[i*k:(i+1)*k], t.Act)
		}
		return e.mf0(logp, p.logits[i*k:(i+1)*k], p.s2[i*k:(i+1)*k], t)
	}
}

// resampled is a predictive that says its T_ens is costly.
type resampled struct {
	*predictive
	ens  map[float64]bool
	fail error
}

func (r *resampled) SetEns(ens float64) error {
	r.ens[ens] = true
	return r.fail
}

var tuneHead = layer.Head{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax}

// fittedTask is a task, its fit, and its validation sets as mf0 predicts them.
func fittedTask(t *testing.T) (task task, f *Fitted, val, ood *predictive) {
	t.Helper()
	task = newTask(tuneHead, 5)
	c := accumulate(t, CurvatureConfig{Head: tuneHead}, task.train, 0)
	f = fit(t, c, task.val, task.ood, FitOptions{KeepClass: true})
	of := func(s *rows.Batch) *predictive {
		logits := mapped(nil, tuneHead.Logits, s.Logits)
		return &predictive{tuneHead, logits, f.Posterior.variancesOf(s), f.MedianVariance}
	}
	return task, f, of(task.val), of(task.ood)
}

func TestTuneFindsWhatFitFinds(t *testing.T) {
	t.Parallel()
	task, f, val, ood := fittedTask(t)
	limit := limitOf(task.val, f.TS)
	got, err := Tune(t.Context(), val, task.val.Labels, ood, limit)
	if err != nil {
		t.Fatal(err)
	}
	// Fit's curves are good to 1e-7, which moves the end of a flat search.
	for name, pair := range map[string][2]layer.Temperatures{"nll": {got.NLL, f.NLL}, "optimum": {got.Optimum, f.Optimum}} {
		c := &Calibration{Posterior: f.Posterior, OOD: f.OOD}
		at := func(p layer.Temperatures) float64 {
			c.NLL = p
			return nll(tuneHead, c.Predict(task.val.Features, task.val.Logits, val.Len()).LogP, task.val)
		}
		if a, b := at(pair[0]), at(pair[1]); !approx.Equal(a, b, 1e-5*b) {
			t.Errorf("%s: NLL %v at %v, Fit's %v at %v", name, a, pair[0], b, pair[1])
		}
	}
	c := Calibration{Posterior: f.Posterior, NLL: f.NLL, OOD: got.OOD}
	a, b := auroc(t, &c, task.val, task.ood), auroc(t, &f.Calibration, task.val, task.ood)
	if !approx.Equal(a, b, 2*ridge) {
		t.Errorf("AUROC %v at %v, Fit's %v at %v", a, got.OOD, b, f.OOD)
	}
	if !got.OODTuned {
		t.Error("not tuned to tell apart")
	}
}

// limitOf is what tuning may not exceed: the objective of temperature scaling.
func limitOf(s *rows.Batch, temperature float64) float64 {
	logp, margin := Plain(tuneHead, s.Logits, s.N, temperature)
	each := make([]float64, len(margin))
	for i, y := range s.Labels {
		each[i] = -logp[i*tuneHead.Logits+y]
	}
	return ScalingLimit(each, margin, tuneHead.Logits)
}

func TestTuneWithoutSpreadIsTemperatureScaling(t *testing.T) {
	t.Parallel()
	task, f, val, ood := fittedTask(t)
	val.spread, ood.spread = 0, 0
	got, err := Tune(t.Context(), val, task.val.Labels, ood, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !approx.Equal(math.Log(got.NLL.Act/f.TS), 0, 2e-3) || got.NLL.Ens != 1 {
		t.Errorf("temperatures %v, want T_act %v and T_ens 1", got.NLL, f.TS)
	}
	best := at(t, val, ood, f.TSOOD)
	if a := at(t, val, ood, got.OOD.Act); !approx.Equal(a, best, 2*ridge) {
		t.Errorf("AUROC %v at T_act %v, Fit's %v at %v", a, got.OOD.Act, best, f.TSOOD)
	}
	for _, act := range logSpace(minAct, maxAct, 40) {
		if a := at(t, val, ood, act); a > best+1e-3 {
			t.Errorf("AUROC %v at T_act %v, at the chosen %v only %v", a, act, f.TSOOD, best)
		}
	}
}

func meanNLL(val *examples, act, ens float64) float64 {
	return nllSearch(val, 1, 0).values([]float64{act}, ens)[0]
}

func aurocOf(val, ood *examples, act float64) float64 {
	return -aurocSearch(val, ood, 1, 0).values([]float64{act}, 1)[0]
}

// at is the AUROC at a T_act.
func at(t *testing.T, val, ood *predictive, act float64) float64 {
	t.Helper()
	a := aurocOf(predicted(t.Context(), val, nil, 1, 1), predicted(t.Context(), ood, nil, 1, 1), act)
	if math.IsNaN(a) {
		t.Fatalf("no AUROC at T_act %v", act)
	}
	return a
}

func TestTuneSearchesCostlySpreadsOnTheGrid(t *testing.T) {
	t.Parallel()
	task, f, val, _ := fittedTask(t)
	ens := map[float64]bool{}
	got, err := Tune(t.Context(), &resampled{val, ens, nil}, task.val.Labels, nil, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(ens) != gridSize || !ens[got.NLL.Ens] || !ens[got.Optimum.Ens] {
		t.Errorf("%d T_ens tried, %v chosen, want %d and one of them", len(ens), got.NLL, gridSize)
	}
	if got.OOD != got.NLL || got.OODTuned {
		t.Errorf("%v is for telling apart, and there was nothing to tell", got.OOD)
	}
	e := predicted(t.Context(), val, task.val.Labels, 1, 1)
	best := meanNLL(e, got.Optimum.Act, got.Optimum.Ens)
	for _, tau := range logSpace(minTau, maxTau, gridSize) {
		for _, act := range logSpace(minAct, maxAct, 25) {
			if v := meanNLL(e, act, tau*f.MedianVariance); v < best-1e-6 {
				t.Errorf("NLL %v at T_act %v, τ %v, at the optimum %v", v, act, tau, best)
			}
		}
	}
	if given := meanNLL(e, got.NLL.Act, got.NLL.Ens) - best; given > maxGivenUp*best {
		t.Errorf("%v of %v given up", given, best)
	}
}

func TestTuneReports(t *testing.T) {
	t.Parallel()
	task, _, val, ood := fittedTask(t)
	ended, cancel := context.WithCancelCause(t.Context())
	stop, broken := errors.New("stopped"), errors.New("no memory")
	cancel(stop)
	empty := &predictive{h: tuneHead, spread: 1}
	labels := task.val.Labels
	bad := append([]int{}, labels...)
	bad[7] = 3
	infinite := *val
	infinite.spread = math.Inf(1)
	negative := *val
	negative.spread = 0
	for name, c := range map[string]struct {
		ctx      context.Context
		val, ood Predictive
		labels   []int
		want     string
	}{
		"labels that are too few": {t.Context(), val, ood, labels[1:], "labels for"},
		"a label out of range":    {t.Context(), val, ood, bad, "example 7 has label 3, want 0 to 2"},
		"no examples":             {t.Context(), empty, nil, nil, "0 labels for 0 examples"},
		"nothing to tell":         {t.Context(), val, empty, labels, "out-of-distribution data: no examples"},
		"infinite spread":         {t.Context(), &infinite, nil, labels, "validation data is +Inf"},
		"the end, in both":        {ended, val, ood, labels, "stopped"},
		"the end, in one":         {ended, &negative, nil, labels, "stopped"},
		"the end, on the grid":    {ended, &resampled{val, map[float64]bool{}, nil}, nil, labels, "stopped"},
		"a method that fails":     {t.Context(), &resampled{val, map[float64]bool{}, broken}, nil, labels, "no memory"},
	} {
		_, err := Tune(c.ctx, c.val, c.labels, c.ood, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// Networks that are sure have 1 - max p far below what is not zero: they are still separated.
func TestScoresOfTuningDoNotUnderflow(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 1, Link: layer.Softmax}
	logits := []float32{0, 1900, 2000, 0, 1900, 2001, 1900, 1900, 2001}
	s := &rows.Batch{N: 3, Features: make([]float32, 3), Logits: logits}
	mf0 := newTuningSet(h, nil, s, false, meanfield.Lambda0, 1) // with variances of zero
	for name, e := range map[string]*examples{
		"mf0": &mf0.examples, "another method": predicted(t.Context(), &predictive{h: h, logits: mapped(nil, 3, logits)}, nil, 1, 1),
		"temperature scaling": plainExamples(h, nil, s, 1),
	} {
		for _, act := range []float64{1, 0.05, 20} {
			e.evaluate([]float64{act}, 1)
			// The logit of the most probable class less the log of the mean exponential of the others.
			for i, w := range []float64{100/act + math.Ln2, 101/act + math.Ln2, 101 / act} {
				if got := e.margin[0][i]; !approx.Relative(got, w, 1e-5) {
					t.Errorf("%s at T_act %v: the margin of example %d is %v, want %v", name, act, i, got, w)
				}
			}
		}
	}
}

// manyExamples are so many that some show where to search all, with what mf0 makes of them.
func manyExamples(t *testing.T) (set *rows.Batch, val, ood *predictive, spread float64) {
	t.Helper()
	m := newMixture(tuneHead, 3, 2, 9)
	set, far := m.draw(4*subsampleSize+7, 0), m.draw(4*subsampleSize+50, 5)
	c := accumulate(t, CurvatureConfig{Head: tuneHead}, m.draw(700, 0), 0)
	p, err := c.Posterior(Hessian, 1)
	if err != nil {
		t.Fatal(err)
	}
	of := func(s *rows.Batch) *predictive {
		return &predictive{tuneHead, mapped(nil, tuneHead.Logits, s.Logits), p.variancesOf(s), 1}
	}
	val, ood = of(set), of(far)
	spread = median(val.s2)
	val.spread, ood.spread = spread, spread
	if predicted(t.Context(), val, nil, 1, 1).subsample() == nil ||
		predicted(t.Context(), ood, nil, 1, 1).subsample() == nil {
		t.Fatal("there are too few examples to leave any out")
	}
	return set, val, ood, spread
}

// scan is the least value of an objective over a grid of both temperatures, and a finer one around its best point.
func scan(s search) point {
	best := point{value: math.Inf(1)}
	over := func(acts, taus []float64) {
		for _, tau := range taus {
			for some := range slices.Chunk(acts, gridSize) {
				for i, v := range s.values(some, tau) {
					if v < best.value {
						best = point{some[i], tau, v}
					}
				}
			}
		}
	}
	over(logSpace(minAct, maxAct, 32), logSpace(minTau, maxTau, 14))
	act, tau := math.Pow(maxAct/minAct, 1.0/31), math.Pow(maxTau/minTau, 1.0/13) // from one point to the next
	over(logSpace(max(minAct, best.act/act), min(maxAct, best.act*act), 9),
		logSpace(max(minTau, best.tau/tau), min(maxTau, best.tau*tau), 7))
	return best
}

// drawn is a method the first draws of which are best at a third more than all of them are.
type drawn struct{ *predictive }

func (d drawn) Fewer(most int) Predictive {
	few := *d.predictive
	few.logits = make([]float64, len(d.logits))
	for i, v := range d.logits {
		few.logits[i] = v * 4 / 3
	}
	if most > 100 {
		panic("that is not few")
	}
	return &few
}

func TestTuneMissesNoOptimum(t *testing.T) {
	t.Parallel()
	set, val, ood, spread := manyExamples(t)
	for name, of := range map[string]func(*predictive) Predictive{
		"mf0":    func(p *predictive) Predictive { return p },
		"narrow": func(p *predictive) Predictive { return narrow{p} },
		"drawn":  func(p *predictive) Predictive { return drawn{p} },
	} {
		got, err := Tune(t.Context(), of(val), set.Labels, of(ood), math.Inf(1))
		if err != nil {
			t.Fatal(err)
		}
		v, o := predicted(t.Context(), of(val), set.Labels, 1, 1), predicted(t.Context(), of(ood), nil, 1, 1)
		nll, auroc := nllSearch(v, spread, meanfield.Lambda0), aurocSearch(v, o, spread, meanfield.Lambda0)
		least := scan(nll)
		if at := nll.values([]float64{got.Optimum.Act}, got.Optimum.Ens/spread)[0]; at > least.value*(1+1e-4) {
			t.Errorf("%s: NLL %v at %v, %v at %+v", name, at, got.Optimum, least.value, least)
		}
		highest := scan(auroc)
		// The AUROC of two thousand examples is rough, and flat: its standard error is 0.01.
		if at := auroc.values([]float64{got.OOD.Act}, got.OOD.Ens/spread)[0]; at > highest.value+5e-3 {
			t.Errorf("%s: AUROC %v at %v, %v at %+v", name, -at, got.OOD, -highest.value, highest)
		}
	}
}

// A method of T_act alone is searched by some of many examples first, and tuned on all.
func TestTuneOfTActAloneFindsTheOptimum(t *testing.T) {
	t.Parallel()
	set, val, ood, _ := manyExamples(t)
	val.spread, ood.spread = 0, 0
	got, err := Tune(t.Context(), val, set.Labels, ood, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	// Where few draws have it is no bound.
	other, err := Tune(t.Context(), drawn{val}, set.Labels, drawn{ood}, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	if !approx.Relative(other.NLL.Act, got.NLL.Act, 0.01) {
		t.Errorf("T_act %v of a method whose first draws are best elsewhere, want %v", other.NLL.Act, got.NLL.Act)
	}
	v, o := predicted(t.Context(), val, set.Labels, 1, 1), predicted(t.Context(), ood, nil, 1, 1)
	nll, auroc := math.Inf(1), math.Inf(-1)
	for _, act := range logSpace(minAct, maxAct, 300) {
		nll, auroc = math.Min(nll, meanNLL(v, act, 1)), math.Max(auroc, aurocOf(v, o, act))
	}
	if at := meanNLL(v, got.NLL.Act, 1); at > nll*(1+1e-5) {
		t.Errorf("NLL %v at %v, the least is %v", at, got.NLL, nll)
	}
	if at := aurocOf(v, o, got.OOD.Act); at < auroc-1e-3 {
		t.Errorf("AUROC %v at %v, the highest is %v", at, got.OOD, auroc)
	}
}

// narrow has its best spread in a valley that lies between the grid's points: beside the
// corner where the spread is nothing it is a little lower, and elsewhere higher.
type narrow struct{ *predictive }

func (n narrow) Predictor() func(logp []float64, i int, t layer.Temperatures) float64 {
	predict := n.predictive.Predictor()
	return func(logp []float64, i int, t layer.Temperatures) float64 {
		tau := t.Ens / n.spread
		off := math.Log(tau / 0.2)
		best := 1.1 + 0.3*math.Exp(-off*off/4)
		d := math.Log(t.Act / best)
		rest := predict(logp, i, layer.Temperatures{Act: 1, Ens: 1e6 * n.spread})
		for c := range logp {
			logp[c] -= 4*d*d - 0.004*math.Exp(-off*off/4)
		}
		return rest
	}
}

func TestTuneSearchesCostlySpreadsToTell(t *testing.T) {
	t.Parallel()
	set, val, ood, spread := manyExamples(t)
	limit := math.Inf(1)
	got, err := Tune(t.Context(), &resampled{val, map[float64]bool{}, nil}, set.Labels, &resampled{ood,
		map[float64]bool{}, nil}, limit)
	if err != nil {
		t.Fatal(err)
	}
	v, o := predicted(t.Context(), val, nil, 1, 1), predicted(t.Context(), ood, nil, 1, 1)
	f := aurocSearch(v, o, spread, meanfield.Lambda0).values
	best := math.Inf(1)
	for _, tau := range logSpace(minTau, maxTau, gridSize) {
		for _, act := range logSpace(minAct, maxAct, 40) {
			best = math.Min(best, f([]float64{act}, tau)[0])
		}
	}
	if at := f([]float64{got.OOD.Act}, got.OOD.Ens/spread)[0]; at > best+1e-3 {
		t.Errorf("AUROC %v at %v, %v elsewhere on the grid", -at, got.OOD, -best)
	}
	// What is preferred is not above the limit.
	strict, err := Tune(t.Context(), &resampled{val, map[float64]bool{}, nil}, set.Labels, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if strict.NLL != strict.Optimum {
		t.Errorf("%v is preferred to %v, and the limit allows no loss", strict.NLL, strict.Optimum)
	}
}
