package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unsafe"
)

// Type is the element type of a tensor. Its numbers are ONNX's (TensorProto.DataType), which ONNX
// Runtime shares.
type Type int32

// The types that code names; the table below has all.
const (
	Undefined  Type = 0
	Float32    Type = 1
	Uint8      Type = 2
	Int8       Type = 3
	Uint16     Type = 4
	Int16      Type = 5
	Int32      Type = 6
	Int64      Type = 7
	String     Type = 8
	Bool       Type = 9
	Float16    Type = 10
	Float64    Type = 11
	Uint32     Type = 12
	Uint64     Type = 13
	Complex64  Type = 14
	Complex128 Type = 15
	BFloat16   Type = 16
)

// Float16Bits holds IEEE 754 binary16 numbers, each as its 16 bits.
type Float16Bits []uint16

// BFloat16Bits holds bfloat16 numbers, each as its 16 bits: the upper half of the float32.
type BFloat16Bits []uint16

// An entry describes an element type. "" and nil mean that there is none.
type entry struct {
	name   string                         // in NumPy and ONNX
	bits   int64                          // per element; 0 if not fixed
	slice  any                            // the Go slice of elements
	numpy  string                         // kind and size in NumPy's descr
	safe   string                         // in the safetensors format
	triton string                         // in Triton's config.pbtxt
	value  func(element []byte) float64   // of little-endian bytes; see Value
	round  func(float32) (element uint16) // if slice holds bits
}

// types has every element type of ONNX at its number.
var types = [...]entry{
	Undefined:  {name: "undefined"},
	Float32:    {"float32", 32, []float32{}, "f4", "F32", "TYPE_FP32", float32Value, nil},
	Uint8:      {"uint8", 8, []uint8{}, "u1", "U8", "TYPE_UINT8", uint8Value, nil},
	Int8:       {"int8", 8, []int8{}, "i1", "I8", "TYPE_INT8", signed(8), nil},
	Uint16:     {"uint16", 16, []uint16{}, "u2", "U16", "TYPE_UINT16", uint16Value, nil},
	Int16:      {"int16", 16, []int16{}, "i2", "I16", "TYPE_INT16", int16Value, nil},
	Int32:      {"int32", 32, []int32{}, "i4", "I32", "TYPE_INT32", int32Value, nil},
	Int64:      {"int64", 64, []int64{}, "i8", "I64", "TYPE_INT64", int64Value, nil},
	String:     {"string", 0, []string{}, "", "", "TYPE_STRING", nil, nil},
	Bool:       {"bool", 8, []bool{}, "b1", "BOOL", "TYPE_BOOL", uint8Value, nil},
	Float16:    {"float16", 16, Float16Bits{}, "f2", "F16", "TYPE_FP16", float16Value, roundFloat16},
	Float64:    {"float64", 64, []float64{}, "f8", "F64", "TYPE_FP64", float64Value, nil},
	Uint32:     {"uint32", 32, []uint32{}, "u4", "U32", "TYPE_UINT32", uint32Value, nil},
	Uint64:     {"uint64", 64, []uint64{}, "u8", "U64", "TYPE_UINT64", uint64Value, nil},
	Complex64:  {name: "complex64", bits: 64},
	Complex128: {name: "complex128", bits: 128},
	BFloat16:   {"bfloat16", 16, BFloat16Bits{}, "", "BF16", "TYPE_BF16", bfloat16Value, ToBFloat16},
	17:         {name: "float8e4m3fn", bits: 8, value: minifloat{exp: 4, frac: 3, bias: 7, nan: allOnes}.value},
	18:         {name: "float8e4m3fnuz", bits: 8, value: minifloat{exp: 4, frac: 3, bias: 8, nan: negativeZero}.value},
	19:         {name: "float8e5m2", bits: 8, value: float8e5m2Value},
	20:         {name: "float8e5m2fnuz", bits: 8, value: minifloat{exp: 5, frac: 2, bias: 16, nan: negativeZero}.value},
	21:         {name: "uint4", bits: 4, value: uint8Value},
	22:         {name: "int4", bits: 4, value: signed(4)},
	23:         {name: "float4e2m1", bits: 4, value: minifloat{exp: 2, frac: 1, bias: 1, nan: none}.value},
	24:         {name: "float8e8m0", bits: 8, value: powerOfTwo},
	25:         {name: "uint2", bits: 2, value: uint8Value},
	26:         {name: "int2", bits: 2, value: signed(2)},
}

// byName, byGo and the others look up types.
var (
	byName  = index(func(e *entry) any { return e.name })
	byGo    = index(func(e *entry) any { return reflect.TypeOf(e.slice) })
	byNumPy = index(func(e *entry) any { return e.numpy })
	bySafe  = index(func(e *entry) any { return e.safe })
)

