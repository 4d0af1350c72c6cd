package parallel

import (
	"sync/atomic"
	"testing"
)

func TestForDoesAllOnce(t *testing.T) {
	t.Parallel()
	for n := range 70 {
		done := make([]atomic.Int32, n)
		For(n, func(first, last int) {
			if first >= last {
				t.Errorf("n = %d: an empty part from %d to %d", n, first, last)
			}
			for i := first; i < last; i++ {
				done[i].Add(1)
			}
		})
		for i := range done {
			if got := done[i].Load(); got != 1 {
				t.Errorf("n = %d: %d was done %d times", n, i, got)
			}
		}
	}
}
