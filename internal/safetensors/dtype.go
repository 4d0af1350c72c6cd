package safetensors

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// rising lists the element types of the format in the order by which the reference implementation sorts.
var rising = []tensor.Type{
	tensor.Bool, tensor.Uint8, tensor.Int8,
	tensor.Int16, tensor.Uint16, tensor.Float16, tensor.BFloat16,
	tensor.Int32, tensor.Uint32, tensor.Float32,
	tensor.Float64, tensor.Int64, tensor.Uint64,
}

func rank(t tensor.Type) int { return slices.Index(rising, t) }

// size is the size of an element in bytes, 0 if the format does not have the type.
func size(t tensor.Type) int {
	if t.Safetensors() == "" {
		return 0
	}
	return int(t.Bits() / 8)
}

// Element is a Go type that tensors are read into and written from.
type Element interface {
	float64 | float32 | int64
}

// decode converts little-endian bytes to len(dst) numbers. [binary.Decode] does the same, several times slower.
func decode[T Element](dst []T, src []byte) {
	le := binary.LittleEndian
	switch dst := any(dst).(type) {
	case []float64:
		for i := range dst {
			dst[i] = math.Float64frombits(le.Uint64(src[8*i:]))
		}
	case []float32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		}
	case []int64:
		for i := range dst {
			dst[i] = int64(le.Uint64(src[8*i:]))
		}
	}
}

// encode appends src to dst as little-endian bytes.
func encode[T Element](dst []byte, src []T) []byte {
	dst = slices.Grow(dst, len(src)*size(tensor.TypeOf(src)))
	le := binary.LittleEndian
	switch src := any(src).(type) {
	case []float64:
		for _, v := range src {
			dst = le.AppendUint64(dst, math.Float64bits(v))
		}
	case []float32:
		for _, v := range src {
			dst = le.AppendUint32(dst, math.Float32bits(v))
		}
	case []int64:
		for _, v := range src {
			dst = le.AppendUint64(dst, uint64(v))
		}
	}
	return dst
}
