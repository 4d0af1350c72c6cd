package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// evaluate is the formula of Quadratic with numbers as a graph has them, of float32 but
// for Projection and Offset where they are to be of float64. Sums are exact.
func evaluate(q *layer.Quadratic, phi []float32) []float64 {
	stored := func(v float64) float64 {
		if q.Double {
			return v
		}
		return float64(float32(v))
	}
	width := len(q.Offset)
	z := make([]float64, width)
	for r, v := range q.Offset {
		z[r] = stored(v)
	}
	for i, v := range phi {
		x := stored(float64(v) - float64(float32(q.Center[i])))
		for r, w := range q.Projection[i*width : (i+1)*width] {
			z[r] += x * stored(w)
		}
	}
	return combine(q, z)
}

func TestQuadraticFormsAreVariancesAndLeverage(t *testing.T) {
	t.Parallel()
	for _, bias := range []bool{true, false} {
		for _, structure := range []Structure{Full, Kronecker} {
			for _, cov := range []Covariance{Hessian, Fisher, Sandwich} {
				t.Run(fmt.Sprintf("%s/%s/bias=%t", structure, cov, bias), func(t *testing.T) {
					h := layer.Head{Logits: 4, Features: 9, Bias: bias, Link: layer.Softmax}
					m := newMixture(h, 2, 1.5, 3)
					// Fewer examples than parameters: the Fisher matrix is singular, and with it the sandwich.
					set := m.draw(20, 0)
					for i := range set.Features {
						set.Features[i] += 30 // a mean far from zero
					}
					c := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true}, set, 0)
					p, err := c.Posterior(cov, 0.5)
					if err != nil {
						t.Fatal(err)
					}
					q, err := p.Quadratic()
					if err != nil {
						t.Fatal(err)
					}
					n := 20
					s2, leverage := make([]float64, n*4), make([]float64, n)
					p.Both(s2, leverage, set.Features, n)
					for i := range n {
						got := evaluate(q, set.Features[i*9:(i+1)*9])
						for k, want := range append(s2[i*4:(i+1)*4:(i+1)*4], leverage[i]) {
							if !approx.Equal(got[k], want, 2e-6*want) {
								t.Fatalf("example %d, form %d: %v, want %v", i, k, got[k], want)
							}
						}
					}
					if bounded := structure == Kronecker; bounded == math.IsInf(q.Ratio, 1) {
						t.Errorf("the ratio of variances is bounded by %v", q.Ratio)
					}
					for row := range slices.Chunk(s2, 4) {
						if ratio := slices.Max(row) / slices.Min(row); ratio > 1.00001*q.Ratio {
							t.Errorf("two variances have the ratio %v, want at most %v", ratio, q.Ratio)
						}
					}
					if bias {
						for j, v := range q.Center {
							var mean float64
							for i := range n {
								mean += float64(set.Features[i*9+j]) / float64(n)
							}
							if !approx.Equal(v, mean, 1e-6*mean) {
								t.Errorf("centre %v, want the mean %v", v, mean)
							}
						}
					}
				})
			}
		}
	}
}

// The unit of the features does not decide what float32 can hold.
func TestQuadraticFormsOfAnyUnit(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 6, Link: layer.Softmax}
	for _, unit := range []float32{1e-20, 1, 1e20} {
		for _, structure := range []Structure{Full, Kronecker} {
			set := newMixture(h, 2, 1, 5).draw(50, 0)
			for i := range set.Features {
				set.Features[i] *= unit
			}
			c := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, set, 0)
			mean, err := c.MeanEigenvalue(Hessian)
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.Posterior(Hessian, mean)
			if err != nil {
				t.Fatal(err)
			}
			q, err := p.Quadratic()
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range [][]float64{q.Projection, q.Weights} {
				for _, v := range list {
					if !approx.Equal(v, 0, 1e30) || v != 0 && structure == Kronecker && math.Abs(v) < 1e-30 {
						t.Fatalf("unit %v, %s: %v", unit, structure, v)
					}
				}
			}
		}
	}
}

// float32 will do but where a few directions hold nearly all of the features and the
// others much of the variance. A softmax has no such: in its constant direction, which
// H does not see, all directions of the features weigh alike.
func TestQuadraticFormsReportWhenTheyNeedFloat64(t *testing.T) {
	t.Parallel()
	const d = 40
	for _, c := range []struct {
		link   layer.Link
		orders float64 // of magnitude, between directions
		want   bool
	}{{layer.Sigmoid, 0, false}, {layer.Sigmoid, 2, false}, {layer.Sigmoid, 5, true}, {layer.Softmax, 5, false}} {
		h := layer.Head{Logits: 3, Features: d, Bias: true, Link: c.link}
		for _, structure := range []Structure{Full, Kronecker} {
			set := newMixture(h, 2, 1, 5).draw(200, 0)
			mixed := make([]float32, len(set.Features))
			for i := range mixed {
				mixed[i] = set.Features[i] * float32(math.Pow(10, -c.orders*float64(i%d)/d))
			}
			// Reflections, so that every feature has a part in every direction.
			rng := rand.New(rand.NewPCG(6, 1))
			for range 6 {
				v := make([]float64, d)
				var norm float64
				for j := range v {
					v[j] = rng.NormFloat64()
					norm += v[j] * v[j]
				}
				for i := range 200 {
					row := mixed[i*d : (i+1)*d]
					var dot float64
					for j, x := range row {
						dot += v[j] * float64(x)
					}
					for j := range row {
						row[j] -= float32(2 * dot / norm * v[j])
					}
				}
			}
			cv := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, &rows.Batch{N: 200, Features: mixed,
				Logits: set.Logits}, 0)
			p, err := cv.Posterior(Hessian, 1e-9)
			if err != nil {
				t.Fatal(err)
			}
			q, err := p.Quadratic()
			if err != nil {
				t.Fatal(err)
			}
			if q.Double != c.want {
				t.Errorf("%s, %v orders, %s: float64 %t, want %t", c.link, c.orders, structure, q.Double, c.want)
			}
		}
	}
}

// With features far from zero the variances are as good as with features about it.
func TestQuadraticFormsOfFeaturesFarFromZero(t *testing.T) {
	t.Parallel()
	const d, n = 40, 400
	h := layer.Head{Logits: 3, Features: d, Bias: true, Link: layer.Sigmoid}
	for _, mean := range []float32{0, 10, 100, 1000} {
		for _, structure := range []Structure{Full, Kronecker} {
			set := newMixture(h, 2, 1, 9).draw(n, 0)
			rng := rand.New(rand.NewPCG(9, 1))
			at := make([]float32, d)
			for j := range at {
				at[j] = mean * float32(rng.Float64())
			}
			for i := range set.Features {
				set.Features[i] = set.Features[i]*float32(math.Pow(10, -2*float64(i%d)/d)) + at[i%d]
			}
			c := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, set, 0)
			p, err := c.Posterior(Hessian, 1e-6)
			if err != nil {
				t.Fatal(err)
			}
			q, err := p.Quadratic()
			if err != nil {
				t.Fatal(err)
			}
			s2, leverage := make([]float64, n*3), make([]float64, n)
			p.Both(s2, leverage, set.Features, n)
			for i := range n {
				got := evaluate(q, set.Features[i*d:(i+1)*d])
				for k, want := range append(s2[i*3:(i+1)*3:(i+1)*3], leverage[i]) {
					if !approx.Equal(got[k], want, 1e-5*want) {
						t.Fatalf("mean %v, %s: form %d is %v, want %v", mean, structure, k, got[k], want)
					}
				}
			}
		}
	}
}
