package calibrate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

func mustCovariance(t *testing.T, c *Curvature, cov Covariance, epsilon float64) *LogitCovariance {
	t.Helper()
	l, err := c.Covariance(cov, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *LogitCovariance) covariancesOf(t *testing.T, s *rows.Batch) []float64 {
	t.Helper()
	n := s.N
	out := make([]float64, n*triangle(l.head.Logits))
	if err := l.Covariances(out, s.Features, n); err != nil {
		t.Fatal(err)
	}
	return out
}

// naiveCovariances is the upper triangle of ∇a Σ ∇aᵀ, with ∇a written out.
func naiveCovariances(h Head, sigma mat.Matrix, s *rows.Batch) []float64 {
	k, d := h.Logits, h.Dim()
	var out []float64
	for i := range s.N {
		jacobian := mat.NewDense(k, k*d, nil)
		for c := range k {
			for j, v := range naivePhi(h, s, i) {
				jacobian.Set(c, c*d+j, v)
			}
		}
		var v mat.Dense
		v.Product(jacobian, sigma, jacobian.T())
		for c := range k {
			for e := c; e < k; e++ {
				out = append(out, v.At(c, e))
			}
		}
	}
	return out
}

// wantOwnVariances compares the diagonals of covariances with Variances.
func (l *LogitCovariance) wantOwnVariances(t *testing.T, name string, covariances []float64, s *rows.Batch) {
	t.Helper()
	k, n := l.head.Logits, s.N
	variances := make([]float64, n*k)
	for range 2 { // the second call has what the first made
		if err := l.Variances(variances, s.Features, n); err != nil {
			t.Fatal(err)
		}
		wantVariances(t, name+": Variances", covariances, variances, k, 1e-12)
	}
}

// wantVariances compares the diagonals of covariances with a posterior's variances.
func wantVariances(t *testing.T, name string, covariances, variances []float64, k int, tolerance float64) {
	t.Helper()
	var diagonal []float64
	for ; len(covariances) > 0; covariances = covariances[triangle(k):] {
		for i := range k {
			diagonal = append(diagonal, covariances[packedRow(i, k)])
		}
	}
	wantRelative(t, name+": variances", diagonal, variances, tolerance)
}

// denseKronecker is (b/n) ⊗ a.
func denseKronecker(b, a []float64, n, k, d int) []float64 {
	m, mean := make([]float64, k*d*k*d), slices.Clone(b)
	for i := range mean {
		mean[i] /= float64(n)
	}
	addKronecker(m, mean, a, k, d)
	return m
}

func TestCovariancesEqualTheDenseInverse(t *testing.T) {
	const n = 100
	for i, h := range []Head{
		{Logits: 2, Features: 3, Link: Softmax},
		{Logits: 5, Features: 7, Bias: true, Link: Softmax},
		{Logits: 9, Features: 2, Bias: true, Link: Softmax},
	} {
		k, d := h.Logits, h.Dim()
		train, test := randomSet(h, n, 2, uint64(900+i)), randomSet(h, 9, 2, uint64(910+i))
		naive := newNaive(h, train)
		for _, structure := range []Structure{Full, Kronecker} {
			c := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true}, train, 0)
			hessian, fisher := naive.h, naive.j
			if structure == Kronecker {
				hessian, fisher = denseKronecker(naive.b, naive.a, n, k, d), denseKronecker(naive.g, naive.a, n, k, d)
			}
			for _, cov := range covariances {
				for _, epsilon := range []float64{1e-2, 1, 30} {
					name := fmt.Sprintf("%s %s %s ε = %v", h.name(), structure, cov, epsilon)
					l := mustCovariance(t, c, cov, epsilon)
					got := l.covariancesOf(t, test)
					sigma := naiveCovariance(t, cov, hessian, fisher, k*d, epsilon)
					wantSame(t, name, got, naiveCovariances(h, sigma, test), 10*rounding(cov, epsilon))
					wantVariances(t, name, got, mustPosterior(t, c, cov, epsilon).variancesOf(test), k, 1e-10)
					l.wantOwnVariances(t, name, got, test)

					const m = 4
					rng := rand.New(rand.NewPCG(uint64(i), 9))
					g := make([]float64, m*k*d)
					for j := range g {
						g[j] = rng.NormFloat64()
					}
					if cov == Sandwich {
						if err := l.SolveTo(g, g, m); err == nil || !strings.Contains(err.Error(), "sandwich") {
							t.Errorf("%s: error %v, want one that names the sandwich", name, err)
						}
						continue
					}
					var want mat.Dense
					want.Mul(mat.NewDense(m, k*d, slices.Clone(g)), sigma)
					x := make([]float64, len(g))
					if err := l.SolveTo(x, g, m); err != nil {
						t.Fatal(err)
					}
					wantSame(t, name+": solutions", x, want.RawMatrix().Data, 10*rounding(cov, epsilon))
					if err := l.SolveTo(g, g, m); err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(g, x) {
						t.Errorf("%s: in place the solutions are others", name)
					}
				}
			}
		}
	}
}

