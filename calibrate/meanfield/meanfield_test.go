package meanfield

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/approx"
)

// naiveMF evaluates eqs. 9 to 11 of the paper as printed, without logarithms.
func naiveMF(order int, mu, s []float64, lambda0 float64) []float64 {
	n := len(mu)
	p := make([]float64, n)
	var total float64
	for k := range mu {
		sum := 1.0
		for i := range mu {
			if i == k {
				continue
			}
			v := s[k*n+k]
			if order >= 1 {
				v += s[i*n+i]
			}
			if order >= 2 {
				v -= 2 * s[k*n+i]
			}
			sum += math.Exp(-(mu[k] - mu[i]) / math.Sqrt(1+lambda0*v))
		}
		p[k] = 1 / sum
		total += p[k]
	}
	for k := range p {
		p[k] /= total
	}
	return p
}

func randomCase(rng *rand.Rand, n int, scale, spread float64) (mu, cov, s2 []float64) {
	mu = make([]float64, n)
	root := make([]float64, n*n)
	for i := range mu {
		mu[i] = scale * rng.NormFloat64()
	}
	for i := range root {
		root[i] = spread * rng.NormFloat64()
	}
	cov = make([]float64, n*n)
	s2 = make([]float64, n)
	for i := range n {
		for j := range n {
			for l := range n {
				cov[i*n+j] += root[i*n+l] * root[j*n+l]
			}
		}
		s2[i] = cov[i*n+i]
	}
	return mu, cov, s2
}

func TestApproximationsEqualTheirFormulas(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 10, 40} {
		for range 20 {
			mu, cov, s2 := randomCase(rng, n, 3, 2)
			got := make([]float64, n)
			for order, eval := range []func() float64{
				func() float64 { return MF0Exact(got, mu, s2, Lambda0) },
				func() float64 { return MF1(got, mu, s2, Lambda0) },
				func() float64 { return MF2(got, mu, cov, Lambda0) },
			} {
				rest := OneMinusMax(eval(), n)
				want := naiveMF(order, mu, cov, Lambda0)
				top := argmax(want)
				for k := range want {
					if !approx.Equal(math.Exp(got[k]), want[k], 1e-13) {
						t.Fatalf("mf%d, K=%d: p[%d] = %v, want %v", order, n, k, math.Exp(got[k]), want[k])
					}
				}
				if !approx.Equal(rest, (1 - want[top]), 1e-13) {
					t.Fatalf("mf%d, K=%d: rest %v, want %v", order, n, rest, 1-want[top])
				}
			}
		}
	}
}

func TestNoVarianceIsSoftmax(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 1))
	for _, n := range []int{2, 10, 300} {
		mu, _, _ := randomCase(rng, n, 5, 0)
		zero := make([]float64, n)
		cov := make([]float64, n*n)
		want, got := make([]float64, n), make([]float64, n)
		wantRest := OneMinusMax(Softmax(want, mu), n)
		for name, eval := range map[string]func() float64{
			"mf0 exact": func() float64 { return MF0Exact(got, mu, zero, Lambda0) },
			"mf0":       func() float64 { return NewWorkspace(n, 0).MF0(got, mu, zero) },
			"mf1":       func() float64 { return MF1(got, mu, zero, Lambda0) },
			"mf2":       func() float64 { return MF2(got, mu, cov, Lambda0) },
		} {
			rest := OneMinusMax(eval(), n)
			if !approx.Relative(rest, wantRest, 1e-12) {
				t.Errorf("%s, K=%d: rest %v, want %v", name, n, rest, wantRest)
			}
			for k := range want {
				if !approx.Equal(got[k], want[k], 1e-11) {
					t.Errorf("%s, K=%d: log p[%d] = %v, want %v", name, n, k, got[k], want[k])
				}
			}
		}
	}
}

func TestShiftingLogitsChangesNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	const n = 12
	mu, cov, s2 := randomCase(rng, n, 4, 1)
	shifted := make([]float64, n)
	for i, v := range mu {
		shifted[i] = v + 1024
	}
	a, b := make([]float64, n), make([]float64, n)
	for name, eval := range map[string]func(dst, mu []float64){
		"mf0": func(dst, mu []float64) { MF0Exact(dst, mu, s2, Lambda0) },
		"mf1": func(dst, mu []float64) { MF1(dst, mu, s2, Lambda0) },
		"mf2": func(dst, mu []float64) { MF2(dst, mu, cov, Lambda0) },
	} {
		eval(a, mu)
		eval(b, shifted)
		for k := range a {
			if !approx.Equal(a[k], b[k], 1e-10) {
				t.Errorf("%s: log p[%d] %v became %v", name, k, a[k], b[k])
			}
		}
	}
}

func TestHugeVarianceIsUniform(t *testing.T) {
	t.Parallel()
	const n = 7
	mu := []float64{9, -3, 0, 2, 5, 5, -20}
	s2 := make([]float64, n)
	for i := range s2 {
		s2[i] = 1e12
	}
	got := make([]float64, n)
	MF0Exact(got, mu, s2, Lambda0)
	for k := range got {
		if !approx.Equal(math.Exp(got[k]), 1.0/n, 1e-4) {
			t.Errorf("p[%d] = %v, want about 1/%d", k, math.Exp(got[k]), n)
		}
	}
}

// The score must rank inputs whose largest probability rounds to one.
func TestRestKeepsRelativePrecision(t *testing.T) {
	t.Parallel()
	mu := []float64{80, 0, 1}
	s2 := []float64{0.5, 0.25, 0.125}
	logp := make([]float64, 3)
	rest := OneMinusMax(MF0Exact(logp, mu, s2, Lambda0), 3)
	want := math.Exp(logp[1]) + math.Exp(logp[2])
	if rest <= 0 || !approx.Relative(rest, want, 1e-12) {
		t.Errorf("rest %v, want %v", rest, want)
	}
	if !approx.Relative(-logp[0], want, 1e-12) {
		t.Errorf("-log p of the first %v, want %v", -logp[0], want)
	}
}

func TestSigmoidIsTheTwoClassSoftmaxOfADifference(t *testing.T) {
	t.Parallel()
	for _, mu := range []float64{-800, -3, 0, 0.5, 40, 800} {
		for _, s2 := range []float64{0, 1, 50} {
			l1, l0 := sigmoid(mu / math.Sqrt(1+Lambda0*s2))
			want := make([]float64, 2)
			MF0Exact(want, []float64{0, mu}, []float64{s2, s2}, Lambda0)
			if !approx.Equal(l0, want[0], 1e-12*math.Max(1, math.Abs(l0))) || !approx.Equal(l1, want[1],
				1e-12*math.Max(1, math.Abs(l1))) {
				t.Errorf("μ=%v s²=%v: %v %v, want %v", mu, s2, l1, l0, want)
			}
		}
	}
}

func TestSeparateSigmoidsEqualTheirDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(21, 1))
	for range 50 {
		k := 1 + rng.IntN(9)
		mu := make([]float64, k)
		var sum, least, most float64
		for i := range mu {
			mu[i] = 6 * rng.NormFloat64()
			p := 1 / (1 + math.Exp(-mu[i]))
			sum += p
			least += math.Min(p, 1-p) / float64(k)
			most = math.Max(most, p)
		}
		pairs, classes := make([]float64, 2*k), make([]float64, k)
		rest := OneMinusMax(Sigmoids(pairs, mu), 2)
		if !approx.Equal(rest, least, 1e-13) {
			t.Errorf("Sigmoids of %v: rest %v, want %v", mu, rest, least)
		}
		if rest := OneMinusMax(OneVsRest(classes, mu), k); !approx.Equal(rest, (1 - most/sum), 1e-13) {
			t.Errorf("OneVsRest of %v: rest %v, want %v", mu, rest, 1-most/sum)
		}
		for i, m := range mu {
			p := 1 / (1 + math.Exp(-m))
			for what, pair := range map[string][2]float64{"1-p": {pairs[2*i], 1 - p}, "p": {pairs[2*i+1], p},
				"of the sum": {classes[i], p / sum}} {
				if !approx.Equal(math.Exp(pair[0]), pair[1], 1e-13) {
					t.Errorf("logit %d of %v: %s is %v, want %v", i, mu, what, math.Exp(pair[0]), pair[1])
				}
			}
		}
	}
}

