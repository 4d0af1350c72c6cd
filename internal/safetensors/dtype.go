package safetensors

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// A DType is the type of a tensor's elements, by its name in the file.
type DType string

// The types of elements.
const (
	Bool DType = "BOOL" // one byte, 0 or 1
	U8   DType = "U8"
	I8   DType = "I8"
	I16  DType = "I16"
	U16  DType = "U16"
	F16  DType = "F16"  // IEEE 754 binary16
	BF16 DType = "BF16" // the upper half of an F32
	I32  DType = "I32"
	U32  DType = "U32"
	F32  DType = "F32"
	F64  DType = "F64"
	I64  DType = "I64"
	U64  DType = "U64"
)

// dtypes holds every type and its size in bytes, in the rising order by which
// the reference implementation sorts.
var dtypes = []struct {
	dtype DType
	size  int
}{
	{Bool, 1}, {U8, 1}, {I8, 1},
	{I16, 2}, {U16, 2}, {F16, 2}, {BF16, 2},
	{I32, 4}, {U32, 4}, {F32, 4},
	{F64, 8}, {I64, 8}, {U64, 8},
}

// rank is the place of d in dtypes, −1 if it is unknown.
func (d DType) rank() int {
	for i, t := range dtypes {
		if t.dtype == d {
			return i
		}
	}
	return -1
}

// Size is the size of an element in bytes, 0 if d is unknown.
func (d DType) Size() int {
	if i := d.rank(); i >= 0 {
		return dtypes[i].size
	}
	return 0
}

// Element is a Go type that tensors are read into and written from.
type Element interface {
	float64 | float32 | int64
}

// native is the dtype that holds T as it is.
func native[T Element]() DType {
	switch any(*new(T)).(type) {
	case float64:
		return F64
	case float32:
		return F32
	default:
		return I64
	}
}

// lossless lists the dtypes every value of which is a T.
func lossless[T Element]() []DType {
	switch native[T]() {
	case F64:
		return []DType{F64, F32, F16, BF16}
	case F32:
		return []DType{F32, F16, BF16}
	default:
		return []DType{I64, I32, I16, I8, U32, U16, U8}
	}
}

// decode converts len(dst) elements of type d, one of lossless[T], from src.
func decode[T Element](dst []T, d DType, src []byte) {
	le := binary.LittleEndian
	switch d {
	case F64:
		for i := range dst {
			dst[i] = T(math.Float64frombits(le.Uint64(src[8*i:])))
		}
	case F32:
		for i := range dst {
			dst[i] = T(math.Float32frombits(le.Uint32(src[4*i:])))
		}
	case F16:
		for i := range dst {
			dst[i] = T(tensor.FromFloat16(le.Uint16(src[2*i:])))
		}
	case BF16:
		for i := range dst {
			dst[i] = T(math.Float32frombits(uint32(le.Uint16(src[2*i:])) << 16))
		}
	case I64:
		for i := range dst {
			dst[i] = T(int64(le.Uint64(src[8*i:])))
		}
	case I32:
		for i := range dst {
			dst[i] = T(int32(le.Uint32(src[4*i:])))
		}
	case I16:
		for i := range dst {
			dst[i] = T(int16(le.Uint16(src[2*i:])))
		}
	case I8:
		for i := range dst {
			dst[i] = T(int8(src[i]))
		}
	case U32:
		for i := range dst {
			dst[i] = T(le.Uint32(src[4*i:]))
		}
	case U16:
		for i := range dst {
			dst[i] = T(le.Uint16(src[2*i:]))
		}
	case U8:
		for i := range dst {
			dst[i] = T(src[i])
		}
	default:
		panic("safetensors: decode of " + string(d))
	}
}

// encode appends src to dst in the dtype native[T].
func encode[T Element](dst []byte, src []T) []byte {
	dst = slices.Grow(dst, len(src)*native[T]().Size())
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
