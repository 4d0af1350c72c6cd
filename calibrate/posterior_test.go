package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

var covariances = []Covariance{Hessian, Fisher, Sandwich}

// inverse returns (m + εI)⁻¹ by LU, which shares nothing with Cholesky.
func inverse(t *testing.T, m []float64, n int, epsilon float64) *mat.Dense {
	t.Helper()
	damped := mat.NewDense(n, n, slices.Clone(m))
	for i := range n {
		damped.Set(i, i, damped.At(i, i)+epsilon)
	}
	var inv mat.Dense
	if err := inv.Inverse(damped); err != nil {
		t.Fatal(err)
	}
	return &inv
}

// naiveCovariance is the covariance of all weights by its definition.
func naiveCovariance(t *testing.T, cov Covariance, h, j []float64, n int, epsilon float64) *mat.Dense {
	t.Helper()
	switch cov {
	case Hessian:
		return inverse(t, h, n, epsilon)
	case Fisher:
		return inverse(t, j, n, epsilon)
	}
	var sigma mat.Dense
	m := inverse(t, h, n, epsilon)
	sigma.Product(m, mat.NewDense(n, n, j), m)
	return &sigma
}

// naiveVariances is the diagonal of ∇a Σ ∇aᵀ, with the K × KD Jacobian ∇a of the
// logits written out.
func naiveVariances(h layer.Head, sigma mat.Matrix, s *rows.Batch) []float64 {
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
			out = append(out, v.At(c, c))
		}
	}
	return out
}

func naiveLeverages(t *testing.T, h layer.Head, a []float64, s *rows.Batch) []float64 {
	d := h.Dim()
	var trace float64
	for i := range d {
		trace += a[i*d+i]
	}
	inv := inverse(t, a, d, 1e-3*trace/float64(d))
	var out []float64
	for i := range s.N {
		phi := mat.NewVecDense(d, naivePhi(h, s, i))
		out = append(out, mat.Inner(phi, inv, phi))
	}
	return out
}

// rounding is what the twins may differ by: an inverse magnifies the rounding of
// H, whose norm is up to a hundred here, by 1/ε in the directions that H has no
// part in, and the sandwich that of J by its square.
func rounding(cov Covariance, epsilon float64) float64 {
	if cov == Sandwich {
		epsilon *= epsilon
	}
	return math.Max(1e-12, 1e-13/epsilon)
}

func mustPosterior(t testing.TB, c *Curvature, cov Covariance, epsilon float64) *Posterior {
	t.Helper()
	p, err := c.Posterior(cov, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Posterior) variancesOf(s *rows.Batch) []float64 {
	n := s.N
	v := make([]float64, n*p.Head.Logits)
	p.Variances(v, s.Features, n)
	return v
}

func (p *Posterior) leveragesOf(s *rows.Batch) []float64 {
	v := make([]float64, s.N)
	p.Leverages(v, s.Features, len(v))
	return v
}

func TestFullPosteriorEqualsTheDenseInverse(t *testing.T) {
	t.Parallel()
	for i, h := range heads {
		k, d := h.Logits, h.Dim()
		train, test := randomSet(h, 100, 2, uint64(i)), randomSet(h, 9, 2, uint64(100+i))
		c := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: true}, train, 0)
		want := newNaive(h, train)
		for _, cov := range covariances {
			for _, epsilon := range []float64{1e-2, 1, 30} {
				name := fmt.Sprintf("%s %s ε = %v", nameOf(h), cov, epsilon)
				p := mustPosterior(t, c, cov, epsilon)
				sigma := naiveCovariance(t, cov, want.h, want.j, k*d, epsilon)
				for x := range k {
					block := mat.DenseCopyOf(sigma.Slice(x*d, (x+1)*d, x*d, (x+1)*d))
					wantSame(t, fmt.Sprintf("%s: block %d", name, x), p.Blocks[x*d*d:(x+1)*d*d], block.RawMatrix().Data,
						rounding(cov, epsilon))
				}
				wantRelative(t, name+": variances", p.variancesOf(test), naiveVariances(h, sigma, test), 10*rounding(cov, epsilon))
				wantRelative(t, name+": leverages", p.leveragesOf(test), naiveLeverages(t, h, want.a, test), 1e-11)
			}
		}
	}
}

