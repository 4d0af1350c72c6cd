package methods

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/optimize"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

func TestVariationalGradientsAreFiniteDifferences(t *testing.T) {
	t.Parallel()
	const n, d, k, prior = 8, 3, 4, 0.7
	h := softmaxHead(k, d-1, true)
	s := clouds(n, d-1, k, 1, 3)
	tr, err := newTrainer(s, h, FitOptions{Batch: n}, FitOptions{Epochs: 1})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 5))
	b := &batch{examples: []int{4, 2, 7, 1, 0}}
	b.x = make([]float64, 5*d)
	for r, i := range b.examples {
		augment(b.x[r*d:(r+1)*d], h, s.Features, i)
	}
	parameters, noise := make([]float64, 2*d*k), make([]float64, 5*k)
	for i := range parameters {
		parameters[i] = 0.8 * rng.NormFloat64()
	}
	for i := range noise {
		noise[i] = rng.NormFloat64()
	}
	loss := func(p []float64) (sum float64) {
		mean, logs := p[:d*k], p[d*k:]
		for r, i := range b.examples {
			a := make([]float64, k)
			for c := range a {
				var v float64
				for j, x := range b.x[r*d : (r+1)*d] {
					a[c] += x * mean[j*k+c]
					v += x * x * math.Exp(2*logs[j*k+c])
				}
				a[c] += math.Sqrt(v) * noise[r*k+c]
			}
			sum -= math.Log(naiveSoftmax(a)[s.Labels[i]]) / 5
		}
		return sum + gaussianDivergence(mean, logs, prior)/n
	}
	f := newVariationalStep(tr, prior)
	if err := f.gradients(b, parameters[:d*k], parameters[d*k:], noise); err != nil {
		t.Fatal(err)
	}
	want := fd.Gradient(nil, loss, parameters, central)
	for i, g := range append(f.mean, f.logs...) {
		if !approx.Equal(g, want[i], 1e-6) {
			t.Errorf("derivative %d is %v, want %v", i, g, want[i])
		}
	}
}

// gaussianDivergence is KL(N(mean, s²) ‖ N(0, prior²)), from the densities' definition.
func gaussianDivergence(mean, logs []float64, prior float64) (sum float64) {
	for i, m := range mean {
		s := math.Exp(logs[i])
		sum += math.Log(prior/s) + (s*s+m*m)/(2*prior*prior) - 0.5
	}
	return sum
}

