package parallel

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// A Product multiplies dense row-major matrices. It is the hot loop of summing curvature, of inverting it and
// of variances, so callers may supply a faster one. It must be safe for concurrent use.
type Product interface {
	// AddTransposedProduct computes c += aᵀb for a [rows,m], b [rows,n] and c [m,n].
	AddTransposedProduct(c, a, b []float64, rows, m, n int) error
	// Multiply computes c = ab for a [rows,n], b [n,m] and c [rows,m].
	Multiply(c, a, b []float64, rows, n, m int) error
	// Multiply32 is Multiply in float32, for random samples.
	Multiply32(c, a, b []float32, rows, n, m int) error
}

// Go is the Product in pure Go. It never fails.
type Go struct{}

// OrGo returns p or, for nil, Go.
func OrGo(p Product) Product {
	if p == nil {
		return Go{}
	}
	return p
}

// AddTransposedProduct computes c += aᵀb.
func (Go) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, general(a, rows, m), general(b, rows, n), 1, general(c, m, n))
	return nil
}

// Multiply computes c = ab.
//
// Each worker takes rows of a through a part of b that stays in the processor's cache. gonum's Gemv adds four
// rows of b in one pass over c where its Gemm adds one, and is twice as fast.
func (Go) Multiply(c, a, b []float64, rows, n, m int) error {
	const cached = 32 << 10 // float64
	size := max(4, cached/m)
	vector := func(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
	For(rows, func(from, to int) {
		for first := 0; first < n; first += size {
			end := min(n, first+size)
			part := general(b[first*m:end*m], end-first, m)
			beta := 1.0
			if first == 0 {
				beta = 0
			}
			for r := from; r < to; r++ {
				blas64.Gemv(blas.Trans, 1, part, vector(a[r*n+first:r*n+end]), beta, vector(c[r*m:(r+1)*m]))
			}
		}
	})
	return nil
}

// Multiply32 computes c = ab in float32.
func (Go) Multiply32(c, a, b []float32, rows, n, m int) error {
	single := func(x []float32, rows, cols int) blas32.General {
		return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, single(a, rows, n), single(b, n, m), 0, single(c, rows, m))
	return nil
}

func general(x []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}
