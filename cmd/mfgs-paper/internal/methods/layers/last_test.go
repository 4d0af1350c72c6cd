package layers

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate"
	geometry "github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

var allCovariances = []calibrate.Covariance{calibrate.Hessian, calibrate.Fisher, calibrate.Sandwich}

// lastSet is n random examples of a head.
func lastSet(h geometry.Head, n int, seed uint64) *rows.Batch {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := &rows.Batch{N: n}
	for range n {
		for range h.Features {
			s.Features = append(s.Features, float32(rng.NormFloat64()))
		}
		for range h.Logits {
			s.Logits = append(s.Logits, float32(2*rng.NormFloat64()))
		}
		s.Labels = append(s.Labels, rng.IntN(h.Logits))
	}
	return s
}

func lastCurvature(
	t *testing.T, h geometry.Head, structure calibrate.Structure, s *rows.Batch,
) *calibrate.Curvature {
	t.Helper()
	c, err := calibrate.NewCurvature(calibrate.CurvatureConfig{
		Head: h, Structure: structure, Fisher: h.Link == geometry.Softmax,
	}, s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// augmentedRow is the features of an example, with a 1 for the bias.
func augmentedRow(h geometry.Head, s *rows.Batch, i int) []float64 {
	var x []float64
	for _, v := range s.Features[i*h.Features : (i+1)*h.Features] {
		x = append(x, float64(v))
	}
	if h.Bias {
		x = append(x, 1)
	}
	return x
}

// definitions returns H and J as they are defined, or as the Kronecker structure has them.
func definitions(h geometry.Head, structure calibrate.Structure, s *rows.Batch) (hessian, fisher *mat.Dense) {
	k, d := h.Logits, h.Dim()
	hessian, fisher = mat.NewDense(k*d, k*d, nil), mat.NewDense(k*d, k*d, nil)
	a, b, g := mat.NewDense(d, d, nil), mat.NewDense(k, k, nil), mat.NewDense(k, k, nil)
	for i := range s.N {
		p, r, sum := make([]float64, k), make([]float64, k), 0.0
		for c := range k {
			p[c] = math.Exp(float64(s.Logits[i*k+c]))
			sum += p[c]
		}
		for c := range k {
			p[c] /= sum
			r[c] = p[c]
		}
		r[s.Labels[i]]--
		w, v := mat.NewDense(k, k, nil), mat.NewDense(k, k, nil)
		for c := range k {
			for e := range k {
				w.Set(c, e, -p[c]*p[e])
				v.Set(c, e, r[c]*r[e])
			}
			w.Set(c, c, p[c]*(1-p[c]))
		}
		x := augmentedRow(h, s, i)
		var outer, one mat.Dense
		outer.Outer(1, mat.NewVecDense(d, x), mat.NewVecDense(d, x))
		a.Add(a, &outer)
		b.Add(b, w)
		g.Add(g, v)
		if structure == calibrate.Full {
			one.Kronecker(w, &outer)
			hessian.Add(hessian, &one)
			one.Reset()
			one.Kronecker(v, &outer)
			fisher.Add(fisher, &one)
		}
	}
	if structure == calibrate.Kronecker {
		b.Scale(1/float64(s.N), b)
		g.Scale(1/float64(s.N), g)
		hessian.Kronecker(b, a)
		fisher.Kronecker(g, a)
	}
	return hessian, fisher
}

// sigmaOf is the covariance of all weights.
func sigmaOf(t *testing.T, cov calibrate.Covariance, hessian, fisher *mat.Dense, epsilon float64) *mat.Dense {
	t.Helper()
	of := hessian
	if cov == calibrate.Fisher {
		of = fisher
	}
	damped := mat.DenseCopyOf(of)
	n, _ := damped.Dims()
	for i := range n {
		damped.Set(i, i, damped.At(i, i)+epsilon)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(damped); err != nil {
		t.Fatal(err)
	}
	if cov == calibrate.Sandwich {
		var s mat.Dense
		s.Product(&inverse, fisher, &inverse)
		return &s
	}
	return &inverse
}

// definedCovariances is the upper triangle of ∇a Σ ∇aᵀ, with ∇a written out, and its diagonal.
func definedCovariances(h geometry.Head, sigma mat.Matrix, s *rows.Batch) (packed, diagonal []float64) {
	k, d := h.Logits, h.Dim()
	for i := range s.N {
		jacobian := mat.NewDense(k, k*d, nil)
		for c := range k {
			for j, v := range augmentedRow(h, s, i) {
				jacobian.Set(c, c*d+j, v)
			}
		}
		var v mat.Dense
		v.Product(jacobian, sigma, jacobian.T())
		for c := range k {
			for e := c; e < k; e++ {
				packed = append(packed, v.At(c, e))
			}
			diagonal = append(diagonal, v.At(c, c))
		}
	}
	return packed, diagonal
}

// wantNumbers compares with a tolerance relative to the largest.
func wantNumbers(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	size := 0.0
	for _, v := range want {
		size = max(size, math.Abs(v))
	}
	for i, v := range want {
		if !approx.Equal(got[i], v, tolerance*size) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], v)
		}
	}
}

