package layers

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/calibrate"
	geometry "github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/internal/parallel"
)

const (
	// maxSandwich is the largest K for covariances of the sandwich in the Kronecker structure: preparation takes
	// 4K³D operations, about a minute.
	maxSandwich = 256
	// lastRows is the number of examples in a block.
	lastRows = 512
)

// LastLayer computes covariances of the logits of a softmax head at ensemble temperature 1, S = ∇a Σ ∇aᵀ (paper,
// eq. 19), for every covariance and structure of a bundle's curvature. The Kronecker structure with H̃⁻¹ or J̃⁻¹ is the
// [Posterior] of one layer. It is not safe for concurrent use.
type LastLayer struct {
	head      geometry.Head
	product   parallel.Product
	solves    bool
	posterior *calibrate.Posterior

	blocks [][]float64 // Full: Σ_kl [D,D], k ≤ l, in the order of a packed upper triangle
	one    *Posterior  // Kronecker with H̃⁻¹ or J̃⁻¹, unless B is diagonal
	packed []float64   // Kronecker with the sandwich: u·packed is S, packed, for u = (Q_Aᵀφ)²
}

var (
	_ methods.Covariance = (*LastLayer)(nil)
	_ methods.Variances  = (*LastLayer)(nil)
	_ methods.Solver     = (*LastLayer)(nil)
)

// NewLastLayer inverts a curvature with damping ε > 0. The head must be a softmax: separate logits have no
// covariances. A nil product is Go's own.
//
// The sandwich in the Kronecker structure is limited to 256 classes.
func NewLastLayer(
	c *calibrate.Curvature, cov calibrate.Covariance, epsilon float64, product parallel.Product,
) (*LastLayer, error) {
	h := c.Head()
	if h.Link != geometry.Softmax {
		return nil, fmt.Errorf("the logits of a %s head are separate: they have variances and no covariances", h.Link)
	}
	k, d := h.Logits, h.Dim()
	l := &LastLayer{head: h, product: parallel.OrGo(product), solves: cov != calibrate.Sandwich}
	if c.Structure() == calibrate.Full {
		return l, c.Inverse(cov, epsilon, func(i int, rows []float64) error {
			l.setBlocks(i, rows)
			return nil
		})
	}
	numbers, dense := float64(d)*float64(methods.PackedSize(k)), k <= calibrate.MaxDense
	if cov == calibrate.Sandwich && dense && (k > maxSandwich || numbers > maxOrder*maxOrder) {
		return nil, fmt.Errorf("the sandwich covariance of %d classes × %d parameters in the kron structure has too many numbers, want at most %d classes and %d² numbers: use the hessian or fisher covariance", k, d, maxSandwich, maxOrder)
	}
	p, err := c.Posterior(cov, epsilon)
	if err != nil {
		return nil, err
	}
	l.posterior = p
	switch {
	case p.QB == nil:
	case cov != calibrate.Sandwich:
		l.one = ofPosterior(p, l.product)
	default:
		l.packed = make([]float64, d*methods.PackedSize(k))
		sandwich(l.packed, p, c.G())
	}
	return l, nil
}

// ofPosterior converts the posterior of the last layer to that of a one-layer network. Its weights are zero, since
// covariances do not depend on them.
func ofPosterior(p *calibrate.Posterior, product parallel.Product) *Posterior {
	d, k := p.Head.Dim(), p.Head.Logits
	last := layer{in: p.Head.Features, dim: d, out: k, forward: make([]float64, d*k)}
	return &Posterior{
		network: &Network{layers: []layer{last}, product: product},
		layers:  []factors{newDamped(p.QA, p.LambdaA, p.QB, p.LambdaB, p.Epsilon)},
	}
}

// setBlocks copies the blocks Σ_kl, l ≥ k, from the rows [D,KD] of the k-th logit.
func (l *LastLayer) setBlocks(k int, rows []float64) {
	d, n := l.head.Dim(), l.head.Logits*l.head.Dim()
	for other := k; other < l.head.Logits; other++ {
		block := make([]float64, d*d)
		for r := range d {
			copy(block[r*d:(r+1)*d], rows[r*n+other*d:])
		}
		l.blocks = append(l.blocks, block)
	}
}

