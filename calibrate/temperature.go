package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/mfgs/mfgs/calibrate/internal/minimum"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Temperatures are the two numbers that the method tunes: μ = a/T_act and the covariance is Σ/T_ens
// (paper, Algorithm 1). The logit variance is not divided by T_act².
type Temperatures struct {
	Act float64 `yaml:"act" json:"act"`
	Ens float64 `yaml:"ens" json:"ens"`
}

// Bounds of the search. T_act and T are in units of logitScale / 20, which is about
// 1 for common networks. The optimal T_ens spans ten orders of magnitude from
// network to network, τ = T_ens / median s² does not. The lower bound of τ keeps
// the median T_k below 1000, where float32 still ranks.
const (
	minAct, maxAct = 0.02, 20
	minTau, maxTau = 3e-7, 1e3
	gridSize       = 9
	minTS, maxTS   = 1 / meanfield.MaxBeta, 200
)

// actUnit returns the unit of T_act for examples of n logits each: a twentieth of the median of max
// a - mean a, how far the first class stands above the others. It follows the logits' own unit, and
// so do all temperatures searched for. logits writes those of example i.
func actUnit(examples, n int, logits func(dst []float64, i int)) float64 {
	margins, a := make([]float64, examples), make([]float64, n)
	for i := range margins {
		logits(a, i)
		margins[i] = slices.Max(a) - mean(a)
	}
	unit := median(margins) / 20
	if !(unit > 0) || math.IsInf(unit, 1) {
		return 1 // all classes tie, or what is no number: any unit will do
	}
	return unit
}

// logitUnit is that of a batch. A sigmoid is a softmax of two logits, 0 and a.
func (h Head) logitUnit(s *rows.Batch) float64 {
	k := h.Logits
	if !links[h.Link].separate {
		return actUnit(s.N, k, func(dst []float64, i int) {
			for j, v := range s.Logits[i*k : (i+1)*k] {
				dst[j] = float64(v)
			}
		})
	}
	return actUnit(len(s.Logits), 2, func(dst []float64, i int) { dst[0], dst[1] = 0, float64(s.Logits[i]) })
}

// Grid is an objective over log-spaced temperatures: the paper's heat maps.
type Grid struct {
	Act []float64 `yaml:"act,flow"` // T_act, rows
	Tau []float64 `yaml:"tau,flow"` // T_ens / median held-out s², columns

	// Value is the held-out NLL, counting half an example more that is wrong, in nats; or the AUROC.
	Value [][]float64 `yaml:"value,flow"`
}

// examples are held-out examples as some method predicts them: what temperatures are tuned on.
type examples struct {
	n          int
	categories int // C of the margins, 2 for independent labels
	// evaluate sets nll and margin for at most gridSize T_act at one T_ens.
	evaluate func(acts []float64, ens float64)
	// thinned returns about thinSize of the examples, spread evenly, or nil where there
	// are not many more.
	thinned func() *examples
	err     error // of evaluate, which then gives NaN

	// Results, [N], of each T_act that was asked for: -log p of the label and the
	// margin of 1 - max p.
	nll, margin [gridSize][]float64
}

func newExamples(n, categories int) examples {
	e := examples{n: n, categories: categories}
	for j := range gridSize {
		e.nll[j], e.margin[j] = make([]float64, n), make([]float64, n)
	}
	return e
}

// losses returns, [N], what tuning takes the mean of: the -log p of each label and, in
// equal parts, half of -log(1 - max p) of an average one, as if half an example more were
// there, whose prediction is wrong.
//
// Jeffreys' prior for the rate of errors counts half an error more than were seen. Without
// it a network that makes no error on the examples at hand would have no temperature too
// low, and few errors one that is too low by far; of many examples the half says next to
// nothing. docs/choice.md has what no, one half, one and two errors more lead to.
func (e *examples) losses(j int) []float64 {
	wrong := e.wrong(j)
	l := slices.Clone(e.nll[j])
	for i := range l {
		l[i] += wrong
	}
	return l
}

// objective is the mean of losses.
func (e *examples) objective(j int) float64 { return mean(e.nll[j]) + e.wrong(j) }

