package featurize

import (
	"fmt"
	"math"
	"reflect"

	"github.com/mfgs/mfgs/featurize/ort"
)

// length returns the number of elements of a tensor's data, or -1 if it is no slice.
func length(data any) int {
	v := reflect.ValueOf(data)
	if v.Kind() != reflect.Slice {
		return -1
	}
	return v.Len()
}

// slice returns examples first to last of t, sharing its memory.
func slice(t ort.Tensor, first, last int) ort.Tensor {
	n := int(t.Shape[0])
	if first == 0 && last == n {
		return t
	}
	v := reflect.ValueOf(t.Data)
	row := v.Len() / n
	return ort.Tensor{Name: t.Name, Shape: withBatch(t.Shape, last-first), Data: v.Slice(first*row, last*row).Interface()}
}

// pad returns t with its first example repeated up to n: whatever the network
// checks, that one passes.
func pad(t ort.Tensor, n int) ort.Tensor {
	v := reflect.ValueOf(t.Data)
	row := v.Len() / int(t.Shape[0])
	full := reflect.MakeSlice(v.Type(), n*row, n*row)
	for at := reflect.Copy(full, v); at < n*row; at += row {
		reflect.Copy(full.Slice(at, n*row), v.Slice(0, row))
	}
	return ort.Tensor{Name: t.Name, Shape: withBatch(t.Shape, n), Data: full.Interface()}
}

func withBatch(shape []int64, n int) []int64 {
	s := append([]int64{int64(n)}, shape[1:]...)
	return s
}

// alloc returns a zeroed slice for n elements of a type as named by ONNX.
func alloc(elem string, n int) (any, error) {
	switch elem {
	case "float32":
		return make([]float32, n), nil
	case "float64":
		return make([]float64, n), nil
	case "uint8":
		return make([]uint8, n), nil
	case "int8":
		return make([]int8, n), nil
	case "uint16":
		return make([]uint16, n), nil
	case "int16":
		return make([]int16, n), nil
	case "int32":
		return make([]int32, n), nil
	case "int64":
		return make([]int64, n), nil
	case "uint32":
		return make([]uint32, n), nil
	case "uint64":
		return make([]uint64, n), nil
	case "bool":
		return make([]bool, n), nil
	case "float16":
		return make(ort.Float16Bits, n), nil
	case "bfloat16":
		return make(ort.BFloat16Bits, n), nil
	case "string":
		return make([]string, n), nil
	}
	return nil, fmt.Errorf("inputs of type %s are not supported", elem)
}

// bfloat16 rounds to the nearest number of 8 bits of precision, ties to even.
func bfloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40 // quiet, so that cutting leaves a NaN
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// float16 rounds to the nearest half-precision number, ties to even (IEEE 754).
func float16(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	exp := int(bits>>23&0xff) - 127 + 15
	frac := bits & 0x7fffff
	switch {
	case bits&0x7fffffff > 0x7f800000: // NaN
		return sign | 0x7e00
	case exp >= 31:
		return sign | 0x7c00 // infinity
	case exp < -10:
		return sign // below half the least subnormal
	}
	shift := 13
	if exp <= 0 { // subnormal: the leading one becomes explicit
		frac |= 0x800000
		shift += 1 - exp
		exp = 0
	}
	out := uint32(exp)<<10 + frac>>shift
	rest, half := frac&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > half || (rest == half && out&1 == 1) {
		out++ // may carry into the exponent, which is right
	}
	return sign | uint16(out)
}
