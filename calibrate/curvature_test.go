package calibrate

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

var heads = []layer.Head{
	{Logits: 2, Features: 3, Link: layer.Softmax},
	{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax},
	{Logits: 5, Features: 2, Link: layer.Softmax},
	{Logits: 1, Features: 4, Bias: true, Link: layer.Sigmoid},
	{Logits: 1, Features: 3, Link: layer.Sigmoid},
	{Logits: 4, Features: 3, Bias: true, Link: layer.Sigmoid},
	{Logits: 2, Features: 4, Link: layer.Sigmoid},
	{Logits: 3, Features: 3, Bias: true, Link: layer.OneVsRest},
}

func nameOf(h layer.Head) string {
	bias := ""
	if h.Bias {
		bias = "+1"
	}
	return fmt.Sprintf("%s/K=%d/d=%d%s", h.Link, h.Logits, h.Features, bias)
}

// The loss is Σ -log p_y as a function of the weights, here by its definition;
// W and the bias are class-major, as H is.
func loss(h layer.Head, s *rows.Batch, weights []float64) float64 {
	d := h.Dim()
	var sum float64
	for i := range s.N {
		phi := naivePhi(h, s, i)
		a := make([]float64, h.Logits)
		for k := range a {
			for j, v := range phi {
				a[k] += v * weights[k*d+j]
			}
		}
		if h.Link != layer.Softmax { // K binary losses
			for k, v := range a {
				if truth(h, s, i, k) {
					v = -v
				}
				sum += math.Log(1 + math.Exp(v))
			}
			continue
		}
		var z float64
		for _, v := range a {
			z += math.Exp(v)
		}
		sum += math.Log(z) - a[s.Labels[i]]
	}
	return sum
}

// headSet returns weights and examples whose logits they give, exactly: both are multiples of 1/8.
func headSet(h layer.Head, n int, seed uint64) (weights []float64, s *rows.Batch) {
	rng := rand.New(rand.NewPCG(seed, 3))
	d := h.Dim()
	weights = make([]float64, h.Logits*d)
	for i := range weights {
		weights[i] = math.Round(8*rng.NormFloat64()) / 8
	}
	s = randomSet(h, n, 1, seed)
	for i, v := range s.Features {
		s.Features[i] = float32(math.Round(8*float64(v)) / 8)
	}
	for i := range n {
		for k := range h.Logits {
			var a float64
			for j, v := range naivePhi(h, s, i) {
				a += v * weights[k*d+j]
			}
			s.Logits[i*h.Logits+k] = float32(a)
		}
	}
	return weights, s
}

// second returns the second derivative of f along v by the five-point stencil,
// whose error is h⁴f⁽⁶⁾/90: near 1e-9 here, as is that of rounding, 1e-15/h².
func second(f func(x []float64) float64, x, v []float64) float64 {
	const h = 1e-2
	at := func(step float64) float64 {
		y := slices.Clone(x)
		for i := range y {
			y[i] += step * h * v[i]
		}
		return f(y)
	}
	return (-at(2) + 16*at(1) - 30*at(0) + 16*at(-1) - at(-2)) / (12 * h * h)
}

func TestHessianEqualsFiniteDifferencesOfTheLoss(t *testing.T) {
	t.Parallel()
	for i, h := range heads {
		t.Run(nameOf(h), func(t *testing.T) {
			weights, s := headSet(h, 20, uint64(i))
			f := func(w []float64) float64 { return loss(h, s, w) }
			c := accumulate(t, CurvatureConfig{Head: h, Structure: Full}, s, 0)
			got := c.whole(c.h)
			n := len(weights)
			unit := func(i, j int, sign float64) []float64 {
				v := make([]float64, n)
				v[i]++
				v[j] += sign
				return v
			}
			for i := range n {
				for j := range n {
					// ∂i∂j = (∂²(i+j) - ∂²(i-j)) / 4
					want := (second(f, weights, unit(i, j, 1)) - second(f, weights, unit(i, j, -1))) / 4
					size := math.Sqrt(got[i*n+i] * got[j*n+j])
					if !approx.Equal(got[i*n+j], want, 1e-5*size) {
						t.Errorf("H[%d,%d] = %v, finite differences %v", i, j, got[i*n+j], want)
					}
				}
			}
		})
	}
}

