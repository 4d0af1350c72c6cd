package main

import (
	"math"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/approx"
)

func TestPicturesAreWellFormed(t *testing.T) {
	h := heat{act: []float64{.1, 1, 10}, ens: []float64{1e-3, 1},
		value: [][]float64{{.5, .4}, {.3, math.Inf(1)}, {.1, .2}}, best: calibrate.Temperatures{Act: 10, Ens: 1e-3}}
	svg := string(h.svg(`A < B & "C"`, "nats", true, "%.2g"))
	// A value that is no number is printed as such, so the check of numbers is not for it.
	wellFormed(t, "heat", []byte(strings.ReplaceAll(svg, "+Inf", "-")))
	if !strings.Contains(svg, faint) {
		t.Error("a value that is no number has a colour of the ramp")
	}
	c := chart{title: "T", x: "x", y: "y", lines: []line{{"a & b", []float64{0, 90, 180}, []float64{1, 2, 40}}}}
	wellFormed(t, "chart", c.svg())
}

func TestWhereTheStarStands(t *testing.T) {
	tests := []struct {
		values []float64
		v      float64
		want   float64
	}{
		{[]float64{1, 10, 100}, 1, 0},
		{[]float64{1, 10, 100}, 10, 1},
		{[]float64{1, 10, 100}, math.Sqrt(1000), 1.5},
		{[]float64{1, 10, 100}, 1e9, 2},
		{[]float64{1, 10, 100}, 1e-9, 0},
	}
	for _, test := range tests {
		if got := at(test.values, test.v); !approx.Equal(got, test.want, 1e-12) {
			t.Errorf("%v among %v: %v, want %v", test.v, test.values, got, test.want)
		}
	}
}

func TestColour(t *testing.T) {
	for _, test := range []struct {
		t    float64
		want string
	}{{0, "#2b0a5a"}, {1, "#faeb6e"}, {-3, "#2b0a5a"}, {7, "#faeb6e"}, {math.Inf(1), faint}, {.2, "#3e3c96"}, {math.NaN(), faint}} {
		if got := colour(test.t); got != test.want {
			t.Errorf("colour at %v is %s, want %s", test.t, got, test.want)
		}
	}
}

func TestTick(t *testing.T) {
	for _, test := range []struct{ most, want float64 }{{1, .2}, {52, 10}, {4, 1}, {9.9, 1}, {.031, .005}, {0, 1},
		{math.NaN(), 1}} {
		if got := tick(test.most); !approx.Equal(got, test.want, 1e-12) {
			t.Errorf("up to %v: %v, want %v", test.most, got, test.want)
		}
	}
}

func TestPower(t *testing.T) {
	for v, want := range map[float64]string{3e-7: "3e-7", 1: "1e0", 2.6e10: "3e10"} {
		if got := power(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
