package layers

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

func tanh(x float64) (y, slope float64) {
	y = math.Tanh(x)
	return y, 1 - y*y
}

func relu(x float64) (y, slope float64) {
	if x > 0 {
		return x, 1
	}
	return 0, 0
}

func swish(x float64) (y, slope float64) {
	s := 1 / (1 + math.Exp(-x))
	return x * s, s + x*s*(1-s)
}

func double(x float64) (y, slope float64) { return 2 * x, 2 }

// stack is layers for tests.
type stack struct {
	name   string
	layers []Layer
}

// stacks have random weights, multiples of 1/8, so that sums of few of them are exact in float32.
func stacks() []stack {
	rng := rand.New(rand.NewPCG(7, 1))
	eighths := func(n int, size float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Round(8*size*rng.NormFloat64()) / 8)
		}
		return x
	}
	dense := func(in, out int, bias bool, f func(float64) (float64, float64)) Layer {
		l := Layer{In: in, Out: out, Weights: eighths(in*out, 0.7)}
		if f != nil {
			l.Activation = func(y, slope, x []float64) {
				for i, v := range x {
					var s float64
					if y[i], s = f(v); slope != nil {
						slope[i] = s
					}
				}
			}
		}
		if bias {
			l.Bias = eighths(out, 0.5)
		}
		return l
	}
	return []stack{
		{"one layer", []Layer{dense(4, 3, true, nil)}},
		{"one layer without a bias", []Layer{dense(5, 2, false, nil)}},
		{"two layers", []Layer{dense(3, 6, false, relu), dense(6, 4, true, nil)}},
		{"three layers", []Layer{dense(4, 5, true, tanh), dense(5, 3, true, swish), dense(3, 3, false, nil)}},
		{"linear layers, a scale after the last", []Layer{dense(4, 3, false, nil), dense(3, 4, true, nil), dense(4, 3, true, double)}},
	}
}

