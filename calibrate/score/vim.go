package score

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/eigen"
)

var residual = Score{
	Name: "residual", Baseline: true, Doc: "norm of the features outside the principal subspace",
	Source: "Wang et al. 2022 (ViM), the residual",
	rows:   residualOf[Rows], graph: residualOf[string],
	fitted: outside,
	fit:    fitResidual,
}

var vim = Score{
	Name: "vim", Baseline: true, Doc: "residual as a virtual logit, minus the energy",
	Source: "Wang et al. 2022 (ViM)",
	rows:   vimOf[Rows], graph: vimOf[string],
	fitted: append(outside, TensorSpec{"alpha", []string{"1"}}),
	fit:    fitViM,
}

// outside is a basis, in columns, of the r dimensions around an origin with the least variance of training features.
var outside = []TensorSpec{{"origin", []string{"d"}}, {"outside", []string{"d", "r"}}}

// principalDimensions is the dimension of the principal space: 1,000 from d = 2,048 on and 512 from 768, as in the
// paper and its code, and d/2 for fewer.
func principalDimensions(d int) int {
	switch {
	case d >= 2048:
		return 1000
	case d >= 768:
		return 512
	}
	return d / 2
}

// residualOf is ‖Rᵀ(φ - u)‖.
func residualOf[V any](t Terms[V], fitted Tensors) V {
	return norm(t, t.MatMul(t.Sub(t.Features(), constant(t, fitted, "origin")), constant(t, fitted, "outside")))
}

// vimOf is α‖Rᵀ(φ - u)‖ - log Σ exp a.
func vimOf[V any](t Terms[V], fitted Tensors) V {
	return t.Sub(t.Mul(residualOf(t, fitted), constant(t, fitted, "alpha")), logSumExp(t, t.Logits()))
}

// fitResidual takes u = -W⁺b as origin, where the logits vanish, and as R the eigenvectors of Σ(φ-u)(φ-u)ᵀ with the
// smallest eigenvalues.
func fitResidual(t *Training) (Tensors, error) {
	if t.W == nil {
		return nil, errNoWeights
	}
	if err := t.checkMoments(); err != nil {
		return nil, err
	}
	u, err := t.origin()
	if err != nil {
		return nil, err
	}
	d := t.D
	q, _, err := eigen.Semidefinite(t.about(u), d, 1/float64(t.N))
	if err != nil {
		return nil, fmt.Errorf("the features' second moments have no eigenvalues: %w", err)
	}
	r := d - principalDimensions(d)
	basis := make([]float64, 0, d*r)
	for i := range d {
		basis = append(basis, q[i*d:i*d+r]...)
	}
	return Tensors{{"origin", []int{d}, u}, {"outside", []int{d, r}, basis}}, nil
}

// fitViM takes the mean largest logit over the mean residual of the sample as α.
func fitViM(t *Training) (Tensors, error) {
	if t.Link != layer.Softmax {
		return nil, fmt.Errorf("%w: it needs a softmax head, got %s", ErrNoFit, t.Link)
	}
	if t.Sample.M == 0 {
		return nil, errNoSample
	}
	tensors, err := residual.fitOnce(t)
	if err != nil {
		return nil, err
	}
	var logits, residuals float64
	x := Numbers(Examples{N: t.Sample.M, K: t.K, D: t.D, Features: t.Sample.Features})
	a := x.MatMul(x.Features(), x.Constant("weight", transposed(t.W, t.K, t.D), t.K))
	for _, v := range x.Max(x.Add(a, x.Constant("bias", t.B, t.K))).Data {
		logits += v
	}
	for _, v := range residualOf(x, tensors).Data {
		residuals += v
	}
	if !(logits > 0) || !(residuals > 0) {
		return nil, fmt.Errorf("%w: the mean of the largest training logits is %.3g and of the residuals %.3g, want both positive",
			ErrNoFit, logits/float64(t.Sample.M), residuals/float64(t.Sample.M))
	}
	return slices.Concat(tensors, Tensors{{"alpha", []int{1}, []float64{logits / residuals}}}), nil
}

// origin returns -W⁺b, [d], with the pseudo-inverse W⁺: singular values below the precision of float32 count as zero.
func (t *Training) origin() ([]float64, error) {
	k, d := t.K, t.D
	w, u := general(t.W, k, d), make([]float64, d)
	if k < d { // -Wᵀ(WWᵀ)⁺b
		x, err := solve(product(w, blas.NoTrans, w, blas.Trans), t.B, max(k, d))
		if err == nil {
			blas64.Gemv(blas.Trans, -1, w, vector(x), 0, vector(u))
		}
		return u, err
	}
	blas64.Gemv(blas.Trans, -1, w, vector(t.B), 0, vector(u)) // (WᵀW)⁺(-Wᵀb)
	return solve(product(w, blas.Trans, w, blas.NoTrans), u, max(k, d))
}

// solve returns m⁺x for a symmetric m, the Gram matrix of float32 numbers with at most most rows and columns.
func solve(m blas64.General, x []float64, most int) ([]float64, error) {
	n := len(x)
	q, lambda, err := eigen.Semidefinite(m.Data, n, 1)
	if err != nil {
		return nil, fmt.Errorf("the last layer's weights have no singular values: %w", err)
	}
	least := lambda[n-1] * math.Pow(float64(most)*0x1p-23, 2)
	along, out := make([]float64, n), make([]float64, n)
	blas64.Gemv(blas.Trans, 1, general(q, n, n), vector(x), 0, vector(along))
	for i, l := range lambda {
		if l > least {
			along[i] /= l
		} else {
			along[i] = 0
		}
	}
	blas64.Gemv(blas.NoTrans, 1, general(q, n, n), vector(along), 0, vector(out))
	return out, nil
}
