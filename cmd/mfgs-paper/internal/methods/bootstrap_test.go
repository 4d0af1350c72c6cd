package methods

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// curvatureOf is that of a set, with J.
func curvatureOf(s *rows.Batch, h layer.Head, structure calibrate.Structure) *calibrate.Curvature {
	c, err := calibrate.NewCurvature(calibrate.CurvatureConfig{Head: h, Structure: structure, Fisher: true}, s)
	if err != nil {
		panic(err)
	}
	return c
}

func kroneckerPosterior(s *rows.Batch, h layer.Head) *calibrate.Posterior {
	p, err := curvatureOf(s, h, calibrate.Kronecker).Posterior(calibrate.Hessian, 1)
	if err != nil {
		panic(err)
	}
	return p
}

// naiveGradient returns ∇ℓ of an example, [K,D].
func naiveGradient(s *rows.Batch, h layer.Head, i int) []float64 {
	k, d := h.Logits, h.Dim()
	a := make([]float64, k)
	for c := range a {
		a[c] = float64(s.Logits[i*k+c])
	}
	x := make([]float64, d)
	augment(x, h, s.Features, i)
	g := make([]float64, k*d)
	for c, p := range naiveSoftmax(a) {
		if c == int(s.Labels[i]) {
			p--
		}
		for j, v := range x {
			g[c*d+j] = p * v
		}
	}
	return g
}

// naiveHessian returns H + εI, of the Kronecker structure B ⊗ A + εI.
func naiveHessian(s *rows.Batch, h layer.Head, structure calibrate.Structure, epsilon float64) *mat.Dense {
	k, d := h.Logits, h.Dim()
	n := len(s.Labels)
	sum, sumA, sumB := mat.NewDense(k*d, k*d, nil), mat.NewDense(d, d, nil), mat.NewDense(k, k, nil)
	x, a := make([]float64, d), make([]float64, k)
	for i := range n {
		augment(x, h, s.Features, i)
		for c := range a {
			a[c] = float64(s.Logits[i*k+c])
		}
		p := naiveSoftmax(a)
		w := mat.NewDense(k, k, nil)
		for c := range k {
			for l := range k {
				w.Set(c, l, -p[c]*p[l])
			}
			w.Set(c, c, p[c]-p[c]*p[c])
		}
		phi := mat.NewVecDense(d, x)
		var outer, both mat.Dense
		outer.Outer(1, phi, phi)
		both.Kronecker(w, &outer)
		sum.Add(sum, &both)
		sumA.Add(sumA, &outer)
		sumB.Add(sumB, w)
	}
	if structure == calibrate.Kronecker {
		sumB.Scale(1/float64(n), sumB)
		sum = new(mat.Dense)
		sum.Kronecker(sumB, sumA)
	}
	for i := range k * d {
		sum.Set(i, i, sum.At(i, i)+epsilon)
	}
	return sum
}

func TestBootstrapSolvesEachSample(t *testing.T) {
	t.Parallel()
	const epsilon, seed, samples = 0.3, 11, 1400 // a second chunk of 3 classes
	for _, bias := range []bool{false, true} {
		for _, structure := range []calibrate.Structure{calibrate.Full, calibrate.Kronecker} {
			h := softmaxHead(3, 2, bias)
			s := clouds(13, 2, 3, 1, 4)
			hessian := naiveHessian(s, h, structure, epsilon)
			w, err := NewBootstrap(background, s, h, denseSolver{hessian}, nil, samples, seed)
			if err != nil {
				t.Fatal(err)
			}
			if w.layers.m != samples {
				t.Fatalf("%d samples, want %d", w.layers.m, samples)
			}
			for m := 0; m < samples; m += 57 {
				counts := make([]int32, 13)
				multinomial(counts, rand.New(rand.NewPCG(seed, uint64(m))))
				sum := mat.NewVecDense(3*h.Dim(), nil)
				for i, count := range counts {
					sum.AddScaledVec(sum, -(float64(count) - 1), mat.NewVecDense(3*h.Dim(), naiveGradient(s, h, i)))
				}
				var want mat.VecDense
				if err := want.SolveVec(hessian, sum); err != nil {
					t.Fatal(err)
				}
				for i, v := range w.layers.layer(m) {
					if !approx.Equal(v, want.AtVec(i), 1e-10) {
						t.Fatalf("bias %v, %s, sample %d: weight %d moves by %v, want %v", bias, structure, m, i, v, want.AtVec(i))
					}
				}
			}
		}
	}
}

