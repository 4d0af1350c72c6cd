package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// linkHeads have every link, and the shapes of labels.
var linkHeads = []layer.Head{
	{Logits: 4, Features: 3, Bias: true, Link: layer.Softmax},
	{Logits: 1, Features: 3, Bias: true, Link: layer.Sigmoid},
	{Logits: 4, Features: 3, Bias: true, Link: layer.Sigmoid},
	{Logits: 4, Features: 3, Bias: true, Link: layer.OneVsRest},
}

// The loss is -log p, the gradient its derivative, and the Fisher information the mean square of that over labels.
func TestLossesHaveTheirGradientAndInformation(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 5))
	for _, h := range linkHeads {
		k, labels := h.Logits, h.Classes()
		if h.Link == layer.Sigmoid { // each logit by itself
			k, labels = 1, 2
		}
		f := links[h.Link]
		z := make([]float64, k)
		gradient, fisher, want := make([]float64, k), make([]float64, k), make([]float64, k)
		for range 50 {
			clear(want)
			for j := range z {
				z[j] = 3 * rng.NormFloat64()
			}
			logp := make([]float64, labels)
			f.predict(logp, z)
			unused := make([]float64, k)
			for y := range labels {
				loss := f.loss(gradient, fisher, z, y)
				if !approx.Equal(loss, -logp[y], 1e-12) {
					t.Fatalf("%s: loss %v, want %v", h.Link, loss, -logp[y])
				}
				for j := range z {
					const step = 1e-5
					at := func(x float64) float64 {
						moved := slices.Clone(z)
						moved[j] += x
						return f.loss(unused, slices.Clone(unused), moved, y)
					}
					if slope := (at(step) - at(-step)) / (2 * step); !approx.Equal(gradient[j], slope, 1e-8) {
						t.Fatalf("%s: derivative %v by logit %d, want %v", h.Link, gradient[j], j, slope)
					}
					want[j] += math.Exp(-loss) * gradient[j] * gradient[j]
				}
			}
			wantSame(t, fmt.Sprintf("%s: information", h.Link), fisher, want, 1e-12)
		}
	}
}

// The gradient of the whole objective is its derivative.
func TestTheGradientOfMatrixScalingIsItsDerivative(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 1))
	for _, h := range linkHeads {
		m := newMatrixScaling(h, newMixture(h, 2, 2, 4).draw(60, 0), 1.3)
		theta, precision := make([]float64, m.size()), make([]float64, m.size())
		for i := range theta {
			theta[i], precision[i] = rng.NormFloat64()/3, 1+rng.Float64()
		}
		m.objective(theta, precision)
		gradient := slices.Clone(m.gradient)
		for i := range theta {
			const step = 1e-5
			at := func(x float64) float64 {
				moved := slices.Clone(theta)
				moved[i] += x
				m.objective(moved, precision)
				return m.value
			}
			slope := (at(step) - at(-step)) / (2 * step)
			if !approx.Equal(gradient[i], slope, 1e-6*(1+math.Abs(slope))) {
				t.Errorf("%s: derivative %v by parameter %d, want %v", nameOf(h), gradient[i], i, slope)
			}
		}
	}
}

// The map is the model that was fitted: both give the same logits.
func TestTheMapOfLogitsIsTheFittedModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 2))
	for _, h := range linkHeads {
		s := newMixture(h, 2, 2, 5).draw(80, 0)
		m := newMatrixScaling(h, s, 1.3)
		theta := make([]float64, m.size())
		for i := range theta {
			theta[i] = rng.NormFloat64() / 3
		}
		m.logits(theta)
		f := m.affine(h, theta)
		if err := f.Validate(h); err != nil {
			t.Error(err)
		}
		wantSame(t, nameOf(h), mapped(f, h.Logits, s.Logits), m.z, 1e-12)
		// And M a + b.
		k, matrix := h.Logits, f.Matrix()
		for i := range s.N {
			for c := range k {
				want := f.Offset[c]
				for j := range k {
					want += matrix[c*k+j] * float64(s.Logits[i*k+j])
				}
				if !approx.Equal(m.z[i*k+c], want, 1e-12*(1+math.Abs(want))) {
					t.Fatalf("%s: logit %v, want %v", nameOf(h), m.z[i*k+c], want)
				}
			}
		}
	}
}

// Variances of mapped logits are the diagonal of M (∇a Σ ∇aᵀ) Mᵀ.
func TestVariancesOfMappedLogits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 3))
	for i, h := range linkHeads {
		k, d := h.Logits, h.Dim()
		train, test := randomSet(h, 100, 2, uint64(i)), randomSet(h, 9, 2, uint64(100+i))
		f := randomAffine(h, rng)
		for _, structure := range []Structure{Full, Kronecker} {
			c := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true}, train, 0)
			hessian, fisher := newNaive(h, train).h, newNaive(h, train).j
			if structure == Kronecker {
				hessian, fisher = kroneckerProduct(c, c.b), kroneckerProduct(c, c.g)
			}
			for _, cov := range covariances {
				const epsilon = 1
				p, err := c.mappedPosterior(cov, epsilon, f)
				if err != nil {
					t.Fatal(err)
				}
				sigma := naiveCovariance(t, cov, hessian, fisher, k*d, epsilon)
				// M is constant over the parameters of a logit.
				matrix := mat.NewDense(k*d, k*d, nil)
				for r := range k {
					for s := range k {
						for j := range d {
							matrix.Set(r*d+j, s*d+j, f.Matrix()[r*k+s])
						}
					}
				}
				var image mat.Dense
				image.Product(matrix, sigma, matrix.T())
				wantRelative(t, fmt.Sprintf("%s %s %s", nameOf(h), structure, cov), p.variancesOf(test),
					naiveVariances(h, &image, test), 100*rounding(cov, epsilon))
			}
		}
	}
}