func TestLastLayerEqualsTheDenseInverse(t *testing.T) {
	t.Parallel()
	for i, h := range []geometry.Head{
		{Logits: 2, Features: 3, Link: geometry.Softmax},
		{Logits: 5, Features: 7, Bias: true, Link: geometry.Softmax},
		{Logits: 9, Features: 2, Bias: true, Link: geometry.Softmax},
	} {
		k, d := h.Logits, h.Dim()
		train, test := lastSet(h, 100, uint64(10+i)), lastSet(h, lastRows+3, uint64(20+i)) // more than a part
		for _, structure := range []calibrate.Structure{calibrate.Full, calibrate.Kronecker} {
			c := lastCurvature(t, h, structure, train)
			hessian, fisher := definitions(h, structure, train)
			for _, cov := range allCovariances {
				for _, epsilon := range []float64{1e-2, 1, 30} {
					name := fmt.Sprintf("%d logits, %s %s ε = %v", k, structure, cov, epsilon)
					l, err := NewLastLayer(c, cov, epsilon, nil)
					if err != nil {
						t.Fatal(err)
					}
					sigma := sigmaOf(t, cov, hessian, fisher, epsilon)
					want, diagonal := definedCovariances(h, sigma, test)
					got, own := make([]float64, len(want)), make([]float64, len(diagonal))
					if err := l.Covariances(got, test.Features, test.N); err != nil {
						t.Fatal(err)
					}
					if err := l.Variances(own, test.Features, test.N); err != nil {
						t.Fatal(err)
					}
					tolerance := 1e-11 / epsilon // the rounding of an inverse is in units of 1/ε
					if cov == calibrate.Sandwich {
						tolerance /= epsilon
					}
					tolerance = max(tolerance, 1e-11)
					wantNumbers(t, name, got, want, tolerance)
					wantNumbers(t, name+": Variances", own, diagonal, tolerance)
					if cov != calibrate.Sandwich {
						wantSolutions(t, name, l, sigma, k*d)
					}
				}
			}
		}
	}
}

func wantSolutions(t *testing.T, name string, l *LastLayer, sigma *mat.Dense, n int) {
	t.Helper()
	const m = 4
	rng := rand.New(rand.NewPCG(1, 9))
	g := make([]float64, m*n)
	for j := range g {
		g[j] = rng.NormFloat64()
	}
	var want mat.Dense
	want.Mul(mat.NewDense(m, n, slices.Clone(g)), sigma)
	x := make([]float64, len(g))
	if err := errors.Join(l.SolveTo(x, g, m), l.SolveTo(g, g, m)); err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, name+": solutions", x, want.RawMatrix().Data, 1e-10)
	if !slices.Equal(g, x) {
		t.Errorf("%s: in place the solutions are others", name)
	}
}