func TestFisherEqualsSumOfOuterGradients(t *testing.T) {
	t.Parallel()
	for i, h := range heads {
		t.Run(nameOf(h), func(t *testing.T) {
			weights, s := headSet(h, 20, uint64(10+i))
			n := len(weights)
			want := make([]float64, n*n)
			for e := range s.N {
				one := s.Slice(e, e+1)
				gradient := make([]float64, n)
				for i := range gradient {
					at := func(step float64) float64 {
						w := slices.Clone(weights)
						w[i] += step
						return loss(h, one, w)
					}
					// Five points: an error of h⁴f⁽⁵⁾/30 and of rounding, 1e-16/h.
					const h = 1e-3
					gradient[i] = (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
				}
				// Of separate logits each has its own gradient.
				part := n
				if h.Link != layer.Softmax {
					part = h.Dim()
				}
				for first := 0; first < n; first += part {
					alone := make([]float64, n)
					copy(alone[first:first+part], gradient[first:])
					outer(want, alone, alone)
				}
			}
			c := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: true}, s, 0)
			wantSame(t, "J", c.whole(c.j), want, 1e-9)
		})
	}
}

func TestCurvatureEqualsItsDefinition(t *testing.T) {
	t.Parallel()
	// Few pairs of classes, and many; the last has 5,050 pairs of features, so
	// more than one chunk of columns.
	for i, h := range append(slices.Clone(heads),
		layer.Head{Logits: 6, Features: 99, Bias: true, Link: layer.Softmax}) {
		for _, fisher := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/fisher=%v", nameOf(h), fisher), func(t *testing.T) {
				n := BlockSize + 100 // a whole block and part of one
				if h.Features > 50 {
					n = 60
				}
				s := randomSet(h, n, 2, uint64(20+i))
				want := newNaive(h, s)
				full := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: fisher}, s, 0)
				kron := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: fisher}, s, 0)

				const rounding = 1e-13 // of sums of some 600 terms
				wantSame(t, "H", full.whole(full.h), want.h, rounding)
				wantSame(t, "A of the full structure", symmetric(full.a, h.Dim()), want.a, rounding)
				wantSame(t, "A", kron.a, want.a, rounding)
				wantSame(t, "B", kron.wholeB(kron.b), want.b, rounding)
				if fisher {
					wantSame(t, "J", full.whole(full.j), want.j, rounding)
					wantSame(t, "G", kron.wholeB(kron.g), want.g, rounding)
				}
				if full.Examples() != n || kron.Examples() != n {
					t.Errorf("%d and %d examples, want %d", full.Examples(), kron.Examples(), n)
				}
			})
		}
	}
}

// symmetric unpacks a packed upper triangle.
func symmetric(packed []float64, n int) []float64 {
	m := make([]float64, n*n)
	at := 0
	for i := range n {
		for j := i; j < n; j++ {
			m[i*n+j], m[j*n+i] = packed[at], packed[at]
			at++
		}
	}
	return m
}

func TestManyClassesKeepTheDiagonalOfB(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: MaxDense + 1, Features: 2, Bias: true, Link: layer.Softmax}
	s := randomSet(h, 30, 3, 30)
	c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, s, 0)
	b, g := make([]float64, h.Logits), make([]float64, h.Logits)
	for i := range s.N {
		r := naiveR(h, s, i)
		for k, p := range naiveP(h, logitsOf(s, i)) {
			b[k] += p - p*p
			g[k] += r[k] * r[k]
		}
	}
	wantRelative(t, "the diagonal of B", c.b, b, 1e-12)
	wantRelative(t, "the diagonal of G", c.g, g, 1e-12)

	h.Logits = MaxDense
	if c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker}, &rows.Batch{},
		0); len(c.b) != MaxDense*MaxDense {
		t.Errorf("%d classes: %d entries, want a dense B", MaxDense, len(c.b))
	}
}

