package layers

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/internal/parallel"
)

var (
	_ methods.Covariance = (*Posterior)(nil)
	_ methods.Variances  = (*Posterior)(nil)
)

// Posterior is the Gaussian over the weights of all layers at ensemble temperature 1. It is immutable.
type Posterior struct {
	network *Network
	layers  []factors
}

// Network returns the layers.
func (p *Posterior) Network() *Network { return p.network }

// Covariances writes the packed upper triangle of the covariance of the logits of each example to dst [n,K(K+1)/2], for
// inputs x [n,d₀] of the lowest layer: with u = (Q_Aᵀh_l)²
//
//	S = Σ_l J_l Q_B diag(w) Q_Bᵀ J_lᵀ,  w_j = Σ_i u_i / (λ_A,i λ_B,j + ε)
func (p *Posterior) Covariances(dst []float64, x []float32, n int) error {
	k := p.network.Logits()
	return p.forms(dst, k*(k+1)/2, x, n, addForm)
}

// Variances writes the diagonals of Covariances to dst [n,K].
func (p *Posterior) Variances(dst []float64, x []float32, n int) error {
	return p.forms(dst, p.network.Logits(), x, n, addDiagonal)
}

// forms writes `each` numbers of S per example to dst, summing with add over layers.
func (p *Posterior) forms(dst []float64, each int, x []float32, n int, add func(dst, t, w, scaled []float64)) error {
	k, d := p.network.Logits(), p.network.Inputs()
	if len(x) != n*d || len(dst) != n*each {
		panic(fmt.Sprintf("layers: %d numbers and room for %d, want %d and %d for each of %d examples", len(x), len(dst), d, each, n))
	}
	if _, err := p.network.check(x); err != nil {
		return err
	}
	c := p.newCovariances(min(n, p.network.blockRows(k)), each, add)
	for first := 0; first < n; first += c.size {
		end := min(n, first+c.size)
		if err := c.block(dst[first*each:end*each], x[first*d:end*d]); err != nil {
			return err
		}
	}
	return nil
}

// covariances is the work space of forms for blocks of size examples.
type covariances struct {
	*Posterior
	size        int
	each        int
	add         func(dst, t, w, scaled []float64)
	pass        *pass
	u           []float64 // [size,dim]
	w           []float64 // [size,out]
	v, spare, t []float64 // [size·K,out]
}

func (p *Posterior) newCovariances(size, each int, add func(dst, t, w, scaled []float64)) *covariances {
	n := p.network
	deepest := 0
	for _, l := range n.layers {
		deepest = max(deepest, l.dim)
	}
	wide := size * n.widest()
	return &covariances{
		Posterior: p, size: size, each: each, add: add, pass: n.newPass(size, true),
		u: make([]float64, size*deepest), w: make([]float64, wide),
		v: make([]float64, wide*n.Logits()), spare: make([]float64, wide*n.Logits()), t: make([]float64,
			wide*n.Logits()),
	}
}

func (c *covariances) block(dst []float64, x []float32) error {
	p, k, product := c.pass, c.network.Logits(), c.network.product
	p.load(x)
	if err := p.forward(c.network.weights()); err != nil {
		return err
	}
	rows := p.rows
	clear(dst)
	clear(c.v[:rows*k*k]) // ∂a/∂a
	for at := 0; at < rows*k; at++ {
		c.v[at*k+at%k] = 1
	}
	return p.backward(c.v, c.spare, k, func(l int, v []float64) error {
		layer, f := c.network.layers[l], c.layers[l]
		u, w, t := c.u[:rows*layer.dim], c.w[:rows*layer.out], c.t[:rows*k*layer.out]
		if err := product.Multiply(u, p.h[l][:rows*layer.dim], f.qa, rows, layer.dim, layer.dim); err != nil {
			return err
		}
		for i, v := range u {
			u[i] = v * v
		}
		if err := product.Multiply(w, u, f.variance, rows, layer.dim, layer.out); err != nil {
			return err
		}
		if err := product.Multiply(t, v, f.qb, rows*k, layer.out, layer.out); err != nil {
			return err
		}
		parallel.For(rows, func(first, last int) {
			scaled := make([]float64, layer.out)
			for r := first; r < last; r++ {
				c.add(dst[r*c.each:(r+1)*c.each], t[r*k*layer.out:(r+1)*k*layer.out], w[r*layer.out:(r+1)*layer.out],
					scaled)
			}
		})
		return nil
	})
}

// addForm adds the upper triangle of t diag(w) tᵀ, t [K,out].
func addForm(dst, t, w, scaled []float64) {
	out, at := len(w), 0
	for first := 0; first < len(t); first += out {
		for j, v := range t[first : first+out] {
			scaled[j] = v * w[j]
		}
		for other := first; other < len(t); other += out {
			dst[at] += blas64.Dot(vector(scaled), vector(t[other:other+out]))
			at++
		}
	}
}

// addDiagonal adds the diagonal of t diag(w) tᵀ.
func addDiagonal(dst, t, w, _ []float64) {
	for i := range dst {
		for j, v := range t[i*len(w) : (i+1)*len(w)] {
			dst[i] += v * v * w[j]
		}
	}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
