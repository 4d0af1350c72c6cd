package onnxpb

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestFloat16(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x3555: 0.333251953125, 0x7bff: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24,
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1)} {
		if got := DecodeFloat16(bits); got != want {
			t.Errorf("float16(%#04x) = %v, want %v", bits, got, want)
		}
	}
	if got := DecodeFloat16(0x7e00); !math.IsNaN(got) {
		t.Errorf("float16(0x7e00) = %v, want NaN", got)
	}
}

// Rounding gives the nearest of all float16 numbers, found by looking at all of them, and of two equally near the one whose last
// bit is 0.
func TestRoundFloat16(t *testing.T) {
	var all []float64 // the positive ones, in order of their bits
	for bits := range uint16(0x7c00) {
		all = append(all, DecodeFloat16(bits))
	}
	nearest := func(x float64) float64 {
		i, _ := slices.BinarySearch(all, math.Abs(x))
		switch {
		case i == 0:
			return 0
		case i == len(all): // the next step would be 65536
			if !(math.Abs(x) < 65520) {
				return math.Inf(int(math.Copysign(1, x)))
			}
			return math.Copysign(65504, x)
		}
		below, above := math.Abs(x)-all[i-1], all[i]-math.Abs(x)
		if below < above || below == above && (i-1)%2 == 0 {
			i--
		}
		return math.Copysign(all[i], x)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		x := math.Ldexp(2*r.Float64()-1, r.IntN(50)-30)
		if r.IntN(4) == 0 { // just between two
			i := r.IntN(len(all) - 1)
			x = (all[i] + all[i+1]) / 2
		}
		if got, want := RoundFloat16(x), nearest(x); got != want {
			t.Fatalf("%v rounds to %v, want %v", x, got, want)
		}
	}
	for _, x := range []float64{0, 65504, 65519.99, 65520, -65520, math.Inf(1), math.Inf(-1)} {
		if got, want := RoundFloat16(x), nearest(x); got != want {
			t.Errorf("%v rounds to %v, want %v", x, got, want)
		}
	}
	if !math.IsNaN(RoundFloat16(math.NaN())) {
		t.Error("NaN is rounded to a number")
	}
}