// TestCovariancesInParts has more parameters than a panel of the factor, and more
// products of features than are formed at once.
func TestCovariancesInParts(t *testing.T) {
	h := Head{Logits: 6, Features: 90, Bias: true, Link: Softmax}
	n := h.Logits * h.Dim()
	if n <= panelWidth || triangle(h.Dim()) <= 4096 {
		t.Fatalf("%d parameters and %d products are one part", n, triangle(h.Dim()))
	}
	train, test := randomSet(h, 150, 2, 920), randomSet(h, batchRows+5, 2, 921)
	c := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: true}, train, 0)
	few := test.Slice(batchRows-2, batchRows+2) // of both batches
	for _, cov := range []Covariance{Hessian, Sandwich} {
		const epsilon = 1
		l := mustCovariance(t, c, cov, epsilon)
		got := l.covariancesOf(t, test)
		sigma := naiveCovariance(t, cov, c.whole(c.h), c.whole(c.j), n, epsilon)
		width := triangle(h.Logits)
		wantSame(t, string(cov), got[(batchRows-2)*width:(batchRows+2)*width], naiveCovariances(h, sigma, few), 1e-11)
		wantVariances(t, string(cov), got, mustPosterior(t, c, cov, epsilon).variancesOf(test), h.Logits, 1e-11)
		l.wantOwnVariances(t, string(cov), got, test)
		if cov == Sandwich {
			continue
		}
		// What is solved is the damped curvature times the solution.
		damped := mat.NewDense(n, n, c.whole(c.h))
		for i := range n {
			damped.Set(i, i, damped.At(i, i)+epsilon)
		}
		want := make([]float64, 3*n)
		for i := range want {
			want[i] = float64(i%7) - 3
		}
		var g mat.Dense
		g.Mul(mat.NewDense(3, n, slices.Clone(want)), damped)
		x := make([]float64, 3*n)
		if err := l.SolveTo(x, g.RawMatrix().Data, 3); err != nil {
			t.Fatal(err)
		}
		wantSame(t, string(cov)+": solutions", x, want, 1e-11)
	}
}

// TestCovariancesOfManyClasses: with a diagonal B there are none.
func TestCovariancesOfManyClasses(t *testing.T) {
	h := Head{Logits: MaxDense + 1, Features: 2, Bias: true, Link: Softmax}
	train, test := randomSet(h, 40, 3, 930), randomSet(h, 3, 3, 931)
	c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
	for _, cov := range covariances {
		l := mustCovariance(t, c, cov, 0.01)
		got := l.covariancesOf(t, test)
		variances := mustPosterior(t, c, cov, 0.01).variancesOf(test)
		wantVariances(t, string(cov), got, variances, h.Logits, 1e-12)
		l.wantOwnVariances(t, string(cov), got, test)
		zeros := 0
		for _, v := range got {
			if v == 0 {
				zeros++
			}
		}
		if want := len(got) - len(variances); zeros != want {
			t.Errorf("%s: %d covariances are zero, want %d", cov, zeros, want)
		}
		if cov == Sandwich {
			continue
		}
		// Σ is diagonal in the classes, and so φᵀ times the solution for g = e_k ⊗ φ is s²_k.
		const k = 77
		d := h.Dim()
		g, phi := make([]float64, h.Logits*d), naivePhi(h, test, 1)
		copy(g[k*d:], phi)
		if err := l.SolveTo(g, g, 1); err != nil {
			t.Fatal(err)
		}
		var s2 float64
		for j, v := range phi {
			s2 += v * g[k*d+j]
		}
		wantRelative(t, string(cov)+": the solution", []float64{s2}, variances[h.Logits+k:h.Logits+k+1], 1e-12)
	}
}

