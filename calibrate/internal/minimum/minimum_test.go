package minimum

import (
	"math"
	"testing"
)

func TestDownhillFindsTheMinimum(t *testing.T) {
	t.Parallel()
	const gain = 1e-4
	square := func(x, at float64) float64 { return (x - at) * (x - at) }
	for name, test := range map[string]struct {
		f       func(float64) float64
		x, want float64
	}{
		"near":         {func(x float64) float64 { return square(x, 0.3) }, 0, 0.3},
		"left, far":    {func(x float64) float64 { return square(x, -8.2) }, 5, -8.2},
		"right, far":   {func(x float64) float64 { return square(x, 7) }, -6, 7},
		"at the left":  {func(x float64) float64 { return x }, 2, -10},
		"at the right": {func(x float64) float64 { return -math.Exp(x / 3) }, -9, 10},
		"from a bound": {func(x float64) float64 { return square(x, -9) }, -10, -9},
		"beyond both":  {func(x float64) float64 { return square(x, 20) }, 40, 10},
		"skewed":       {func(x float64) float64 { return math.Exp(x) - 3*x }, -5, math.Log(3)},
		"a peak that is narrow beside the steps": {
			func(x float64) float64 { return -math.Exp(-square(x, 1.45)) - math.Exp(-square(x, 0)/30)/5 }, -4, 1.45,
		},
		"kink":    {func(x float64) float64 { return math.Max(x-1, (1-x)/9) + 1 }, -1, 1},
		"plateau": {func(float64) float64 { return 2 }, 0.5, 0.5},
	} {
		got := Downhill(func(x float64) float64 {
			if x < -10 || x > 10 {
				t.Errorf("%s: asked for %v outside of [-10,10]", name, x)
			}
			return test.f(x)
		}, -10, 10, test.x, 1, gain)
		tolerance := 20 * gain // whose parabola predicts less
		if name == "kink" {
			tolerance = 0.01
		}
		if a, b := test.f(got), test.f(test.want); a > b+tolerance {
			t.Errorf("%s: %v at %v, want %v at %v", name, a, got, b, test.want)
		}
	}
}