// wrong is the part of each example in half the mean -log(1 - max p). With margin g that
// is log(1 + exp(g)/(C-1)); see meanfield.OneMinusMax.
func (e *examples) wrong(j int) float64 {
	var sum float64
	others := math.Log(float64(e.categories - 1))
	for _, g := range e.margin[j] {
		x := g - others
		sum += math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	}
	n := float64(e.n)
	return 0.5 * sum / n / n
}

// tuningSet is a batch prepared for evaluating many temperatures of mf0.
type tuningSet struct {
	examples
	head    Head
	lambda0 float64
	unit    float64           // of T_act
	labels  []int             // nil: none, or of other classes
	targets []uint8           // [N,K], instead of labels of a multi-label head
	logits  []float64         // [N,K], in that unit
	curves  []meanfield.Curve // unless logits are separate
	s2      []float64         // [N,K], of the posterior being tuned
	// leverage is [N], the same for every damping.
	leverage []float64

	thin *tuningSet // of sparse
}

func newTuningSet(h Head, s *rows.Batch, labelled bool, lambda0, unit float64) *tuningSet {
	t := &tuningSet{head: h, lambda0: lambda0, unit: unit}
	t.init(s.N)
	switch {
	case labelled && h.MultiLabel():
		t.targets = s.Targets
	case labelled:
		t.labels = s.Labels
	}
	t.logits = make([]float64, len(s.Logits))
	for i, v := range s.Logits {
		t.logits[i] = float64(v) / unit
	}
	t.s2, t.leverage = make([]float64, len(t.logits)), make([]float64, t.n)
	if !links[h.Link].separate {
		t.curves = make([]meanfield.Curve, t.n)
		parallel.For(t.n, func(first, last int) {
			for i := first; i < last; i++ {
				t.curves[i] = meanfield.NewCurve(t.logits[i*h.Logits : (i+1)*h.Logits])
			}
		})
	}
	return t
}

// init makes room for the results of n examples.
func (t *tuningSet) init(n int) {
	t.examples = newExamples(n, t.head.categories())
	t.evaluate = func(acts []float64, ens float64) { t.mf0(acts, 1/ens) }
	t.thinned = func() *examples {
		if thin := t.sparse(); thin != nil {
			return &thin.examples
		}
		return nil
	}
}

// sparse returns about thinSize of the examples, spread evenly, with the variances
// as they stand, or nil where there are not many more.
func (t *tuningSet) sparse() *tuningSet {
	step := t.n / thinSize
	if step < 4 {
		return nil
	}
	k, n := t.head.Logits, (t.n+step-1)/step
	if t.thin == nil {
		t.thin = &tuningSet{head: t.head, lambda0: t.lambda0, unit: t.unit, logits: make([]float64, n*k),
			s2: make([]float64, n*k)}
		t.thin.init(n)
	}
	thin := t.thin
	thin.labels, thin.targets, thin.curves = thin.labels[:0], thin.targets[:0], thin.curves[:0]
	for i := range n {
		at := i * step
		copy(thin.logits[i*k:], t.logits[at*k:(at+1)*k])
		copy(thin.s2[i*k:], t.s2[at*k:(at+1)*k])
		if t.labels != nil {
			thin.labels = append(thin.labels, t.labels[at])
		}
		if t.targets != nil {
			thin.targets = append(thin.targets, t.targets[at*k:(at+1)*k]...)
		}
		if t.curves != nil {
			thin.curves = append(thin.curves, t.curves[at])
		}
	}
	return thin
}

func (t *tuningSet) label(i int) int {
	if t.labels == nil {
		return -1
	}
	return t.labels[i]
}

// nllOf returns -log p of the label of example i or, of a multi-label head, the
// mean over its labels. Without labels it is NaN.
func (t *tuningSet) nllOf(i int, logp []float64) float64 {
	if t.targets != nil {
		k := t.head.Logits
		var sum float64
		for j, y := range t.targets[i*k : (i+1)*k] {
			sum -= logp[2*j+int(y)]
		}
		return sum / float64(k)
	}
	if y := t.label(i); y >= 0 {
		return -logp[y]
	}
	return math.NaN()
}

