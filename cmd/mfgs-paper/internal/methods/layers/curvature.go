package layers

import (
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/internal/eigen"
)

// Curvature accumulates the Kronecker factors of each layer over examples, at temperature 1:
//
//	A_l = Σ h_l h_lᵀ [dim,dim]
//	B_l = Σ J_lᵀ(diag p - ppᵀ)J_l [out,out]; for the Fisher covariance Σ J_lᵀrrᵀJ_l,  r = p - onehot(y)
//
// It is not safe for concurrent use.
type Curvature struct {
	network    *Network
	covariance calibrate.Covariance
	n          int
	a, b       [][]float64 // of each layer
	err        error       // set if a sum is incomplete

	// Work space for a block of examples, with `each` rows of derivatives per example.
	each     int
	pass     *pass
	v, spare []float64
	logp     []float64
}

// NewCurvature returns an empty accumulator for the Hessian or the Fisher covariance. The sandwich is not diagonal
// in the eigenbases.
func NewCurvature(n *Network, cov calibrate.Covariance) (*Curvature, error) {
	if err := cov.Validate(); err != nil {
		return nil, err
	}
	c := &Curvature{network: n, covariance: cov, each: n.Logits(), logp: make([]float64, n.Logits())}
	switch cov {
	case calibrate.Sandwich:
		return nil, fmt.Errorf("the sandwich covariance of several layers is not supported: use hessian or fisher")
	case calibrate.Fisher:
		c.each = 1
	}
	for _, l := range n.layers {
		c.a = append(c.a, make([]float64, l.dim*l.dim))
		c.b = append(c.b, make([]float64, l.out*l.out))
	}
	rows := n.blockRows(c.each)
	c.pass = n.newPass(rows, true)
	c.v, c.spare = make([]float64, rows*c.each*n.widest()), make([]float64, rows*c.each*n.widest())
	return c, nil
}

// Add adds examples x [n,d₀] with labels [n], which only the Fisher covariance needs. If a value is not finite, or a
// label is missing or out of range, it returns an error and adds nothing. If ctx ends or the Product fails, this and
// every later call returns that error. Splitting examples between calls changes the sums by rounding only.
func (c *Curvature) Add(ctx context.Context, x []float32, labels []int) error {
	if c.err != nil {
		return c.err
	}
	n, err := c.network.check(x)
	if err != nil {
		return err
	}
	if c.covariance == calibrate.Fisher {
		if len(labels) != n {
			return fmt.Errorf("%d labels for %d examples: the Fisher matrix needs one for each; use the hessian covariance, which needs none", len(labels), n)
		}
		for i, y := range labels {
			if y < 0 || int(y) >= c.network.Logits() {
				return fmt.Errorf("example %d has label %d, want 0 to %d", i, y, c.network.Logits()-1)
			}
		}
	} else {
		labels = nil
	}
	rows, d := c.network.blockRows(c.each), c.network.Inputs()
	for first := 0; first < n && c.err == nil; first += rows {
		if c.err = context.Cause(ctx); c.err != nil {
			break
		}
		end := min(n, first+rows)
		c.pass.load(x[first*d : end*d])
		if labels != nil {
			c.err = c.add(labels[first:end])
		} else {
			c.err = c.add(nil)
		}
	}
	return c.err
}

// add adds the loaded block.
//
// With S Sᵀ = diag p - ppᵀ, a layer's contribution to B is JᵀS SᵀJ. One such S is diag(q)(I - qqᵀ), q = √p, because
// q has length 1, so that I - qqᵀ is idempotent.
func (c *Curvature) add(labels []int) error {
	p, k := c.pass, c.network.Logits()
	if err := p.forward(c.network.weights()); err != nil {
		return err
	}
	for r := range p.rows {
		logits := p.logits()[r*k : (r+1)*k]
		for _, a := range logits {
			if math.IsNaN(a) || math.IsInf(a, 0) {
				return fmt.Errorf("example %d has a logit %v of the dense layers, want finite numbers", c.n+r, a)
			}
		}
		rest := meanfield.OneMinusMax(meanfield.Softmax(c.logp, logits), k)
		v := c.v[r*c.each*k : (r+1)*c.each*k]
		if labels != nil {
			residual(v, c.logp, rest, int(labels[r]))
		} else {
			root(v, c.logp, rest)
		}
	}
	err := p.backward(c.v, c.spare, c.each, func(l int, v []float64) error {
		layer := c.network.layers[l]
		h := p.h[l][:p.rows*layer.dim]
		if err := p.product.AddTransposedProduct(c.a[l], h, h, p.rows, layer.dim, layer.dim); err != nil {
			return err
		}
		return p.product.AddTransposedProduct(c.b[l], v, v, p.rows*c.each, layer.out, layer.out)
	})
	c.n += p.rows
	return err
}