// All of a covariance, of which a posterior has the diagonal blocks.
func TestInverseEqualsTheDenseInverse(t *testing.T) {
	t.Parallel()
	const epsilon = 1
	for i, h := range []layer.Head{
		{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax},
		{Logits: 6, Features: 90, Bias: true, Link: layer.Softmax}, // more than a panel
	} {
		n, d := h.Logits*h.Dim(), h.Dim()
		train := randomSet(h, 150, 2, uint64(970+i))
		c := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: true}, train, 0)
		for _, cov := range covariances {
			sigma := naiveCovariance(t, cov, c.whole(c.h), c.whole(c.j), n, epsilon)
			var got []float64
			err := c.Inverse(cov, epsilon, func(k int, rows []float64) error {
				if k*d*n != len(got) {
					t.Errorf("the rows of logit %d come after %d numbers", k, len(got))
				}
				got = append(got, rows...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, fmt.Sprintf("%s %s", nameOf(h), cov), got, sigma.RawMatrix().Data, 10*rounding(cov, epsilon))
		}
		enough := errors.New("enough")
		if err := c.Inverse(Hessian, epsilon, func(int, []float64) error { return enough }); err != enough {
			t.Errorf("error %v, want that of the caller", err)
		}
	}
}

func TestInversePassesOnErrorsOfTheProduct(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.Softmax}
	for _, cov := range covariances {
		p := &failingProduct{left: math.MaxInt}
		cfg := CurvatureConfig{Head: h, Structure: Full, Fisher: true, Product: p}
		c := accumulate(t, cfg, randomSet(h, 20, 1, 960), 0)
		calls := 0
		for ; ; calls++ {
			p.left = calls
			if err := c.Inverse(cov, 1, func(int, []float64) error { return nil }); err == nil {
				break
			} else if !errors.Is(err, errProduct) {
				t.Fatalf("%s: error %v after %d calls, want the product's", cov, err, calls)
			}
		}
		if calls < h.Logits {
			t.Errorf("%s: only %d calls", cov, calls)
		}
	}
}

func TestGIsTheMeanProductOfResiduals(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.Softmax}
	train := randomSet(h, 50, 1, 961)
	want := newNaive(h, train).g
	for i := range want {
		want[i] /= 50
	}
	c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
	wantSame(t, "G", c.G(), want, 1e-12)
	if g := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker}, train, 0).G(); g != nil {
		t.Errorf("without Fisher matrix G is %v", g)
	}
}

func TestBadInversesAreRefused(t *testing.T) {
	t.Parallel()
	softmax := layer.Head{Logits: 3, Features: 2, Link: layer.Softmax}
	sigmoid := layer.Head{Logits: 3, Features: 2, Link: layer.Sigmoid}
	of := func(h layer.Head, s Structure) *Curvature {
		return accumulate(t, CurvatureConfig{Head: h, Structure: s}, randomSet(h, 20, 1, 950), 0)
	}
	for _, c := range []struct {
		name    string
		c       *Curvature
		cov     Covariance
		epsilon float64
		reason  string
	}{
		{"separate logits", of(sigmoid, Full), Hessian, 1, "and a softmax head"},
		{"factors", of(softmax, Kronecker), Hessian, 1, "the full structure"},
		{"no Fisher matrix", of(softmax, Full), Fisher, 1, "was not accumulated"},
		{"no damping", of(softmax, Full), Hessian, 0, "damping 0"},
		{"tiny damping", of(softmax, Full), Hessian, 1e-30, "larger damping"},
	} {
		err := c.c.Inverse(c.cov, c.epsilon, func(int, []float64) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.reason)
		}
	}
}

func TestKroneckerPosteriorEqualsTheDenseInverse(t *testing.T) {
	t.Parallel()
	for i, h := range heads {
		k, d := h.Logits, h.Dim()
		const n = 100
		train, test := randomSet(h, n, 2, uint64(200+i)), randomSet(h, 9, 2, uint64(300+i))
		c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
		want := newNaive(h, train)
		dense := func(b []float64) []float64 { // (b/n) ⊗ A
			m := make([]float64, k*d*k*d)
			mean := slices.Clone(b)
			for i := range mean {
				mean[i] /= n
			}
			addKronecker(m, mean, want.a, k, d)
			return m
		}
		for _, cov := range covariances {
			for _, epsilon := range []float64{1e-2, 1, 30} {
				name := fmt.Sprintf("%s %s ε = %v", nameOf(h), cov, epsilon)
				p := mustPosterior(t, c, cov, epsilon)
				sigma := naiveCovariance(t, cov, dense(want.b), dense(want.g), k*d, epsilon)
				wantRelative(t, name+": variances", p.variancesOf(test), naiveVariances(h, sigma, test), 10*rounding(cov, epsilon))
				wantRelative(t, name+": leverages", p.leveragesOf(test), naiveLeverages(t, h, want.a, test), 1e-11)

				for _, v := range append(slices.Clone(p.LambdaA), p.LambdaB...) {
					if !(v >= 0) { // rounding makes zero negative as often as not
						t.Errorf("%s: eigenvalue %v", name, v)
					}
				}
				// The sum over eigenvalues as it is defined, term by term.
				if cov == Sandwich {
					continue // its G̃ is in the dense comparison
				}
				for i, la := range p.LambdaA {
					for x := range k {
						var v float64
						for j, lb := range p.LambdaB {
							q := 0.0
							if p.QB != nil {
								q = p.QB[x*k+j]
							} else if x == j {
								q = 1
							}
							v += q * q / (la*lb + epsilon)
						}
						if !approx.Relative(p.V[i*k+x], v, 1e-13) {
							t.Errorf("%s: V[%d,%d] = %v, want %v", name, i, x, p.V[i*k+x], v)
						}
					}
				}
			}
		}
	}
}

