package layers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate"
	geometry "github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

var kinds = []calibrate.Covariance{calibrate.Hessian, calibrate.Fisher}

func TestForwardComposesTheLayers(t *testing.T) {
	t.Parallel()
	const n = calibrate.BlockSize + 3
	for _, s := range stacks() {
		network, x, k := s.network(t, nil), s.inputs(n), s.classes()
		got := make([]float64, n*k)
		if err := network.Forward(got, x); err != nil {
			t.Fatal(err)
		}
		var want []float64
		for i := range n {
			_, _, logits := s.naive(s.parameters(), s.example(x, i), 0, nil)
			want = append(want, logits...)
		}
		wantSame(t, s.name, got, want, 1e-13)
	}
}

func TestJacobiansAreFiniteDifferences(t *testing.T) {
	t.Parallel()
	const n, step = 4, 1e-5
	for _, s := range stacks() {
		network, x, k := s.network(t, nil), s.inputs(n), s.classes()
		p := network.newPass(n, true)
		p.load(x)
		if err := p.forward(network.weights()); err != nil {
			t.Fatal(err)
		}
		v, spare := make([]float64, n*k*network.widest()), make([]float64, n*k*network.widest())
		for at := 0; at < n*k; at++ {
			v[at*k+at%k] = 1
		}
		seen := 0
		if err := p.backward(v, spare, k, func(l int, v []float64) error {
			seen++
			out := s.layers[l].Out
			want := make([]float64, n*k*out)
			for i := range n {
				for o := range out {
					shift := make([]float64, out)
					shift[o] = step
					_, _, up := s.naive(s.parameters(), s.example(x, i), l, shift)
					shift[o] = -step
					_, _, down := s.naive(s.parameters(), s.example(x, i), l, shift)
					for c := range k {
						want[(i*k+c)*out+o] = (up[c] - down[c]) / (2 * step)
					}
				}
			}
			wantSame(t, fmt.Sprintf("%s: ∂a/∂z of layer %d", s.name, l), v, want, 1e-8)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if seen != len(s.layers) {
			t.Errorf("%s: derivatives of %d layers, want %d", s.name, seen, len(s.layers))
		}
	}
}

func TestFactorsAreSumsOverExamples(t *testing.T) {
	t.Parallel()
	const n = calibrate.BlockSize + 21 // more than a block
	for _, s := range stacks() {
		for _, cov := range kinds {
			x, y := s.inputs(n), s.labels(n)
			c, err := NewCurvature(s.network(t, nil), cov)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Add(context.Background(), x, y); err != nil {
				t.Fatal(err)
			}
			if c.n != n {
				t.Errorf("%d examples, want %d", c.n, n)
			}
			a, b := s.naiveFactors(cov, x, y)
			for i := range s.layers {
				wantSame(t, fmt.Sprintf("%s, %s: A of layer %d", s.name, cov, i), c.a[i], a[i].RawMatrix().Data, 1e-12)
				scaled := slices.Clone(c.b[i])
				for j := range scaled {
					scaled[j] /= n
				}
				wantSame(t, fmt.Sprintf("%s, %s: B of layer %d", s.name, cov, i), scaled, b[i].RawMatrix().Data, 1e-12)
			}

			parts, err := NewCurvature(s.network(t, nil), cov)
			if err != nil {
				t.Fatal(err)
			}
			d := s.layers[0].In
			for _, part := range [][2]int{{0, 1}, {1, 1}, {1, 300}, {300, n}} {
				if err := parts.Add(context.Background(), x[part[0]*d:part[1]*d], y[part[0]:part[1]]); err != nil {
					t.Fatal(err)
				}
			}
			for i := range s.layers {
				wantSame(t, s.name+": B of several calls", parts.b[i], c.b[i], 1e-13)
			}
		}
	}
}

// S is J Σ Jᵀ with a dense Σ.
func TestCovariancesAreThoseOfTheDensePosterior(t *testing.T) {
	t.Parallel()
	const n, queries = 40, 5
	rules := []calibrate.Damping{{Absolute: 0.5}, {Relative: 0.3}}
	for _, s := range stacks() {
		for _, cov := range kinds {
			for _, rule := range rules {
				k := s.classes()
				got := covariancesOf(t, s.fit(t, cov, n, rule, nil), s.inputs(queries))
				want := make([]float64, queries*k*(k+1)/2)
				a, b := s.naiveFactors(cov, s.inputs(n), s.labels(n))
				for l := range s.layers {
					sigma := denseSigma(t, a[l], b[l], rule)
					for i := range queries {
						h, z, _ := s.naive(s.parameters(), s.example(s.inputs(queries), i), 0, nil)
						var g, right, form mat.Dense
						g.Kronecker(s.jacobian(z, l), mat.NewDense(1, len(h[l]), h[l])) // ∂a_k/∂W_oi = J_ko h_i
						right.Mul(sigma, g.T())
						form.Mul(&g, &right)
						at := i * k * (k + 1) / 2
						for r := range k {
							for c := r; c < k; c++ {
								want[at] += form.At(r, c)
								at++
							}
						}
					}
				}
				wantSame(t, fmt.Sprintf("%s, %s, %s", s.name, cov, rule), got, want, 1e-9)
			}
		}
	}
}

func TestVariancesAreTheDiagonalsOfCovariances(t *testing.T) {
	t.Parallel()
	const n = calibrate.BlockSize + 5
	for _, s := range stacks() {
		for _, cov := range kinds {
			p, k := s.fit(t, cov, 40, calibrate.Damping{Relative: 0.3}, nil), s.classes()
			packed, got := covariancesOf(t, p, s.inputs(n)), make([]float64, n*k)
			if err := p.Variances(got, s.inputs(n), n); err != nil {
				t.Fatal(err)
			}
			at := 0
			for i, v := range got {
				if want := packed[at]; !approx.Equal(v, want, 1e-12*want) {
					t.Fatalf("%s, %s: variance %d of example %d is %v, want %v", s.name, cov, i%k, i/k, v, want)
				}
				at += k - i%k
			}
		}
	}
}

// denseSigma is (B ⊗ A + εI)⁻¹, with ε relative to the mean of all eigenvalues.
func denseSigma(t *testing.T, a, b *mat.Dense, rule calibrate.Damping) *mat.Dense {
	t.Helper()
	var h, sigma mat.Dense
	h.Kronecker(b, a)
	size, _ := h.Dims()
	epsilon := rule.Absolute
	if epsilon == 0 {
		epsilon = rule.Relative * mat.Trace(&h) / float64(size)
	}
	for i := range size {
		h.Set(i, i, h.At(i, i)+epsilon)
	}
	if err := sigma.Inverse(&h); err != nil {
		t.Fatal(err)
	}
	return &sigma
}

func TestOneLayerIsTheKroneckerPosteriorOfTheLast(t *testing.T) {
	t.Parallel()
	const n, queries = 700, 30
	for _, s := range stacks() {
		if len(s.layers) > 1 {
			continue
		}
		l := s.layers[0]
		head := geometry.Head{Logits: l.Out, Features: l.In, Bias: l.Bias != nil, Link: geometry.Softmax}
		x, y := s.inputs(n), s.labels(n)
		logits := make([]float64, n*l.Out)
		if err := s.network(t, nil).Forward(logits, x); err != nil {
			t.Fatal(err)
		}
		set := &rows.Batch{N: n, Features: x, Labels: y}
		for _, v := range logits {
			if float64(float32(v)) != v {
				t.Fatalf("logit %v is not exact in float32: the test compares different things", v)
			}
			set.Logits = append(set.Logits, float32(v))
		}
		c, err := calibrate.NewCurvature(calibrate.CurvatureConfig{Head: head, Structure: calibrate.Kronecker,
			Fisher: true}, set)
		if err != nil {
			t.Fatal(err)
		}
		for _, cov := range kinds {
			unit, err := c.MeanEigenvalue(cov)
			if err != nil {
				t.Fatal(err)
			}
			for _, rho := range []float64{1, 0.01} {
				last, err := NewLastLayer(c, cov, rho*unit, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := make([]float64, queries*l.Out*(l.Out+1)/2)
				if err := last.Covariances(want, s.inputs(queries), queries); err != nil {
					t.Fatal(err)
				}
				for _, rule := range []calibrate.Damping{{Relative: rho}, {Absolute: rho * unit}} {
					got := covariancesOf(t, s.fit(t, cov, n, rule, nil), s.inputs(queries))
					wantSame(t, fmt.Sprintf("%s, %s, %s", s.name, cov, rule), got, want, 1e-9)
				}
			}
		}
	}
}

func TestRootKeepsTheDigitsOfConfidentNetworks(t *testing.T) {
	t.Parallel()
	for _, logits := range [][]float64{{0.3, -1, 2}, {50, 3, -20}, {-3, 0, 400}, {0, 0}} {
		k := len(logits)
		logp, v := make([]float64, k), make([]float64, k*k)
		root(v, logp, meanfield.OneMinusMax(meanfield.Softmax(logp, logits), len(logits)))
		// p in 2000 bits; all but the differences is well conditioned.
		exact := func(x float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(x) }
		p, sum := make([]*big.Float, k), exact(0)
		for i, a := range logits {
			p[i] = exact(math.Exp(a - slices.Max(logits)))
			sum.Add(sum, p[i])
		}
		for i := range p {
			p[i].Quo(p[i], sum)
		}
		for i := range k {
			for j := range k {
				want := exact(0).Mul(p[i], p[j])
				want.Neg(want)
				if i == j {
					want.Add(want, p[i])
				}
				w, _ := want.Float64()
				var got float64
				for c := range k {
					got += v[c*k+i] * v[c*k+j]
				}
				if !approx.Relative(got, w, 1e-12) {
					t.Errorf("logits %v: entry %d, %d is %v, want %v", logits, i, j, got, w)
				}
			}
		}
		for y := range k {
			r := make([]float64, k)
			residual(r, logp, meanfield.OneMinusMax(meanfield.Softmax(logp, logits), len(logits)), y)
			for j := range k {
				want := exact(0).Set(p[j])
				if j == y {
					want.Sub(want, exact(1))
				}
				if w, _ := want.Float64(); !approx.Relative(r[j], w, 1e-12) {
					t.Errorf("logits %v, label %d: residual %d is %v, want %v", logits, y, j, r[j], w)
				}
			}
		}
	}
}

func TestNetworksThatAreRefused(t *testing.T) {
	t.Parallel()
	good := func() []Layer { return stacks()[3].layers }
	for _, c := range []struct {
		name   string
		change func(l []Layer) []Layer
		want   string
	}{
		{"none", func(l []Layer) []Layer { return nil }, "no layers"},
		{"empty", func(l []Layer) []Layer { l[1].In = 0; return l }, "layer 2 of 3: it has 0 inputs"},
		{"too few weights", func(l []Layer) []Layer { l[0].Weights = l[0].Weights[1:]; return l }, "layer 1 of 3: it has 19 weights"},
		{"too many biases", func(l []Layer) []Layer { l[0].Bias = append(l[0].Bias, 1); return l }, "6 biases"},
		{"layers that do not fit", func(l []Layer) []Layer { return []Layer{l[0], l[2]} }, "layer 2 of 2: it has 3 inputs, want the 5 outputs"},
		{"a weight that is not finite", func(l []Layer) []Layer { l[2].Weights[0] = float32(math.NaN()); return l }, "layer 3 of 3: one of its weights is NaN"},
		{"a bias that is not finite", func(l []Layer) []Layer { l[0].Bias[0] = float32(math.Inf(1)); return l }, "+Inf"},
		{"one logit", func(l []Layer) []Layer { return []Layer{{In: 2, Out: 1, Weights: []float32{1, 2}}} }, "1 logit"},
		{"one that is too wide", func(l []Layer) []Layer {
			return []Layer{{In: maxOrder, Out: 2, Weights: make([]float32, 2*maxOrder), Bias: make([]float32, 2)}}
		}, "take fewer layers"},
	} {
		if _, err := NewNetwork(c.change(good()), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestExamplesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := stacks()[3]
	x := s.inputs(3)
	bad := slices.Clone(x)
	bad[6] = float32(math.NaN())
	for _, c := range []struct {
		name   string
		cov    calibrate.Covariance
		x      []float32
		labels []int
		want   string
	}{
		{"not finite", calibrate.Hessian, bad, nil, "example 1: input 2 of the dense layers is NaN"},
		{"no labels", calibrate.Fisher, x, nil, "0 labels for 3 examples"},
		{"no label", calibrate.Fisher, x, []int{0, -1, 2}, "example 1 has label -1"},
		{"label out of range", calibrate.Fisher, x, []int{0, 1, 3}, "example 2 has label 3, want 0 to 2"},
	} {
		curvature, err := NewCurvature(s.network(t, nil), c.cov)
		if err != nil {
			t.Fatal(err)
		}
		if err := curvature.Add(context.Background(), c.x, c.labels); err == nil || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if curvature.n != 0 {
			t.Errorf("%s: %d examples were added", c.name, curvature.n)
		}
		if err := curvature.Add(context.Background(), x, []int{0, 1, 2}); err != nil {
			t.Errorf("%s: good examples afterwards: %v", c.name, err)
		}
	}
	p := s.fit(t, calibrate.Hessian, 3, calibrate.Damping{Relative: 1}, nil)
	if err := p.Covariances(make([]float64, 3*6), bad, 3); err == nil {
		t.Error("covariances of NaN: no error")
	}
	if err := p.Variances(make([]float64, 3*3), bad, 3); err == nil {
		t.Error("variances of NaN: no error")
	}
	if _, err := drawn(context.Background(), p, bad, 2, 1); err == nil {
		t.Error("samples for NaN: no error")
	}
}

func TestPosteriorsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := stacks()[2]
	network, ctx := s.network(t, nil), context.Background()
	for cov, want := range map[calibrate.Covariance]string{calibrate.Sandwich: "use hessian or fisher", "": "want hessian"} {
		if _, err := NewCurvature(network, cov); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("covariance %q: error %v, want %q", cov, err, want)
		}
	}
	c, err := NewCurvature(network, calibrate.Hessian)
	if err != nil {
		t.Fatal(err)
	}
	check := func(d calibrate.Damping, want string) {
		t.Helper()
		if _, err := c.Posterior(ctx, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("damping %v: error %v, want %q", d, err, want)
		}
	}
	check(calibrate.Damping{Relative: 1}, "no examples")
	check(calibrate.Damping{}, "automatic damping")
	check(calibrate.Damping{Relative: -1}, "want a positive number")
	if err := c.Add(ctx, make([]float32, 3*network.Inputs()), nil); err != nil { // zeros, and no bias
		t.Fatal(err)
	}
	check(calibrate.Damping{Relative: 1}, "dense layer 1 of 2: the curvature's mean eigenvalue is 0")
	if _, err := c.Posterior(ctx, calibrate.Damping{Absolute: 1}); err != nil {
		t.Errorf("absolute damping of no curvature: %v", err)
	}
}

var errTest = errors.New("enough")

// counted is Go's product up to so many calls.
type counted struct {
	parallel.Product
	left int
}

func (c *counted) AddTransposedProduct(to, a, b []float64, rows, m, n int) error {
	if c.left--; c.left < 0 {
		return errTest
	}
	return c.Product.AddTransposedProduct(to, a, b, rows, m, n)
}

func (c *counted) Multiply(to, a, b []float64, rows, n, m int) error {
	if c.left--; c.left < 0 {
		return errTest
	}
	return c.Product.Multiply(to, a, b, rows, n, m)
}

func (c *counted) Multiply32(to, a, b []float32, rows, n, m int) error {
	if c.left--; c.left < 0 {
		return errTest
	}
	return c.Product.Multiply32(to, a, b, rows, n, m)
}

func TestErrorsOfTheProductAreReturned(t *testing.T) {
	t.Parallel()
	const n = 6
	s, ctx := stacks()[3], context.Background()
	all := func(product parallel.Product) error {
		c, err := NewCurvature(s.network(t, product), calibrate.Hessian)
		if err != nil {
			return err
		}
		if err := c.Add(ctx, s.inputs(n), nil); err != nil {
			if again := c.Add(ctx, s.inputs(n), nil); again != err {
				t.Errorf("the error of the product was %v, and then %v", err, again)
			}
			if _, again := c.Posterior(ctx, calibrate.Damping{Relative: 1}); again != err {
				t.Errorf("the posterior of a sum that is not complete: error %v", again)
			}
			return err
		}
		p, err := c.Posterior(ctx, calibrate.Damping{Relative: 1})
		if err != nil {
			return err
		}
		if err := p.Network().Forward(make([]float64, n*3), s.inputs(n)); err != nil {
			return err
		}
		sampled, err := drawn(ctx, p, s.inputs(n), 2, 1)
		if err != nil {
			return err
		}
		return sampled.SetEns(1)
	}
	const many = 1 << 20
	product := &counted{parallel.OrGo(nil), many}
	if err := all(product); err != nil {
		t.Fatal(err)
	}
	calls := many - product.left
	if calls < 30 {
		t.Fatalf("%d products, want the many that the layers take", calls)
	}
	for left := range calls {
		if err := all(&counted{parallel.OrGo(nil), left}); !errors.Is(err, errTest) {
			t.Errorf("product %d of %d fails: error %v", left+1, calls, err)
		}
	}
}

func TestWorkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := stacks()[3]
	p := s.fit(t, calibrate.Hessian, 10, calibrate.Damping{Relative: 1}, nil)
	sampled, err := drawn(context.Background(), p, s.inputs(4), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errTest)
	c, err := NewCurvature(p.Network(), calibrate.Hessian)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Add(context.Background(), s.inputs(4), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Posterior(ctx, calibrate.Damping{Relative: 1}); !errors.Is(err, errTest) {
		t.Errorf("Posterior: %v", err)
	}
	if err := c.Add(ctx, s.inputs(4), nil); !errors.Is(err, errTest) {
		t.Errorf("Add: %v", err)
	}
	if _, err := drawn(ctx, p, s.inputs(4), 2, 1); !errors.Is(err, errTest) {
		t.Errorf("Predictive: %v", err)
	}
	sampled.ctx = ctx
	if err := sampled.SetEns(1); !errors.Is(err, errTest) {
		t.Errorf("SetEns: %v", err)
	}
}

func TestMemoryDoesNotGrowWithTheExamples(t *testing.T) {
	s := stacks()[3]
	network := s.network(t, nil)
	p := s.fit(t, calibrate.Hessian, 10, calibrate.Damping{Relative: 1}, nil)
	c, err := NewCurvature(network, calibrate.Hessian)
	if err != nil {
		t.Fatal(err)
	}
	const n, most = 200 * calibrate.BlockSize, 2 << 20
	x, dst := s.inputs(n), make([]float64, n*6)
	for name, f := range map[string]func() error{
		"Add":         func() error { return c.Add(context.Background(), x, nil) },
		"Covariances": func() error { return p.Covariances(dst, x, n) },
		"Variances":   func() error { return p.Variances(dst[:n*3], x, n) },
		"Forward":     func() error { return network.Forward(dst[:n*3], x) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > most {
			t.Errorf("%s of %d examples allocates %d bytes, want at most %d", name, n, got, most)
		}
	}
	for _, c := range []struct{ out, k, want int }{{256, 10, 512}, {4096, 1000, 2}, {maxOrder, maxOrder, 1}} {
		n := &Network{layers: []layer{{out: c.out}, {out: c.k}}}
		if got := n.blockRows(c.k); got != c.want {
			t.Errorf("%d outputs and %d logits: blocks of %d examples, want %d", c.out, c.k, got, c.want)
		}
	}
}
