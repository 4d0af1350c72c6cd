package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/optimize"

	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/metrics"
)

// Temperatures are the two numbers that the method tunes: μ = a/T_act and the
// covariance is Σ/T_ens (paper, Algorithm 1). The logit variance is not divided
// by T_act².
type Temperatures struct {
	Act float64
	Ens float64
}

// Bounds of the search. The optimal T_ens spans ten orders of magnitude from
// network to network, τ = T_ens / median s² does not. The lower bound of τ keeps
// the median T_k below 1000, where float32 still ranks.
const (
	minAct, maxAct = 0.02, 20
	minTau, maxTau = 3e-7, 1e3
	gridSize       = 9
	minTS, maxTS   = 1 / meanfield.MaxBeta, 50
)

// Grid is an objective over log-spaced temperatures: the paper's heat maps.
type Grid struct {
	Act   []float64   // T_act, rows
	Tau   []float64   // T_ens / median held-out s², columns
	Value [][]float64 // NLL in nats, or AUROC
}

// Set is a set of examples kept for tuning: features [N,d], logits [N,K] and
// labels [N], or for a multi-label head targets [N,K], each 0 or 1. There are
// neither of out-of-distribution examples.
type Set struct {
	Features []float32
	Logits   []float32
	Labels   []int32
	Targets  []uint8
}

// Len returns N.
func (s *Set) Len(h Head) int {
	if s == nil {
		return 0
	}
	return len(s.Logits) / h.Logits
}

// Validate reports shapes that do not fit together, values that are not finite
// and labels out of range. Labelled sets need a label for every example, or
// targets.
func (s *Set) Validate(h Head, labelled bool) error {
	n := s.Len(h)
	if n == 0 {
		return fmt.Errorf("no examples")
	}
	if len(s.Logits) != n*h.Logits || len(s.Features) != n*h.Features {
		return fmt.Errorf("%d features and %d logits for %d examples, want %d and %d each", len(s.Features), len(s.Logits), n, h.Features, h.Logits)
	}
	if labelled && h.MultiLabel() && len(s.Targets) != n*h.Logits {
		return fmt.Errorf("%d targets for %d examples: every example needs %d", len(s.Targets), n, h.Logits)
	}
	if labelled && !h.MultiLabel() && len(s.Labels) != n {
		return fmt.Errorf("%d labels for %d examples: every example needs one", len(s.Labels), n)
	}
	for i := range n {
		label := -1
		var targets []uint8
		switch {
		case labelled && h.MultiLabel():
			targets = s.Targets[i*h.Logits : (i+1)*h.Logits]
		case labelled:
			if label = int(s.Labels[i]); label < 0 {
				return fmt.Errorf("example %d has no label", i)
			}
		}
		if err := checkExample(h, i, s.Features[i*h.Features:(i+1)*h.Features], s.Logits[i*h.Logits:(i+1)*h.Logits], label, targets); err != nil {
			return err
		}
	}
	return nil
}

// tuningSet is a Set prepared for evaluating many temperatures.
type tuningSet struct {
	head    Head
	n       int
	labels  []int32           // nil: none, or of other classes
	targets []uint8           // [N,K], instead of labels of a multi-label head
	logits  []float64         // [N,K]
	curves  []meanfield.Curve // unless logits are separate
	s2      []float64         // [N,K], of the posterior being tuned

	// Results, [N], of each T_act that was asked for: -log p of the label and
	// log(1 - max p).
	nll, rest [gridSize][]float64
}

