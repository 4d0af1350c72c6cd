package metrics_test

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// At chance, or wrong mostly and sure of it.
func TestImplausibleAccuracy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, classes int
		error, ece float64
		want       bool
	}{
		{1000, 10, .9, .05, true},   // chance
		{1000, 10, .88, .05, true},  // not significantly better
		{1000, 10, .8, .05, false},  // poor, with low confidence
		{1000, 10, .8, .6, true},    // poor, with high confidence
		{1000, 10, .3, .28, false},  // right mostly
		{1000, 1000, .999, 0, true}, // chance
		{1000, 1000, .9, .1, false},
		{1000, 1000, .7, .35, true},
		{1000, 2, .48, .02, true},
		{1000, 2, .3, .3, false},
		{10, 10, 1, .9, false}, // too few
		{1000, 1, 1, 1, false},
	} {
		if got := (metrics.InDomain{N: c.n, Error: c.error, ECE: c.ece}).Implausible(c.classes); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
