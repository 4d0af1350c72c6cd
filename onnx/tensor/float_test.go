package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFloat16RoundsToTheNearestEven(t *testing.T) {
	t.Parallel()
	check := func(v float32) {
		t.Helper()
		if got, want := ToFloat16(float64(v)), slowFloat16(v); got != want {
			t.Fatalf("ToFloat16(%v) = %#04x, want %#04x", v, got, want)
		}
	}
	// All halves, the points halfway between them, and their neighbours.
	for h := range 0x10000 {
		v := halfValue(uint16(h))
		if math.IsNaN(v) {
			continue
		}
		if got := ToFloat16(v); got != uint16(h) {
			t.Fatalf("ToFloat16 of %#04x, %v, is %#04x", h, v, got)
		}
		if next := halfValue(uint16(h + 1)); !math.IsNaN(next) && !math.IsInf(next, 0) && !math.IsInf(v, 0) {
			mid := float32((v + next) / 2)
			check(mid)
			check(math.Nextafter32(mid, 1e9))
			check(math.Nextafter32(mid, -1e9))
		}
	}
	for _, v := range []float64{65504, 65519.99, 65520, 65536, 1e30, math.Inf(1), math.NaN(), 0, math.Copysign(0, -1),
		1e-45, 2.9802322e-8, 2.9802326e-8} {
		check(float32(v))
		check(float32(-v))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		check(math.Float32frombits(rng.Uint32()))
	}
}

// Every half has its value; a NaN keeps its sign and payload.
func TestFloat16Widens(t *testing.T) {
	t.Parallel()
	for h := range 0x10000 {
		got, want := FromFloat16(uint16(h)), halfValue(uint16(h))
		if math.IsNaN(want) {
			if bits := math.Float32bits(got); bits != uint32(h&0x8000)<<16|0x7f800000|uint32(h&0x3ff)<<13 {
				t.Errorf("%#04x is NaN %#08x", h, bits)
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != (h&0x8000 != 0) {
			t.Errorf("%#04x is %v, want %v", h, got, want)
		}
	}
}

// float64 is not rounded to float32 first: that would make a tie of what is beside one.
func TestFloat16RoundsDoublesOnce(t *testing.T) {
	t.Parallel()
	for h := range uint16(0x7bff) {
		mid := (halfValue(h) + halfValue(h+1)) / 2
		if got := ToFloat16(math.Nextafter(mid, 0)); got != h {
			t.Fatalf("just below %v is %#04x, want %#04x", mid, got, h)
		}
		if got := ToFloat16(math.Nextafter(mid, 1e9)); got != h+1 {
			t.Fatalf("just above %v is %#04x, want %#04x", mid, got, h+1)
		}
	}
}

func TestBFloat16RoundsToTheNearestEven(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range 1_000_000 {
		v := math.Float32frombits(rng.Uint32())
		if i < 1000 { // ties
			v = math.Float32frombits(rng.Uint32()&0xffff0000 | 0x8000)
		}
		got := ToBFloat16(v)
		if v != v {
			if f := math.Float32frombits(uint32(got) << 16); f == f {
				t.Fatalf("NaN %#x becomes %v", math.Float32bits(v), f)
			}
			continue
		}
		if math.IsInf(float64(v), 0) {
			continue
		}
		if want := slowBFloat16(v); got != want {
			t.Fatalf("%v (%#x) becomes %#x, want %#x", v, math.Float32bits(v), got, want)
		}
	}
	if got := ToBFloat16(float32(math.Inf(-1))); got != 0xff80 {
		t.Errorf("-∞ becomes %#x", got)
	}
}

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

// slowBFloat16 takes the nearer of the two neighbours of a float32.
func slowBFloat16(v float32) uint16 {
	lo := uint16(math.Float32bits(v) >> 16)
	value := func(b uint16) float64 {
		if b&0x7fff == 0x7f80 { // where the next would be
			return math.Copysign(0x1p128, float64(v))
		}
		return float64(math.Float32frombits(uint32(b) << 16))
	}
	below, above := math.Abs(float64(v)-value(lo)), math.Abs(value(lo+1)-float64(v))
	if above < below || above == below && lo&1 == 1 {
		return lo + 1
	}
	return lo
}
