package interpolative

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// For any spectra and damping a few rows of 1/(λ + ε), weighted, give all, to relative precision.
func TestRowsOfAPosteriorAreInterpolated(t *testing.T) {
	t.Parallel()
	const d, k = 600, 50
	rng := rand.New(rand.NewPCG(8, 1))
	for _, orders := range []float64{1, 4, 12} {
		for _, epsilon := range []float64{1e-9, 1, 1e3} {
			x, at := make([]float64, d*k), make([]float64, d)
			for i := range d {
				la := 1e3 * math.Pow(10, -orders*rng.Float64())
				if i < 20 {
					la = 0
				}
				at[i] = la
			}
			slices.Sort(at)
			for i, la := range at {
				for m := range k {
					for j := range k {
						// Some rows of Q² have one large entry only.
						q := math.Pow(10, -float64((m*j)%17))
						x[i*k+m] += q / (la*math.Pow(10, -orders*float64(j)/k) + epsilon)
					}
				}
				at[i] = math.Log(math.Max(la, math.SmallestNonzeroFloat64))
			}
			left, right, ok := Rows(x, at, k)
			if !ok {
				t.Fatalf("%v orders, ε %v: too many rows", orders, epsilon)
			}
			rank := len(left) / d
			t.Logf("%v orders, ε %v: %d rows", orders, epsilon, rank)
			for i := range x {
				var v float64
				for j := range rank {
					v += left[i/k*rank+j] * right[j*k+i%k]
				}
				if !approx.Relative(v, x[i], 2*Tolerance) {
					t.Fatalf("%v orders, ε %v: entry %d is off by %.2g", orders, epsilon, i, v/x[i]-1)
				}
			}
		}
	}
	// Values that are not smooth are left unchanged.
	x, at := make([]float64, d*k), make([]float64, d)
	for i := range x {
		x[i] = rng.ExpFloat64()
		at[i/k] = float64(i / k)
	}
	if _, _, ok := Rows(x, at, k); ok {
		t.Error("random numbers are interpolated")
	}
}