// In a logit's own problem nothing overflows, and nothing that is small is lost.
func TestSeparateSigmoidsAtTheExtremes(t *testing.T) {
	t.Parallel()
	mu := []float64{1e6, -1e6, 50, -800}
	pairs := make([]float64, 8)
	rest := OneMinusMax(Sigmoids(pairs, mu), 2)
	small := math.Exp(-50)
	for i, want := range []float64{-1e6, 0, 0, -1e6, -50, -small, 0, -800} {
		if !approx.Relative(pairs[i], want, 1e-12) {
			t.Errorf("value %d is %v, want %v", i, pairs[i], want)
		}
	}
	if !approx.Relative(rest, small/4, 1e-12) {
		t.Errorf("rest %v, want %v", rest, small/4)
	}
	logp := []float64{-1e6, -1e6 - 1, -2e6} // in place
	rest = OneMinusMax(OneVsRest(logp, logp), 3)
	if want := 1 / (1 + math.E); !approx.Equal(rest, want, 1e-9) || !approx.Equal(logp[0], math.Log(1-want), 1e-9) ||
		logp[2] > -9e5 {
		t.Errorf("log p %v, rest %v, want %v", logp, rest, want)
	}
}

// Seeded sampling bounds the error of the approximation itself: mf0 is not an exact integral, and this test limits
// its error on moderate inputs.
func TestApproximationErrorAgainstSampling(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 1))
	const n, samples = 5, 100_000
	for range 3 {
		mu, _, _ := randomCase(rng, n, 2, 0)
		s2 := make([]float64, n)
		for i := range s2 {
			s2[i] = 1.5 * rng.Float64()
		}
		mean := make([]float64, n)
		a, lp := make([]float64, n), make([]float64, n)
		for range samples {
			for i := range a {
				a[i] = mu[i] + math.Sqrt(s2[i])*rng.NormFloat64()
			}
			Softmax(lp, a)
			for i := range mean {
				mean[i] += math.Exp(lp[i]) / samples
			}
		}
		cov := make([]float64, n*n)
		for i := range s2 {
			cov[i*n+i] = s2[i]
		}
		// Sampling error is below 0.5/√samples = 0.0016; the rest is the method's.
		for name, tc := range map[string]struct {
			eval func()
			tol  float64
		}{
			"mf0": {func() { MF0Exact(lp, mu, s2, Lambda0) }, 0.05},
			"mf1": {func() { MF1(lp, mu, s2, Lambda0) }, 0.03},
			"mf2": {func() { MF2(lp, mu, cov, Lambda0) }, 0.03},
		} {
			tc.eval()
			for k := range mean {
				if d := math.Exp(lp[k]) - mean[k]; !approx.Equal(d, 0, tc.tol) {
					t.Errorf("%s: p[%d] = %.4f, sampled %.4f", name, k, math.Exp(lp[k]), mean[k])
				}
			}
		}
	}
}

// adversarial returns logits that are hard to interpolate.
func adversarial(n int) map[string][]float64 {
	rng := rand.New(rand.NewPCG(5, uint64(n)))
	fill := func(f func(i int) float64) []float64 {
		mu := make([]float64, n)
		for i := range mu {
			mu[i] = f(i)
		}
		return mu
	}
	cases := map[string][]float64{
		"equal":    fill(func(int) float64 { return 3 }),
		"spread":   fill(func(i int) float64 { return -1e4 + 2e4*float64(i)/float64(n) }),
		"gaussian": fill(func(int) float64 { return 4 * rng.NormFloat64() }),
		"huge":     fill(func(int) float64 { return 1e4 * rng.NormFloat64() }),
		"two":      fill(func(i int) float64 { return -30 * math.Min(1, float64(i/2)) }),
	}
	for _, gap := range []float64{1, 3, 5, 8, 10, 12, 20, 60} {
		cases[fmt.Sprintf("dominant by %v", gap)] = fill(func(i int) float64 { return -gap * math.Min(1, float64(i)) })
		cases[fmt.Sprintf("dominant by about %v", gap)] = fill(func(i int) float64 {
			return -gap * math.Min(1, float64(i)) * (1 + 0.1*rng.Float64())
		})
	}
	return cases
}