// root writes Sᵀ [K,K], S Sᵀ = diag p - ppᵀ. rest is 1 - max p, without the cancellation of 1 - p for confident
// networks.
func root(dst, logp []float64, rest float64) {
	k, top := len(logp), argmax(logp)
	for c := range k {
		for j := range k {
			switch {
			case c != j:
				dst[c*k+j] = -math.Exp(logp[c]/2 + logp[j])
			case j == top:
				dst[c*k+j] = rest * math.Exp(logp[j]/2)
			default:
				dst[c*k+j] = (1 - math.Exp(logp[j])) * math.Exp(logp[j]/2)
			}
		}
	}
}

// residual writes p - onehot(y). rest is 1 - max p.
func residual(dst, logp []float64, rest float64, y int) {
	for j, l := range logp {
		dst[j] = math.Exp(l)
	}
	if y == argmax(logp) {
		dst[y] = -rest
	} else {
		dst[y]-- // p ≤ ½: nothing cancels
	}
}

// argmax returns the first index of the largest number.
func argmax(x []float64) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// Posterior inverts the curvature, damped by one rule for all layers: ε, or ρ × each
// layer's mean eigenvalue, mean λ(A_l) × mean λ(B_l / N). It checks ctx between layers.
func (c *Curvature) Posterior(ctx context.Context, d calibrate.Damping) (*Posterior, error) {
	if c.err != nil {
		return nil, c.err
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	switch {
	case d == calibrate.Damping{}:
		return nil, fmt.Errorf("automatic damping of several layers is not supported: give EPS or rel:RHO, such as what was chosen for the last layer")
	case c.n == 0:
		return nil, fmt.Errorf("no examples: the curvature of nothing has no inverse")
	}
	p := &Posterior{network: c.network}
	for i, l := range c.network.layers {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		f, err := newFactors(l, c.a[i], c.b[i], 1/float64(c.n), d)
		if err != nil {
			return nil, fmt.Errorf("dense layer %d of %d: %w", i+1, len(c.network.layers), err)
		}
		p.layers = append(p.layers, f)
	}
	return p, nil
}

// factors is the posterior of one layer in its eigenbases.
type factors struct {
	qa, qb   []float64 // eigenvectors of A_l and B_l / N, in columns: [dim,dim], [out,out]
	variance []float64 // 1/(λ_A,i λ_B,j + ε) [dim,out]
}

// newFactors damps the curvature B ⊗ A · scale.
func newFactors(l layer, a, b []float64, scale float64, d calibrate.Damping) (factors, error) {
	qa, la, err := eigenSym(a, l.dim, 1)
	if err != nil {
		return factors{}, err
	}
	qb, lb, err := eigenSym(b, l.out, scale)
	if err != nil {
		return factors{}, err
	}
	epsilon := d.Absolute
	if epsilon == 0 {
		epsilon = d.Relative * mean(la) * mean(lb)
	}
	if !(epsilon > 0) || math.IsInf(epsilon, 1) {
		return factors{}, fmt.Errorf("the curvature's mean eigenvalue is %v in float64, so that damping in proportion to it is none: give an absolute damping, such as 1", mean(la)*mean(lb))
	}
	return newDamped(qa, la, qb, lb, epsilon), nil
}

// newDamped takes the eigenvectors and eigenvalues of A_l and B_l / N, and ε.
func newDamped(qa, la, qb, lb []float64, epsilon float64) factors {
	f := factors{qa: qa, qb: qb, variance: make([]float64, len(la)*len(lb))}
	for i, a := range la {
		for j, b := range lb {
			f.variance[i*len(lb)+j] = 1 / (a*b + epsilon)
		}
	}
	return f
}

// eigenSym returns the eigenvectors and eigenvalues of a curvature factor.
func eigenSym(m []float64, n int, scale float64) (q, lambda []float64, err error) {
	if q, lambda, err = eigen.Semidefinite(m, n, scale); err != nil {
		return nil, nil, fmt.Errorf("a curvature factor has no eigenvalues: %w", err)
	}
	return q, lambda, nil
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