// A network that interpolates its training set has probabilities whose distance
// to 1 is below the resolution of 1, yet all of H is made of those distances.
func TestCurvatureOfInterpolatingNetworksKeepsItsDigits(t *testing.T) {
	t.Parallel()
	for _, h := range []layer.Head{
		{Logits: 4, Features: 3, Bias: true, Link: layer.Softmax}, // few pairs of classes
		{Logits: 6, Features: 3, Bias: true, Link: layer.Softmax}, // many
		{Logits: 1, Features: 3, Bias: true, Link: layer.Sigmoid},
		{Logits: 3, Features: 3, Bias: true, Link: layer.Sigmoid},
		{Logits: 3, Features: 3, Bias: true, Link: layer.OneVsRest},
	} {
		t.Run(nameOf(h), func(t *testing.T) {
			k, d := h.Logits, h.Dim()
			const n = 50
			rng := rand.New(rand.NewPCG(40, uint64(k)))
			s := randomSet(h, n, 1, 40)
			for i := range s.Features {
				// Of one sign: the sums over examples then cancel nothing themselves.
				s.Features[i] = float32(math.Abs(float64(s.Features[i])))
			}
			for i := range n {
				// Gaps of 25 to 40: 1-p is 1e-11 to 1e-17.
				a := logitsOf(s, i)
				for j := range a {
					a[j] = float32(-25 - 15*rng.Float64())
				}
				if h.Link == layer.Softmax {
					a[s.Labels[i]] = 0
					continue
				}
				for k := range a {
					if truth(h, s, i, k) {
						a[k] = -a[k]
					}
				}
			}

			// The definition in 400 bits, from exponentials of float64.
			newBig := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
			sums := map[string][]*big.Float{}
			accumulateBig := func(name string, size, at int, factors ...*big.Float) {
				if sums[name] == nil {
					sums[name] = make([]*big.Float, size)
					for i := range sums[name] {
						sums[name][i] = newBig(0)
					}
				}
				v := newBig(1)
				for _, f := range factors {
					v.Mul(v, f)
				}
				sums[name][at].Add(sums[name][at], v)
			}
			for e := range n {
				var p, r []*big.Float
				sum := newBig(0)
				for _, a := range logitsOf(s, e) {
					p = append(p, newBig(math.Exp(float64(a))))
					sum.Add(sum, p[len(p)-1])
				}
				for i := range p {
					total := sum
					if h.Link != layer.Softmax {
						total = newBig(0).Add(newBig(1), p[i])
					}
					p[i].Quo(p[i], total)
					y := 0.0
					if truth(h, s, e, i) {
						y = 1
					}
					r = append(r, newBig(0).Sub(p[i], newBig(y)))
				}
				phi := naivePhi(h, s, e)
				for x := range k {
					for y := range k {
						w := newBig(0).Mul(p[x], p[y])
						w.Neg(w)
						if x == y {
							w.Add(w, p[x])
						}
						rr := newBig(0).Mul(r[x], r[y])
						if x != y && h.Link != layer.Softmax {
							w, rr = newBig(0), newBig(0)
						}
						accumulateBig("B", k*k, x*k+y, w)
						accumulateBig("G", k*k, x*k+y, rr)
						for i := range d {
							for j := range d {
								at := (x*d+i)*k*d + y*d + j
								accumulateBig("H", k*d*k*d, at, w, newBig(phi[i]), newBig(phi[j]))
								accumulateBig("J", k*d*k*d, at, rr, newBig(phi[i]), newBig(phi[j]))
							}
						}
					}
				}
			}
			round := func(name string) []float64 {
				out := make([]float64, len(sums[name]))
				for i, v := range sums[name] {
					out[i], _ = v.Float64()
				}
				return out
			}

			full := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Fisher: true}, s, 0)
			kron := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, s, 0)
			if top := slices.Max(round("B")); top > 1e-9 {
				t.Fatalf("B is up to %v: the case does not interpolate", top)
			}
			// J and G sum products of both signs, which cancel digits of their own.
			wantRelative(t, "H", full.whole(full.h), round("H"), 1e-13)
			wantRelative(t, "B", kron.wholeB(kron.b), round("B"), 1e-13)
			wantRelative(t, "J", full.whole(full.j), round("J"), 1e-10)
			wantRelative(t, "G", kron.wholeB(kron.g), round("G"), 1e-10)

			// A product in float32 keeps them too: its weights are what is small.
			single := accumulate(t, CurvatureConfig{Head: h, Structure: Full, Product: float32Product{}}, s, 0)
			wantRelative(t, "H by a float32 product", single.whole(single.h), round("H"), 1e-5)
		})
	}
}