func TestFastMF0EqualsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 1))
	for _, n := range []int{2, 10, 100, 1000} {
		w := NewWorkspace(n, 0)
		got, want, s2 := make([]float64, n), make([]float64, n), make([]float64, n)
		for _, ratio := range []float64{1, 1 + 1e-9, 1.5, 2, 4, 10, 100, 1e18} {
			for name, mu := range adversarial(n) {
				for i := range s2 { // T between 1.2 and 1.2·ratio, both taken
					temp := 1.2 * math.Pow(ratio, rng.Float64())
					if i < 2 {
						temp = 1.2 * math.Pow(ratio, float64(i))
					}
					s2[i] = (temp*temp - 1) / Lambda0
				}
				rest := OneMinusMax(w.MF0(got, mu, s2), n)
				wantRest := OneMinusMax(MF0Exact(want, mu, s2, Lambda0), n)
				if !approx.Equal(rest, wantRest, 1e-8*wantRest) {
					t.Errorf("K=%d, ratio %v, %s: rest %v, want %v", n, ratio, name, rest, wantRest)
				}
				for k := range got {
					// log p of 1e4 in size carries rounding of 1e-12 itself.
					if d := got[k] - want[k]; !approx.Equal(d, 0, 1e-8) {
						t.Errorf("K=%d, ratio %v, %s: log p[%d] off by %.1e", n, ratio, name, k, d)
						break
					}
				}
			}
		}
	}
}

// With classes by the ten thousand the exact form takes seconds; what is
// interpolated can still be compared in places.
func TestInterpolationEqualsItsFunction(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(16, 1))
	for _, n := range []int{24, 200, 1000, 21841} {
		w := NewWorkspace(n, 0)
		for name, mu := range adversarial(n) {
			top := argmax(mu)
			for i, v := range mu {
				w.shifted[i] = v - mu[top]
			}
			peak := mu[top]
			for _, ratio := range []float64{1, 1 + 1e-15, 1.5, 10, 1e4} {
				hi := -math.Log(1 + 3*rng.Float64())
				lo := hi - math.Log(ratio)
				if !w.f.interpolate(w.shifted, lo, hi, w.nodes) {
					if n >= 1000 {
						t.Errorf("K=%d, %s, ratio %v: not interpolated", n, name, ratio)
					}
					continue
				}
				for i := range 6 {
					at := lo + (hi-lo)*float64(i)/5
					want := logMeanExp(mu, top, depthOf(mu, top), math.Exp(at))
					if got := w.f.at(at); !approx.Equal(got, want, tolerance) {
						t.Errorf("K=%d, %s (largest %v), ratio %v: f(%v) = %v, want %v", n, name, peak, ratio, at, got, want)
					}
				}
			}
		}
	}
}

// NaN stays NaN, and every loop ends.
func TestFastMF0OfWhatIsNotFinite(t *testing.T) {
	t.Parallel()
	const n = 500
	w := NewWorkspace(n, 0)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, where := range []string{"mu", "s2"} {
			mu, s2, logp := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range mu {
				mu[i], s2[i] = float64(i%17), float64(i%5)
			}
			x := mu
			if where == "s2" {
				x = s2
			}
			x[7] = bad
			want := make([]float64, n)
			w.MF0(logp, mu, s2)
			MF0Exact(want, mu, s2, Lambda0)
			for i := range want {
				if math.IsNaN(want[i]) != math.IsNaN(logp[i]) {
					t.Fatalf("%s with %v: log p[%d] = %v, want %v", where, bad, i, logp[i], want[i])
				}
			}
		}
	}
}

