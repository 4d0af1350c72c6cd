package methods

import (
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
)

// Samples averages the probabilities of random classifiers: the mean over M of softmax(a/T_act + δ_m/√T_ens), with
// logits a and deviations δ_m; or those of an ensemble, the mean of softmax(a_m/T_act).
//
// Predicting costs M·K exponentials for each example and pair of temperatures. Consecutive calls for one
// example and T_ens share them.
type Samples struct {
	n, m, k        int
	center         []float32 // [n,K]; nil for an ensemble
	draws          []float32 // [n,each] deviations, or logits of an ensemble; the first [M,K] of each example are used
	each           int
	medianVariance float64
}

var _ calibrate.Predictive = (*Samples)(nil)

// NewSamples takes logits [n,K] of n examples and M deviations each, [n,M,K], and keeps both slices.
func NewSamples(logits, deviations []float32, n, m, k int) (*Samples, error) {
	if err := checkDraws(deviations, n, m, k); err != nil {
		return nil, err
	}
	if len(logits) != n*k {
		return nil, fmt.Errorf("%d logits for %d examples, want %d each", len(logits), n, k)
	}
	if err := checkFinite(logits, k, "logit"); err != nil {
		return nil, err
	}
	s := &Samples{n: n, m: m, k: k, center: logits, draws: deviations, each: m * k}
	variances := make([]float64, n*k)
	for i := range n {
		row := variances[i*k : (i+1)*k]
		for j := range m {
			for c, v := range s.draw(i, j) {
				row[c] += float64(v) * float64(v) / float64(m)
			}
		}
	}
	s.medianVariance = median(variances)
	return s, nil
}

// NewEnsemble takes the logits [n,M,K] of M classifiers for n examples, and keeps the slice. An ensemble has no T_ens.
func NewEnsemble(members []float32, n, m, k int) (*Samples, error) {
	if err := checkDraws(members, n, m, k); err != nil {
		return nil, err
	}
	return &Samples{n: n, m: m, k: k, draws: members, each: m * k}, nil
}

func checkDraws(draws []float32, n, m, k int) error {
	if n < 1 || m < 1 || k < 2 {
		return fmt.Errorf("%d samples of %d logits for %d examples, want at least 1, 2 and 1", m, k, n)
	}
	if len(draws) != n*m*k {
		return fmt.Errorf("%d sampled logits, want %d examples × %d samples × %d", len(draws), n, m, k)
	}
	return checkFinite(draws, m*k, "sampled logit")
}

// checkFinite returns an error for NaN and infinities. each is the number of values of an example.
func checkFinite(x []float32, each int, what string) error {
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("example %d: %s %d is %v, want a finite number", i/each, what, i%each, v)
		}
	}
	return nil
}

func (s *Samples) Len() int { return s.n }

func (s *Samples) Probabilities() int { return s.k }

// MedianVariance returns the median over examples and classes of the mean square deviation; zero for an ensemble.
func (s *Samples) MedianVariance() float64 { return s.medianVariance }

// Fewer returns the same examples with at most the first most draws.
func (s *Samples) Fewer(most int) calibrate.Predictive {
	few := *s
	few.m = min(s.m, most)
	return &few
}

// of returns the draws of example i, [M,K].
func (s *Samples) of(i int) []float32 { return s.draws[i*s.each:][:s.m*s.k] }

// draw returns sample m of example i.
func (s *Samples) draw(i, m int) []float32 { return s.of(i)[m*s.k : (m+1)*s.k] }

func (s *Samples) Predictor() func(logp []float64, i int, t layer.Temperatures) (margin float64) {
	center, x, sum := make([]float64, s.k), make([]float64, s.k), make([]float64, s.k)
	spread := spreads{samples: s, example: -1}
	return func(logp []float64, i int, t layer.Temperatures) float64 {
		scale := 1 / t.Act
		if s.center != nil {
			for c, v := range s.center[i*s.k : (i+1)*s.k] {
				center[c] = float64(v) / t.Act
			}
			scale = 1 / math.Sqrt(t.Ens)
			if spread.mean(sum, center, x, i, scale) {
				return logarithms(logp, sum)
			}
		}
		clear(sum)
		draws := s.of(i)
		for ; len(draws) > 0; draws = draws[s.k:] {
			top := math.Inf(-1)
			for c, v := range draws[:s.k] {
				a := center[c] + scale*float64(v)
				if a > top {
					top = a
				}
				x[c] = a
			}
			addSoftmax(sum, x, top, 1)
		}
		return logarithms(logp, sum)
	}
}

// spreads are exp(δ/√T_ens) for the deviations δ [M,K] of one example, each sample divided by its largest.
type spreads struct {
	samples *Samples
	example int // -1 before the first
	scale   float64
	e, q, x []float64
}

// maxCached bounds the exponentials that are cached.
const maxCached = 1 << 16

