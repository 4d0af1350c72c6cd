package calibrate

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// minTS and maxTS bound T of softmax(a/T), in the unit of T_act.
const minTS, maxTS = 1 / meanfield.MaxBeta, 200

// actUnit returns the unit of T_act for examples of n logits each: a twentieth of the median of max a - mean a. It
// scales with the logits, and so do all temperatures in the search. logits writes the logits of example i.
func actUnit(examples, n int, logits func(dst []float64, i int)) float64 {
	margins, a := make([]float64, examples), make([]float64, n)
	for i := range margins {
		logits(a, i)
		margins[i] = slices.Max(a) - mean(a)
	}
	unit := median(margins) / 20
	if !(unit > 0) || math.IsInf(unit, 1) {
		return 1 // all classes tie, or values are not finite: any unit will do
	}
	return unit
}

// logitUnit returns actUnit of logits [N,K]. A sigmoid is a softmax of two logits, 0 and a.
func logitUnit(h layer.Head, logits []float64) float64 {
	if k := h.Logits; !h.Link.Separate() {
		return actUnit(len(logits)/k, k, func(dst []float64, i int) { copy(dst, logits[i*k:(i+1)*k]) })
	}
	return actUnit(len(logits), 2, func(dst []float64, i int) { dst[0], dst[1] = 0, logits[i] })
}

// examples are the predictions of a method for validation or OOD data, on which temperatures are tuned.
type examples struct {
	n          int
	categories int // C of the margins
	// evaluate sets nll and margin for at most gridSize T_act at one T_ens.
	evaluate func(acts []float64, ens float64)
	// subsample returns about subsampleSize of the examples, every so manyth, or nil unless there are many
	// more.
	subsample func() *examples
	err       error // of evaluate, which then sets NaN
	costly    bool  // evaluate costs much more than mf0 does

	// Results of evaluate, [N] for each T_act: -log p of the label and the margin.
	nll, margin [gridSize][]float64
}

func newExamples(n, categories int) examples {
	e := examples{n: n, categories: categories}
	for j := range gridSize {
		e.nll[j], e.margin[j] = make([]float64, n), make([]float64, n)
	}
	return e
}

// losses returns the terms [N] whose mean is the objective: -log p of each label, plus an equal share of half of the
// mean -log(1 - max p), as if there were half an example more, with a wrong prediction.
//
// Jeffreys' prior for an error rate counts half an error more than were seen. Without it, no temperature would be
// too low for a network that makes no error on the validation data, and a network with few errors would get one that
// is far too low. With many examples the half hardly matters. docs/evidence/choice.md compares none, one
// half, one and two errors more.
func (e *examples) losses(j int) []float64 {
	wrong := e.wrong(j)
	l := slices.Clone(e.nll[j])
	for i := range l {
		l[i] += wrong
	}
	return l
}

// objectives returns the objective at each of the first n T_act.
func (e *examples) objectives(n int) []float64 {
	values := make([]float64, n)
	for j := range values {
		values[j] = e.objective(j)
	}
	return values
}

// lossesAt returns the losses at a floor, by parabolas. Nothing may have been evaluated since the floor was found.
func (e *examples) lossesAt(f floor) []float64 {
	l := e.losses(f.middle)
	if f.above == 0 {
		return l
	}
	below, above := e.losses(f.middle-1), e.losses(f.middle+1)
	for i, v := range l {
		l[i] += f.above / 2 * (above[i] - below[i] + f.above*(above[i]-2*v+below[i]))
	}
	return l
}

// objective is the mean of losses.
func (e *examples) objective(j int) float64 { return mean(e.nll[j]) + e.wrong(j) }

// wrong returns the share of each example in half of the mean -log(1 - max p), which is log(1 + exp(g)/(C-1)) for a
// margin g; see meanfield.OneMinusMax.
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
	head    layer.Head
	affine  *layer.Affine // that mapped the logits; nil for none
	lambda0 float64
	unit    float64           // of T_act
	labels  []int             // nil for OOD data
	trained bool              // the curvature includes the examples
	targets []uint8           // [N,K], instead of labels, for a multi-label head
	logits  []float64         // [N,K], in that unit
	curves  []meanfield.Curve // nil for separate logits
	s2      []float64         // [N,K], of the posterior being tuned
	// leverage is [N], the same for every damping.
	leverage []float64

	few *tuningSet // of sparse
}