// B is diagonal beyond calibrate.MaxDense classes.
func TestLastLayerOfManyClassesHasNoCovariances(t *testing.T) {
	t.Parallel()
	h := geometry.Head{Logits: calibrate.MaxDense + 1, Features: 2, Bias: true, Link: geometry.Softmax}
	train, test := lastSet(h, 40, 30), lastSet(h, 3, 31)
	c := lastCurvature(t, h, calibrate.Kronecker, train)
	for _, cov := range allCovariances {
		l, err := NewLastLayer(c, cov, 0.01, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := h.Logits
		got, own := make([]float64, 3*methods.PackedSize(k)), make([]float64, 3*k)
		if err := errors.Join(l.Covariances(got, test.Features, 3), l.Variances(own, test.Features, 3)); err != nil {
			t.Fatal(err)
		}
		var diagonal []float64
		l.eachVariance(got, func(_ int, s *float64) { diagonal = append(diagonal, *s); *s = 0 })
		if !slices.Equal(diagonal, own) || slices.Max(got) != 0 || slices.Min(got) != 0 {
			t.Errorf("%s: the diagonal is not that of Variances, or what is beside it is not zero", cov)
		}
		if cov == calibrate.Sandwich {
			continue
		}
		// Σ is diagonal in the classes, and so φᵀ times the solution for g = e_c ⊗ φ is s²_c.
		const class = 77
		d := h.Dim()
		g, phi := make([]float64, k*d), augmentedRow(h, test, 1)
		copy(g[class*d:], phi)
		if err := l.SolveTo(g, g, 1); err != nil {
			t.Fatal(err)
		}
		var s2 float64
		for j, v := range phi {
			s2 += v * g[class*d+j]
		}
		wantNumbers(t, string(cov)+": the solution", []float64{s2}, own[k+class:k+class+1], 1e-12)
	}
}

func TestLastLayersThatAreRefused(t *testing.T) {
	t.Parallel()
	softmax := geometry.Head{Logits: 3, Features: 2, Link: geometry.Softmax}
	many := geometry.Head{Logits: maxSandwich + 1, Features: 2, Link: geometry.Softmax}
	separate := geometry.Head{Logits: 1, Features: 2, Link: geometry.Sigmoid}
	two := softmax
	two.Logits = 2
	one := lastSet(two, 20, 40)
	one.Logits = one.Logits[:20]
	for name, c := range map[string]struct {
		c       *calibrate.Curvature
		cov     calibrate.Covariance
		epsilon float64
		reason  string
	}{
		"separate logits": {lastCurvature(t, separate, calibrate.Full, one), calibrate.Hessian, 1, "the logits of a sigmoid head are separate"},
		"no damping":      {lastCurvature(t, softmax, calibrate.Full, lastSet(softmax, 20, 41)), calibrate.Hessian, 0, "damping 0"},
		"sandwich of many classes": {lastCurvature(t, many, calibrate.Kronecker, lastSet(many, 20, 42)), calibrate.Sandwich, 1,
			"at most 256 classes"},
	} {
		if _, err := NewLastLayer(c.c, c.cov, c.epsilon, nil); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.reason)
		}
	}
	c := lastCurvature(t, softmax, calibrate.Full, lastSet(softmax, 20, 41))
	l, err := NewLastLayer(c, calibrate.Sandwich, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = l.SolveTo(make([]float64, 6), make([]float64, 6), 1)
	if err == nil || !strings.Contains(err.Error(), "sandwich") {
		t.Errorf("error %v, want one that names the sandwich", err)
	}
}

