package eigen

import (
	"runtime"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// parallel calls f for 0 … n−1 on all processors. Unlike For of internal/parallel it hands out one index at a
// time, since the calls differ in cost.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// matrix is a part of a row-major matrix.
type matrix = blas64.General

// addTo adds alpha m x to y, a dot product for each row of m.
func addTo(y []float64, alpha float64, m matrix, x []float64) {
	blas64.Gemv(blas.NoTrans, alpha, m, vector(x), 1, vector(y))
}

// addTransTo adds alpha mᵀx to y: the rows of m times the entries of x, four rows in a pass over y. gonum's Gemm
// adds one row in a pass, and is half as fast.
func addTransTo(y []float64, alpha float64, m matrix, x blas64.Vector) {
	blas64.Gemv(blas.Trans, alpha, m, x, 1, vector(y))
}

func vector(x []float64) blas64.Vector {
	return blas64.Vector{N: len(x), Inc: 1, Data: x}
}
