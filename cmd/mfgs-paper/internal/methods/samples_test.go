package methods

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// normals returns n numbers from N(0, size²).
func normals(rng *rand.Rand, n int, size float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(size * rng.NormFloat64())
	}
	return x
}

// naiveSoftmax returns softmax(x) without regard to overflow.
func naiveSoftmax(x []float64) []float64 {
	p, sum := make([]float64, len(x)), 0.0
	for c, v := range x {
		p[c] = math.Exp(v)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// wantProbabilities compares log-probabilities and 1 - max p with the probabilities
// wanted, to within a relative error of these.
func wantProbabilities(t *testing.T, what string, logp []float64, rest float64, want []float64, tolerance float64) {
	t.Helper()
	top := slices.Index(want, slices.Max(want))
	others := 0.0
	for c, p := range want {
		if !approx.Equal(logp[c], math.Log(p), tolerance) {
			t.Errorf("%s: log p of class %d is %v, want %v", what, c, logp[c], math.Log(p))
		}
		if c != top {
			others += p
		}
	}
	if !approx.Equal(rest, others, tolerance*others) {
		t.Errorf("%s: 1 - max p is %v, want %v", what, rest, others)
	}
}

func TestExponentialsAreAccurate(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		x := make([]float64, 50)
		scale := math.Exp(10*rng.Float64() - 4)
		for i := range x {
			x[i] = scale * rng.NormFloat64()
		}
		x[0], x[1] = math.Round(x[0]), math.Copysign(0, -1)
		top := slices.Max(x)
		got := slices.Clone(x)
		sum, want := exponentials(got, top), 0.0
		for i, v := range x {
			e := math.Exp(math.Max(v-top, leastExponent))
			want += e
			if !approx.Relative(got[i], e, 1e-7) {
				t.Fatalf("exp(%v) is %v, want %v", v-top, got[i], e)
			}
		}
		if !approx.Relative(sum, want, 1e-7) {
			t.Fatalf("the sum is %v, want %v", sum, want)
		}
	}
	if x := []float64{0, math.Inf(-1)}; exponentials(x, 0) != 1 || x[0] != 1 || !(x[1] > 0 && x[1] < 1e-299) {
		t.Errorf("exp(0) and exp(-∞) are %v, want 1 and about 1e-300", x)
	}
}

func TestSamplesAverageTheSoftmax(t *testing.T) {
	t.Parallel()
	const n, m, k = 7, 30, 5
	rng := rand.New(rand.NewPCG(2, 1))
	logits, deviations := normals(rng, n*k, 3), normals(rng, n*m*k, 2)
	s, err := NewSamples(logits, deviations, n, m, k)
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != n || s.Probabilities() != k {
		t.Errorf("%d examples of %d outcomes, want %d and %d", s.Len(), s.Probabilities(), n, k)
	}
	var variances []float64
	for i := range n {
		for c := range k {
			var sum float64
			for j := range m {
				sum += math.Pow(float64(deviations[(i*m+j)*k+c]), 2)
			}
			variances = append(variances, sum/m)
		}
	}
	slices.Sort(variances)
	if want := variances[n*k/2]; !approx.Relative(s.MedianVariance(), want, 1e-12) {
		t.Errorf("spread %v, want %v", s.MedianVariance(), want)
	}
	predict, logp := s.Predictor(), make([]float64, k)
	for _, temperatures := range []layer.Temperatures{{Act: 1, Ens: 1}, {Act: 0.3, Ens: 20}, {Act: 4, Ens: 0.05}} {
		for i := range n {
			want := make([]float64, k)
			for j := range m {
				x := make([]float64, k)
				for c := range x {
					x[c] = float64(logits[i*k+c])/temperatures.Act +
						float64(deviations[(i*m+j)*k+c])/math.Sqrt(temperatures.Ens)
				}
				for c, p := range naiveSoftmax(x) {
					want[c] += p / m
				}
			}
			rest := meanfield.OneMinusMax(predict(logp, i, temperatures), len(logp))
			wantProbabilities(t, fmt.Sprintf("example %d at %v", i, temperatures), logp, rest, want, 2e-7)
		}
	}
}

func TestEnsemblesAverageTheSoftmax(t *testing.T) {
	t.Parallel()
	const n, m, k = 6, 3, 4
	rng := rand.New(rand.NewPCG(3, 1))
	members := normals(rng, n*m*k, 3)
	s, err := NewEnsemble(members, n, m, k)
	if err != nil {
		t.Fatal(err)
	}
	if s.MedianVariance() != 0 {
		t.Errorf("spread %v, want 0: an ensemble has no T_ens", s.MedianVariance())
	}
	predict, logp := s.Predictor(), make([]float64, k)
	for i := range n {
		const act = 1.7
		want := make([]float64, k)
		for j := range m {
			x := make([]float64, k)
			for c := range x {
				x[c] = float64(members[(i*m+j)*k+c]) / act
			}
			for c, p := range naiveSoftmax(x) {
				want[c] += p / m
			}
		}
		rest := meanfield.OneMinusMax(predict(logp, i, layer.Temperatures{Act: act, Ens: 1}), len(logp))
		wantProbabilities(t, fmt.Sprintf("example %d", i), logp, rest, want, 2e-7)
	}
}

func TestSamplesAreFiniteAtExtremeTemperatures(t *testing.T) {
	t.Parallel()
	s, err := NewSamples([]float32{1000, -1000, 0, 1, 1, 1}, []float32{1e4, 0, -1e4, 0, 0, 0}, 2, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	predict, logp := s.Predictor(), make([]float64, 3)
	for i := range 2 {
		for _, temperatures := range []layer.Temperatures{{Act: 0.02, Ens: 1e-12}, {Act: 20, Ens: 1e30}} {
			rest := meanfield.OneMinusMax(predict(logp, i, temperatures), len(logp))
			for c, v := range logp {
				if !(v <= 0 && v > -800) {
					t.Errorf("example %d at %v: log p of class %d is %v, want a number from -800 to 0", i, temperatures, c, v)
				}
			}
			if !(rest > 0 && rest <= 2./3+1e-15) {
				t.Errorf("example %d at %v: 1 - max p is %v, want more than 0 and at most 2/3", i, temperatures, rest)
			}
		}
	}
	if predict(logp, 1, layer.Temperatures{Act: 1, Ens: 1}); !approx.Equal(logp[0], -math.Log(3), 1e-12) {
		t.Errorf("log p of one of three equal classes is %v, want %v", logp[0], -math.Log(3))
	}
}

// For logits and deviations of any size, and in any order of calls. Values below 1e-260 are not compared.
func TestCachedSamplesEqualTheNaiveMean(t *testing.T) {
	t.Parallel()
	const n, m, k = 4, 20, 6
	rng := rand.New(rand.NewPCG(8, 1))
	logits, deviations := normals(rng, n*k, 3), normals(rng, n*m*k, 2)
	for c := range k { // samples that take back what the logits say
		logits[c] = float32(c)
		deviations[c] = -3 * float32(c)
	}
	s, err := NewSamples(logits, deviations, n, m, k)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []float64{1e-9, 1, 0.1, 0.02, 0.005, 1e-3, 1e-9}
	predict, logp := s.Predictor(), make([]float64, k)
	for i := range n {
		for _, spread := range sizes {
			for _, act := range sizes {
				want := make([]float64, k)
				for j := range m {
					x := make([]float64, k)
					for c := range x {
						x[c] = float64(logits[i*k+c])/act + float64(deviations[(i*m+j)*k+c])/spread
					}
					top := slices.Max(x)
					for c := range x {
						x[c] -= top
					}
					for c, p := range naiveSoftmax(x) {
						want[c] += p / m
					}
				}
				predict(logp, i, layer.Temperatures{Act: act, Ens: spread * spread})
				for c, p := range want {
					if p < 1e-260 {
						if !(logp[c] < math.Log(1e-259)) {
							t.Errorf("example %d at %v and %v: log p of class %d is %v, want less", i, act, spread, c, logp[c])
						}
					} else if !approx.Equal(logp[c], math.Log(p), 5e-7) {
						t.Errorf("example %d at %v and %v: log p of class %d is %v, want %v", i, act, spread, c, logp[c], math.Log(p))
					}
				}
			}
		}
	}
}

func TestFewerSamplesAreTheFirstDraws(t *testing.T) {
	t.Parallel()
	const n, m, few, k = 20, 9, 4, 3
	rng := rand.New(rand.NewPCG(4, 4))
	logits, all := make([]float32, n*k), make([]float32, n*m*k)
	for _, x := range [][]float32{logits, all} {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
	}
	var first []float32
	for i := range n {
		first = append(first, all[i*m*k:(i*m+few)*k]...)
	}
	whole, err := NewSamples(logits, all, n, m, k)
	if err != nil {
		t.Fatal(err)
	}
	want, err := NewSamples(logits, first, n, few, k)
	if err != nil {
		t.Fatal(err)
	}
	same := func(got, want calibrate.Predictive) {
		t.Helper()
		at := layer.Temperatures{Act: 1.5, Ens: 0.7}
		p, margin, err := calibrate.PredictAll(t.Context(), got, at)
		if err != nil {
			t.Fatal(err)
		}
		q, wanted, err := calibrate.PredictAll(t.Context(), want, at)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p, q) || !slices.Equal(margin, wanted) {
			t.Error("other probabilities")
		}
	}
	same(whole.Fewer(few), want)
	same(whole.Fewer(m+1), whole)
	if whole.Fewer(few).MedianVariance() != whole.MedianVariance() {
		t.Error("fewer draws change the unit of T_ens")
	}
}

func TestSamplesRefuseBadInputs(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	five := make([]float32, 5)
	for _, c := range []struct {
		name   string
		make   func() (*Samples, error)
		reason string
	}{
		{"no samples", func() (*Samples, error) { return NewSamples(make([]float32, 2), nil, 1, 0, 2) }, "0 samples of 2 logits for 1 examples"},
		{"one class", func() (*Samples, error) { return NewEnsemble(five, 5, 1, 1) }, "1 samples of 1 logits"},
		{"no examples", func() (*Samples, error) { return NewEnsemble(nil, 0, 3, 2) }, "for 0 examples"},
		{"few draws", func() (*Samples, error) { return NewEnsemble(five, 1, 3, 2) }, "5 sampled logits, want 1 examples × 3 samples × 2"},
		{"few logits", func() (*Samples, error) { return NewSamples(five[:1], five[:4], 1, 2, 2) }, "1 logits for 1 examples"},
		{"NaN", func() (*Samples, error) { return NewEnsemble([]float32{1, 2, 3, nan}, 2, 1, 2) }, "example 1: sampled logit 1 is NaN"},
		{"infinite", func() (*Samples, error) {
			return NewSamples([]float32{1, float32(math.Inf(-1))}, five[:4], 1, 2, 2)
		}, "example 0: logit 1 is -Inf"},
	} {
		if _, err := c.make(); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.reason)
		}
	}
}

