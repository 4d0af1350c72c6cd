package calibrate

// invertFull forms the diagonal blocks of the covariance.
//
// With H̃ = UᵀU the inverse is U⁻¹U⁻ᵀ, so that Σ_kk is the Gram matrix of the k-th rows of U⁻¹: no
// need for the rest of the inverse, of which only the sandwich has use.
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
			if err := c.sandwich(blocks, u, first); err != nil {
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
	u := newFactor(d, c.product)
	var trace float64
	for i := range d {
		for j := i; j < d; j++ {
			*u.at(i, j) = c.a[packedRow(i, d)+j-i]
		}
		trace += *u.at(i, i)
	}
	if err := u.invert(leverageDelta(trace, d)); err != nil {
		return err
	}
	p.Leverage = make([]float64, d*d)
	return u.gram(p.Leverage, 0, d)
}

// leverageDelta returns δ, or 1 where all features are zero.
func leverageDelta(trace float64, d int) float64 {
	if trace == 0 {
		return 1
	}
	return leverageDamping * trace / float64(d)
}

// sandwich writes the diagonal blocks of MJM, M = U⁻¹U⁻ᵀ, as M_k J M_kᵀ with M_k
// the k-th D rows of M, for the coupled logits from first on.
func (c *Curvature) sandwich(blocks []float64, u *factor, first int) error {
	k, d := c.coupled, c.head.Dim()
	n := k * d
	j := c.dense(c.j, first)
	lower := u.transposed(0, n) // U⁻ᵀ
	m, right := make([]float64, d*n), make([]float64, d*n)
	for i := range k {
		if err := u.inverseRows(m, lower, i*d, (i+1)*d); err != nil { // M_k
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