// The sums over intervals of logits are those over logits.
func TestBinsEqualTheirSum(t *testing.T) {
	t.Parallel()
	const n = 5000
	for name, mu := range adversarial(n) {
		top := argmax(mu)
		delta := make([]float64, n)
		for i, v := range mu {
			delta[i] = v - mu[top]
		}
		const lo, hi = 0.2, 0.9
		var s bins
		direct := bins{depth: depthOf(mu, top)}
		s.gather(delta, lo, hi)
		if spread := name == "spread" || name == "huge"; s.n == 0 && !spread {
			t.Errorf("%s: summed directly", name)
		}
		for _, b := range []float64{lo, 0.33, hi} {
			got, want := s.logMean(delta, b), direct.logMean(delta, b)
			if !approx.Equal(got, want, 5e-11) {
				t.Errorf("%s: log mean exp(%vδ) is %v, want %v", name, b, got, want)
			}
		}
	}
}

func TestFastMF0DoesNotAllocate(t *testing.T) {
	const n = 500
	w := NewWorkspace(n, 0)
	mu, s2, logp := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range mu {
		mu[i], s2[i] = float64(i%17), float64(i%5)
	}
	w.MF0(logp, mu, s2)
	if a := testing.AllocsPerRun(10, func() { w.MF0(logp, mu, s2) }); a != 0 {
		t.Errorf("%v allocations a call", a)
	}
}

// No logits found by random search bring a zero of Σ exp(zδ) nearer to the
// real axis than the strip assumes: the interpolation would show it.
func TestStripSurvivesRandomSearch(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 1))
	const n = 200
	w := NewWorkspace(n, 0)
	got, want, s2, mu := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range s2 {
		temp := math.Pow(8, float64(i)/(n-1))
		s2[i] = (temp*temp - 1) / Lambda0
	}
	for range 300 {
		levels := 1 + rng.IntN(4)
		depth := make([]float64, levels)
		for l := range depth {
			depth[l] = -40 * rng.Float64() * rng.Float64()
		}
		for i := 1; i < n; i++ {
			mu[i] = depth[rng.IntN(levels)]
		}
		w.MF0(got, mu, s2)
		MF0Exact(want, mu, s2, Lambda0)
		for k := range got {
			if d := got[k] - want[k]; !approx.Equal(d, 0, 1e-8) {
				t.Fatalf("levels %v: log p[%d] off by %.1e", depth, k, d)
			}
		}
	}
}

func TestCurveEqualsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 1))
	for _, n := range []int{2, 10, 300} {
		logp, mu, s2, scaled, scratch := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64,
			n), make([]float64, n)
		for name, logits := range adversarial(n) {
			c := NewCurve(logits)
			for range 10 {
				tact := math.Exp(math.Log(0.02) + rng.Float64()*math.Log(1000))
				scale := math.Exp(6 * rng.NormFloat64())
				for i := range s2 {
					s2[i] = rng.ExpFloat64()
					scaled[i] = scale * s2[i]
					mu[i] = logits[i] / tact
				}
				label := rng.IntN(n)
				wantMargin := MF0Exact(logp, mu, scaled, Lambda0)
				InverseTemperaturesTo(scratch, s2, scale, Lambda0)
				nll, margin := c.MF0(logits, scratch, label, tact)
				tol := 1e-4 + 1e-6*math.Abs(logp[label])
				if !approx.Equal(nll, -logp[label], tol) {
					t.Errorf("K=%d %s T_act=%.3g scale=%.3g: NLL %v, want %v", n, name, tact, scale, nll, -logp[label])
				}
				// Its own digits where it is small, and those of the exponents where these are
				// large.
				if !approx.Equal(margin, wantMargin, math.Min(1e-4, 1e-2*wantMargin)+1e-6*wantMargin) {
					t.Errorf("K=%d %s T_act=%.3g scale=%.3g: margin %v, want %v", n, name, tact, scale, margin, wantMargin)
				}
			}
			for _, temp := range []float64{0.02, 0.5, 1, 3, 20} {
				for i := range mu {
					mu[i] = logits[i] / temp
				}
				Softmax(logp, mu)
				if got := c.at(1/temp) + c.logK - (logits[n-1]-c.peak)/temp; !approx.Equal(got, -logp[n-1],
					1e-4+1e-6*math.Abs(logp[n-1])) {
					t.Errorf("K=%d %s T=%v: NLL %v, want %v", n, name, temp, got, -logp[n-1])
				}
			}
		}
	}
}