// mf0 sets nll and margin for variances scale·s2 and at most gridSize T_act. These
// share the temperatures T_k, whose roots cost as much as the rest.
func (t *tuningSet) mf0(acts []float64, scale float64) {
	k := t.head.Logits
	predict := links[t.head.Link].predict
	parallel.For(t.n, func(first, last int) {
		inverseT, mu, logp := make([]float64, k), make([]float64, k), make([]float64, t.head.Probabilities())
		for i := first; i < last; i++ {
			a := t.logits[i*k : (i+1)*k]
			meanfield.InverseTemperaturesTo(inverseT, t.s2[i*k:(i+1)*k], scale, t.lambda0)
			for j, act := range acts {
				if t.curves != nil {
					t.nll[j][i], t.margin[j][i] = t.curves[i].MF0(a, inverseT, t.label(i), act)
					continue
				}
				for c, v := range a {
					mu[c] = v * inverseT[c] / act
				}
				t.margin[j][i] = predict(logp, mu)
				t.nll[j][i] = t.nllOf(i, logp)
			}
		}
	})
}

// plain sets nll and rest for softmax(a/T), or sigmoids, of at most gridSize T: no
// variance leaves mf0's temperatures T_k at 1.
func (t *tuningSet) plain(temperatures ...float64) { t.mf0(temperatures, 0) }

// temperatureScaling returns the T, in t.unit, that minimises the objective of the network's own
// probabilities for logits a/T (Guo et al., On Calibration of Modern Neural Networks, 2017), and
// that objective. It leaves the per-example values in nll[0] and margin[0].
func (t *tuningSet) temperatureScaling() (temperature, value float64) {
	f := func(logT float64) float64 {
		t.plain(math.Exp(logT))
		return t.objective(0)
	}
	lo, hi := minimum.Bracket(f, math.Log(minTS), math.Log(maxTS))
	logT := minimum.GoldenSection(f, lo, hi, 1e-6)
	return math.Exp(logT), f(logT)
}

// point is one evaluation of the search.
type point struct{ act, tau, value float64 }

// search is what is minimised over (T_act, τ): values at several T_act and one τ.
type search func(acts []float64, tau float64) []float64

// grid evaluates f on the grid, and returns all points beside it.
func (f search) grid(ctx context.Context) (Grid, []point, error) {
	g := Grid{Act: logSpace(minAct, maxAct, gridSize), Tau: logSpace(minTau, maxTau, gridSize)}
	for range gridSize {
		g.Value = append(g.Value, make([]float64, gridSize))
	}
	var points []point
	for j, tau := range g.Tau {
		if err := context.Cause(ctx); err != nil {
			return g, nil, err
		}
		for i, v := range f(g.Act, tau) {
			g.Value[i][j] = v
			points = append(points, point{g.Act[i], tau, v})
		}
	}
	return g, points, checkPoints(points)
}

// gridStep is half a cell of the grid in log T_act: the size of the first simplex
// from its best point, among others.
var gridStep = 0.5 * math.Log(maxAct/minAct) / (gridSize - 1)

// What a search goes on for: gains of NLL, in nats, and of the AUROC.
const (
	fine   = 1e-6
	coarse = 5e-5 // of methods that cost more, on many examples
)

