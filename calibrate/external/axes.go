package external

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
)

// axes is a covariance Σ_i q_i q_iᵀ ⊗ Q_B diag(v_i) Q_Bᵀ, with orthonormal directions q_i of augmented features.
type axes struct {
	qa []float64 // [D,D], q_i in columns
	qb []float64 // [K,K], orthonormal, or nil for the identity
	v  []float64 // [D,K], v_i in rows
	// bias, unless nil, is the covariance [K,K] in the place of Q_B diag(v_i) Q_Bᵀ for the last direction, that of the
	// constant feature.
	bias []float64
}

// to sets the matrices of a posterior whose head and map are set.
func (a *axes) to(p *calibrate.Posterior) {
	k, d := p.Head.Logits, p.Head.Dim()
	p.QA, p.V = a.qa, make([]float64, d*k)
	switch m := mix(p.Affine, a.qb, k); {
	case m != nil:
		for i, x := range m {
			m[i] = x * x
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(a.v, d, k), general(m, k, k), 0, general(p.V, d, k))
	case p.Affine != nil:
		for i, v := range a.v {
			p.V[i] = p.Affine.Scale[i%k] * p.Affine.Scale[i%k] * v
		}
	default:
		copy(p.V, a.v)
	}
	if a.bias != nil {
		copy(p.V[(d-1)*k:], mappedVariances(a.bias, p.Affine, k))
	}
}

// mix returns MQ_B in memory of its own, or nil where that is diagonal.
func mix(f *layer.Affine, qb []float64, k int) []float64 {
	switch {
	case qb == nil && f.Rank() == 0:
		return nil
	case f == nil:
		return append([]float64(nil), qb...)
	case qb == nil:
		return f.Matrix()
	case f.Rank() == 0:
		m := append([]float64(nil), qb...)
		for i := range m {
			m[i] *= f.Scale[i/k]
		}
		return m
	}
	m := general(make([]float64, k*k), k, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(f.Matrix(), k, k), general(qb, k, k), 0, m)
	return m.Data
}

// mappedVariances returns the diagonal of MCMᵀ.
func mappedVariances(c []float64, f *layer.Affine, k int) []float64 {
	out := make([]float64, k)
	if f.Rank() == 0 {
		for i := range out {
			if out[i] = c[i*k+i]; f != nil {
				out[i] *= f.Scale[i] * f.Scale[i]
			}
		}
		return out
	}
	m, t := general(f.Matrix(), k, k), general(make([]float64, k*k), k, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, m, general(c, k, k), 0, t)
	for i := range out {
		out[i] = blas64.Dot(vector(t.Data[i*k:(i+1)*k]), vector(m.Data[i*k:(i+1)*k]))
	}
	return out
}

func general(x []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
