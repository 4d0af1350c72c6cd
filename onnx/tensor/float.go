package tensor

import (
	"encoding/binary"
	"math"
)

// ToFloat16 returns the bits of the nearest IEEE 754 binary16, ties to even; every NaN becomes a
// quiet one of the same sign.
func ToFloat16(v float64) uint16 {
	bits := math.Float64bits(v)
	sign := uint16(bits >> 48 & 0x8000)
	exp := int(bits>>52&0x7ff) - 1023 + 15
	frac := bits & (1<<52 - 1)
	switch {
	case v != v:
		return sign | 0x7e00
	case exp >= 31:
		return sign | 0x7c00 // infinity
	case exp < -10:
		return sign // below half the least subnormal
	}
	shift := 42
	if exp <= 0 { // subnormal: the leading one becomes explicit
		frac |= 1 << 52
		shift += 1 - exp
		exp = 0
	}
	out := uint64(exp)<<10 + frac>>shift
	rest, half := frac&(1<<shift-1), uint64(1)<<(shift-1)
	if rest > half || rest == half && out&1 == 1 {
		out++ // may carry into the exponent, which is right
	}
	return sign | uint16(out)
}

// FromFloat16 returns the value of an IEEE 754 binary16, exactly; a NaN keeps its payload.
func FromFloat16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		return math.Float32frombits(math.Float32bits(float32(frac)*0x1p-24) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// ToBFloat16 returns the bits of the nearest number of 8 bits of precision, ties to even; every NaN
// becomes a quiet one.
func ToBFloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40 // truncation must leave a NaN
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

func roundFloat16(v float32) uint16 { return ToFloat16(float64(v)) }

var le = binary.LittleEndian

// The values of little-endian elements.
func float64Value(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }
func float32Value(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }
func float16Value(b []byte) float64 { return float64(FromFloat16(le.Uint16(b))) }
func bfloat16Value(b []byte) float64 {
	return float64(math.Float32frombits(uint32(le.Uint16(b)) << 16))
}
func float8e5m2Value(b []byte) float64 { return float64(FromFloat16(uint16(b[0]) << 8)) }
func uint8Value(b []byte) float64      { return float64(b[0]) }
func uint16Value(b []byte) float64     { return float64(le.Uint16(b)) }
func uint32Value(b []byte) float64     { return float64(le.Uint32(b)) }
func uint64Value(b []byte) float64     { return float64(le.Uint64(b)) }
func int16Value(b []byte) float64      { return float64(int16(le.Uint16(b))) }
func int32Value(b []byte) float64      { return float64(int32(le.Uint32(b))) }
func int64Value(b []byte) float64      { return float64(int64(le.Uint64(b))) }

// signed reads two's complement of at most 8 bits.
func signed(bits int) func([]byte) float64 {
	return func(b []byte) float64 { return float64(int8(b[0]<<(8-bits)) >> (8 - bits)) }
}

// powerOfTwo reads a bare exponent.
func powerOfTwo(b []byte) float64 {
	if b[0] == 255 {
		return math.NaN()
	}
	return math.Ldexp(1, int(b[0])-127)
}

// A minifloat is a float of at most 8 bits: a sign, then exp and frac bits of exponent and
// fraction. Its value is (-1)^sign · 2^(e-bias) · 1.f or, with e = 0, (-1)^sign · 2^(1-bias) · 0.f.
// There is no infinity.
type minifloat struct {
	exp, frac, bias int
	nan             special
}

// special says which bit pattern is NaN.
type special int

const (
	none         special = iota
	allOnes              // all bits but the sign
	negativeZero         // the sign bit alone
)

func (m minifloat) value(b []byte) float64 {
	sign, magnitude := int(b[0])>>(m.exp+m.frac)&1, int(b[0])&(1<<(m.exp+m.frac)-1)
	if m.nan == allOnes && magnitude == 1<<(m.exp+m.frac)-1 || m.nan == negativeZero && sign == 1 && magnitude == 0 {
		return math.NaN()
	}
	e, f := magnitude>>m.frac, magnitude&(1<<m.frac-1)
	v := math.Ldexp(float64(f+1<<m.frac), e-m.bias-m.frac)
	if e == 0 {
		v = math.Ldexp(float64(f), 1-m.bias-m.frac)
	}
	if sign == 1 {
		v = -v
	}
	return v
}
