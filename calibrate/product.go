package calibrate

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// A Product computes c += aᵀb, where a is rows×m, b is rows×n and c is m×n, all
// row-major and dense. It is the hot loop of accumulating curvature, so that
// a caller with a faster matrix product may bring it. Calls come from one
// goroutine at a time.
type Product interface {
	AddTransposedProduct(c, a, b []float64, rows, m, n int) error
}

// gonumProduct is the default Product: float64 in pure Go.
type gonumProduct struct{}

func (gonumProduct) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, general(a, rows, m), general(b, rows, n), 1, general(c, m, n))
	return nil
}

func general(x []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}