// With every example of one class and the same logits, H and J are Kronecker
// products, and so they are when each feature vector comes with every label.
func TestKroneckerEqualsFullWhereTheCurvatureFactorises(t *testing.T) {
	t.Parallel()
	for i, h := range heads {
		for _, everyLabel := range []bool{false, true} {
			train := randomSet(h, 120, 1, uint64(400+i))
			for e := range train.N {
				copy(logitsOf(train, e), logitsOf(train, 0))
				if h.MultiLabel() {
					copy(train.Target(e), train.Target(0))
				} else {
					train.Labels[e] = train.Labels[0]
				}
			}
			if everyLabel {
				once := train
				train = &rows.Batch{N: once.N * h.Classes()}
				for y := range h.Classes() {
					train.Features = append(train.Features, once.Features...)
					train.Logits = append(train.Logits, once.Logits...)
					for range once.Labels {
						train.Labels = append(train.Labels, y)
					}
					for range once.Targets {
						train.Targets = append(train.Targets, uint8(y%2))
					}
				}
			}
			test := randomSet(h, 20, 1, uint64(500+i))
			full := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: true}, train, 0)
			kron := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
			for _, cov := range covariances {
				name := fmt.Sprintf("%s every label %v %s", nameOf(h), everyLabel, cov)
				a, err := full.MeanEigenvalue(cov)
				if err != nil {
					t.Fatal(err)
				}
				b, err := kron.MeanEigenvalue(cov)
				if err != nil {
					t.Fatal(err)
				}
				if !approx.Relative(a, b, 1e-12) {
					t.Errorf("%s: mean eigenvalue %v in full, %v as factors", name, a, b)
				}
				for _, rho := range []float64{0.01, 1, 10} {
					f, k := mustPosterior(t, full, cov, rho*a), mustPosterior(t, kron, cov, rho*a)
					wantRelative(t, fmt.Sprintf("%s ρ = %v: variances", name, rho), k.variancesOf(test), f.variancesOf(test), 1e-9)
				}
			}
		}
	}
}

// Each label of a multi-label head, and each class of a one-vs-rest head, is a
// problem of one logit.
func TestSeparateLogitsAreProblemsOfOneLogit(t *testing.T) {
	t.Parallel()
	for i, h := range []layer.Head{
		{Logits: 4, Features: 5, Bias: true, Link: layer.Sigmoid},
		{Logits: 4, Features: 5, Link: layer.OneVsRest},
		{Logits: 20, Features: 5, Bias: true, Link: layer.Sigmoid}, // the product is formed otherwise
	} {
		tolerance := 0.0
		if h.Logits > 10 {
			tolerance = 1e-11
		}
		train, test := randomSet(h, 600, 2, uint64(660+i)), randomSet(h, 30, 2, uint64(670+i))
		for _, structure := range []Structure{Full, Kronecker} {
			c := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true}, train, 0)
			one := h
			one.Logits, one.Link = 1, layer.Sigmoid
			alone := func(s *rows.Batch, k int) *rows.Batch {
				part := &rows.Batch{N: s.N, Features: s.Features}
				for i := range s.N {
					part.Logits = append(part.Logits, logitsOf(s, i)[k])
					label := 0
					if truth(h, s, i, k) {
						label = 1
					}
					part.Labels = append(part.Labels, label)
				}
				return part
			}
			for _, cov := range covariances {
				together := mustPosterior(t, c, cov, 0.3).variancesOf(test)
				for k := range h.Logits {
					ck := accumulate(t, CurvatureConfig{Head: one, Structure: structure, Fisher: true}, alone(train, k),
						0)
					var got []float64
					for i := range test.N {
						got = append(got, together[i*h.Logits+k])
					}
					wantRelative(t, fmt.Sprintf("%s %s %s: logit %d", nameOf(h), structure, cov, k), got,
						mustPosterior(t, ck, cov, 0.3).variancesOf(alone(test, k)), tolerance)
				}
			}
		}
	}
}