// descend minimises f by Nelder and Mead's simplex, the first of which has its
// corner at start. It returns all points evaluated.
func (f search) descend(ctx context.Context, start point, size, lambda0 float64) ([]point, error) {
	var points []point
	// NLL and AUROC have a narrow valley along which the temperature of the median
	// variance, T_act √(1+λ₀/τ), stays as it is. With that for a coordinate the
	// valley lies along the other, where the simplex gets on; across both it creeps.
	problem := optimize.Problem{Func: func(x []float64) float64 {
		if ctx.Err() != nil {
			return math.Inf(1) // the search ends soon, without further work
		}
		// Outside the box: the value at its edge, and a push back.
		v := clamp(x[1], math.Log(minTau), math.Log(maxTau))
		tau := math.Exp(v)
		w := x[0] - valley(tau, lambda0)
		u := clamp(w, math.Log(minAct), math.Log(maxAct))
		p := point{act: math.Exp(u), tau: tau}
		known := func(o point) bool { return o.act == p.act && o.tau == tau }
		if i := slices.IndexFunc(points, known); i >= 0 { // a simplex begins by asking twice
			p.value = points[i].value
		} else {
			p.value = f([]float64{p.act}, tau)[0]
			points = append(points, p)
		}
		return p.value + math.Abs(w-u) + math.Abs(x[1]-v)
	}}
	// How long nothing is gained before it ends. A simplex that begins small shrinks
	// by less before it gets on.
	patience := 10
	if size < gridStep {
		patience = 6
	}
	_, err := optimize.Minimize(problem, []float64{math.Log(start.act) + valley(start.tau, lambda0),
		math.Log(start.tau)},
		&optimize.Settings{
			FuncEvaluations: 150,
			Converger:       &optimize.FunctionConverge{Absolute: fine, Relative: fine, Iterations: patience},
		}, &optimize.NelderMead{SimplexSize: size})
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, fmt.Errorf("searching temperatures: %w", err)
	}
	return points, checkPoints(points)
}

// valley is the logarithm of what the median variance makes of T_act.
func valley(tau, lambda0 float64) float64 { return 0.5 * math.Log1p(lambda0/tau) }

// least returns the first of the points with the least value.
func least(points []point) point {
	return slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.value, b.value) })
}

// checkPoints refuses NaN, which would pass for the least value.
func checkPoints(points []point) error {
	for _, p := range points {
		if math.IsNaN(p.value) {
			return fmt.Errorf("the objective at T_act %.3g, τ %.3g is not a number", p.act, p.tau)
		}
	}
	return nil
}

func clamp(x, lo, hi float64) float64 { return math.Min(hi, math.Max(lo, x)) }

func logSpace(lo, hi float64, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = lo * math.Pow(hi/lo, float64(i)/float64(n-1))
	}
	return x
}

// nllSearch is the objective of val, whose parts it leaves for each example in val.nll
// and val.margin.
func nllSearch(val *examples, median float64) search {
	return func(acts []float64, tau float64) []float64 {
		val.evaluate(acts, tau*median)
		values := make([]float64, len(acts))
		for j := range acts {
			values[j] = val.objective(j)
		}
		return values
	}
}

// thinSize is how many examples show where on the grid it is worth looking at all
// of them, if these are several times as many.
const thinSize = 500

// thinDraws is how many draws do for that, of a method that averages over more.
const thinDraws = 50

// tuneNLL minimises the objective, and leaves the per-example values at the optimum in val.nll[0]
// and val.margin[0]. The grid is one over all examples, or empty where there was no need of it.
//
// For every τ there is one valley over T_act, in much the same place for a part of the
// examples as for all. So where there are many, some of them are searched first, and
// of the grid over all no more is evaluated than the least point for each τ.
func tuneNLL(ctx context.Context, val *examples, median, lambda0 float64) (g Grid, best point, err error) {
	f := nllSearch(val, median)
	points, size := []point(nil), gridStep
	if thin := val.thinned(); thin == nil {
		if g, points, err = f.grid(ctx); err != nil {
			return g, point{}, err
		}
	} else {
		if points, size, err = searchThin(ctx, nllSearch(thin, median), f, lambda0); err != nil {
			return g, point{}, err
		}
	}
	more, err := f.descend(ctx, least(points), size, lambda0)
	if err != nil {
		return g, point{}, err
	}
	best = least(append(points, more...))
	f([]float64{best.act}, best.tau)
	return g, best, nil
}