// float32Product is of less precision than a Product should have.
type float32Product struct{ parallel.Go }

func to32(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func (float32Product) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	sum := make([]float32, m*n)
	blas32.Gemm(blas.Trans, blas.NoTrans, 1,
		blas32.General{Rows: rows, Cols: m, Stride: m, Data: to32(a)},
		blas32.General{Rows: rows, Cols: n, Stride: n, Data: to32(b)}, 0,
		blas32.General{Rows: m, Cols: n, Stride: n, Data: sum})
	for i, v := range sum {
		c[i] += float64(v)
	}
	return nil
}

func TestFloat32ProductIsGoodEnough(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 5, Features: 20, Bias: true, Link: layer.Softmax}
	m := newMixture(h, 4, 2, 50)
	train, val := m.draw(3*BlockSize, 0), m.draw(200, 0)
	for _, structure := range []Structure{Full, Kronecker} {
		exact := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true}, train, 0)
		single := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Fisher: true, Product: float32Product{}},
			train, 0)
		single.product = parallel.Go{} // inverses are another matter
		for _, cov := range []Covariance{Hessian, Fisher, Sandwich} {
			for _, rho := range append([]float64{standard}, autoDamping...) {
				variances := func(c *Curvature) []float64 {
					unit, err := c.MeanEigenvalue(cov)
					if err != nil {
						t.Fatal(err)
					}
					p, err := c.Posterior(cov, rho*unit)
					if err != nil {
						t.Fatal(err)
					}
					s2 := make([]float64, len(val.Logits))
					p.Variances(s2, val.Features, val.N)
					return s2
				}
				// Sums of 512 float32 products are right to 512·2⁻²⁴ at worst and
				// √512·2⁻²⁴ = 1.3e-6 commonly; the inverse magnifies that by at most
				// the largest eigenvalue, some ten mean ones, over ρ mean ones.
				tolerance := 1.3e-6 * math.Max(1, 10/rho)
				wantRelative(t, fmt.Sprintf("%s %s variances at ρ = %v", structure, cov, rho), variances(single), variances(exact), tolerance)
			}
		}
	}
}

func TestAccumulatingIsDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cfg := range configs {
		s := randomSet(cfg.Head, BlockSize+50, 2, 61)
		runtime.GOMAXPROCS(1)
		one := accumulate(t, cfg, s, 0)
		runtime.GOMAXPROCS(4)
		four := accumulate(t, cfg, s, 0)
		if !reflect.DeepEqual(one.sums(), four.sums()) {
			t.Errorf("%s: sums differ between one processor and four", cfg.name())
		}
	}
}

func TestGapsKeepTheBlocks(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 2, Link: layer.Softmax}
	s := randomSet(h, 4, 1, 63)
	counter := &countingProduct{}
	sums := newSums(t, CurvatureConfig{Head: h, Structure: Kronecker, Product: counter})
	s.Positions = []int{BlockSize - 1, BlockSize, 5*BlockSize + 3, 5*BlockSize + 9}
	if err := addAll(sums, s, 0); err != nil {
		t.Fatal(err)
	}
	if err := sums.AddBlock(&rows.Batch{}); err != nil { // adds nothing
		t.Fatal(err)
	}
	// Directions, A and B of the blocks that have examples.
	if want := []int{1, 1, 1, 1, 1, 1, 2, 2, 2}; !slices.Equal(counter.rows, want) {
		t.Errorf("products of %v rows, want %v", counter.rows, want)
	}
	c, err := sums.Finish()
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "B", c.b, newNaive(h, s).b, 1e-14)
}

type countingProduct struct {
	parallel.Go
	rows []int
}

func (p *countingProduct) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	p.rows = append(p.rows, rows)
	return p.Go.AddTransposedProduct(c, a, b, rows, m, n)
}

type failingProduct struct {
	parallel.Go
	left int
}