func TestExpSmallEqualsExp(t *testing.T) {
	t.Parallel()
	for x := 0.0; x > -700; x -= 0.00917 {
		if got, want := expSmall(x), math.Exp(x); !approx.Relative(got, want, 1e-10) {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
}

// A few of ten thousand examples have variances beyond the table.
func TestCurveBeyondItsTable(t *testing.T) {
	t.Parallel()
	logits := []float64{3, -1, 0, 2.5, -8}
	c := NewCurve(logits)
	n := len(logits)
	s2, inverse, logp, mu := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for _, tact := range []float64{0.01, 1, 20, 1e3} {
		for _, scale := range []float64{0, 1e6, 1e12} {
			for k := range s2 {
				s2[k], mu[k] = float64(k)*scale, logits[k]/tact
			}
			InverseTemperaturesTo(inverse, s2, 1, Lambda0)
			nll, margin := c.MF0(logits, inverse, 2, tact)
			want := MF0Exact(logp, mu, s2, Lambda0)
			// Above MaxBeta f is taken as constant, here 0 to e^-32.
			if !approx.Equal(nll, -logp[2], 1e-5) || !approx.Equal(margin, want, 1e-5*want+1e-12) {
				t.Errorf("T_act %v, variances up to %v: %v and %v, want %v and %v", tact, 4*scale, nll, margin, -logp[2], want)
			}
			if nll, _ := c.MF0(logits, inverse, -1, tact); !math.IsNaN(nll) {
				t.Errorf("without a label the NLL is %v", nll)
			}
		}
	}
}

// BenchmarkMF0 times mf0 and its exact form in turns, and reports how many times as fast it is.
func BenchmarkMF0(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 21841} {
		for _, ratio := range []float64{2, 10} {
			b.Run(fmt.Sprintf("K=%d/ratio=%v", n, ratio), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(9, 1))
				mu, s2, logp := make([]float64, n), make([]float64, n), make([]float64, n)
				for i := range mu {
					mu[i] = 3 * rng.NormFloat64()
					temp := math.Pow(ratio, rng.Float64())
					s2[i] = (temp*temp - 1) / Lambda0
				}
				w := NewWorkspace(n, 0)
				const calls = 20 // of the fast one, for each of the exact one
				var fast, exact time.Duration
				for b.Loop() {
					start := time.Now()
					for range calls {
						w.MF0(logp, mu, s2)
					}
					fast += time.Since(start)
					if n > 1000 { // seconds
						continue
					}
					start = time.Now()
					MF0Exact(logp, mu, s2, Lambda0)
					exact += time.Since(start)
				}
				one := float64(fast) / float64(calls*b.N)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(one/1e3, "µs/example")
				if exact > 0 {
					b.ReportMetric(float64(exact)/float64(b.N)/one, "×exact")
				}
			})
		}
	}
}

func BenchmarkCurve(b *testing.B) {
	const n = 1000
	rng := rand.New(rand.NewPCG(10, 1))
	logits, s2, scratch := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range logits {
		logits[i], s2[i] = 3*rng.NormFloat64(), rng.ExpFloat64()
	}
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			NewCurve(logits)
		}
	})
	c := NewCurve(logits)
	InverseTemperaturesTo(scratch, s2, 2, Lambda0)
	b.Run("mf0", func(b *testing.B) {
		for b.Loop() {
			c.MF0(logits, scratch, 3, 1.3)
		}
	})
}

// A curve is continuous where its table begins, for logits of any size.
func TestCurveIsContinuousAtItsBeginning(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(19, 1))
	for _, size := range []float64{1, 100, 1e3, 1e4} {
		logits, _, _ := randomCase(rng, 12, size, 0)
		c := NewCurve(logits)
		if below, at := c.at(math.Nextafter(minBeta, 0)), c.at(minBeta); !approx.Relative(below, at, 1e-6) {
			t.Errorf("logits of size %v: %v below the table, %v in it", size, below, at)
		}
	}
}
