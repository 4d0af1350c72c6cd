package wrap

import (
	"context"
	"testing"
	"time"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// Lines wait until they fill a batch, or hold maxWaiting numbers; once they are handed on, the next may wait.
func TestLinesWaitUpToABatch(t *testing.T) {
	t.Parallel()
	const batch = 3
	of := func(numbers int) line {
		return line{example: dataset.Example{Inputs: []dataset.Array{{Shape: []int{2, numbers / 2}}}}}
	}
	for _, test := range []struct {
		numbers, fit int // of a line; lines that wait
	}{{2, batch}, {maxWaiting, 1}, {maxWaiting / 2, 2}} {
		ctx, cancel := context.WithCancel(t.Context())
		read, waiting := make(chan line), make(chan []line)
		go gather(ctx, read, waiting, batch)
		for range 3 {
			for i := range test.fit {
				select {
				case read <- of(test.numbers):
				case <-time.After(30 * time.Second):
					t.Fatalf("line %d of %d numbers finds no place", i, test.numbers)
				}
			}
			select {
			case read <- of(test.numbers):
				t.Fatalf("of %d numbers more than %d lines wait", test.numbers, test.fit)
			case <-time.After(20 * time.Millisecond):
			}
			if lines := <-waiting; len(lines) != test.fit {
				t.Fatalf("%d lines are handed on, want %d", len(lines), test.fit)
			}
		}
		close(read)
		if lines, ok := <-waiting; ok {
			t.Errorf("%d lines more", len(lines))
		}
		cancel()
	}
}
