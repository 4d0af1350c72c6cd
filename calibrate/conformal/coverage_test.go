package conformal

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// What sets cover of new examples, as a sum over orders of equally likely scores: all n+m are one sample, and of the m
// new ones as many are covered as stand before the r-th of the n.
func TestAtMostCoveredCountsOrders(t *testing.T) {
	t.Parallel()
	choose := func(n, k int) float64 {
		c := 1.0
		for i := range k {
			c *= float64(n-i) / float64(i+1)
		}
		return c
	}
	for _, test := range []struct {
		m, n  int
		alpha float64
	}{{5, 9, .1}, {12, 19, .1}, {30, 20, .25}, {1, 10, .3}, {40, 99, .05}} {
		r := int(math.Ceil(float64(test.n+1)*(1-test.alpha) - 1e-9))
		sum := 0.0
		for k := range test.m + 1 {
			// The r-th of the n is at place r+k of all: r-1 of its kind and k new ones stand before it.
			sum += choose(r+k-1, k) * choose(test.n-r+test.m-k, test.m-k) / choose(test.n+test.m, test.m)
			if got := CoverageTail(k, test.m, test.n, test.alpha); !approx.Equal(got, sum, 1e-9) {
				t.Errorf("at most %d of %d with %d and %v: %v, want %v", k, test.m, test.n, test.alpha, got, sum)
			}
		}
	}
}

// Few samples of the same distribution are found to differ, whether examples are many or few.
func TestFewFalseDifferencesAreFound(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	const trials, m, n, alpha = 2000, 400, 150, .1
	found := 0
	for range trials {
		held, fresh := make([]miss, n), 0
		for i := range held {
			held[i] = miss{score: rng.Float64(), weight: 1}
		}
		at, ok := threshold(held, n, alpha)
		if !ok {
			t.Fatal("no threshold")
		}
		for range m {
			if rng.Float64() <= at {
				fresh++
			}
		}
		if CoverageTail(fresh, m, n, alpha) < .025 {
			found++
		}
	}
	if share := float64(found) / trials; share > .035 || share < .012 {
		t.Errorf("%.3f of the draws are found unlike, want about 0.025 at most", share)
	}
	if CoverageTail(9228, 10000, 1500, .05) > 1e-4 || CoverageTail(9480, 10000, 1500, .05) < .2 ||
		CoverageTail(900000, 1e6, 50000, .1) < .2 {
		t.Error("the chance of many is wrong")
	}
}
