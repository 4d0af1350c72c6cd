package dataset

import (
	"fmt"
	"math"
)

// round converts floats that are integers, as NumPy users often store labels.
func round[T float32 | float64](in []T) ([]int, int) {
	out := make([]int, len(in))
	for i, v := range in {
		if float64(v) != math.Trunc(float64(v)) || math.Abs(float64(v)) > 1<<52 {
			return nil, i
		}
		out[i] = int(v)
	}
	return out, -1
}

func widen[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](in []T) []int {
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = int(v)
	}
	return out
}

// toInts converts labels. bad is the index of the first that is not an integer, or -1.
func toInts(data any) (ints []int, bad int) {
	switch d := data.(type) {
	case []uint8:
		return widen(d), -1
	case []int8:
		return widen(d), -1
	case []uint16:
		return widen(d), -1
	case []int16:
		return widen(d), -1
	case []uint32:
		return widen(d), -1
	case []int32:
		return widen(d), -1
	case []int64:
		return widen(d), -1
	case []uint64:
		for i, v := range d {
			if v > math.MaxInt {
				return nil, i
			}
		}
		return widen(d), -1
	case []bool:
		ints = make([]int, len(d))
		for i, v := range d {
			if v {
				ints[i] = 1
			}
		}
		return ints, -1
	case []float32:
		return round(d)
	case []float64:
		return round(d)
	}
	panic(fmt.Sprintf("dataset: labels of type %T", data))
}

// toFloats converts features and logits.
func toFloats(data any) ([]float32, error) {
	switch d := data.(type) {
	case []float32:
		return d, nil
	case []float64:
		return narrow(d), nil
	case []int64: // integers in JSON
		return narrow(d), nil
	case []uint64:
		return narrow(d), nil
	}
	return nil, fmt.Errorf("%T; want real numbers", data)
}

func narrow[T float64 | int64 | uint64](in []T) []float32 {
	out := make([]float32, len(in))
	for i, v := range in {
		out[i] = float32(v)
	}
	return out
}
