package meanfield

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// precision of the oracle in bits: it forms 1 - max p as it is written, of numbers whose
// logarithms reach from 1e-30 to 1e7.
const precision = 300

func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

func newNumber() *big.Float { return new(big.Float).SetPrec(precision) }

// ln2 is Σ 1/(n 2ⁿ).
var ln2 = func() *big.Float {
	sum := newNumber()
	for n := precision + 64; n > 0; n-- {
		sum.Add(sum, newNumber().SetMantExp(newNumber().Quo(number(1), number(float64(n))), -n))
	}
	return sum
}()

// bigExp is exp(x): by its series for x less a multiple of log 2, over 2¹⁰, which is then
// squared ten times.
func bigExp(x *big.Float) *big.Float {
	q, _ := newNumber().Quo(x, ln2).Float64()
	n := math.Round(q)
	r := newNumber().Sub(x, newNumber().Mul(number(n), ln2))
	r.SetMantExp(r, -10)
	sum, term := number(1), number(1)
	for i := 1; i < 28; i++ {
		term.Mul(term, r)
		term.Quo(term, number(float64(i)))
		sum.Add(sum, term)
	}
	for range 10 {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(n))
}

// bigLog is log(x), by Newton's method on exp.
func bigLog(x *big.Float) *big.Float {
	m, e := newNumber(), x.MantExp(nil)
	m.SetMantExp(x, -e)
	f, _ := m.Float64()
	y := newNumber().Add(number(math.Log(f)), newNumber().Mul(number(float64(e)), ln2))
	for range 5 { // y + (x e^-y - 1)
		z := newNumber().Mul(x, bigExp(newNumber().Neg(y)))
		y.Add(y, z.Sub(z, number(1)))
	}
	return y
}

// bigMargin is the definition: log((1-r)/r) - log((1-r₀)/r₀) of r = 1 - max p.
func bigMargin(rest *big.Float, outcomes int) *big.Float {
	odds := newNumber().Quo(newNumber().Sub(number(1), rest), rest)
	return bigLog(odds.Mul(odds, number(float64(outcomes-1))))
}

// bigRest is the part of all but the largest in a sum, which no difference can be.
func bigRest(p []*big.Float) *big.Float {
	top := 0
	for k, v := range p {
		if v.Cmp(p[top]) > 0 {
			top = k
		}
	}
	others := newNumber()
	for k, v := range p {
		if k != top {
			others.Add(others, v)
		}
	}
	return others.Quo(others, newNumber().Add(others, p[top]))
}

// bigMF0 are the ẽ of mf0 up to a factor: for every T there is one sum, so few T make it quick.
func bigMF0(mu, s2 []float64) []*big.Float {
	peak := number(slices.Max(mu))
	sums := map[float64]*big.Float{}
	term := func(k int, s2 float64) *big.Float {
		t := newNumber().Sqrt(newNumber().Add(number(1), newNumber().Mul(number(Lambda0), number(s2))))
		x := newNumber().Sub(number(mu[k]), peak)
		return bigExp(x.Quo(x, t))
	}
	p := make([]*big.Float, len(mu))
	for k, v := range s2 {
		if sums[v] == nil {
			sum := newNumber()
			for i := range mu {
				sum.Add(sum, term(i, v))
			}
			sums[v] = sum
		}
		p[k] = term(k, v)
		p[k].Quo(p[k], sums[v])
	}
	return p
}

func bigSigmoid(x float64) *big.Float { // σ(x)
	e := bigExp(number(-x))
	return e.Quo(number(1), e.Add(e, number(1)))
}

// exemplar are one example's logits and variances.
type exemplar struct{ mu, s2 []float64 }

// exemplars are random and adversarial logits of scales from 1e-6 to 1e6, with variances
// that are common, of three sizes, or so large that all probabilities are nearly the same.
func exemplars(rng *rand.Rand, classes, count int) []exemplar {
	var all []exemplar
	for i := range count {
		scale := math.Pow(10, 12*rng.Float64()-6)
		e := exemplar{make([]float64, classes), make([]float64, classes)}
		kind := i % 4
		for k := range classes {
			x := rng.NormFloat64()
			switch kind {
			case 1: // the others far below, as good as tied
				x = -3 + 1e-3*x
				if k == 0 {
					x = 0
				}
			case 2: // two on top, as good as tied
				if x = -1 - math.Abs(x); k < 2 {
					x = 1e-5 * x
				}
			case 3: // one far below
				if x *= 1e-3; k == classes-1 {
					x = -5
				}
			}
			// float32, as logits are
			e.mu[k] = float64(float32(scale * x))
		}
		spread := math.Pow(10, 24*rng.Float64()-6)
		for k := range classes {
			e.s2[k] = spread * []float64{1, 1.7, 4}[(k+i)%3]
			if i%5 == 0 {
				e.s2[k] = 0
			}
		}
		all = append(all, e)
	}
	return all
}