// searchThin searches the few examples of one function and returns points where f, the same of all,
// may be least, and the size of the simplex to go on with from the best of them.
func searchThin(ctx context.Context, few, f search, lambda0 float64) ([]point, float64, error) {
	_, points, err := few.grid(ctx)
	if err != nil {
		return nil, 0, err
	}
	more, err := few.descend(ctx, least(points), gridStep, lambda0)
	if err != nil {
		return nil, 0, err
	}
	starts := []point{least(append(more, points...))}
	for ; len(points) > 0; points = points[gridSize:] { // those of one τ
		starts = append(starts, least(points[:gridSize]))
	}
	for i := range starts {
		if err := context.Cause(ctx); err != nil {
			return nil, 0, err
		}
		starts[i].value = f([]float64{starts[i].act}, starts[i].tau)[0]
	}
	size := gridStep
	if least(starts) == starts[0] {
		size /= 8 // what a few hundred examples leave open
	}
	return starts, size, checkPoints(starts)
}

// ridge is how much AUROC is given up for a larger τ: along T_act²/T_ens the
// AUROC is flat, and the largest τ keeps the temperatures T_k moderate.
const ridge = 1e-4

// aurocSearch is the AUROC of 1 - max p between held-out examples in and out of
// distribution, negative, to be minimised.
func aurocSearch(val, ood *examples, median float64) search {
	scratch := make([]float64, val.n+ood.n)
	return func(acts []float64, tau float64) []float64 {
		val.evaluate(acts, tau*median)
		ood.evaluate(acts, tau*median)
		values := make([]float64, len(acts))
		for j := range acts {
			value, err := aurocAt(val, ood, j, scratch)
			if err != nil {
				value = math.NaN() // a NaN score, which search reports
			}
			values[j] = -value
		}
		return values
	}
}

// aurocAt is the AUROC of 1 - max p at the j-th T_act: the probability that an example out of
// distribution has the smaller margin.
func aurocAt(val, ood *examples, j int, scratch []float64) (float64, error) {
	return metrics.AUROC(ood.margin[j], val.margin[j], scratch)
}

// tuneAUROC maximises the AUROC of 1 - max p between held-out examples in and out of distribution.
func tuneAUROC(ctx context.Context, val, ood *examples, median, lambda0 float64) (Grid, point, error) {
	f := aurocSearch(val, ood, median)
	g, points, err := f.grid(ctx)
	if err != nil {
		return g, point{}, err
	}
	more, err := f.descend(ctx, least(points), gridStep, lambda0)
	if err != nil {
		return g, point{}, err
	}
	points = append(points, more...)
	for _, row := range g.Value {
		for j := range row {
			row[j] = -row[j]
		}
	}
	return g, onRidge(points), nil
}

// onRidge returns the least point, or one with a larger τ that gives up little.
func onRidge(points []point) point {
	best := least(points)
	for _, p := range points {
		if p.value <= best.value+ridge && p.tau > best.tau {
			// The bound stays the best value's, whichever point is taken.
			best.act, best.tau = p.act, p.tau
		}
	}
	return best
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// median returns the middle value of x, which it leaves as it is. Where there are
// NaN it may be one.
func median(x []float64) float64 {
	s, rng := slices.Clone(x), rand.New(rand.NewPCG(1, 1))
	at := len(s) / 2
	// Of s, s[at] if all of it were sorted: whichever part holds it is parted again.
	for {
		pivot := s[rng.IntN(len(s))]
		if math.IsNaN(pivot) {
			return pivot
		}
		low, same := 0, 0 // s[:low] < pivot, s[low:same] = pivot
		for i, v := range s {
			switch {
			case v < pivot:
				s[i], s[same], s[low] = s[same], pivot, v
				low++
				same++
			case v == pivot:
				s[i], s[same] = s[same], v
				same++
			}
		}
		switch {
		case at < low:
			s = s[:low]
		case at < same:
			return pivot
		default:
			s, at = s[same:], at-same
		}
	}
}

// resolution is the NLL, in nats, that search and tables tell apart.
const resolution = 1e-5

// pairedGain returns the mean of a-b and its standard error.
func pairedGain(a, b []float64) (gain, stdErr float64) {
	n := float64(len(a))
	for i := range a {
		gain += (a[i] - b[i]) / n
	}
	var ss float64
	for i := range a {
		d := a[i] - b[i] - gain
		ss += d * d
	}
	return gain, math.Sqrt(ss / math.Max(1, n-1) / n)
}