func newTuningSet(h Head, s *Set, labelled bool) *tuningSet {
	t := &tuningSet{head: h, n: s.Len(h)}
	switch {
	case labelled && h.MultiLabel():
		t.targets = s.Targets
	case labelled:
		t.labels = s.Labels
	}
	t.logits = make([]float64, len(s.Logits))
	for i, v := range s.Logits {
		t.logits[i] = float64(v)
	}
	t.s2 = make([]float64, len(t.logits))
	for j := range gridSize {
		t.nll[j], t.rest[j] = make([]float64, t.n), make([]float64, t.n)
	}
	if !links[h.Link].separate {
		t.curves = make([]meanfield.Curve, t.n)
		parallel(t.n, func(first, last int) {
			for i := first; i < last; i++ {
				t.curves[i] = meanfield.NewCurve(t.logits[i*h.Logits : (i+1)*h.Logits])
			}
		})
	}
	return t
}

func (t *tuningSet) label(i int) int {
	if t.labels == nil {
		return -1
	}
	return int(t.labels[i])
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

// evaluate sets nll and rest for variances scale·s2 and at most gridSize T_act.
// These share the temperatures T_k, whose roots cost as much as the rest.
func (t *tuningSet) evaluate(acts []float64, scale, lambda0 float64) {
	k := t.head.Logits
	predict := links[t.head.Link].predict
	parallel(t.n, func(first, last int) {
		inverseT, mu, logp := make([]float64, k), make([]float64, k), make([]float64, t.head.Outcomes())
		for i := first; i < last; i++ {
			a := t.logits[i*k : (i+1)*k]
			meanfield.InverseTemperaturesTo(inverseT, t.s2[i*k:(i+1)*k], scale, lambda0)
			for j, act := range acts {
				if t.curves != nil {
					t.nll[j][i], t.rest[j][i] = t.curves[i].MF0(a, inverseT, t.label(i), act)
					continue
				}
				for c, v := range a {
					mu[c] = v * inverseT[c] / act
				}
				t.rest[j][i] = math.Max(math.Log(predict(logp, mu)), meanfield.LogFloor)
				t.nll[j][i] = t.nllOf(i, logp)
			}
		}
	})
}

// temperatureScaling returns the T that minimises the NLL of the network's own
// probabilities for logits a/T (Guo et al., On Calibration of Modern Neural
// Networks, 2017), and that NLL.
func (t *tuningSet) temperatureScaling() (temperature, value float64) {
	k, nll, link := t.head.Logits, t.nll[0], links[t.head.Link]
	f := func(logT float64) float64 {
		beta := math.Exp(-logT)
		parallel(t.n, func(first, last int) {
			mu, logp := make([]float64, k), make([]float64, t.head.Outcomes())
			for i := first; i < last; i++ {
				a := t.logits[i*k : (i+1)*k]
				if t.curves != nil {
					nll[i] = t.curves[i].NLL(a, t.label(i), beta)
					continue
				}
				for c, v := range a {
					mu[c] = v * beta
				}
				link.predict(logp, mu)
				nll[i] = t.nllOf(i, logp)
			}
		})
		return mean(nll)
	}
	lo, hi := math.Log(minTS), math.Log(maxTS)
	if link.manyMinima {
		lo, hi = bracket(f, lo, hi)
	}
	logT := goldenSection(f, lo, hi, 1e-6)
	return math.Exp(logT), f(logT)
}

// bracket returns the neighbours of the least of evenly spaced values of f in
// [a,b].
func bracket(f func(float64) float64, a, b float64) (lo, hi float64) {
	const steps = 32
	at := func(i int) float64 { return a + (b-a)*float64(i)/steps }
	best, least := 0, math.Inf(1)
	for i := range steps + 1 {
		if v := f(at(i)); v < least {
			best, least = i, v
		}
	}
	return at(max(0, best-1)), at(min(steps, best+1))
}

// goldenSection minimises f, which has one minimum in [a,b]: the NLL of softmax
// and sigmoid as a function of log T is quasi-convex, being convex in 1/T.
func goldenSection(f func(float64) float64, a, b, tolerance float64) float64 {
	const ratio = 0.6180339887498949 // (√5-1)/2
	c, d := b-ratio*(b-a), a+ratio*(b-a)
	fc, fd := f(c), f(d)
	for b-a > tolerance {
		if fc < fd {
			b, d, fd = d, c, fc
			c = b - ratio*(b-a)
			fc = f(c)
		} else {
			a, c, fc = c, d, fd
			d = a + ratio*(b-a)
			fd = f(d)
		}
	}
	return (a + b) / 2
}

// point is one evaluation of the search.
type point struct{ act, tau, value float64 }

// search minimises f over (T_act, τ): the grid, then Nelder and Mead's simplex
// from its best point. f gives its values at several T_act and one τ. search
// returns the grid and all points evaluated.
func search(ctx context.Context, f func(acts []float64, tau float64) []float64, lambda0 float64) (Grid, []point, error) {
	g := Grid{Act: logSpace(minAct, maxAct, gridSize), Tau: logSpace(minTau, maxTau, gridSize)}
	for range gridSize {
		g.Value = append(g.Value, make([]float64, gridSize))
	}
	var points []point
	best := 0
	for j, tau := range g.Tau {
		if err := context.Cause(ctx); err != nil {
			return g, nil, err
		}
		for i, v := range f(g.Act, tau) {
			g.Value[i][j] = v
			points = append(points, point{g.Act[i], tau, v})
			if v < points[best].value {
				best = len(points) - 1
			}
		}
	}
	if err := checkPoints(points); err != nil {
		return g, nil, err
	}
	start := points[best]
	// NLL and AUROC have a narrow valley along which the temperature of the median
	// variance, T_act √(1+λ₀/τ), stays as it is. With that for a coordinate the
	// valley lies along the other, where the simplex gets on; across both it creeps.
	valley := func(tau float64) float64 { return 0.5 * math.Log1p(lambda0/tau) }
	problem := optimize.Problem{Func: func(x []float64) float64 {
		if ctx.Err() != nil {
			return math.Inf(1) // the search ends soon, without further work
		}
		// Outside the box: the value at its edge, and a push back.
		v := clamp(x[1], math.Log(minTau), math.Log(maxTau))
		tau := math.Exp(v)
		w := x[0] - valley(tau)
		u := clamp(w, math.Log(minAct), math.Log(maxAct))
		p := point{act: math.Exp(u), tau: tau}
		p.value = f([]float64{p.act}, tau)[0]
		points = append(points, p)
		return p.value + math.Abs(w-u) + math.Abs(x[1]-v)
	}}
	// The first simplex spans half a cell of the grid.
	size := 0.5 * math.Log(maxAct/minAct) / (gridSize - 1)
	_, err := optimize.Minimize(problem, []float64{math.Log(start.act) + valley(start.tau), math.Log(start.tau)},
		&optimize.Settings{
			FuncEvaluations: 150,
			Converger:       &optimize.FunctionConverge{Absolute: 1e-6, Relative: 1e-6, Iterations: 10},
		}, &optimize.NelderMead{SimplexSize: size})
	if cause := context.Cause(ctx); cause != nil {
		return g, nil, cause
	}
	if err != nil {
		return g, nil, fmt.Errorf("searching temperatures: %w", err)
	}
	return g, points, checkPoints(points)
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

// tuneNLL minimises the held-out NLL and leaves the per-example values at the
// optimum in val.nll[0].
func tuneNLL(ctx context.Context, val *tuningSet, median, lambda0 float64) (Grid, point, error) {
	f := func(acts []float64, tau float64) []float64 {
		val.evaluate(acts, 1/(tau*median), lambda0)
		values := make([]float64, len(acts))
		for j := range acts {
			values[j] = mean(val.nll[j])
		}
		return values
	}
	g, points, err := search(ctx, f, lambda0)
	if err != nil {
		return g, point{}, err
	}
	best := slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.value, b.value) })
	f([]float64{best.act}, best.tau)
	return g, best, nil
}

