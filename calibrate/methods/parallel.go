package methods

import (
	"runtime"
	"sync"
)

// parallel splits 0 to n-1 among the processors.
func parallel(n int, f func(first, last int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(w*n/workers, (w+1)*n/workers) })
	}
	wg.Wait()
}