// sandwich writes the upper triangle of λ_A,i Q_B W_i Q_Bᵀ, W_i = w wᵀ ⊙ G̃,
// w_j = 1/(λ_A,i λ_B,j + ε) and G̃ = Q_BᵀGQ_B, to row i of dst [D, K(K+1)/2].
func sandwich(dst []float64, p *calibrate.Posterior, mean []float64) {
	k := p.Head.Logits
	square := func(x []float64) blas64.General { return blas64.General{Rows: k, Cols: k, Stride: k, Data: x} }
	empty := func() blas64.General { return square(make([]float64, k*k)) }
	q, g, t := square(p.QB), empty(), empty()
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, square(mean), q, 0, t)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, q, t, 0, g)
	parallel.For(len(p.LambdaA), func(first, last int) {
		scaled, t, s := empty(), empty(), empty()
		for i := first; i < last; i++ {
			la := p.LambdaA[i]
			for r := range k {
				for j, lb := range p.LambdaB {
					scaled.Data[r*k+j] = p.QB[r*k+j] / (la*lb + p.Epsilon)
				}
			}
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, scaled, g, 0, t)
			blas64.Gemm(blas.NoTrans, blas.Trans, la, t, scaled, 0, s)
			at := i * methods.PackedSize(k)
			for r := range k {
				at += copy(dst[at:], s.Data[r*k+r:(r+1)*k])
			}
		}
	})
}

// Covariances writes the packed upper triangle of the covariance of the K logits of each example to
// dst [n,K(K+1)/2], for features phi [n,d]. It fails only with the Product.
func (l *LastLayer) Covariances(dst []float64, phi []float32, n int) error {
	k := l.head.Logits
	l.check(dst, methods.PackedSize(k), phi, n)
	switch {
	case l.one != nil:
		return l.one.Covariances(dst, phi, n)
	case l.packed == nil && l.blocks == nil:
		variances := make([]float64, n*k)
		err := l.Variances(variances, phi, n)
		clear(dst)
		l.eachVariance(dst, func(i int, s *float64) { *s = variances[i] })
		return err
	}
	err := l.augmented(phi, n, func(x []float64, first, rows int) error {
		part := dst[first*methods.PackedSize(k) : (first+rows)*methods.PackedSize(k)]
		if l.blocks != nil {
			return l.forms(part, methods.PackedSize(k), x, l.blocks)
		}
		return l.weighed(part, x, rows, l.packed)
	})
	// A variance may be negative by rounding.
	l.eachVariance(dst, func(_ int, s *float64) { *s = math.Max(0, *s) })
	return err
}

// Variances writes the diagonals of Covariances to dst [n,K].
func (l *LastLayer) Variances(dst []float64, phi []float32, n int) error {
	k := l.head.Logits
	l.check(dst, k, phi, n)
	if l.posterior != nil {
		return l.augmented(phi, n, func(x []float64, first, rows int) error {
			return l.weighed(dst[first*k:(first+rows)*k], x, rows, l.posterior.V)
		})
	}
	var own [][]float64
	for at, i := 0, k; i > 0; i-- {
		own = append(own, l.blocks[at])
		at += i
	}
	err := l.augmented(phi, n, func(x []float64, first, rows int) error {
		return l.forms(dst[first*k:(first+rows)*k], k, x, own)
	})
	for i, v := range dst {
		dst[i] = math.Max(0, v)
	}
	return err
}

func (l *LastLayer) check(dst []float64, each int, phi []float32, n int) {
	if d := l.head.Features; len(phi) != n*d || len(dst) != n*each {
		panic(fmt.Sprintf("layers: %d features and room for %d numbers for %d examples, want %d and %d each", len(phi), len(dst), n, d, each))
	}
}

// eachVariance calls f with each variance in covariances; i counts over all examples.
func (l *LastLayer) eachVariance(s []float64, f func(i int, s *float64)) {
	k := l.head.Logits
	for i := 0; len(s) > 0; i += k {
		at := 0
		for j := range k {
			f(i+j, &s[at])
			at += k - j
		}
		s = s[methods.PackedSize(k):]
	}
}

// augmented calls f with the augmented features x [rows,D] of each block of examples.
func (l *LastLayer) augmented(phi []float32, n int, f func(x []float64, first, rows int) error) error {
	d, features := l.head.Dim(), l.head.Features
	x := make([]float64, min(n, lastRows)*d)
	for first := 0; first < n; first += lastRows {
		rows := min(lastRows, n-first)
		for r := range rows {
			row := x[r*d : (r+1)*d]
			row[d-1] = 1 // for the bias; overwritten by a feature if there is none
			for j, v := range phi[(first+r)*features : (first+r+1)*features] {
				row[j] = float64(v)
			}
		}
		if err := f(x[:rows*d], first, rows); err != nil {
			return err
		}
	}
	return nil
}

