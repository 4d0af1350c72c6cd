// Package parallel spreads work over the processors: loops, and products of matrices.
package parallel

import (
	"runtime"
	"sync"
)

// For splits [0,n) into contiguous parts, calls f for each on a goroutine of its own, one per processor, and
// returns when all are done.
func For(n int, f func(first, last int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(w*n/workers, (w+1)*n/workers) })
	}
	wg.Wait()
}