// Compared with another optimiser and quadrature: with two classes only the difference of logits matters, which is
// Gaussian.
func TestVariationalFitsReachTheOptimum(t *testing.T) {
	t.Parallel()
	const n, prior = 40, 1.5
	h := softmaxHead(2, 1, false)
	s := clouds(n, 1, 2, 0.7, 2)
	bound := func(p []float64) float64 {
		var sum float64
		for i, y := range s.Labels {
			x := float64(s.Features[i])
			mu := x * (p[1-y] - p[y])
			sd := math.Abs(x) * math.Sqrt(math.Exp(2*p[2])+math.Exp(2*p[3]))
			density := distuv.Normal{Mu: mu, Sigma: sd}
			sum += quad.Fixed(func(u float64) float64 { return softplus(u) * density.Prob(u) }, mu-8*sd, mu+8*sd, 60,
				quad.Legendre{}, 0) / n
		}
		return sum + gaussianDivergence(p[:2], p[2:], prior)/n
	}
	r, err := optimize.Minimize(optimize.Problem{Func: bound}, make([]float64, 4), nil, &optimize.NelderMead{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := FitVariational(background, s, h, []float64{2, -1}, VariationalOptions{Prior: prior,
		FitOptions: FitOptions{Epochs: 8000, Batch: n, Rate: 0.02}})
	if err != nil {
		t.Fatal(err)
	}
	got := bound([]float64{v.Mean[0], v.Mean[1], math.Log(v.Variance[0]) / 2, math.Log(v.Variance[1]) / 2})
	if got-r.F > 1e-4 || got < r.F-1e-7 {
		t.Errorf("bound %v at means %v and variances %v, want %v at %v", got, v.Mean, v.Variance, r.F, r.X)
	}
}

func TestVariationalLogitsHaveTheirMeanAndVariance(t *testing.T) {
	t.Parallel()
	const samples = 20000
	h := softmaxHead(3, 2, true)
	v := &Variational{Mean: make([]float64, 9), Variance: make([]float64, 9)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range v.Mean {
		v.Mean[i], v.Variance[i] = rng.NormFloat64(), rng.Float64()
	}
	var err error
	if v.mean, err = newLayers(h, nil, 1); err != nil {
		t.Fatal(err)
	}
	if v.variance, err = newLayers(h, nil, 1); err != nil {
		t.Fatal(err)
	}
	v.mean.set(0, v.Mean)
	v.variance.set(0, v.Variance)
	s := clouds(4, 2, 3, 2, 1)
	p, err := v.Predictive(background, s, samples, 3)
	if err != nil {
		t.Fatal(err)
	}
	drawn := p.(*Samples)
	for i := range 4 {
		phi := s.Features[i*2 : i*2+2]
		mean := naiveLogits(v.Mean, h, phi)
		variance := naiveLogits(v.Variance, h, []float32{phi[0] * phi[0], phi[1] * phi[1]})
		for c := range 3 {
			if got := float64(drawn.center[i*3+c]); !approx.Equal(got, mean[c], 1e-5) {
				t.Errorf("example %d: logit %d is %v, want %v", i, c, got, mean[c])
			}
			var sum, square, cross float64
			for m := range samples {
				x := drawn.draw(i, m)
				sum += float64(x[c]) / samples
				square += float64(x[c]) * float64(x[c]) / samples
				cross += float64(x[c]) * float64(x[(c+1)%3]) / samples
			}
			sd, next := math.Sqrt(variance[c]), math.Sqrt(variance[(c+1)%3])
			const errors = 6 / 141. // √samples
			if !approx.Equal(sum, 0, errors*sd) || !approx.Relative(square, variance[c], errors*math.Sqrt2) ||
				!approx.Equal(cross, 0, errors*sd*next) {
				t.Errorf("example %d, logit %d: deviations have the mean %v, the variance %v and the covariance %v, want 0, %v and 0", i, c, sum, square, cross, variance[c])
			}
		}
	}
	if _, err := v.Predictive(background, s, 0, 3); err == nil {
		t.Error("no error for no samples")
	}
	if _, err := v.Predictive(background, s, 1<<40, 3); err == nil {
		t.Error("no error for too many samples")
	}
	if _, err := v.Predictive(background, &rows.Batch{}, 1, 3); err == nil {
		t.Error("no error for no examples")
	}
}

// The mean is a, the variance rate/(1-rate) Σ_j w_j²φ_j².
func TestDropoutHasItsMeanAndVariance(t *testing.T) {
	t.Parallel()
	const samples = 20000
	h := softmaxHead(3, 5, true)
	s := clouds(4, 5, 3, 1, 1)
	w := make([]float64, 18)
	rng := rand.New(rand.NewPCG(1, 9))
	for i := range w {
		w[i] = rng.NormFloat64()
	}
	for _, rate := range []float64{0, 0.2, 0.7} {
		l, err := NewDropout(background, w, h, nil, rate, samples, 2)
		if err != nil {
			t.Fatal(err)
		}
		all, err := l.layers.outputs(background, s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			phi := s.Features[i*5 : i*5+5]
			mean := naiveLogits(w, h, phi)
			for c := range 3 {
				var variance, sum, square float64
				for j, x := range phi {
					variance += rate / (1 - rate) * w[c*6+j] * w[c*6+j] * float64(x) * float64(x)
				}
				for m := range samples {
					x := float64(all[(i*samples+m)*3+c]) - mean[c]
					sum += x / samples
					square += x * x / samples
				}
				// Six standard errors, of a fourth moment up to five times the square.
				if !approx.Equal(sum, 0, 6*math.Sqrt(variance/samples)+1e-6) || !approx.Equal(square, variance,
					12*variance/math.Sqrt(samples)+1e-12) {
					t.Errorf("rate %v, example %d, logit %d: the mean is off by %v and the variance is %v, want %v", rate, i, c, sum, square, variance)
				}
			}
		}
	}
}
