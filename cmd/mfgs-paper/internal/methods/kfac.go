package methods

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/parallel"
)

// NewWeightSamples draws last layers from a Gaussian posterior around the network's weights (BNN(KFAC), Ritter et al.
// 2018, for the Kronecker structure).
func NewWeightSamples(ctx context.Context, p *calibrate.Posterior, product parallel.Product, samples int,
	seed uint64) (*WeightSamples, error) {
	l, err := newLayers(p.Head, product, samples)
	if err != nil {
		return nil, err
	}
	errs := make([]error, samples)
	parallel.For(samples, func(first, last int) {
		w := make([]float64, p.Head.Logits*p.Head.Dim())
		for i := first; i < last; i++ {
			if errs[i] = context.Cause(ctx); errs[i] != nil {
				return
			}
			if errs[i] = sampleWeights(p, rand.New(rand.NewPCG(seed, uint64(i))), w); errs[i] != nil {
				return
			}
			l.set(i, w)
		}
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &WeightSamples{l}, nil
}

// sampleWeights draws deviations of the last layer's weights from N(0, Σ), at ensemble temperature 1, to dst [K,D]
// with the bias in the last column: Q_B(Z ∘ 1/√(λ_B λ_A + ε))Q_Aᵀ with Z normal. It needs the Kronecker
// structure and the covariance H̃⁻¹ or J̃⁻¹.
func sampleWeights(p *calibrate.Posterior, rng *rand.Rand, dst []float64) error {
	k, d := p.Head.Logits, p.Head.Dim()
	if p.Structure != calibrate.Kronecker || p.Covariance == calibrate.Sandwich || p.Covariance == calibrate.External {
		return fmt.Errorf("weights are not drawn from the %s covariance in the %s structure: use hessian or fisher in the kron structure", p.Covariance, p.Structure)
	}
	matrix := func(x []float64, rows, cols int) blas64.General {
		return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
	}
	z := make([]float64, k*d)
	for j, lb := range p.LambdaB {
		for i, la := range p.LambdaA {
			z[j*d+i] = rng.NormFloat64() / math.Sqrt(la*lb+p.Epsilon)
		}
	}
	mixed := matrix(z, k, d)
	if p.QB != nil {
		mixed = matrix(make([]float64, k*d), k, d)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, matrix(p.QB, k, k), matrix(z, k, d), 0, mixed)
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, mixed, matrix(p.QA, d, d), 0, matrix(dst, k, d))
	return nil
}
