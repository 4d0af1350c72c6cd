package minimum

import (
	"math"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

func TestBrentFindsTheMinimum(t *testing.T) {
	for name, test := range map[string]struct {
		f       func(float64) float64
		a, b, x float64
		want    float64
	}{
		"parabola":        {func(x float64) float64 { return (x - 0.3) * (x - 0.3) }, -2, 3, 1, 0.3},
		"from the left":   {func(x float64) float64 { return (x - 0.3) * (x - 0.3) }, -2, 3, -7, 0.3},
		"skewed":          {func(x float64) float64 { return math.Exp(3*x) - 5*x }, -4, 2, -3.9, math.Log(5.0/3) / 3},
		"flat":            {func(x float64) float64 { return math.Pow(x-1, 4) }, -1, 3, 2, 1},
		"kink":            {func(x float64) float64 { return math.Abs(x - 0.7) }, 0, 1, 0.1, 0.7},
		"at the left":     {func(x float64) float64 { return x }, -1, 1, 0, -1},
		"at the right":    {func(x float64) float64 { return -math.Exp(x) }, -1, 1, 0, 1},
		"nothing to find": {func(float64) float64 { return 2 }, -1, 1, 0.5, 0},
	} {
		calls := 0
		got := Brent(func(x float64) float64 {
			if calls++; x < test.a || x > test.b {
				t.Errorf("%s: asked for %v outside of [%v,%v]", name, x, test.a, test.b)
			}
			return test.f(x)
		}, test.a, test.b, test.x, 1e-4)
		tolerance := 4e-4
		switch name {
		case "flat":
			tolerance = 0.05 // whose values differ by 1e-5
		case "nothing to find":
			tolerance = 1 // anywhere
		}
		if !approx.Equal(got, test.want, tolerance) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		if calls > 60 {
			t.Errorf("%s: %d evaluations", name, calls)
		}
	}
}

// The least of evenly spaced values is between its neighbours, at the ends too.
func TestBracketAndGoldenSection(t *testing.T) {
	for name, test := range map[string]struct {
		f    func(float64) float64
		want float64
	}{
		"inside":   {func(x float64) float64 { return (x - .3) * (x - .3) }, .3},
		"at left":  {func(x float64) float64 { return x }, -2},
		"at right": {func(x float64) float64 { return -x }, 3},
	} {
		lo, hi := Bracket(test.f, -2, 3)
		if !(lo <= test.want && test.want <= hi && hi-lo <= 2*5./32+1e-12) {
			t.Errorf("%s: the minimum %v is looked for in [%v,%v]", name, test.want, lo, hi)
		}
		if got := GoldenSection(test.f, lo, hi, 1e-6); !approx.Equal(got, test.want, 1e-6) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestDownhillFindsTheMinimum(t *testing.T) {
	const gain = 1e-4
	square := func(x, at float64) float64 { return (x - at) * (x - at) }
	for name, test := range map[string]struct {
		f       func(float64) float64
		x, want float64
		calls   int // at most
	}{
		"near":         {func(x float64) float64 { return square(x, 0.3) }, 0, 0.3, 6},
		"left, far":    {func(x float64) float64 { return square(x, -8.2) }, 5, -8.2, 9},
		"right, far":   {func(x float64) float64 { return square(x, 7) }, -6, 7, 10},
		"at the left":  {func(x float64) float64 { return x }, 2, -10, 8},
		"at the right": {func(x float64) float64 { return -math.Exp(x / 3) }, -9, 10, 9},
		"from a bound": {func(x float64) float64 { return square(x, -9) }, -10, -9, 7},
		"beyond both":  {func(x float64) float64 { return square(x, 20) }, 40, 10, 3},
		"skewed":       {func(x float64) float64 { return math.Exp(x) - 3*x }, -5, math.Log(3), 13},
		"a peak that is narrow beside the steps": {
			func(x float64) float64 { return -math.Exp(-square(x, 1.45)) - math.Exp(-square(x, 0)/30)/5 }, -4, 1.45,
			14,
		},
		"kink":    {func(x float64) float64 { return math.Max(x-1, (1-x)/9) + 1 }, -1, 1, 16},
		"plateau": {func(float64) float64 { return 2 }, 0.5, 0.5, 3},
	} {
		calls := 0
		got := Downhill(func(x float64) float64 {
			if calls++; x < -10 || x > 10 {
				t.Errorf("%s: asked for %v outside of [-10,10]", name, x)
			}
			return test.f(x)
		}, -10, 10, test.x, 1, gain)
		tolerance := 20 * gain // whose parabola promises less
		if name == "kink" {
			tolerance = 0.01
		}
		if a, b := test.f(got), test.f(test.want); a > b+tolerance {
			t.Errorf("%s: %v at %v, want %v at %v", name, a, got, b, test.want)
		}
		if calls > test.calls {
			t.Errorf("%s: %d evaluations, want at most %d", name, calls, test.calls)
		}
	}
}