var errProduct = errors.New("no product today")

func (p *failingProduct) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	if p.left--; p.left < 0 {
		return errProduct
	}
	return p.Go.AddTransposedProduct(c, a, b, rows, m, n)
}

func (p *failingProduct) Multiply(c, a, b []float64, rows, n, m int) error {
	if p.left--; p.left < 0 {
		return errProduct
	}
	return p.Go.Multiply(c, a, b, rows, n, m)
}

func TestErrorsOfTheProductInFit(t *testing.T) {
	t.Parallel()
	for _, structure := range []Structure{Full, Kronecker} {
		h := layer.Head{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax}
		task := newTask(h, 66)
		p := &failingProduct{left: math.MaxInt}
		c := accumulate(t, CurvatureConfig{Head: h, Structure: structure, Product: p}, task.train, 0)
		fit := func(left int) error {
			p.left = left
			_, err := Fit(t.Context(), c, task.val, task.ood, FitOptions{Damping: Damping{Relative: 1}})
			return err
		}
		if err := fit(math.MaxInt); err != nil {
			t.Fatal(err)
		}
		calls := math.MaxInt - p.left // the last of them for the out-of-distribution set
		for _, left := range []int{0, calls / 2, calls - 1} {
			if err := fit(left); !errors.Is(err, errProduct) {
				t.Errorf("%s: error %v after %d of %d products", structure, err, left, calls)
			}
		}
	}
}

// Variances need as good a product as curvature does.
func TestMultiplyEqualsItsSum(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(67, 1))
	for _, dim := range [][3]int{{1, 1, 1}, {3, 70, 5}, {40, 9, 33}, {2, 5, 20_000}, {5, 300, 257}} {
		rows, n, m := dim[0], dim[1], dim[2]
		a, b, c := make([]float64, rows*n), make([]float64, n*m), make([]float64, rows*m)
		for _, x := range [][]float64{a, b, c} { // of c nothing is to be left
			for i := range x {
				x[i] = rng.NormFloat64()
			}
		}
		if err := (parallel.Go{}).Multiply(c, a, b, rows, n, m); err != nil {
			t.Fatal(err)
		}
		for i := range c {
			var want float64
			for l := range n {
				want += a[i/m*n+l] * b[l*m+i%m]
			}
			if !approx.Equal(c[i], want, 1e-13*float64(n)) {
				t.Fatalf("%v: c[%d] = %v, want %v", dim, i, c[i], want)
			}
		}
	}
}

func TestAddRefusesBadExamplesByName(t *testing.T) {
	t.Parallel()
	softmax := layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.Softmax}
	sigmoid := layer.Head{Logits: 1, Features: 2, Link: layer.Sigmoid}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, test := range []struct {
		head        layer.Head
		fisher      bool
		phi, logits []float32
		label       int
		want        string
	}{
		{softmax, false, []float32{1, nan}, []float32{1, 2, 3}, -1, "example 7: feature 1 is NaN"},
		{softmax, false, []float32{inf, 1}, []float32{1, 2, 3}, -1, "example 7: feature 0 is -Inf"},
		{softmax, false, []float32{1, 1}, []float32{1, 2, nan}, -1, "example 7: logit 2 is NaN"},
		{softmax, false, []float32{1, 1}, []float32{1, inf, 0}, -1, "example 7: logit 1 is -Inf"},
		{softmax, false, []float32{1, 1}, []float32{1, 2, 3}, 3, "example 7 has label 3, want 0 to 2"},
		{softmax, true, []float32{1, 1}, []float32{1, 2, 3}, 255, "example 7 has label 255, want 0 to 2"},
		{softmax, false, []float32{1, 1}, []float32{1, 2, 3}, -2, "example 7 has label -2, want 0 to 2"},
		{softmax, true, []float32{1, 1}, []float32{1, 2, 3}, -1, "example 7 has no label"},
		{sigmoid, true, []float32{1, 1}, []float32{1}, 2, "example 7 has label 2, want 0 to 1"},
	} {
		for _, structure := range []Structure{Full, Kronecker} {
			sums := newSums(t, CurvatureConfig{Head: test.head, Structure: structure, Fisher: test.fisher})
			block := &rows.Batch{N: 1, Positions: []int{7}, Features: test.phi, Logits: test.logits,
				Labels: []int{test.label}}
			err := sums.AddBlock(block)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			block.From = "x.npz"
			if err := sums.AddBlock(block); err == nil || !strings.HasPrefix(err.Error(), "x.npz[7]: "+test.want) {
				t.Errorf("error %v, want the source's name and %q", err, test.want)
			}
			// The block is left out, and another takes its place.
			if sums.Examples() != 0 {
				t.Errorf("%s: refused, but counted", test.want)
			}
			block.Features, block.Logits, block.Labels = []float32{1, 2}, make([]float32, test.head.Logits), []int{0}
			if err := sums.AddBlock(block); err != nil {
				t.Errorf("%s: the next block: %v", test.want, err)
			}
			c, err := sums.Finish()
			if err != nil {
				t.Fatal(err)
			}
			for name, sum := range c.sums() {
				if slices.ContainsFunc(sum, math.IsNaN) {
					t.Errorf("%s: refused, but %s has it", test.want, name)
				}
			}
		}
	}
}

