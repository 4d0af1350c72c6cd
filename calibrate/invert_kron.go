package calibrate

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// invertKronecker fills V, for which the variance of logit k is Σ_i u_i V_ik with u = (Q_Aᵀφ)². H̃ is diagonal in
// the eigenbases, where damping adds ε to each product of eigenvalues.
//
//	H⁻¹, J⁻¹:  V_ik = Σ_j Q_kj² / (λ_A,i λ_B,j + ε)
//	H⁻¹JH⁻¹:  V_ik = λ_A,i Σ_jl Q_kj Q_kl G̃_jl / ((λ_A,i λ_B,j + ε)(λ_A,i λ_B,l + ε)),  G̃ = QᵀGQ
//
// For mapped logits Q_kj is (MQ)_kj, but in G̃.
func (c *Curvature) invertKronecker(p *Posterior) error {
	a, b, err := c.spectra(p.Covariance)
	if err != nil {
		return err
	}
	k, d := c.head.Logits, c.head.Dim()
	p.QB, p.LambdaB = b.q, b.lambda
	p.setLeverageKronecker(a)
	p.V = make([]float64, d*k)
	switch {
	case c.diagonal:
		for i, la := range p.LambdaA {
			for j, lb := range p.LambdaB {
				x := la*lb + p.Epsilon
				if p.Covariance == Sandwich {
					p.V[i*k+j] = la * c.g[j] / float64(c.n) / (x * x)
				} else {
					p.V[i*k+j] = 1 / x
				}
			}
		}
	case p.Covariance == Sandwich:
		c.sandwichV(p, p.mappedQB())
	default:
		inverse := make([]float64, d*k) // 1/(λ_A,i λ_B,j + ε)
		for i, la := range p.LambdaA {
			for j, lb := range p.LambdaB {
				inverse[i*k+j] = 1 / (la*lb + p.Epsilon)
			}
		}
		q := general(squares(p.mappedQB()), k, k)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(inverse, d, k), q, 0, general(p.V, d, k))
	}
	if c.diagonal && p.Affine != nil {
		p.mapDiagonal()
	}
	return nil
}

// setLeverageKronecker fills what leverages need.
func (p *Posterior) setLeverageKronecker(a spectrum) {
	p.QA, p.LambdaA = a.q, a.lambda
	d := len(a.lambda)
	var trace float64
	for _, v := range p.LambdaA {
		trace += v
	}
	delta := leverageDelta(trace, d)
	p.Leverage = make([]float64, d)
	for i, v := range p.LambdaA {
		p.Leverage[i] = 1 / (v + delta)
	}
}

// mappedQB returns MQ_B.
func (p *Posterior) mappedQB() []float64 {
	if p.Affine == nil {
		return p.QB
	}
	k := p.Head.Logits
	m, out := p.Affine.Matrix(), general(make([]float64, k*k), k, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(m, k, k), general(p.QB, k, k), 0, out)
	return out.Data
}

// mapDiagonal multiplies the variances of logits without covariances by the squares of M, which is diagonal for those
// that a diagonal B has: separate ones, and very many.
func (p *Posterior) mapDiagonal() {
	k := p.Head.Logits
	for i := range p.V {
		p.V[i] *= p.Affine.Scale[i%k] * p.Affine.Scale[i%k]
	}
}

// sandwichV fills V row by row or, if that would take long, interpolates it from fewer rows. q is MQ_B.
func (c *Curvature) sandwichV(p *Posterior, q []float64) {
	k, d := c.head.Logits, len(p.LambdaA)
	row := c.sandwichRow(p, q)
	const slow = 1e10 // multiplications: a second or two
	interpolated := false
	if float64(d)*float64(k)*float64(k)*float64(k) > slow {
		// For λ_A below the floor, λ_A λ_B,j + ε is ε to within 1e-10.
		floor := 1e-10 * p.Epsilon / math.Max(p.LambdaB[k-1], 1e-300)
		interpolated = interpolateRows(p.V, p.LambdaA, floor, row)
	}
	for i, la := range p.LambdaA {
		v := p.V[i*k : (i+1)*k]
		if !interpolated {
			row(v, la)
		}
		for j := range v {
			v[j] *= la
		}
	}
}

// sandwichRow returns a function that writes a row of V divided by λ_A, diag(Q W Qᵀ) with W = w wᵀ ⊙ G̃ and
// w_j = 1/(λ_A λ_B,j + ε), by a K×K product.
func (c *Curvature) sandwichRow(p *Posterior, mapped []float64) func(dst []float64, la float64) {
	k := c.head.Logits
	q := general(p.QB, k, k)
	g, t := general(make([]float64, k*k), k, k), general(make([]float64, k*k), k, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1/float64(c.n), general(c.g, k, k), q, 0, t)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, q, t, 0, g)
	scaled := general(make([]float64, k*k), k, k)
	return func(dst []float64, la float64) {
		for r := range k {
			for j, lb := range p.LambdaB {
				scaled.Data[r*k+j] = mapped[r*k+j] / (la*lb + p.Epsilon)
			}
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, scaled, g, 0, t)
		for r := range k {
			var sum float64
			for j, v := range t.Data[r*k : (r+1)*k] {
				sum += v * scaled.Data[r*k+j]
			}
			// The form is semi-definite: less than zero is a rounding error.
			dst[r] = math.Max(0, sum)
		}
	}
}