func TestSampledWeights(t *testing.T) {
	const n, m = 60, 20000
	for _, c := range []struct {
		head Head
		cov  Covariance
	}{
		{Head{Logits: 3, Features: 2, Bias: true, Link: Softmax}, Hessian},
		{Head{Logits: 2, Features: 3, Link: Softmax}, Fisher},
		{Head{Logits: 3, Features: 2, Bias: true, Link: Sigmoid}, Hessian},
	} {
		h := c.head
		k, d := h.Logits, h.Dim()
		train := randomSet(h, n, 1, 940)
		p := mustPosterior(t, accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0),
			c.cov, 2)
		naive := newNaive(h, train)
		sigma := naiveCovariance(t, c.cov, denseKronecker(naive.b, naive.a, n, k, d), denseKronecker(naive.g, naive.a,
			n, k, d), k*d, 2)
		rng, w := rand.New(rand.NewPCG(1, 2)), make([]float64, k*d)
		mean, second := make([]float64, k*d), make([]float64, k*d*k*d)
		for range m {
			if err := p.SampleWeights(rng, w); err != nil {
				t.Fatal(err)
			}
			for i, v := range w {
				mean[i] += v / m
				for j, u := range w {
					second[i*k*d+j] += v * u / m
				}
			}
		}
		for i := range k * d {
			vi := sigma.At(i, i)
			if !approx.Equal(mean[i], 0, 4.5*math.Sqrt(vi/m)) {
				t.Errorf("%s: the mean of weight %d is %v, want 0 ± %v", h.name(), i, mean[i], math.Sqrt(vi/m))
			}
			for j := range k * d {
				want := sigma.At(i, j)
				stdErr := math.Sqrt((vi*sigma.At(j, j) + want*want) / m)
				if got := second[i*k*d+j]; !approx.Equal(got, want, 4.5*stdErr) {
					t.Errorf("%s: the covariance of weights %d and %d is %v, want %v ± %v", h.name(), i, j, got, want, stdErr)
				}
			}
		}
	}
}

func TestCovariancesThatAreRefused(t *testing.T) {
	softmax := Head{Logits: 3, Features: 2, Link: Softmax}
	many := Head{Logits: maxSandwich + 1, Features: 2, Link: Softmax}
	sigmoid := Head{Logits: 3, Features: 2, Link: Sigmoid}
	of := func(h Head, s Structure, fisher bool) *Curvature {
		return accumulate(t, CurvatureConfig{Head: h, Structure: s, Fisher: fisher}, randomSet(h, 20, 1, 950), 0)
	}
	for _, c := range []struct {
		name    string
		c       *Curvature
		cov     Covariance
		epsilon float64
		reason  string
	}{
		{"separate logits", of(sigmoid, Full, false), Hessian, 1, "the logits of a sigmoid head are separate"},
		{"no Fisher matrix", of(softmax, Full, false), Fisher, 1, "was not accumulated"},
		{"no damping", of(softmax, Full, false), Hessian, 0, "damping 0"},
		{"infinite damping", of(softmax, Kronecker, false), Hessian, math.Inf(1), "damping +Inf"},
		{"tiny damping", of(softmax, Full, false), Hessian, 1e-30, "larger --damping"},
		{"unknown", of(softmax, Full, false), "diagonal", 1, `covariance "diagonal"`},
		{"sandwich of many classes", of(many, Kronecker, true), Sandwich, 1, "at most 256 classes"},
	} {
		if _, err := c.c.Covariance(c.cov, c.epsilon); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.reason)
		}
	}
	w := make([]float64, 6)
	for _, c := range []struct {
		structure Structure
		cov       Covariance
	}{{Full, Hessian}, {Kronecker, Sandwich}} {
		err := mustPosterior(t, of(softmax, c.structure, true), c.cov, 1).SampleWeights(rand.New(rand.NewPCG(1, 1)), w)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the %s covariance in the %s structure", c.cov, c.structure)) {
			t.Errorf("sampling %s %s: error %v, want one that names both", c.structure, c.cov, err)
		}
	}
}

// TestCovariancesPassOnErrors lets each of the products fail in turn.
func TestCovariancesPassOnErrors(t *testing.T) {
	h := Head{Logits: 3, Features: 2, Bias: true, Link: Softmax}
	train := randomSet(h, 20, 1, 960)
	for _, structure := range []Structure{Full, Kronecker} {
		for _, cov := range covariances {
			for calls := 0; ; calls++ {
				p := &failingProduct{left: math.MaxInt}
				c := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true, Product: p}, train, 0)
				p.left = calls
				l, err := c.Covariance(cov, 1)
				if err == nil {
					err = l.Covariances(make([]float64, 20*triangle(3)), train.Features, 20)
				}
				if err == nil {
					err = l.Variances(make([]float64, 20*3), train.Features, 20)
				}
				if err == nil && cov != Sandwich {
					g := make([]float64, 9)
					err = l.SolveTo(g, g, 1)
				}
				if err == nil {
					if p.left != 0 || calls < 2 {
						t.Errorf("%s %s: no error with %d calls, %d of them left", structure, cov, calls, p.left)
					}
					break
				}
				if !errors.Is(err, errProduct) {
					t.Fatalf("%s %s: error %v after %d calls, want the product's", structure, cov, err, calls)
				}
			}
		}
	}
}