func (s stack) network(t *testing.T, product parallel.Product) *Network {
	t.Helper()
	n, err := NewNetwork(s.layers, product)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inputs returns n examples of multiples of 1/8.
func (s stack) inputs(n int) []float32 {
	rng := rand.New(rand.NewPCG(8, 1))
	x := make([]float32, n*s.layers[0].In)
	for i := range x {
		x[i] = float32(math.Round(8*rng.NormFloat64()) / 8)
	}
	return x
}

func (s stack) classes() int { return s.layers[len(s.layers)-1].Out }

func (s stack) labels(n int) []int {
	rng := rand.New(rand.NewPCG(9, 1))
	y := make([]int, n)
	for i := range y {
		y[i] = rng.IntN(s.classes())
	}
	return y
}

func (s stack) example(x []float32, i int) []float64 {
	d := s.layers[0].In
	row := make([]float64, d)
	for j := range row {
		row[j] = float64(x[i*d+j])
	}
	return row
}

// parameters returns the weights of each layer by themselves, [out,dim], the bias last in
// every row.
func (s stack) parameters() [][]float64 {
	var all [][]float64
	for _, l := range s.layers {
		var w []float64
		for o := range l.Out {
			for _, v := range l.Weights[o*l.In : (o+1)*l.In] {
				w = append(w, float64(v))
			}
			if l.Bias != nil {
				w = append(w, float64(l.Bias[o]))
			}
		}
		all = append(all, w)
	}
	return all
}

// naive runs one example through layers of the given parameters: what goes into each,
// augmented, and what comes out of it before its activation. shift, unless nil, is added
// to what comes out of one layer.
func (s stack) naive(parameters [][]float64, x []float64, at int, shift []float64) (h, z [][]float64,
	logits []float64) {
	now := x
	for i, l := range s.layers {
		in := append([]float64(nil), now...)
		if l.Bias != nil {
			in = append(in, 1)
		}
		out, next := make([]float64, l.Out), make([]float64, l.Out)
		for o := range out {
			for j, v := range in {
				out[o] += parameters[i][o*len(in)+j] * v
			}
			if i == at && shift != nil {
				out[o] += shift[o]
			}
			next[o] = out[o]
		}
		if l.Activation != nil {
			l.Activation(next, nil, out)
		}
		h, z, now = append(h, in), append(z, out), next
	}
	return h, z, now
}

// jacobian returns ∂a/∂z of a layer, [K,out], by the chain rule, one number at a time.
func (s stack) jacobian(z [][]float64, at int) *mat.Dense {
	slope := func(i, o int) float64 {
		if s.layers[i].Activation == nil {
			return 1
		}
		y, d := make([]float64, 1), make([]float64, 1)
		s.layers[i].Activation(y, d, z[i][o:o+1])
		return d[0]
	}
	diagonal := func(i int) *mat.Dense {
		d := mat.NewDense(len(z[i]), len(z[i]), nil)
		for o := range z[i] {
			d.Set(o, o, slope(i, o))
		}
		return d
	}
	j := diagonal(at)
	for i := at + 1; i < len(s.layers); i++ {
		l := s.layers[i]
		w := mat.NewDense(l.Out, l.In, nil)
		w.Apply(func(o, c int, _ float64) float64 { return float64(l.Weights[o*l.In+c]) }, w)
		var up, all mat.Dense
		up.Mul(w, j)
		all.Mul(diagonal(i), &up)
		j = &all
	}
	return j
}

// naiveP is softmax.
func naiveP(logits []float64) []float64 {
	p, sum := make([]float64, len(logits)), 0.0
	for k, a := range logits {
		p[k] = math.Exp(a)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// naiveFactors returns A_l and B_l / N of each layer by their definitions.
func (s stack) naiveFactors(cov calibrate.Covariance, x []float32, labels []int) (a, b []*mat.Dense) {
	n := len(x) / s.layers[0].In
	for i, w := range s.parameters() {
		out := s.layers[i].Out
		a = append(a, mat.NewDense(len(w)/out, len(w)/out, nil))
		b = append(b, mat.NewDense(out, out, nil))
	}
	for e := range n {
		h, z, logits := s.naive(s.parameters(), s.example(x, e), 0, nil)
		p := naiveP(logits)
		m := mat.NewDense(len(p), len(p), nil)
		for k := range p {
			for c := range p {
				v := -p[k] * p[c]
				if k == c {
					v += p[k]
				}
				if cov == calibrate.Fisher {
					r := func(k int) float64 {
						if int(labels[e]) == k {
							return p[k] - 1
						}
						return p[k]
					}
					v = r(k) * r(c)
				}
				m.Set(k, c, v)
			}
		}
		for i := range s.layers {
			in := mat.NewDense(len(h[i]), 1, h[i])
			var outer, right, form mat.Dense
			outer.Mul(in, in.T())
			a[i].Add(a[i], &outer)
			j := s.jacobian(z, i)
			right.Mul(m, j)
			form.Mul(j.T(), &right)
			form.Scale(1/float64(n), &form)
			b[i].Add(b[i], &form)
		}
	}
	return a, b
}

// fit returns the posterior of n examples.
func (s stack) fit(t *testing.T, cov calibrate.Covariance, n int, d calibrate.Damping,
	product parallel.Product) *Posterior {
	t.Helper()
	c, err := NewCurvature(s.network(t, product), cov)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Add(context.Background(), s.inputs(n), s.labels(n)); err != nil {
		t.Fatal(err)
	}
	p, err := c.Posterior(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wantSame compares numbers, relative to the largest.
func wantSame(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%s has %d numbers, want %d", what, len(got), len(want))
	}
	var size float64
	for _, v := range want {
		size = math.Max(size, math.Abs(v))
	}
	for i := range want {
		if !approx.Equal(got[i], want[i], tolerance*size) {
			t.Errorf("%s: number %d is %v, want %v: off by %.1e of the largest, want %.0e", what, i, got[i], want[i], math.Abs(got[i]-want[i])/size, tolerance)
			return
		}
	}
}

func covariancesOf(t *testing.T, p *Posterior, x []float32) []float64 {
	t.Helper()
	n, k := len(x)/p.Network().Inputs(), p.Network().Logits()
	dst := make([]float64, n*k*(k+1)/2)
	if err := p.Covariances(dst, x, n); err != nil {
		t.Fatal(err)
	}
	return dst
}