// kroneckerProduct is B ⊗ A of sums, with b over the number of examples.
func kroneckerProduct(c *Curvature, b []float64) []float64 {
	k, d := c.head.Logits, c.head.Dim()
	out := make([]float64, k*d*k*d)
	for r := range k {
		for s := range k {
			v := 0.0
			if len(b) == k*k {
				v = b[r*k+s]
			} else if r == s {
				v = b[r]
			}
			for i := range d {
				for j := range d {
					out[(r*d+i)*k*d+s*d+j] = v / float64(c.n) * c.a[i*d+j]
				}
			}
		}
	}
	return out
}

func randomAffine(h layer.Head, rng *rand.Rand) *layer.Affine {
	k, r := h.Logits, h.AffineRank()
	of := func(n int, mean, spread float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = mean + spread*rng.NormFloat64()
		}
		return x
	}
	return &layer.Affine{Scale: of(k, 0.7, 0.1), Offset: of(k, 0, 0.5), Left: of(k*r, 0, 0.3), Right: of(r*k, 0, 0.3)}
}

// distorted are examples of a mixture whose logits a wrong encoding of the inputs has mapped.
func distorted(h layer.Head, n int, strength float64, seed uint64) *rows.Batch {
	s := newMixture(h, 2, 2, 17).drawWith(n, seed)
	f := randomAffine(h, rand.New(rand.NewPCG(1, 2)))
	for c := range f.Scale {
		f.Scale[c], f.Offset[c] = 1, 2*strength*float64(1-c%3)
	}
	for i := range f.Left {
		f.Left[i] *= strength
	}
	for i, v := range mapped(f, h.Logits, s.Logits) {
		s.Logits[i] = float32(v)
	}
	return s
}

// drawWith draws n examples of a mixture with a generator of their own.
func (m *mixture) drawWith(n int, seed uint64) *rows.Batch {
	m.rng = rand.New(rand.NewPCG(seed, 2))
	return m.draw(n, 0)
}

// On logits that are off by class, matrix scaling is chosen and has a much lower NLL on new data. On logits that are
// off by a temperature it is not chosen, with few exceptions.
func TestMatrixScalingIsChosenWhereItHelps(t *testing.T) {
	t.Parallel()
	for _, h := range linkHeads {
		test := distorted(h, 4000, 1, 1)
		c := accumulate(t, CurvatureConfig{Head: h}, distorted(h, 400, 1, 2), 0)
		f := fit(t, c, distorted(h, 500, 1, 3), nil, FitOptions{})
		if f.Posterior.Affine == nil || f.Method != Matrix && f.Method != MF0 {
			t.Errorf("%s: %s", nameOf(h), f.Choice)
			continue
		}
		loss := func(m Method) float64 {
			of := f.Calibration
			of.Method = m
			return nll(h, of.Predict(test.Features, test.Logits, test.N).LogP, test)
		}
		if matrix, scaled := loss(Matrix), loss(TS); !(matrix < scaled-0.005) {
			t.Errorf("%s: NLL %v by matrix scaling, %v by temperature scaling", nameOf(h), matrix, scaled)
		}
		if a, b := loss(f.Method), loss(Matrix); a > b+0.005 {
			t.Errorf("%s: NLL %v of the chosen %s, %v by matrix scaling", nameOf(h), a, f.Method, b)
		}

		wrong := 0
		const draws = 40
		for draw := range uint64(draws) {
			s := distorted(h, 300, 0, 100+draw)
			f, err := FitMatrix(t.Context(), h, s, 2)
			if err != nil {
				t.Fatal(err)
			}
			if f.Logits != nil {
				wrong++
			}
		}
		// By Markov's inequality such a Bayes factor comes up with a probability of at most exp(-½) where the simpler
		// model is right; here it is rarer.
		if wrong > draws/5 {
			t.Errorf("%s: chosen in %d of %d draws, with nothing to gain", nameOf(h), wrong, draws)
		}
	}
}