// Each product fails in turn.
func TestLastLayerReturnsTheProductsErrors(t *testing.T) {
	t.Parallel()
	h := geometry.Head{Logits: 3, Features: 2, Bias: true, Link: geometry.Softmax}
	train := lastSet(h, 20, 50)
	for _, structure := range []calibrate.Structure{calibrate.Full, calibrate.Kronecker} {
		c := lastCurvature(t, h, structure, train)
		for _, cov := range allCovariances {
			for calls := 0; ; calls++ {
				p := &counted{parallel.OrGo(nil), calls}
				l, err := NewLastLayer(c, cov, 1, p)
				if err == nil {
					err = l.Covariances(make([]float64, 20*methods.PackedSize(3)), train.Features, 20)
				}
				if err == nil {
					err = l.Variances(make([]float64, 20*3), train.Features, 20)
				}
				if err == nil && cov != calibrate.Sandwich {
					g := make([]float64, 9)
					err = l.SolveTo(g, g, 1)
				}
				if err == nil {
					if p.left != 0 || calls < 2 {
						t.Errorf("%s %s: no error with %d calls, %d of them left", structure, cov, calls, p.left)
					}
					break
				}
				if !errors.Is(err, errTest) {
					t.Fatalf("%s %s: error %v after %d calls, want the product's", structure, cov, err, calls)
				}
			}
		}
	}
}

// mf0 must equal that of a calibration with the same posterior. Features are positive, as after a ReLU, and most logits
// confident, so that Σ has a dominant direction.
func TestLastLayerGivesEachIntegral(t *testing.T) {
	t.Parallel()
	h := geometry.Head{Logits: 5, Features: 12, Bias: true, Link: geometry.Softmax}
	const n = 300
	k := h.Logits
	set := lastSet(h, n, 60)
	for i, v := range set.Features {
		set.Features[i] = max(0, v+1)
	}
	for i := range set.Logits {
		set.Logits[i] *= 3
	}
	for _, structure := range []calibrate.Structure{calibrate.Full, calibrate.Kronecker} {
		c := lastCurvature(t, h, structure, set)
		for _, covariance := range allCovariances {
			unit, err := c.MeanEigenvalue(covariance)
			if err != nil {
				t.Fatal(err)
			}
			for _, rho := range []float64{1e-4, 1} {
				name := fmt.Sprintf("%s %s, ρ = %v", structure, covariance, rho)
				cov, err := NewLastLayer(c, covariance, rho*unit, nil)
				if err != nil {
					t.Fatal(err)
				}
				posterior, err := c.Posterior(covariance, rho*unit)
				if err != nil {
					t.Fatal(err)
				}
				mf0, err := methods.NewGaussian(t.Context(), methods.MF0, cov, set, k)
				if err != nil {
					t.Fatal(err)
				}
				temperatures := geometry.Temperatures{Act: 1.2, Ens: mf0.MedianVariance()}
				want := (&calibrate.Calibration{Posterior: posterior, NLL: temperatures,
					OOD: temperatures}).Predict(set.Features, set.Logits, n)
				predict, logp := mf0.Predictor(), make([]float64, k)
				for i := range n {
					rest := meanfield.OneMinusMax(predict(logp, i, temperatures), len(logp))
					for c, v := range logp {
						if !approx.Equal(v, want.LogP[i*k+c], 1e-9) || !approx.Relative(rest,
							meanfield.OneMinusMax(want.Margin[i], k), 1e-9) {
							t.Fatalf("%s: example %d: log p %v and rest %v, want %v and %v", name, i, logp, rest, want.LogP[i*k:(i+1)*k], want.Margin[i])
						}
					}
				}
				// mf2 and the unscented transform are near to the mean over samples.
				const samples = 2000
				part := set.Slice(0, 20)
				mc, err := methods.NewMonteCarlo(t.Context(), cov, part, k, samples, 1)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				sampled, got := mc.Predictor(), make([]float64, k)
				for _, kind := range []methods.Kind{methods.MF2, methods.UKF} {
					g, err := methods.NewGaussian(t.Context(), kind, cov, part, k)
					if err != nil {
						t.Fatal(err)
					}
					predict := g.Predictor()
					var distance float64 // in total variation, a mean over examples
					for i := range part.Logits[:20] {
						sampled(logp, i, temperatures)
						predict(got, i, temperatures)
						for c := range got {
							distance += math.Abs(math.Exp(got[c])-math.Exp(logp[c])) / 2 / 20
						}
					}
					if !(distance < 0.05) {
						t.Errorf("%s: %s is %v away from samples, want less than 0.05", name, kind, distance)
					}
				}
			}
		}
	}
}