// leastTau ends the preference for small τ. There a median T_k is already
// √(1 + λ₀/0.01) ≈ 5.6, so that mf0 depends on T_act²/T_ens alone, and smaller τ
// changes nothing but the precision left.
const leastTau = 0.01

// maxGivenUp is the fraction of the NLL that prefer gives up at most, whatever
// the standard error: it is large where there are few examples.
const maxGivenUp = 0.005

// prefer returns the temperatures with the smallest τ ≥ leastTau whose held-out
// NLL, at its best T_act, cannot be told from that of the optimum: it is above it
// by no more than one standard error of the paired differences and by no more
// than maxGivenUp, and not above limit, the NLL of temperature scaling.
// val.nll[0] must hold the NLL at the optimum.
//
// Held-out likelihood says little about τ: from τ = 0 to about 0.3 it is often
// flat to one part in two hundred, while the AUROC of 1 - max p under these
// temperatures falls all the way. Where the data cannot tell, the posterior is
// given the larger part.
func prefer(val *tuningSet, best point, limit, median, lambda0 float64) point {
	if best.tau <= leastTau {
		return best
	}
	base := slices.Clone(val.nll[0])
	most := math.Min(maxGivenUp*best.value, limit-best.value)
	try := func(logTau float64) (point, bool) {
		tau := math.Exp(logTau)
		// With τ the best T_act falls, at most as √τ.
		lo := math.Max(minAct, best.act*math.Sqrt(tau/best.tau)/2)
		hi := math.Min(maxAct, best.act*1.1)
		act := math.Exp(goldenSection(func(logAct float64) float64 {
			val.evaluate([]float64{math.Exp(logAct)}, 1/(tau*median), lambda0)
			return mean(val.nll[0])
		}, math.Log(lo), math.Log(hi), 1e-3))
		val.evaluate([]float64{act}, 1/(tau*median), lambda0)
		loss, stdErr := pairedGain(val.nll[0], base)
		return point{act, tau, best.value + loss}, loss <= math.Min(stdErr, most)
	}
	lo, hi := math.Log(leastTau), math.Log(best.tau)
	chosen, ok := try(lo)
	if ok {
		return chosen
	}
	chosen = best
	for range 8 {
		mid := (lo + hi) / 2
		if p, ok := try(mid); ok {
			chosen, hi = p, mid
		} else {
			lo = mid
		}
	}
	return chosen
}