// It is H̃⁻¹(J - ggᵀ/N)H̃⁻¹, where g is the sum of all gradients, zero at an optimum.
func TestBootstrapsHaveTheSandwichCovariance(t *testing.T) {
	t.Parallel()
	const epsilon, samples = 0.5, 40000
	h := softmaxHead(3, 2, true)
	n := 3 * h.Dim()
	s := clouds(20, 2, 3, 1, 5)
	solver := denseSolver{naiveHessian(s, h, calibrate.Full, epsilon)}
	w, err := NewBootstrap(background, s, h, solver, nil, samples, 1)
	if err != nil {
		t.Fatal(err)
	}
	j, g := mat.NewDense(n, n, nil), mat.NewVecDense(n, nil)
	for i := range 20 {
		own := mat.NewVecDense(n, naiveGradient(s, h, i))
		var outer mat.Dense
		outer.Outer(1, own, own)
		j.Add(j, &outer)
		g.AddVec(g, own)
	}
	var outer, inverse, want mat.Dense
	outer.Outer(1./20, g, g)
	j.Sub(j, &outer)
	if err := inverse.Inverse(naiveHessian(s, h, calibrate.Full, epsilon)); err != nil {
		t.Fatal(err)
	}
	want.Product(&inverse, j, &inverse)
	got := make([]float64, n*n)
	for m := range samples {
		delta := w.layers.layer(m)
		for a, x := range delta {
			for b, y := range delta {
				got[a*n+b] += x * y / samples
			}
		}
	}
	for a := range n {
		for b := range n {
			// Six standard errors, were they Gaussian.
			err := 6 * math.Sqrt((want.At(a, a)*want.At(b, b)+want.At(a, b)*want.At(a, b))/samples)
			if v := got[a*n+b]; !approx.Equal(v, want.At(a, b), err) {
				t.Errorf("covariance of weights %d and %d is %v, want %v ± %v", a, b, v, want.At(a, b), err)
			}
		}
	}
}

func TestMultinomialCounts(t *testing.T) {
	t.Parallel()
	const n, samples = 7, 70000
	var mean, square, cross float64
	rng := rand.New(rand.NewPCG(2, 2))
	counts := make([]int32, n)
	for range samples {
		multinomial(counts, rng)
		var total int32
		for _, c := range counts {
			total += c
		}
		if total != n {
			t.Fatalf("%d draws, want %d", total, n)
		}
		x, y := float64(counts[2])-1, float64(counts[5])-1
		mean += x / samples
		square += x * x / samples
		cross += x * y / samples
	}
	// Six standard errors are about 0.02 and 0.04.
	if !approx.Equal(mean, 0, 0.02) || !approx.Equal(square, 6./7, 0.04) || !approx.Equal(cross, -1./7, 0.03) {
		t.Errorf("mean of ω-1 is %v, variance %v, covariance %v, want 0, 6/7 and -1/7", mean, square, cross)
	}
}

func TestResidualsOfConfidentNetworksKeepTheirDigits(t *testing.T) {
	t.Parallel()
	s := &rows.Batch{N: 1, Logits: []float32{50, 0, -1}, Labels: []int{0}}
	r, mu := make([]float64, 3), make([]float64, 3)
	residual(r, mu, s, 0)
	others := math.Exp(-50) + math.Exp(-51)
	for c, want := range []float64{-others, math.Exp(-50), math.Exp(-51)} {
		if !approx.Relative(r[c], want, 1e-12) {
			t.Errorf("right: residual %d is %v, want %v", c, r[c], want)
		}
	}
	s.Labels[0] = 1
	residual(r, mu, s, 0)
	if !approx.Equal(r[0], 1, 1e-12) || !approx.Equal(r[1], -1, 1e-12) {
		t.Errorf("wrong: residuals %v, want 1 and -1", r)
	}
}

// denseSolver solves for one vector after another.
type denseSolver struct{ m *mat.Dense }

func (s denseSolver) SolveTo(dst, g []float64, m int) error {
	n, _ := s.m.Dims()
	for i := range m {
		var x mat.VecDense
		if err := x.SolveVec(s.m, mat.NewVecDense(n, slices.Clone(g[i*n:(i+1)*n]))); err != nil {
			return err
		}
		copy(dst[i*n:(i+1)*n], x.RawVector().Data)
	}
	return nil
}

type failingSolver struct{}

var errSolver = errors.New("no solution")

func (failingSolver) SolveTo(dst, g []float64, m int) error { return errSolver }

func TestBootstrapReturnsTheSolversError(t *testing.T) {
	t.Parallel()
	_, err := NewBootstrap(background, clouds(9, 2, 3, 1, 1), softmaxHead(3, 2, true), failingSolver{}, nil, 2, 1)
	if !errors.Is(err, errSolver) {
		t.Errorf("error %v, want %v", err, errSolver)
	}
}

func TestWeightSamplesHaveThePosteriorsVariances(t *testing.T) {
	t.Parallel()
	const samples = 20000
	h := softmaxHead(3, 4, true)
	s := clouds(60, 4, 3, 1, 9)
	p := kroneckerPosterior(s, h)
	w, err := NewWeightSamples(background, p, nil, samples, 1)
	if err != nil {
		t.Fatal(err)
	}
	few := s.Slice(0, 5)
	want := make([]float64, 5*3)
	p.Variances(want, few.Features, 5)
	deviations, err := w.layers.outputs(background, few)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float64, len(want))
	for i := range 5 {
		for m := range samples {
			for c := range 3 {
				v := float64(deviations[(i*samples+m)*3+c])
				got[i*3+c] += v * v / samples
			}
		}
	}
	for i, v := range got {
		if !approx.Relative(v, want[i], 6*math.Sqrt(2./samples)) {
			t.Errorf("variance of logit %d of example %d is %v, want %v", i%3, i/3, v, want[i])
		}
	}
	full, err := curvatureOf(s, h, calibrate.Full).Posterior(calibrate.Hessian, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewWeightSamples(background, full, nil, 3, 1); err == nil {
		t.Error("no error for the full structure")
	}
}