func TestPredictorsDoNotAllocate(t *testing.T) {
	const n, m, k = 2, 3, 4
	rng := rand.New(rand.NewPCG(4, 1))
	set := &rows.Batch{N: n, Features: normals(rng, n*2, 1), Logits: normals(rng, n*k, 2)}
	samples, err := NewSamples(set.Logits, normals(rng, n*m*k, 1), n, m, k)
	if err != nil {
		t.Fatal(err)
	}
	predictives := map[string]calibrate.Predictive{"samples": samples}
	for _, kind := range []Kind{MF0, MF1, MF2, UKF} {
		g, err := NewGaussian(t.Context(), kind, newRandomCovariance(k, 2, 3, 5), set, k)
		if err != nil {
			t.Fatal(err)
		}
		predictives[string(kind)] = g
	}
	for name, p := range predictives {
		predict, logp := p.Predictor(), make([]float64, k)
		if got := testing.AllocsPerRun(10,
			func() { predict(logp, 1, layer.Temperatures{Act: 1, Ens: 2}) }); got != 0 {
			t.Errorf("%s: %v allocations for an example, want 0", name, got)
		}
	}
}

func BenchmarkSamples(b *testing.B) {
	const n, m = 100, 500
	for _, k := range []int{10, 100} {
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(5, 1))
			s, err := NewSamples(normals(rng, n*k, 3), normals(rng, n*m*k, 1), n, m, k)
			if err != nil {
				b.Fatal(err)
			}
			predict, logp := s.Predictor(), make([]float64, k)
			i := 0
			for b.Loop() {
				predict(logp, i%n, layer.Temperatures{Act: 1, Ens: 2})
				i++
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(m*k)*1e9, "ns/exp")
		})
	}
}