// ridge is how much AUROC is given up for a larger τ: along T_act²/T_ens the
// AUROC is flat, and the largest τ keeps the temperatures T_k moderate.
const ridge = 1e-4

// tuneAUROC maximises the AUROC of 1 - max p between held-out examples in and
// out of distribution.
func tuneAUROC(ctx context.Context, val, ood *tuningSet, median, lambda0 float64) (Grid, point, error) {
	scratch := make([]float64, val.n+ood.n)
	g, points, err := search(ctx, func(acts []float64, tau float64) []float64 {
		val.evaluate(acts, 1/(tau*median), lambda0)
		ood.evaluate(acts, 1/(tau*median), lambda0)
		values := make([]float64, len(acts))
		for j := range acts {
			auroc, err := metrics.AUROC(val.rest[j], ood.rest[j], scratch)
			if err != nil {
				auroc = math.NaN() // a NaN score, which search reports
			}
			values[j] = -auroc
		}
		return values
	}, lambda0)
	if err != nil {
		return g, point{}, err
	}
	for _, row := range g.Value {
		for j := range row {
			row[j] = -row[j]
		}
	}
	best := slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.value, b.value) })
	for _, p := range points {
		if p.value <= best.value+ridge && p.tau > best.tau {
			// The bound stays the best value's, whichever point is taken.
			best.act, best.tau = p.act, p.tau
		}
	}
	return g, best, nil
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// median returns the middle value of x, which it leaves as it is.
func median(x []float64) float64 {
	s := slices.Clone(x)
	slices.Sort(s)
	return s[len(s)/2]
}

// parallel calls f for contiguous parts of [0,n) on all processors.
func parallel(n int, f func(first, last int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(w*n/workers, (w+1)*n/workers) })
	}
	wg.Wait()
}
