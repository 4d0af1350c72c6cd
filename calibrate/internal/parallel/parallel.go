// Package parallel spreads work over the processors.
package parallel

import (
	"runtime"
	"sync"
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
