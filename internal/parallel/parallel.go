// Package parallel spreads work over the processors.
package parallel

import (
	"runtime"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// For calls f for contiguous parts of [0,n), one on each processor, and returns when all have.
func For(n int, f func(first, last int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(w*n/workers, (w+1)*n/workers) })
	}
	wg.Wait()
}

// Multiply computes c = ab for a [rows,n], b [n,m] and c [rows,m], all row-major and dense.
//
// It takes each row of a by itself, through a part of b that stays in the processor's cache: gonum's
// Gemv adds four rows of b in one pass over c, its Gemm one, and so is half as fast.
func Multiply(c, a, b []float64, rows, n, m int) {
	const cached = 32 << 10 // float64
	size := max(4, cached/m)
	vector := func(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
	For(rows, func(from, to int) {
		for first := 0; first < n; first += size {
			end := min(n, first+size)
			part := blas64.General{Rows: end - first, Cols: m, Stride: m, Data: b[first*m : end*m]}
			beta := 1.0
			if first == 0 {
				beta = 0
			}
			for r := from; r < to; r++ {
				blas64.Gemv(blas.Trans, 1, part, vector(a[r*n+first:r*n+end]), beta, vector(c[r*m:(r+1)*m]))
			}
		}
	})
}
