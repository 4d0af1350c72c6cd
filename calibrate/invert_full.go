package calibrate

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// invertFull forms the diagonal blocks of the covariance.
//
// With H̃ = UᵀU the inverse is U⁻¹U⁻ᵀ, so that Σ_kk is the Gram matrix of the rows of U⁻¹ that belong to logit k.
// Only the sandwich needs the rest of the inverse. For mapped logits, the rows of logit k are Σ_j M_kj times those
// of j.
func (c *Curvature) invertFull(p *Posterior) error {
	d := c.head.Dim()
	m := c.h
	if p.Covariance == Fisher {
		m = c.j
	}
	p.Blocks = make([]float64, c.head.Logits*d*d)
	for first := 0; first < c.head.Logits; first += c.coupled {
		u := c.factor(m, first)
		if err := u.invert(p.Epsilon); err != nil {
			return err
		}
		blocks := p.Blocks[first*d*d : (first+c.coupled)*d*d]
		if p.Covariance == Sandwich {
			if err := c.sandwich(blocks, u, first, p.Affine); err != nil {
				return err
			}
			continue
		}
		if p.Affine != nil && c.coupled > 1 {
			if err := c.mappedBlocks(blocks, u, p.Affine); err != nil {
				return err
			}
			continue
		}
		for i := range c.coupled {
			if err := u.gram(blocks[i*d*d:(i+1)*d*d], i*d, (i+1)*d); err != nil {
				return err
			}
		}
	}
	if p.Affine != nil && c.coupled == 1 {
		for i := range p.Blocks {
			scale := p.Affine.Scale[i/(d*d)]
			p.Blocks[i] *= scale * scale
		}
	}
	return c.setLeverageFull(p)
}

// setLeverageFull fills Leverage.
func (c *Curvature) setLeverageFull(p *Posterior) error {
	d := c.head.Dim()
	u := newFactor(d, c.product)
	var trace float64
	for i := range d {
		for j := i; j < d; j++ {
			*u.at(i, j) = c.moment(i, j)
		}
		trace += *u.at(i, i)
	}
	if err := u.invert(leverageDelta(trace, d)); err != nil {
		return err
	}
	p.Leverage = make([]float64, d*d)
	return u.gram(p.Leverage, 0, d)
}

// mappedBlocks writes the diagonal blocks of MΣMᵀ for Σ = U⁻¹U⁻ᵀ.
func (c *Curvature) mappedBlocks(blocks []float64, u *factor, f *layer.Affine) error {
	k, d := c.coupled, c.head.Dim()
	lower, m := u.transposed(0, k*d), f.Matrix()
	x := make([]float64, k*d*d)
	for i := range k {
		addColumns(x, lower, m[i*k:(i+1)*k], d)
		if err := c.product.AddTransposedProduct(blocks[i*d*d:(i+1)*d*d], x, x, k*d, d, d); err != nil {
			return err
		}
		mirror(blocks[i*d*d:(i+1)*d*d], d)
	}
	return nil
}

// addColumns writes the sum of the columns of lower [n,K·d] that belong to each logit, times its weight, to dst [n,d].
func addColumns(dst, lower, weights []float64, d int) {
	n := len(dst) / d
	width := len(lower) / n
	clear(dst)
	for r := range n {
		row := dst[r*d : (r+1)*d]
		for j, w := range weights {
			for c, v := range lower[r*width+j*d : r*width+(j+1)*d] {
				row[c] += w * v
			}
		}
	}
}

// leverageDelta returns δ, or 1 if all features are zero.
func leverageDelta(trace float64, d int) float64 {
	if trace == 0 {
		return 1
	}
	return leverageDamping * trace / float64(d)
}

// Inverse calls f with the rows [D,K·D] of Σ that belong to each logit of a softmax head in turn: the whole
// covariance in the full structure, whereas a Posterior has its diagonal blocks. f must not retain the rows. An
// error of f ends the work.
func (c *Curvature) Inverse(cov Covariance, epsilon float64, f func(logit int, rows []float64) error) error {
	if c.structure != Full || c.coupled != c.head.Logits {
		return fmt.Errorf("a covariance of all weights needs the %s structure and a softmax head, got %s", Full, c)
	}
	if err := c.ready(cov); err != nil {
		return err
	}
	if err := checkDamping(epsilon); err != nil {
		return err
	}
	m := c.h
	if cov == Fisher {
		m = c.j
	}
	k, d := c.head.Logits, c.head.Dim()
	n := k * d
	u := c.factor(m, 0)
	if err := u.invert(epsilon); err != nil {
		return err
	}
	lower := u.transposed(0, n)
	rows := make([]float64, d*n)
	if cov != Sandwich {
		for i := range k {
			if err := u.inverseRows(rows, lower, i*d, (i+1)*d); err != nil {
				return err
			}
			if err := f(i, rows); err != nil {
				return err
			}
		}
		return nil
	}
	inverse := make([]float64, n*n) // M of Σ = MJM
	for i := range k {
		if err := u.inverseRows(inverse[i*d*n:(i+1)*d*n], lower, i*d, (i+1)*d); err != nil {
			return err
		}
	}
	j := c.dense(c.j, 0)
	left := lower[:d*n] // lower is no longer needed
	for i := range k {
		if err := c.product.Multiply(left, inverse[i*d*n:(i+1)*d*n], j, d, n, n); err != nil {
			return err
		}
		if err := c.product.Multiply(rows, left, inverse, d, n, n); err != nil {
			return err
		}
		if err := f(i, rows); err != nil {
			return err
		}
	}
	return nil
}

// sandwich writes the diagonal blocks of MJM, M = U⁻¹U⁻ᵀ, for the coupled logits from first on. They are
// M_k J M_kᵀ, where M_k is the k-th D rows of M or, for mapped logits, their combination.
func (c *Curvature) sandwich(blocks []float64, u *factor, first int, f *layer.Affine) error {
	k, d := c.coupled, c.head.Dim()
	n := k * d
	j := c.dense(c.j, first)
	lower := u.transposed(0, n) // U⁻ᵀ
	m, right := make([]float64, d*n), make([]float64, d*n)
	var weights, x []float64
	if f != nil && k > 1 {
		weights, x = f.Matrix(), make([]float64, n*d)
	}
	for i := range k {
		if weights != nil {
			addColumns(x, lower, weights[i*k:(i+1)*k], d)
			clear(m)
			if err := c.product.AddTransposedProduct(m, x, lower, n, d, n); err != nil {
				return err
			}
		} else if err := u.inverseRows(m, lower, i*d, (i+1)*d); err != nil { // M_k
			return err
		}
		if err := c.product.Multiply(right, m, j, d, n, n); err != nil {
			return err
		}
		if err := c.product.Multiply(blocks[i*d*d:(i+1)*d*d], right, transpose(m, d, n), d, n, d); err != nil {
			return err
		}
	}
	return nil
}

// transpose returns the transpose of x [rows,cols].
func transpose(x []float64, rows, cols int) []float64 {
	t := make([]float64, len(x))
	for r := range rows {
		for c := range cols {
			t[c*rows+r] = x[r*cols+c]
		}
	}
	return t
}