// No two of thousands of ordinary examples tie, whatever the unit of their logits and however
// high their temperatures, where 1 - max p and its logarithm do by the hundred.
func TestMarginsDoNotTie(t *testing.T) {
	t.Parallel()
	const n = 2000
	for _, classes := range []int{2, 4, 10, 100} {
		rng := rand.New(rand.NewPCG(31, uint64(classes)))
		w, logp := NewWorkspace(classes, 0), make([]float64, 2*classes)
		mu, s2 := make([]float64, classes), make([]float64, classes)
		for _, scale := range []float64{1e-6, 1e-3, 1, 1e3, 1e6} {
			for _, spread := range []float64{0, 1, 1e12, 1e24} {
				margins, rests := map[string]map[float64]bool{}, map[float64]bool{}
				for range n {
					for k := range mu {
						mu[k], s2[k] = scale*rng.NormFloat64(), spread*(1+rng.Float64())
					}
					for name, g := range map[string]float64{
						"mf0": w.MF0(logp[:classes], mu, s2), "softmax": Softmax(logp[:classes], mu), "sigmoids": Sigmoids(logp, mu),
					} {
						if margins[name] == nil {
							margins[name] = map[float64]bool{}
						}
						if !(g > 0 && g < math.Inf(1)) {
							t.Fatalf("%s, K=%d: a margin is %v", name, classes, g)
						}
						margins[name][g] = true
						if name == "mf0" {
							rests[OneMinusMax(g, classes)] = true
						}
					}
				}
				for name, distinct := range margins {
					if len(distinct) < n {
						t.Errorf("%s, K=%d, logits of %v, variances of %v: %d margins of %d examples", name, classes, scale, spread, len(distinct), n)
					}
				}
				if hard := scale == 1e6 && spread == 0 || scale == 1e-6 && spread > 1e20; hard && len(rests) > n/2 {
					t.Errorf("K=%d, logits of %v, variances of %v: %d values of 1 - max p, want ties", classes, scale, spread, len(rests))
				}
			}
		}
	}
}

// Margins have their own digits, of whatever size they are: 1 - max p is zero in floating
// point for some of these examples, and its largest value for others.
func TestMarginsKeepTheirDigits(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 3, 10, 100, 1000} {
		count := min(200, max(8, 1500/classes))
		examples := exemplars(rand.New(rand.NewPCG(30, uint64(classes))), classes, count)
		w := NewWorkspace(classes, 0)
		logp, pairs := make([]float64, classes), make([]float64, 2*classes)
		for _, m := range []struct {
			name      string
			tolerance float64 // rounding adds up over classes; mf0 of many is interpolated
			outcomes  int
			of        func(e exemplar) float64
			rest      func(e exemplar) *big.Float
		}{
			{"softmax", 1e-13 * float64(classes), classes, func(e exemplar) float64 { return Softmax(logp, e.mu) },
				func(e exemplar) *big.Float { return bigRest(bigMF0(e.mu, make([]float64, classes))) }},
			{"mf0 exact", 1e-12 * float64(classes), classes,
				func(e exemplar) float64 { return MF0Exact(logp, e.mu, e.s2, Lambda0) },
				func(e exemplar) *big.Float { return bigRest(bigMF0(e.mu, e.s2)) }},
			{"mf0", 1e-8, classes, func(e exemplar) float64 { return w.MF0(logp, e.mu, e.s2) },
				func(e exemplar) *big.Float { return bigRest(bigMF0(e.mu, e.s2)) }},
			{"sigmoids", 1e-14 * float64(classes), 2, func(e exemplar) float64 { return Sigmoids(pairs, e.mu) },
				func(e exemplar) *big.Float {
					sum := newNumber()
					for _, x := range e.mu {
						sum.Add(sum, bigSigmoid(-math.Abs(x)))
					}
					return sum.Quo(sum, number(float64(classes)))
				}},
			{"one-vs-rest", 1e-13 * float64(classes), classes, func(e exemplar) float64 { return OneVsRest(logp, e.mu) },
				func(e exemplar) *big.Float {
					p := make([]*big.Float, classes)
					for k, x := range e.mu {
						p[k] = bigSigmoid(x)
					}
					return bigRest(p)
				}},
		} {
			t.Run(fmt.Sprintf("%s/K=%d", m.name, classes), func(t *testing.T) {
				margins := make(map[float64]float64) // and what they ought to be
				for i, e := range examples {
					got := m.of(e)
					want, _ := bigMargin(m.rest(e), m.outcomes).Float64()
					if !approx.Relative(got, want, m.tolerance) && !(want < 1e-290) {
						t.Errorf("example %d: margin %v, want %v: off by %.1e\n%v\n%v", i, got, want, math.Abs(got-want)/want, e.mu[:min(5, classes)],
							e.s2[:min(5, classes)])
					}
					if other, tied := margins[got]; tied && !approx.Relative(other, want, 1e-15) {
						t.Errorf("example %d: %v is the margin of two examples, of %v and %v", i, got, other, want)
					}
					margins[got] = want
				}
			})
		}
	}
}
