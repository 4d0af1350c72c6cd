package ort

import (
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	onnx "github.com/yalue/onnxruntime_go"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// A carrier converts slices of one element type to the runtime's values, and back.
type carrier struct {
	// wrap returns a value that shares the memory of data, which p pins until the value is destroyed.
	wrap func(shape onnx.Shape, data any, p *runtime.Pinner) (onnx.Value, error)
	// unwrap returns the value's elements in Go memory that stays valid after the value is destroyed.
	unwrap func(v onnx.Value) (any, bool)
}

// carriers are for strings and Go's own types, for which the binding has generic tensors.
var carriers = map[tensor.Type]carrier{
	tensor.Float32: numeric[float32](),
	tensor.Float64: numeric[float64](),
	tensor.Int8:    numeric[int8](),
	tensor.Int16:   numeric[int16](),
	tensor.Int32:   numeric[int32](),
	tensor.Int64:   numeric[int64](),
	tensor.Uint8:   numeric[uint8](),
	tensor.Uint16:  numeric[uint16](),
	tensor.Uint32:  numeric[uint32](),
	tensor.Uint64:  numeric[uint64](),
	tensor.Bool:    numeric[bool](),
	tensor.String:  {wrapStrings, unwrapStrings},
}

// carrierOf returns the carrier of a type that Go slices hold: bits are carried as bytes.
func carrierOf(t tensor.Type) carrier {
	if c, ok := carriers[t]; ok {
		return c
	}
	return bits(t)
}

func numeric[T onnx.TensorData]() carrier {
	return carrier{
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

// bits carries elements for which Go has no type. The runtime numbers types as ONNX does.
func bits(t tensor.Type) carrier {
	return carrier{
		wrap: func(shape onnx.Shape, data any, p *runtime.Pinner) (onnx.Value, error) {
			b := bytesOf(data)
			if len(shape) == 0 || len(b) == 0 {
				return nil, fmt.Errorf("a scalar or empty %s tensor is not supported", t)
			}
			p.Pin(unsafe.SliceData(b))
			return onnx.NewCustomDataTensor(shape, b, onnx.TensorElementDataType(t))
		},
		unwrap: func(v onnx.Value) (any, bool) {
			c, ok := v.(*onnx.CustomDataTensor)
			if !ok || tensor.Type(c.DataType()) != t {
				return nil, false
			}
			b := c.GetData()
			data, err := t.Make(len(b) * 8 / int(t.Bits()))
			if err != nil {
				return nil, false
			}
			copy(bytesOf(data), b)
			return data, true
		},
	}
}

// bytesOf returns the memory of a slice of numbers.
func bytesOf(data any) []byte {
	v := reflect.ValueOf(data)
	return unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*int(v.Type().Elem().Size()))
}

func wrapStrings(shape onnx.Shape, data any, _ *runtime.Pinner) (onnx.Value, error) {
	t, err := onnx.NewStringTensor(shape)
	if err != nil {
		return nil, err
	}
	if err := t.SetContents(data.([]string)); err != nil {
		t.Destroy()
		return nil, err
	}
	return t, nil
}

func unwrapStrings(v onnx.Value) (any, bool) {
	t, ok := v.(*onnx.StringTensor)
	if !ok {
		return nil, false
	}
	s, err := t.GetContents()
	return s, err == nil
}
