package ort

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	onnx "github.com/yalue/onnxruntime_go"
)

// DType names the element type of a tensor.
type DType string

// The element types that tensors can have. Each stands beside the Go slice that
// holds its values in [Tensor].
const (
	Float32  DType = "float32"  // []float32
	Float64  DType = "float64"  // []float64
	Int8     DType = "int8"     // []int8
	Int16    DType = "int16"    // []int16
	Int32    DType = "int32"    // []int32
	Int64    DType = "int64"    // []int64
	Uint8    DType = "uint8"    // []uint8
	Uint16   DType = "uint16"   // []uint16
	Uint32   DType = "uint32"   // []uint32
	Uint64   DType = "uint64"   // []uint64
	Bool     DType = "bool"     // []bool
	Float16  DType = "float16"  // Float16Bits
	BFloat16 DType = "bfloat16" // BFloat16Bits
	String   DType = "string"   // []string
)

// Float16Bits holds IEEE 754 half-precision numbers, each as its 16 bits.
type Float16Bits []uint16

// BFloat16Bits holds bfloat16 numbers, each as its 16 bits: the upper half of
// the float32.
type BFloat16Bits []uint16

// A Tensor is a named array. Data is one of the slices listed with [DType], in
// row-major order; its length is the product of Shape, which is 1 for a scalar
// (Shape empty).
type Tensor struct {
	Name  string
	Shape []int64
	Data  any
}

// DType returns the element type of t, or "" where t.Data is of no type that a
// tensor can have.
func (t Tensor) DType() DType {
	if k, _ := kindOf(t.Data); k != nil {
		return k.dtype
	}
	return ""
}

// A kind is one element type: how Go slices of it become values of the runtime,
// and back.
type kind struct {
	dtype DType
	code  int32 // TensorProto.DataType, as it stands in a graph
	// length returns len(data), and whether data is a slice of this kind at all.
	length func(data any) (int, bool)
	// alloc returns a zeroed slice for n elements.
	alloc func(n int) any
	// wrap returns a value that shares the memory of data, pinned by p until the
	// value is destroyed.
	wrap func(shape onnx.Shape, data any, p *runtime.Pinner) (onnx.Value, error)
	// unwrap returns the value's elements in Go memory that outlives the value.
	unwrap func(v onnx.Value) (any, bool)
}

var kinds = []*kind{
	numeric[float32](Float32, 1),
	numeric[float64](Float64, 11),
	numeric[int8](Int8, 3),
	numeric[int16](Int16, 5),
	numeric[int32](Int32, 6),
	numeric[int64](Int64, 7),
	numeric[uint8](Uint8, 2),
	numeric[uint16](Uint16, 4),
	numeric[uint32](Uint32, 12),
	numeric[uint64](Uint64, 13),
	numeric[bool](Bool, 9),
	halves[Float16Bits](Float16, 10, onnx.TensorElementDataTypeFloat16),
	halves[BFloat16Bits](BFloat16, 16, onnx.TensorElementDataTypeBFloat16),
	text(String, 8),
}

// kindOf returns the kind of a slice and its length, or nil.
func kindOf(data any) (*kind, int) {
	for _, k := range kinds {
		if n, ok := k.length(data); ok {
			return k, n
		}
	}
	return nil, 0
}

// kindByCode returns the kind with a TensorProto.DataType, or nil.
func kindByCode(code int32) *kind {
	i := slices.IndexFunc(kinds, func(k *kind) bool { return k.code == code })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

func numeric[T onnx.TensorData](d DType, code int32) *kind {
	return &kind{
		dtype:  d,
		code:   code,
		length: func(data any) (int, bool) { s, ok := data.([]T); return len(s), ok },
		alloc:  func(n int) any { return make([]T, n) },
		wrap: func(shape onnx.Shape, data any, p *runtime.Pinner) (onnx.Value, error) {
			s := data.([]T)
			if len(shape) == 0 {
				return onnx.NewScalar(s[0])
			}
			if len(s) > 0 {
				p.Pin(unsafe.SliceData(s))
			}
			return onnx.NewTensor(shape, s)
		},
		unwrap: func(v onnx.Value) (any, bool) {
			switch v := v.(type) {
			case *onnx.Tensor[T]:
				return v.GetData(), true
			case *onnx.Scalar[T]:
				return []T{v.GetData()}, true
			}
			return nil, false
		},
	}
}

// halves is the kind of 16-bit floats, for which the binding has no generic
// tensor: they travel as bytes.
func halves[S ~[]uint16](d DType, code int32, dt onnx.TensorElementDataType) *kind {
	return &kind{
		dtype:  d,
		code:   code,
		length: func(data any) (int, bool) { s, ok := data.(S); return len(s), ok },
		alloc:  func(n int) any { return make(S, n) },
		wrap: func(shape onnx.Shape, data any, p *runtime.Pinner) (onnx.Value, error) {
			s := data.(S)
			if len(shape) == 0 || len(s) == 0 {
				return nil, fmt.Errorf("a scalar or empty %s tensor is not supported", d)
			}
			first := unsafe.SliceData(s)
			p.Pin(first)
			return onnx.NewCustomDataTensor(shape, unsafe.Slice((*byte)(unsafe.Pointer(first)), 2*len(s)), dt)
		},
		unwrap: func(v onnx.Value) (any, bool) {
			t, ok := v.(*onnx.CustomDataTensor)
			if !ok || uint32(t.DataType()) != uint32(dt) {
				return nil, false
			}
			b := t.GetData()
			s := make(S, len(b)/2)
			copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 2*len(s)), b)
			return s, true
		},
	}
}

func text(d DType, code int32) *kind {
	return &kind{
		dtype:  d,
		code:   code,
		length: func(data any) (int, bool) { s, ok := data.([]string); return len(s), ok },
		alloc:  func(n int) any { return make([]string, n) },
		wrap: func(shape onnx.Shape, data any, _ *runtime.Pinner) (onnx.Value, error) {
			t, err := onnx.NewStringTensor(shape)
			if err != nil {
				return nil, err
			}
			if err := t.SetContents(data.([]string)); err != nil {
				t.Destroy()
				return nil, err
			}
			return t, nil
		},
		unwrap: func(v onnx.Value) (any, bool) {
			t, ok := v.(*onnx.StringTensor)
			if !ok {
				return nil, false
			}
			s, err := t.GetContents()
			return s, err == nil
		},
	}
}

// elements returns the product of shape, or an error for a negative dimension
// or a product beyond what memory can hold.
func elements(shape []int64) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension in shape %s", formatShape(shape))
		}
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	for _, d := range shape {
		if n > math.MaxInt64/16/d {
			return 0, fmt.Errorf("shape %s has too many elements", formatShape(shape))
		}
		n *= d
	}
	return n, nil
}

// formatShape writes [N,3,224,224], with N for every dimension that is open.
func formatShape(shape []int64) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range shape {
		if i > 0 {
			b.WriteByte(',')
		}
		if d < 0 {
			b.WriteByte('N')
		} else {
			fmt.Fprint(&b, d)
		}
	}
	b.WriteByte(']')
	return b.String()
}
