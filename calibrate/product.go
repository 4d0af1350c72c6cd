package calibrate

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/internal/parallel"
)

// A Product multiplies matrices, all row-major and dense, in float64 unless it says otherwise. It is the hot
// loop of accumulating curvature, of inverting it and of variances, so that a caller
// with a faster matrix product may bring it, which is safe for concurrent use.
type Product interface {
	// AddTransposedProduct computes c += aᵀb for a [rows,m], b [rows,n] and c [m,n].
	AddTransposedProduct(c, a, b []float64, rows, m, n int) error
	// Multiply computes c = ab for a [rows,n], b [n,m] and c [rows,m].
	Multiply(c, a, b []float64, rows, n, m int) error
	// Multiply32 does so in float32, for what is drawn at random.
	Multiply32(c, a, b []float32, rows, n, m int) error
}

// gonumProduct is the default Product: float64 in pure Go. It never fails.
type gonumProduct struct{}

// OrGo returns p, or for nil the default: float64 in pure Go.
func OrGo(p Product) Product {
	if p == nil {
		return gonumProduct{}
	}
	return p
}

func (gonumProduct) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, general(a, rows, m), general(b, rows, n), 1, general(c, m, n))
	return nil
}

func (gonumProduct) Multiply(c, a, b []float64, rows, n, m int) error {
	parallel.Multiply(c, a, b, rows, n, m)
	return nil
}

func (gonumProduct) Multiply32(c, a, b []float32, rows, n, m int) error {
	single := func(x []float32, rows, cols int) blas32.General {
		return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, single(a, rows, n), single(b, n, m), 0, single(c, rows, m))
	return nil
}

func general(x []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