func TestAddPanicsUnlessABatchIsABlock(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 2, Link: layer.Softmax}
	one := func(features, logits int, positions ...int) *rows.Batch {
		return &rows.Batch{N: len(positions), Positions: positions, Features: make([]float32, features),
			Logits: make([]float32, logits)}
	}
	for name, b := range map[string]*rows.Batch{
		"few features": one(1, 3, 0), "many features": one(3, 3, 0), "few logits": one(2, 2, 0), "many logits": one(2, 4, 0),
		"no positions": {N: 1, Features: make([]float32, 2), Logits: make([]float32, 3)}, "two blocks": one(4, 6, BlockSize-1, BlockSize),
		"the same position": one(4, 6, 7, 7), "positions that fall": one(4, 6, 8, 7), "a position before the first": one(4, 6, -1),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			newSums(t, CurvatureConfig{Head: h}).AddBlock(b)
		}()
	}
}

func TestStructureFollowsTheHead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		structure   Structure
		logits, dim int
		want        Structure
		err         string
	}{
		{Auto, 10, 257, Full, ""},
		{"", 10, 257, Full, ""},
		{Auto, 16, 256, Full, ""}, // 4096, the largest
		{Auto, 17, 241, Kronecker, ""},
		{Auto, 1000, 1281, Kronecker, ""},
		{Full, 17, 241, Full, ""},
		{Full, 64, 256, Full, ""},
		{Full, 65, 256, "", "use the kron structure"},
		{Auto, 255, 4, Full, ""}, // many classes have many pairs
		{Auto, 256, 4, Kronecker, ""},
		{Full, 256, 4, "", "32896 pairs of classes"},
		{Kronecker, 2, 1, Kronecker, ""},
		{Kronecker, 100000, 512, Kronecker, ""},
		{Kronecker, 10, 25088, "", "not supported"},
		{Auto, 10, 25088, "", "not supported"},
		{"dense", 2, 2, "", `structure "dense", want auto, full or kron`},
	} {
		h := layer.Head{Logits: test.logits, Features: test.dim, Link: layer.Softmax}
		got, err := test.structure.Resolve(h)
		if got != test.want || (err == nil) != (test.err == "") || err != nil &&
			!strings.Contains(err.Error(), test.err) {
			t.Errorf("%q of %d × %d: %q, %v; want %q, %q", test.structure, test.logits, test.dim, got, err, test.want, test.err)
		}
		h.Features--
		h.Bias = true // D is what counts
		if h.Features > 0 {
			if biased, err2 := test.structure.Resolve(h); biased != got || (err == nil) != (err2 == nil) {
				t.Errorf("%q of %d × %d: with a bias %q, %v", test.structure, test.logits, test.dim, biased, err2)
			}
		}
	}
}

