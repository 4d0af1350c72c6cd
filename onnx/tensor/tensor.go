// Package tensor has tensors in Go slices, and the one table of their element types: for each [Type] its names
// in ONNX, Go, NumPy and Triton, and how its elements are read.
package tensor

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// A Tensor is a named array. Data is a slice of the Go type that holds the elements ([Type.Make]),
// in row-major order; its length is the product of Shape, which is 1 for a scalar (Shape empty).
type Tensor struct {
	Name  string
	Shape []int64
	Data  any
}

// Type returns the type of t's elements, Undefined if t.Data is not a slice of a tensor's elements.
func (t Tensor) Type() Type { return TypeOf(t.Data) }

// Len returns the number of elements in t.Data, -1 if it is not a slice.
func (t Tensor) Len() int {
	if v := reflect.ValueOf(t.Data); v.Kind() == reflect.Slice {
		return v.Len()
	}
	return -1
}

// Slice returns rows first…last-1 of the first axis, sharing t's memory.
func (t Tensor) Slice(first, last int) Tensor {
	row := t.Len() / int(t.Shape[0])
	t.Data = reflect.ValueOf(t.Data).Slice(first*row, last*row).Interface()
	t.Shape = withRows(t.Shape, last-first)
	return t
}

// Rows returns a copy of the given rows of the first axis.
func (t Tensor) Rows(rows []int) Tensor {
	data := reflect.ValueOf(t.Data)
	row := data.Len() / int(t.Shape[0])
	some := reflect.MakeSlice(data.Type(), 0, len(rows)*row)
	for _, i := range rows {
		some = reflect.AppendSlice(some, data.Slice(i*row, (i+1)*row))
	}
	t.Data, t.Shape = some.Interface(), withRows(t.Shape, len(rows))
	return t
}

// Clone returns a copy of t with data of its own.
func (t Tensor) Clone() Tensor {
	data := reflect.ValueOf(t.Data)
	own := reflect.MakeSlice(data.Type(), data.Len(), data.Len())
	reflect.Copy(own, data)
	t.Data = own.Interface()
	return t
}

// Pad returns a copy of t with its first row repeated until there are n: a row that the network accepts.
func (t Tensor) Pad(n int) Tensor {
	data := reflect.ValueOf(t.Data)
	row := data.Len() / int(t.Shape[0])
	full := reflect.MakeSlice(data.Type(), n*row, n*row)
	for at := reflect.Copy(full, data); at < n*row; at += row {
		reflect.Copy(full.Slice(at, n*row), data.Slice(0, row))
	}
	t.Data, t.Shape = full.Interface(), withRows(t.Shape, n)
	return t
}

func withRows(shape []int64, n int) []int64 { return append([]int64{int64(n)}, shape[1:]...) }

// Elements returns the product of shape, or an error for a negative size or a product too large for memory.
func Elements(shape []int64) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension in shape %s", FormatShape(shape))
		}
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	for _, d := range shape {
		if n > math.MaxInt64/16/d {
			return 0, fmt.Errorf("shape %s has too many elements", FormatShape(shape))
		}
		n *= d
	}
	return n, nil
}

// FormatShape formats [N,3,224,224], with N for open dimensions.
func FormatShape(shape []int64) string {
	dims := make([]string, len(shape))
	for i, d := range shape {
		if dims[i] = "N"; d >= 0 {
			dims[i] = fmt.Sprint(d)
		}
	}
	return "[" + strings.Join(dims, ",") + "]"
}