func index(key func(*entry) any) map[any]Type {
	m := map[any]Type{}
	for i := range types {
		if k := key(&types[i]); k != "" && k != nil {
			m[k] = Type(i)
		}
	}
	return m
}

// TypeOf returns the type whose elements a Go slice holds, Undefined if there is none.
func TypeOf(slice any) Type { return byGo[reflect.TypeOf(slice)] }

// FromNumPy returns the type of the kind and size in NumPy's descr, such as "f4", Undefined if there is none.
// It excludes strings, whose size is not fixed.
func FromNumPy(descr string) Type { return byNumPy[descr] }

// FromSafetensors returns the type that the safetensors format calls so, such as "F32", Undefined where there is none.
func FromSafetensors(name string) Type { return bySafe[name] }

func (t Type) entry() *entry {
	if t < 0 || int(t) >= len(types) {
		return &types[Undefined]
	}
	return &types[t]
}

// String returns the type's name as NumPy and ONNX write it: float32, uint8, bfloat16.
func (t Type) String() string {
	if t < 0 || int(t) >= len(types) {
		return fmt.Sprintf("type %d", int32(t))
	}
	return types[t].name
}

// MarshalText writes the type's name.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *Type) UnmarshalText(text []byte) error {
	found, ok := byName[string(text)]
	if !ok {
		return fmt.Errorf("there is no element type %q", text)
	}
	*t = found
	return nil
}

// Bits returns the size of an element, 0 if it is not fixed or unknown.
func (t Type) Bits() int64 { return t.entry().bits }

// Bytes returns the bytes of n packed elements, and false if that is not fixed, unknown, or does not fit an
// int64.
func (t Type) Bytes(n int64) (int64, bool) {
	bits := t.Bits()
	if bits == 0 || n > math.MaxInt64/128 {
		return 0, false
	}
	return (n*bits + 7) / 8, true
}

// IsFloat reports whether t is a real floating-point type of at least 16 bits.
func (t Type) IsFloat() bool {
	return t == Float32 || t == Float16 || t == Float64 || t == BFloat16
}

// Make returns a zeroed slice for n elements, or an error for a type that no Go slice holds.
func (t Type) Make(n int) (any, error) {
	slice := reflect.TypeOf(t.entry().slice)
	if slice == nil {
		return nil, fmt.Errorf("inputs of type %s are not supported", t)
	}
	return reflect.MakeSlice(slice, n, n).Interface(), nil
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// View returns the elements of type t whose little-endian bytes are raw, as the slice that Make would return, sharing
// raw's memory. It is nil where that is not possible: for strings, without bytes, or if raw is not aligned for t or the
// machine is not little-endian. Bools must be bytes of 0 or 1.
func (t Type) View(raw []byte) any {
	slice := reflect.TypeOf(t.entry().slice)
	if slice == nil || t == String || len(raw) == 0 || !littleEndian {
		return nil
	}
	size, begin := int(slice.Elem().Size()), unsafe.Pointer(unsafe.SliceData(raw))
	if len(raw)%size != 0 || uintptr(begin)%uintptr(slice.Elem().Align()) != 0 {
		return nil
	}
	return reflect.SliceAt(slice.Elem(), begin, len(raw)/size).Convert(slice).Interface()
}

// Holds reports whether a Go slice can hold elements of type t.
func (t Type) Holds() bool { return t.entry().slice != nil }

// Safetensors returns the name in the safetensors format, "" for a type that it does not have.
func (t Type) Safetensors() string { return t.entry().safe }

// Triton returns the name in Triton's config.pbtxt, "" for a type that its ONNX Runtime backend does not
// support.
func (t Type) Triton() string { return t.entry().triton }

// Value returns a function from an element's little-endian bytes to its value; nil for strings and complex
// numbers. An element of less than a byte is in the low bits of one.
func (t Type) Value() func(element []byte) float64 { return t.entry().value }

// IsBits reports whether slices of t hold the bits of numbers for which Go has no type: see Round.
func (t Type) IsBits() bool { return t.entry().round != nil }

// Round rounds numbers to a type that IsBits, ties to even, into dst, a slice that Make returned. overflow is
// the index of the first finite number that becomes infinite, or -1.
func (t Type) Round(dst any, src []float32) (overflow int) {
	bits := reflect.ValueOf(dst).Convert(reflect.TypeFor[[]uint16]()).Interface().([]uint16)
	round := t.entry().round
	infinity := round(float32(math.Inf(1)))
	overflow = -1
	for i, v := range src {
		if bits[i] = round(v); bits[i]&0x7fff == infinity && v-v == 0 && overflow < 0 {
			overflow = i
		}
	}
	return overflow
}
