package onnxpb

import (
	"fmt"
	"math"
)

// RoundFloat16 rounds to the nearest IEEE 754 binary16, ties to even.
func RoundFloat16(x float64) float64 {
	_, exp := math.Frexp(x) // |x| in [2^(exp-1), 2^exp): 11 significant bits, 2^-24 the smallest step
	ulp := math.Ldexp(1, max(exp-11, -24))
	if y := math.RoundToEven(x/ulp) * ulp; math.Abs(y) <= 65504 || math.IsNaN(y) {
		return y
	}
	return math.Inf(int(math.Copysign(1, x)))
}

// float16 returns the value of an IEEE 754 binary16.
func DecodeFloat16(bits uint16) float64 {
	sign, exp, frac := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// DataType is the element type of a tensor, with ONNX's numbers.
type DataType int32

const (
	Undefined  DataType = 0
	Float32    DataType = 1
	Uint8      DataType = 2
	Int8       DataType = 3
	Uint16     DataType = 4
	Int16      DataType = 5
	Int32      DataType = 6
	Int64      DataType = 7
	String     DataType = 8
	Bool       DataType = 9
	Float16    DataType = 10
	Float64    DataType = 11
	Uint32     DataType = 12
	Uint64     DataType = 13
	Complex64  DataType = 14
	Complex128 DataType = 15
	BFloat16   DataType = 16
)

var DataTypes = [...]struct {
	name string
	Bits int64 // 0: of no fixed size
}{
	Undefined: {"undefined", 0},
	Float32:   {"float32", 32}, Uint8: {"uint8", 8}, Int8: {"int8", 8}, Uint16: {"uint16", 16}, Int16: {"int16", 16},
	Int32: {"int32", 32}, Int64: {"int64", 64}, String: {"string", 0}, Bool: {"bool", 8}, Float16: {"float16", 16},
	Float64: {"float64", 64}, Uint32: {"uint32", 32}, Uint64: {"uint64", 64}, Complex64: {"complex64", 64},
	Complex128: {"complex128", 128}, BFloat16: {"bfloat16", 16},
	17: {"float8e4m3fn", 8}, 18: {"float8e4m3fnuz", 8}, 19: {"float8e5m2", 8}, 20: {"float8e5m2fnuz", 8},
	21: {"uint4", 4}, 22: {"int4", 4}, 23: {"float4e2m1", 4}, 24: {"float8e8m0", 8}, 25: {"uint2", 2}, 26: {"int2", 2},
}

// String returns the type's name as NumPy and ONNX write it: float32, uint8, bfloat16.
func (t DataType) String() string {
	if t >= 0 && int(t) < len(DataTypes) {
		return DataTypes[t].name
	}
	return fmt.Sprintf("type %d", int32(t))
}

// MarshalText writes the type's name.
func (t DataType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *DataType) UnmarshalText(text []byte) error {
	for i, d := range DataTypes {
		if d.name == string(text) {
			*t = DataType(i)
			return nil
		}
	}
	return fmt.Errorf("no element type is called %q", text)
}

// IsFloat reports whether t is a real floating-point type of at least 16 bits.
func (t DataType) IsFloat() bool {
	return t == Float32 || t == Float16 || t == Float64 || t == BFloat16
}

// IsNumeric reports whether elements of type t are real numbers.
func (t DataType) IsNumeric() bool {
	return t > 0 && int(t) < len(DataTypes) && DataTypes[t].Bits > 0 && t != Complex64 && t != Complex128
}

// Payload returns the bytes that n elements take in raw form, and false where that is not fixed or not known, or does
// not fit an int64.
func (t DataType) Payload(n int64) (int64, bool) {
	if t <= 0 || int(t) >= len(DataTypes) || DataTypes[t].Bits == 0 || n > math.MaxInt64/128 {
		return 0, false
	}
	return (n*DataTypes[t].Bits + 7) / 8, true
}

// Elements returns the product of dims and whether all are known, non-negative and their product fits an int64 with
// room for any element size.
func Elements(dims []int64) (int64, bool) {
	n := int64(1)
	for _, d := range dims {
		if d < 0 || d > math.MaxInt64/128/max(n, 1) {
			return 0, false
		}
		n *= d
	}
	return n, true
}