// newTuningSet prepares a batch with mapped logits [N,K], nil for its own. For a unit of 0 it takes that of the logits.
func newTuningSet(h layer.Head, logits []float64, s *rows.Batch, labelled bool, lambda0, unit float64) *tuningSet {
	if logits == nil {
		logits = mapped(nil, h.Logits, s.Logits)
	}
	t := &tuningSet{head: h, lambda0: lambda0, logits: make([]float64, len(logits))}
	if t.unit = unit; unit == 0 {
		t.unit = logitUnit(h, logits)
	}
	t.init(s.N)
	switch {
	case labelled && h.MultiLabel():
		t.targets = s.Targets
	case labelled:
		t.labels = s.Labels
	}
	scaleTo(t.logits, 1/t.unit, logits)
	t.s2, t.leverage = make([]float64, len(t.logits)), make([]float64, t.n)
	if !h.Link.Separate() && !h.Nonlinear {
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
	t.examples = newExamples(n, t.head.Categories())
	t.evaluate = func(acts []float64, ens float64) { t.mf0(acts, 1/ens) }
	t.subsample = func() *examples {
		if few := t.sparse(); few != nil {
			return &few.examples
		}
		return nil
	}
}

// sparse returns about subsampleSize of the examples, every step-th, with the current variances, or nil unless there
// are many more.
func (t *tuningSet) sparse() *tuningSet {
	step := t.n / subsampleSize
	if step < 4 {
		return nil
	}
	k, n := t.head.Logits, (t.n+step-1)/step
	if t.few == nil {
		t.few = &tuningSet{head: t.head, lambda0: t.lambda0, unit: t.unit, logits: make([]float64, n*k),
			s2: make([]float64, n*k)}
		t.few.init(n)
	}
	few := t.few
	few.labels, few.targets, few.curves = few.labels[:0], few.targets[:0], few.curves[:0]
	for i := range n {
		at := i * step
		copy(few.logits[i*k:], t.logits[at*k:(at+1)*k])
		copy(few.s2[i*k:], t.s2[at*k:(at+1)*k])
		if t.labels != nil {
			few.labels = append(few.labels, t.labels[at])
		}
		if t.targets != nil {
			few.targets = append(few.targets, t.targets[at*k:(at+1)*k]...)
		}
		if t.curves != nil {
			few.curves = append(few.curves, t.curves[at])
		}
	}
	return few
}

func (t *tuningSet) label(i int) int {
	if t.labels == nil {
		return -1
	}
	return t.labels[i]
}

// nllOf returns -log p of the label of example i or, for a multi-label head, the mean over its labels. Without labels
// it is NaN.
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

// mf0 sets nll and margin for variances scale·s2 and at most gridSize T_act. These share the temperatures T_k, whose
// square roots cost as much as the rest.
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

// plain sets nll and margin for softmax(a/T), or sigmoids, at most gridSize T. Without variance, mf0's T_k are 1.
func (t *tuningSet) plain(temperatures ...float64) { t.mf0(temperatures, 0) }

// temperatureScaling returns the T, in t.unit, that minimises the objective of the network's probabilities for
// logits a/T (Guo et al., On Calibration of Modern Neural Networks, 2017), and that objective. It leaves the values
// of the examples in nll[0] and margin[0].
func (t *tuningSet) temperatureScaling(ctx context.Context) (temperature, value float64, err error) {
	s := search{least: minTS, most: maxTS, values: func(temperatures []float64, _ float64) []float64 {
		t.plain(temperatures...)
		return t.objectives(len(temperatures))
	}}
	best, err := s.atTau(ctx, 1)
	return best.act, best.value, err
}

// nllSearch returns the search that minimises the objective of val. It leaves the values of the examples in
// val.nll and val.margin.
func nllSearch(val *examples, median, lambda0 float64) search {
	s := search{least: minAct, most: maxAct, lambda0: lambda0, costly: val.costly}
	s.values = func(acts []float64, tau float64) []float64 {
		val.evaluate(acts, tau*median)
		return val.objectives(len(acts))
	}
	if few := val.subsample(); few != nil {
		of := nllSearch(few, median, lambda0)
		s.few = &of
	}
	return s
}

// tuneNLL minimises the objective, and leaves the values of the examples at the optimum in val.nll[0] and
// val.margin[0].
func tuneNLL(ctx context.Context, val *examples, median, lambda0 float64) (Grid, point, error) {
	s := nllSearch(val, median, lambda0)
	points, grid, err := s.find(ctx)
	if err != nil {
		return grid, point{}, err
	}
	best := least(points)
	if s.costly {
		best = s.evaluated(best)
	} else {
		best = s.settle(best)
	}
	return grid, best, checkPoints([]point{best})
}

// aurocSearch returns the search that minimises minus the AUROC of 1 - max p, between examples in and out of
// distribution.
func aurocSearch(val, ood *examples, median, lambda0 float64) search {
	scratch := make([]float64, val.n+ood.n)
	s := search{least: minAct, most: maxAct, lambda0: lambda0, costly: val.costly}
	s.values = func(acts []float64, tau float64) []float64 {
		val.evaluate(acts, tau*median)
		ood.evaluate(acts, tau*median)
		values := make([]float64, len(acts))
		for j := range acts {
			// Examples out of distribution should have the smaller margins.
			value, err := metrics.AUROC(ood.margin[j], val.margin[j], scratch)
			if err != nil {
				value = math.NaN() // a score is NaN, which the search reports
			}
			values[j] = -value
		}
		return values
	}
	if few := val.subsample(); few != nil {
		of := aurocSearch(few, cmp.Or(ood.subsample(), ood), median, lambda0)
		s.few = &of
	}
	return s
}

// tuneAUROC maximises the AUROC of 1 - max p between examples in and out of distribution.
func tuneAUROC(ctx context.Context, val, ood *examples, median, lambda0 float64) (Grid, point, error) {
	points, grid, err := aurocSearch(val, ood, median, lambda0).find(ctx)
	if err != nil {
		return grid, point{}, err
	}
	for i, p := range points {
		points[i].value = math.Max(p.value, -1) // a parabola may exceed an AUROC of 1
	}
	for _, row := range grid.Value {
		for j := range row {
			row[j] = -row[j]
		}
	}
	return grid, onRidge(points), nil
}

// subsampleSize is the number of examples, of several times as many, that show where to search.
const subsampleSize = 500

// subsampleDraws is the number of draws that show it for a [Drawn] method.
const subsampleDraws = 50

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// median returns the middle value of x, which it does not change. With NaN among them it may be NaN.
func median(x []float64) float64 {
	s, rng := slices.Clone(x), rand.New(rand.NewPCG(1, 1))
	at := len(s) / 2
	// Quickselect: s[at] if s were sorted.
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

// resolution is the smallest difference in NLL, in nats, that counts.
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