// weighed writes u·weights for each row of x, u = (Q_Aᵀx)², with weights [D, len(dst)/rows].
func (l *LastLayer) weighed(dst, x []float64, rows int, weights []float64) error {
	d := l.head.Dim()
	u := make([]float64, len(x))
	if err := l.product.Multiply(u, x, l.posterior.QA, rows, d, d); err != nil {
		return err
	}
	for i, v := range u {
		u[i] = v * v
	}
	return l.product.Multiply(dst, u, weights, rows, d, len(dst)/rows)
}

// forms writes xᵀmx for each row of x and each matrix m to dst [rows,each].
func (l *LastLayer) forms(dst []float64, each int, x []float64, matrices [][]float64) error {
	d := l.head.Dim()
	rows, t := len(x)/d, make([]float64, len(x))
	for i, m := range matrices {
		if err := l.product.Multiply(t, x, m, rows, d, d); err != nil {
			return err
		}
		for r := range rows {
			dst[r*each+i] = blas64.Dot(vector(x[r*d:(r+1)*d]), vector(t[r*d:(r+1)*d]))
		}
	}
	return nil
}

// SolveTo writes Σg to dst for each of m vectors g [m, K·D], class-major: the solutions of H̃x = g, or J̃x = g. dst may
// be g. The sandwich is an error, since it is not an inverse.
func (l *LastLayer) SolveTo(dst, g []float64, m int) error {
	k, d := l.head.Logits, l.head.Dim()
	if len(g) != m*k*d || len(dst) != len(g) {
		panic(fmt.Sprintf("layers: %d and %d weights for %d vectors, want %d each", len(dst), len(g), m, k*d))
	}
	if !l.solves {
		return fmt.Errorf("the sandwich covariance solves nothing: use hessian or fisher")
	}
	if m == 0 {
		return nil
	}
	if l.blocks == nil {
		return l.solveKronecker(dst, g, m)
	}
	return l.solveFull(dst, g, m)
}

// solveFull multiplies vectors, as columns, by Σ, whose upper triangle is in blocks.
func (l *LastLayer) solveFull(dst, g []float64, m int) error {
	k, d := l.head.Logits, l.head.Dim()
	b := transpose(g, m, k*d)
	x, part := make([]float64, k*d*m), make([]float64, d*m)
	of := func(v []float64, class int) []float64 { return v[class*d*m : (class+1)*d*m] }
	blocks := l.blocks
	for i := range k {
		for j := i; j < k; j++ {
			if err := l.product.Multiply(part, blocks[0], of(b, j), d, d, m); err != nil {
				return err
			}
			for e, v := range part {
				of(x, i)[e] += v
			}
			if j > i {
				if err := l.product.AddTransposedProduct(of(x, j), blocks[0], of(b, i), d, d, m); err != nil {
					return err
				}
			}
			blocks = blocks[1:]
		}
	}
	copy(dst, transpose(x, k*d, m))
	return nil
}

// solveKronecker multiplies by (Q_B ⊗ Q_A)ᵀ, the inverse eigenvalues and Q_B ⊗ Q_A. For a vector as a matrix G [K,D]
// that is Q_B((Q_BᵀGQ_A) ∘ weights)Q_Aᵀ.
func (l *LastLayer) solveKronecker(dst, g []float64, m int) error {
	k, d, p := l.head.Logits, l.head.Dim(), l.posterior
	x := make([]float64, len(g))
	if err := l.product.Multiply(x, g, p.QA, m*k, d, d); err != nil {
		return err
	}
	t := make([]float64, k*d)
	for i := range m {
		row := x[i*k*d : (i+1)*k*d]
		if p.QB == nil {
			l.weigh(row)
			continue
		}
		clear(t)
		if err := l.product.AddTransposedProduct(t, p.QB, row, k, k, d); err != nil {
			return err
		}
		l.weigh(t)
		if err := l.product.Multiply(row, p.QB, t, k, k, d); err != nil {
			return err
		}
	}
	return l.product.Multiply(dst, x, transpose(p.QA, d, d), m*k, d, d)
}

// weigh divides a matrix [K,D] in the eigenbases by the eigenvalues.
func (l *LastLayer) weigh(x []float64) {
	k, d, p := l.head.Logits, l.head.Dim(), l.posterior
	for j := range k {
		for i := range d {
			x[j*d+i] /= p.LambdaA[i]*p.LambdaB[j] + p.Epsilon
		}
	}
}