func TestLeverageIsTheSameInBothStructures(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 4, Features: 12, Bias: true, Link: layer.Softmax}
	train, test := randomSet(h, 300, 2, 600), randomSet(h, 50, 2, 601)
	full := mustPosterior(t, accumulate(t, CurvatureConfig{Head: h, Structure: Full}, train, 0), Hessian, 1)
	kron := mustPosterior(t, accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker}, train, 0), Hessian, 7)
	wantRelative(t, "leverages", kron.leveragesOf(test), full.leveragesOf(test), 1e-11)
}

// Without the example itself, A has φφᵀ less. δ stays as it is.
func TestLeaveOneOutTakesEachExampleOutOfTheCurvature(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 6, Bias: true, Link: layer.Softmax}
	s := randomSet(h, 40, 2, 700)
	a, d := newNaive(h, s).a, h.Dim()
	var trace float64
	for i := range d {
		trace += a[i*d+i]
	}
	var want []float64
	for i := range s.N {
		rest, x := slices.Clone(a), naivePhi(h, s, i)
		for r := range d {
			for c := range d {
				rest[r*d+c] -= x[r] * x[c]
			}
		}
		phi := mat.NewVecDense(d, x)
		want = append(want, mat.Inner(phi, inverse(t, rest, d, 1e-3*trace/float64(d)), phi))
	}
	for _, structure := range []Structure{Full, Kronecker} {
		p := mustPosterior(t, accumulate(t, CurvatureConfig{Head: h, Structure: structure}, s, 0), Hessian, 1)
		wantRelative(t, "leverages", p.LeaveOneOut().leveragesOf(s), want, 1e-10)
		wantSame(t, "variances", p.LeaveOneOut().variancesOf(s), p.variancesOf(s), 0)
	}
}

func TestManyClassesInvertTheDiagonalOfB(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: MaxDense + 1, Features: 2, Bias: true, Link: layer.Softmax}
	const n, epsilon = 40, 0.01
	train, test := randomSet(h, n, 3, 610), randomSet(h, 3, 3, 611)
	c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
	d := h.Dim()
	a, b, g := make([]float64, d*d), make([]float64, h.Logits), make([]float64, h.Logits)
	for i := range n {
		phi, r := naivePhi(h, train, i), naiveR(h, train, i)
		outer(a, phi, phi)
		for k, p := range naiveP(h, logitsOf(train, i)) {
			b[k] += (p - p*p) / n
			g[k] += r[k] * r[k] / n
		}
	}
	scaled := func(x float64) []float64 {
		m := slices.Clone(a)
		for i := range m {
			m[i] *= x
		}
		return m
	}
	for _, cov := range covariances {
		p := mustPosterior(t, c, cov, epsilon)
		if p.QB != nil {
			t.Errorf("%s: a diagonal B has eigenvectors", cov)
		}
		var want []float64
		for i := range test.N {
			phi := mat.NewVecDense(d, naivePhi(h, test, i))
			for k := range h.Logits {
				sigma := naiveCovariance(t, cov, scaled(b[k]), scaled(g[k]), d, epsilon)
				want = append(want, mat.Inner(phi, sigma, phi))
			}
		}
		wantRelative(t, string(cov), p.variancesOf(test), want, 1e-10)
	}
}

func TestBatchesOfAnySizeGiveTheSame(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 6, Bias: true, Link: layer.Softmax}
	train, test := randomSet(h, 100, 1, 620), randomSet(h, 2*batchRows+3, 1, 621)
	n := test.N
	for _, structure := range []Structure{Full, Kronecker} {
		p := mustPosterior(t, accumulate(t, CurvatureConfig{Head: h, Structure: structure}, train, 0), Hessian, 1)
		variances, leverages := p.variancesOf(test), p.leveragesOf(test)
		for i := range n {
			one := test.Slice(i, i+1)
			wantRelative(t, fmt.Sprintf("%s: variances of example %d", structure, i), p.variancesOf(one), variances[i*h.Logits:(i+1)*h.Logits],
				1e-13)
			wantRelative(t, fmt.Sprintf("%s: leverage of example %d", structure, i), p.leveragesOf(one), leverages[i:i+1], 1e-13)
		}
		v, l := make([]float64, len(variances)), make([]float64, n)
		p.Both(v, l, test.Features, n)
		if !slices.Equal(v, variances) || !slices.Equal(l, leverages) {
			t.Errorf("%s: Both is not Variances and Leverages", structure)
		}
		p.Both(nil, nil, nil, 0)
	}
}