// mean writes the sum over samples of softmax(a + scale·δ), for logits a, to sum:
//
//	Σ_m w_c e_mc / Σ_j w_j e_mj,  w = exp(a - max a),  e = exp(scale·(δ - max δ))
//
// As in addSoftmax, exponentials are at least exp(-690). It returns false and writes nothing if there are too
// many e to cache. x is work space [K].
func (s *spreads) mean(sum, a, x []float64, example int, scale float64) bool {
	m, k := s.samples.m, s.samples.k
	if m*k > maxCached {
		return false
	}
	if s.example != example || s.scale != scale {
		s.prepare(example, scale)
	}
	w, top := x[:k], slices.Max(a)
	copy(w, a)
	exponentials(w, top)
	for c, v := range a {
		if v-top < leastExponent {
			w[c] = 0 // negligible in every total
		}
	}
	q, sum := s.q[:k], sum[:k]
	clear(q)
	clear(sum)
	const least = 1e-250
	for at := 0; at < len(s.e); at += k {
		e := s.e[at : at+k]
		var total float64
		for c, v := range e {
			total += w[c] * v
		}
		if total < least {
			s.add(sum, a, at/k)
			continue
		}
		weight := 1 / total
		for c, v := range e {
			q[c] += weight * v
		}
	}
	floor := float64(m) * math.Exp(leastExponent)
	for c, v := range q {
		p := w[c] * v
		if w[c] == 0 {
			p = math.Exp(a[c] - top + math.Log(v))
		}
		sum[c] += math.Max(p, floor)
	}
	return true
}

func (s *spreads) prepare(example int, scale float64) {
	m, k := s.samples.m, s.samples.k
	if s.e == nil {
		s.e, s.q, s.x = make([]float64, m*k), make([]float64, k), make([]float64, k)
	}
	s.example, s.scale = example, scale
	draws := s.samples.of(example)
	for e := s.e; len(e) > 0; e, draws = e[k:], draws[k:] {
		draw, e := draws[:k], e[:k]
		top := draw[0]
		for _, v := range draw[1:] {
			if v > top { // faster than the builtin max, which handles NaN
				top = v
			}
		}
		for c, v := range draw {
			e[c] = exponential(scale * (float64(v) - float64(top)))
		}
	}
}

// add adds the softmax of one sample whose factors under- or overflow.
func (s *spreads) add(sum, a []float64, sample int) {
	x, top := s.x, math.Inf(-1)
	for c, v := range s.samples.draw(s.example, sample) {
		x[c] = a[c] + s.scale*float64(v)
		top = math.Max(top, x[c])
	}
	addSoftmax(sum, x, top, 1)
}

// addSoftmax adds weight·softmax(x) to sum. top is the largest of x, which is overwritten.
func addSoftmax(sum, x []float64, top, weight float64) {
	weight /= exponentials(x, top)
	sum = sum[:len(x)]
	for c, e := range x {
		sum[c] += weight * e
	}
}

// logarithms writes log(p/Σp) to logp, for p > 0, and returns the margin. It sums all but the largest, to avoid
// cancellation.
func logarithms(logp, p []float64) (margin float64) {
	top := 0
	for c, v := range p {
		if v > p[top] {
			top = c
		}
	}
	var others float64
	for c, v := range p {
		if c != top {
			others += v
		}
	}
	total := p[top] + others
	for c, v := range p {
		logp[c] = math.Log(v / total)
	}
	logp[top] = -math.Log1p(others / p[top])
	return -math.Log(others / p[top] / float64(len(p)-1))
}

const (
	// expSteps is how many powers of 2 between 1 and 2 are tabulated.
	expSteps = 64
	// leastExponent bounds exponents from below. e^-690 is 1e-300, which stays normal when divided by a sum
	// over classes or samples.
	leastExponent = -690
)

var expTable [expSteps]float64 // 2^(i/expSteps)

func init() {
	for i := range expTable {
		expTable[i] = math.Exp2(float64(i) / expSteps)
	}
}

// exponentials overwrites x ≤ top by exp(max(x - top, -690)) and returns the sum.
func exponentials(x []float64, top float64) (sum float64) {
	for i, v := range x {
		e := exponential(v - top)
		x[i] = e
		sum += e
	}
	return sum
}

// exponential returns exp(max(x, -690)), x ≤ 0, with a relative error below 1e-7.
//
// With x = (n + r)·log 2/64, n an integer and |r| ≤ ½, exp x is 2^⌊n/64⌋ times a number from the
// table times exp(r log 2/64), whose series is cut after three terms: the error is (log 2/128)³/6 = 2.6e-8.
// Adding 3·2⁵¹ rounds a number to an integer, held in the last bits.
//
// It costs a fourth of math.Exp, as it is inlined and has no special cases.
func exponential(x float64) float64 {
	const (
		round  = 3 << 51
		first  = math.Ln2 / expSteps
		second = first * first / 2
	)
	if x < leastExponent {
		x = leastExponent
	}
	x *= expSteps / math.Ln2
	rounded := x + round
	r := x - (rounded - round)
	n := math.Float64bits(rounded)
	e := expTable[n%expSteps] * (1 + r*(first+r*second))
	// Add ⌊n/64⌋ to the exponent; higher bits are shifted out.
	return math.Float64frombits(math.Float64bits(e) + n/expSteps<<52)
}

// median returns the upper median of x, which it sorts.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