// The Bayes factor is that of integration over the one parameter that is left.
func TestTheEvidenceIsTheIntegralOfTheLikelihood(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 1, Features: 3, Bias: true, Link: layer.Sigmoid}
	m := newMatrixScaling(h, distorted(h, 120, 0.7, 9), 2)
	m.fixed = true
	theta, _, evidence, err := m.fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var determined float64
	_, information := m.evaluate(theta, true)
	precision := math.Inf(1)
	// The precision of the greatest evidence: that of a fixed point of MacKay's update.
	for range 100 {
		if math.IsInf(precision, 1) {
			precision = 10
		}
		determined = information[1] / (information[1] + precision)
		precision = min(max(determined/(theta[1]*theta[1]), leastPrecision), mostPrecision)
	}
	at := func(b float64) float64 {
		loss, _ := m.evaluate([]float64{0, b, 0}, false)
		return loss
	}
	null, sum := at(0), 0.0
	const step = 1e-3
	for b := -4.0; b < 4; b += step {
		sum += math.Exp(null-at(b)-precision*b*b/2) * math.Sqrt(precision/(2*math.Pi)) * step
	}
	if want := math.Log(sum); !approx.Equal(evidence, want, 0.1) {
		t.Errorf("log Bayes factor %v, by integration %v", evidence, want)
	}
}

// A class that the validation data lack keeps the logit of a temperature, and the others get no bias over it.
func TestClassesWithoutExamplesKeepTheirTemperature(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 5, Features: 3, Bias: true, Link: layer.Softmax}
	s := distorted(h, 600, 1, 4)
	var kept []int
	for i, y := range s.Labels {
		if y != 2 && y != 4 {
			kept = append(kept, i)
		}
	}
	fitted, err := FitMatrix(t.Context(), h, s.Pick(kept), 1.5)
	if err != nil {
		t.Fatal(err)
	}
	f := fitted.Affine
	m, present := f.Matrix(), 0.0
	for c := range 5 {
		if c == 2 || c == 4 {
			for j, v := range m[c*5 : (c+1)*5] {
				want := 0.0
				if j == c {
					want = 1 / 1.5
				}
				if v != want || f.Offset[c] != 0 {
					t.Errorf("class %d: row %v, offset %v", c, m[c*5:(c+1)*5], f.Offset[c])
				}
			}
			continue
		}
		present += f.Offset[c]
		if f.Offset[c] == 0 {
			t.Errorf("class %d has no offset", c)
		}
	}
	s = s.Pick(kept)
	var shift float64 // of the logits of classes that are there, on average
	for i, v := range mapped(f, 5, s.Logits) {
		if c := i % 5; c != 2 && c != 4 {
			shift += (v - float64(s.Logits[i])/1.5) / float64(s.N)
		}
	}
	if !approx.Equal(shift, 0, 1e-4) {
		t.Errorf("the logits of classes with examples rise by %v in total", shift)
	}
	// A label without both values, and a single class, leave nothing to fit.
	one := s.Pick([]int{slices.Index(s.Labels, 0)})
	if f, err := FitMatrix(t.Context(), h, one, 1); f.Affine != nil || err != nil {
		t.Errorf("of one class: %v, %v", f, err)
	}
}

func TestKeepClassForbidsWhatMayChangeTheClass(t *testing.T) {
	t.Parallel()
	for _, h := range linkHeads {
		task := newTask(h, 5)
		c := accumulate(t, CurvatureConfig{Head: h}, task.train, 0)
		f := fit(t, c, distorted(h, 500, 1, 3), nil, FitOptions{KeepClass: true})
		kept := f.Posterior.Affine == nil && (f.Method == TS || f.Method == MLE)
		if !kept || !strings.Contains(f.Choice.String(), "may change the predicted class") {
			t.Errorf("%s: %s", nameOf(h), f.Choice)
		}
	}
}

// Large logits, few examples and many classes end in a map of finite numbers.
func TestMatrixScalingOfExtremes(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*rows.Batch{
		"huge":        {N: 4, Labels: []int{0, 1, 2, 0}, Logits: []float32{1e30, 0, 0, 0, 1e30, 0, 0, 0, 1e30, -1e30, 0, 0}},
		"all alike":   {N: 4, Labels: []int{0, 1, 2, 0}, Logits: make([]float32, 12)},
		"two of four": {N: 2, Labels: []int{0, 2}, Logits: []float32{1, 0, 0, 0, 2, 3}},
	} {
		h := layer.Head{Logits: 3, Features: 1, Link: layer.Softmax}
		fitted, err := FitMatrix(t.Context(), h, s, 1)
		f := fitted.Affine
		if err != nil || f == nil || math.IsNaN(fitted.Evidence) || math.IsInf(fitted.Evidence, 0) {
			t.Errorf("%s: evidence %v, %v", name, fitted.Evidence, err)
			continue
		}
		for _, v := range slices.Concat(f.Matrix(), f.Offset) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: matrix %v, offset %v", name, f.Matrix(), f.Offset)
				break
			}
		}
	}
}

func BenchmarkMatrixScaling(b *testing.B) {
	for _, k := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("K=%d", k), func(b *testing.B) {
			h := layer.Head{Logits: k, Features: 20, Bias: true, Link: layer.Softmax}
			s := newMixture(h, 3, 2, 5).draw(5000, 0)
			for b.Loop() {
				if _, err := FitMatrix(b.Context(), h, s, 2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