func TestMeanEigenvalueIsTraceOverOrder(t *testing.T) {
	t.Parallel()
	for i, h := range heads {
		k, d := h.Logits, h.Dim()
		train := randomSet(h, 60, 2, uint64(630+i))
		full := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: true}, train, 0)
		kron := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
		want := newNaive(h, train)
		for _, cov := range covariances {
			m, b := want.h, want.b
			if cov == Fisher {
				m, b = want.j, want.g
			}
			trace := func(m []float64, n int) (sum float64) {
				for i := range n {
					sum += m[i*n+i]
				}
				return sum
			}
			got, err := full.MeanEigenvalue(cov)
			if err != nil {
				t.Fatal(err)
			}
			if mean := trace(m, k*d) / float64(k*d); !approx.Relative(got, mean, 1e-13) {
				t.Errorf("%s full %s: %v, want %v", nameOf(h), cov, got, mean)
			}
			got, err = kron.MeanEigenvalue(cov)
			if err != nil {
				t.Fatal(err)
			}
			if mean := trace(want.a, d) / float64(d) * trace(b, k) / float64(k) / 60; !approx.Relative(got, mean,
				1e-13) {
				t.Errorf("%s kron %s: %v, want %v", nameOf(h), cov, got, mean)
			}
			// Of the eigenvalues themselves.
			p := mustPosterior(t, kron, cov, 1)
			if product := mean(p.LambdaA) * mean(p.LambdaB); !approx.Relative(got, product, 1e-12) {
				t.Errorf("%s kron %s: %v, of eigenvalues %v", nameOf(h), cov, got, product)
			}
		}
	}
}

func TestBadPosteriorsAreRefused(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 2, Link: layer.Softmax}
	for _, structure := range []Structure{Full, Kronecker} {
		train := randomSet(h, 10, 1, 640)
		c := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, train, 0)
		empty := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, &rows.Batch{}, 0)
		for _, test := range []struct {
			c       *Curvature
			cov     Covariance
			epsilon float64
			want    string
		}{
			{c, Hessian, 0, "damping 0"},
			{c, Hessian, -1, "damping -1"},
			{c, Hessian, math.NaN(), "damping NaN"},
			{c, Hessian, math.Inf(1), "damping +Inf"},
			{c, Fisher, 1, "fisher covariance needs the Fisher matrix"},
			{c, Sandwich, 1, "sandwich covariance needs the Fisher matrix"},
			{c, "laplace", 1, `Covariance "laplace", want hessian, fisher, sandwich or external`},
			{empty, Hessian, 1, "no examples"},
		} {
			if _, err := test.c.Posterior(test.cov, test.epsilon); err == nil || !strings.Contains(err.Error(),
				test.want) {
				t.Errorf("%s: error %v, want %q", structure, err, test.want)
			}
			if test.epsilon == 1 {
				if _, err := test.c.MeanEigenvalue(test.cov); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: mean eigenvalue: error %v, want %q", structure, err, test.want)
				}
			}
		}
	}
	// The full curvature is singular: what Cholesky would make of so little
	// damping is noise. The factors are damped in their eigenbases, exactly.
	train := randomSet(h, 1000, 1, 641)
	full := accumulate(t, CurvatureConfig{Head: h, Structure: Full}, train, 0)
	if _, err := full.Posterior(Hessian, 1e-15); err == nil || !strings.Contains(err.Error(), "use a larger damping") {
		t.Errorf("ε = 1e-15: error %v", err)
	}
	kron := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker}, train, 0)
	for _, v := range mustPosterior(t, kron, Hessian, 1e-15).variancesOf(train.Slice(0, 5)) {
		if !(v > 0) || math.IsInf(v, 1) {
			t.Errorf("ε = 1e-15, kron: variance %v", v)
		}
	}
}

// All features zero, as behind a dead layer: a variance of zero, and no NaN.
func TestZeroFeatures(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 2, Link: layer.Softmax}
	train := randomSet(h, 10, 1, 650)
	clear(train.Features)
	for _, structure := range []Structure{Full, Kronecker} {
		p := mustPosterior(t, accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true}, train, 0),
			Sandwich, 1)
		for _, v := range append(p.variancesOf(train), p.leveragesOf(train)...) {
			if v != 0 {
				t.Fatalf("%s: %v, want 0", structure, v)
			}
		}
		probe := randomSet(h, 3, 1, 651)
		for _, v := range p.leveragesOf(probe) {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Errorf("%s: leverage %v, want a positive number", structure, v)
			}
		}
	}
}