// Of separate logits the full curvature is K blocks of D² entries.
func TestStructureOfSeparateLogits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		structure   Structure
		logits, dim int
		want        Structure
		err         string
	}{
		{Auto, 1, 4096, Full, ""},
		{Auto, 1, 4097, Kronecker, ""},
		{Auto, 16, 1024, Full, ""},
		{Auto, 17, 1024, Kronecker, ""},
		{Auto, 80, 257, Full, ""},
		{Auto, 80, 2049, Kronecker, ""}, // 2.7 GB
		{Full, 60, 2049, Full, ""},
		{Full, 80, 2049, "", "80 × 2049² entries, want at most 16384²: use the kron structure"},
		{Auto, 32640, 20, Full, ""}, // each has a weight
		{Auto, 32641, 20, Kronecker, ""},
		{Full, 32641, 20, "", "use the kron structure"},
		{Auto, 5, 25088, "", "not supported"},
		{Auto, 1 << 24, 1 << 24, "", "not supported"},
	} {
		for _, link := range []layer.Link{layer.Sigmoid, layer.OneVsRest} {
			h := layer.Head{Logits: test.logits, Features: test.dim, Link: link}
			got, err := test.structure.Resolve(h)
			if got != test.want || (err == nil) != (test.err == "") || err != nil &&
				!strings.Contains(err.Error(), test.err) {
				t.Errorf("%q of %d × %d: %q, %v; want %q, %q", test.structure, test.logits, test.dim, got, err, test.want, test.err)
			}
		}
	}
}

func TestBadTargetsAreRefused(t *testing.T) {
	t.Parallel()
	multi := layer.Head{Logits: 3, Features: 2, Link: layer.Sigmoid}
	single := layer.Head{Logits: 3, Features: 2, Link: layer.OneVsRest}
	for _, test := range []struct {
		head    layer.Head
		fisher  bool
		label   int
		targets []uint8
		want    string
	}{
		{multi, false, -1, []uint8{0, 1, 2}, "example 7: target 2 is 2, want 0 or 1"},
		{multi, false, -1, []uint8{0, 1}, "example 7 has 2 targets, want 3"},
		{multi, false, -1, []uint8{}, "example 7 has 0 targets, want 3"},
		{multi, false, 0, nil, "example 7 has label 0, want 3 targets of 0 or 1"},
		{multi, true, -1, nil, "example 7 has no label"},
		{single, false, -1, []uint8{0, 1, 0}, "example 7 has 3 targets, want one label"},
	} {
		sums := newSums(t, CurvatureConfig{Head: test.head, Fisher: test.fisher})
		block := &rows.Batch{N: 1, Positions: []int{7}, Features: make([]float32, 2), Logits: make([]float32, 3),
			Targets: test.targets}
		if test.targets == nil {
			block.Labels = []int{test.label}
		}
		if err := sums.AddBlock(block); err == nil || !strings.HasPrefix(err.Error(), test.want) ||
			sums.Examples() != 0 {
			t.Errorf("error %v with %d examples, want %q", err, sums.Examples(), test.want)
		}
	}
	// The Hessian needs none.
	sums := newSums(t, CurvatureConfig{Head: multi})
	block := &rows.Batch{N: 2, Positions: []int{0, 1}, Features: make([]float32, 4), Logits: make([]float32, 6),
		Labels: []int{-1, -1}}
	if err := sums.AddBlock(block); err != nil || sums.Examples() != 2 {
		t.Errorf("%d examples without targets, %v", sums.Examples(), err)
	}
}

func TestBadHeadsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		head layer.Head
		want string
	}{
		{layer.Head{Logits: 2, Features: 0, Link: layer.Softmax}, "0 features"},
		{layer.Head{Logits: 1, Features: 2, Link: layer.Softmax}, "softmax head has 1 logits"},
		{layer.Head{Features: 2, Link: layer.Sigmoid}, "sigmoid head has 0 logits"},
		{layer.Head{Logits: 1, Features: 2, Link: layer.OneVsRest}, "one-vs-rest head has 1 logits, want at least 2"},
		{layer.Head{Logits: 2, Features: 2}, `link ""`},
		{layer.Head{Logits: 2, Features: 2, Link: "probit"}, `link "probit"`},
	} {
		if _, err := NewSums(CurvatureConfig{Head: test.head}); err == nil || !strings.Contains(err.Error(),
			test.want) {
			t.Errorf("%+v: error %v, want %q", test.head, err, test.want)
		}
	}
}
