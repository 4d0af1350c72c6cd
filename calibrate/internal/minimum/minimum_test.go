package minimum

import (
	"math"
	"testing"

	"github.com/mfgs/mfgs/calibrate/approx"
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
