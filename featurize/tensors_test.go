package featurize

import (
	"math"
	"math/rand/v2"
	"testing"
)

// halfValue is the number a half stands for.
func halfValue(h uint16) float64 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac > 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// slowFloat16 looks for the nearest of all halves, the even one of two.
func slowFloat16(v float32) uint16 {
	x := math.Abs(float64(v))
	var sign uint16
	if math.Signbit(float64(v)) {
		sign = 0x8000
	}
	switch {
	case math.IsNaN(x):
		return sign | 0x7e00
	case x >= 65520: // halfway from the largest to what would follow it
		return sign | 0x7c00
	}
	// Halves of one sign are ordered as their bits are.
	lo, hi := uint16(0), uint16(0x7c00)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; halfValue(mid) <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	if hi == 0x7c00 {
		return sign | lo
	}
	below, above := x-halfValue(lo), halfValue(hi)-x
	if above < below || above == below && hi&1 == 0 {
		lo = hi
	}
	return sign | lo
}

func TestFloat16RoundsToTheNearestEven(t *testing.T) {
	check := func(v float32) {
		t.Helper()
		if got, want := float16(v), slowFloat16(v); got != want {
			t.Fatalf("float16(%v) = %#04x, want %#04x", v, got, want)
		}
	}
	// All halves, the points halfway between them, and their neighbours.
	for h := range 0x10000 {
		v := halfValue(uint16(h))
		if math.IsNaN(v) {
			continue
		}
		if got := float16(float32(v)); got != uint16(h) {
			t.Fatalf("float16 of %#04x, %v, is %#04x", h, v, got)
		}
		if next := halfValue(uint16(h + 1)); !math.IsNaN(next) && !math.IsInf(next, 0) && !math.IsInf(v, 0) {
			mid := float32((v + next) / 2)
			check(mid)
			check(math.Nextafter32(mid, 1e9))
			check(math.Nextafter32(mid, -1e9))
		}
	}
	for _, v := range []float64{65504, 65519.99, 65520, 65536, 1e30, math.Inf(1), math.NaN(), 0, math.Copysign(0, -1), 1e-45, 2.9802322e-8, 2.9802326e-8} {
		check(float32(v))
		check(float32(-v))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		check(math.Float32frombits(rng.Uint32()))
	}
}
