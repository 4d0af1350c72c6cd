package arrow

import (
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// An arrayColumn reads the rows of a column of a batch. Offsets in the batch are not checked before: one that
// is out of bounds panics, which guarded turns into an error.
type arrayColumn struct {
	array arrow.Array
	field *field
	at    int
}

func (c *arrayColumn) skip(rows int) error {
	c.at += rows
	return nil
}

func (c *arrayColumn) next() (cell, error) {
	if c.at >= c.array.Len() {
		return cell{}, io.EOF
	}
	c.at++
	return c.row(c.at - 1)
}

// stored returns the storage of an extension array.
func stored(a arrow.Array) arrow.Array {
	for {
		e, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = e.Storage()
	}
}

func (c *arrayColumn) row(i int) (cell, error) {
	a := stored(c.array)
	if a.IsNull(i) {
		return cell{null: true}, nil
	}
	switch t := a.(type) {
	case *array.Dictionary:
		at := t.GetValueIndex(i)
		if a = stored(t.Dictionary()); at < 0 || at >= a.Len() {
			return cell{}, fmt.Errorf("row %d refers to entry %d of a dictionary of %d", i, at, a.Len())
		}
		if i = at; a.IsNull(i) {
			return cell{null: true}, nil
		}
	case *array.Struct:
		at, _ := t.DataType().(*arrow.StructType).FieldIdx(imageBytes)
		if a = stored(t.Field(at)); a.IsNull(i) {
			return cell{null: true}, nil
		}
	}
	if c.field.bytes {
		b, err := bytesAt(a, i)
		return cell{data: b}, err
	}
	var shape []int
	from, to := i, i+1
	for range c.field.depth {
		list, ok := a.(array.ListLike)
		if !ok {
			return cell{}, fmt.Errorf("a %s, and no list", a.DataType())
		}
		n := -1
		begin, end := int64(0), int64(0)
		for j := from; j < to; j++ {
			if j > i && a.IsNull(j) || len(shape) > 0 && a.IsNull(j) {
				return cell{bad: errNullInList}, nil
			}
			s, e := list.ValueOffsets(j)
			if j == from {
				begin, end = s, s
			}
			if s != end || e < s || e > int64(list.ListValues().Len()) {
				return cell{}, fmt.Errorf("a list from %d to %d of %d values", s, e, list.ListValues().Len())
			}
			if n < 0 {
				n = int(e - s)
			}
			if n != int(e-s) {
				return cell{bad: errRagged}, nil
			}
			end = e
		}
		if n <= 0 && len(shape) > 0 {
			return cell{bad: errEmpty}, nil
		}
		shape = append(shape, max(n, 0))
		from, to, a = int(begin), int(end), stored(list.ListValues())
	}
	if c.field.depth > 1 && to == from {
		return cell{bad: errEmpty}, nil
	}
	return c.values(a, from, to, shape)
}

// values copies elements.
func (c *arrayColumn) values(a arrow.Array, from, to int, shape []int) (cell, error) {
	if to-from > dataset.MaxItem/8 || c.field.elem == tensor.String && to-from > dataset.MaxStrings {
		return cell{}, fmt.Errorf("%d elements in a row", to-from)
	}
	if a.NullN() != 0 {
		for i := from; i < to; i++ {
			if a.IsNull(i) {
				return cell{bad: errNullInList}, nil
			}
		}
	}
	var data any
	switch t := a.(type) {
	case *array.Boolean:
		out := make([]bool, to-from)
		for i := range out {
			out[i] = t.Value(from + i)
		}
		data = out
	case *array.Int8:
		data = slices.Clone(t.Int8Values()[from:to])
	case *array.Int16:
		data = slices.Clone(t.Int16Values()[from:to])
	case *array.Int32:
		data = slices.Clone(t.Int32Values()[from:to])
	case *array.Int64:
		data = slices.Clone(t.Int64Values()[from:to])
	case *array.Uint8:
		data = slices.Clone(t.Uint8Values()[from:to])
	case *array.Uint16:
		data = slices.Clone(t.Uint16Values()[from:to])
	case *array.Uint32:
		data = slices.Clone(t.Uint32Values()[from:to])
	case *array.Uint64:
		data = slices.Clone(t.Uint64Values()[from:to])
	case *array.Float32:
		data = slices.Clone(t.Float32Values()[from:to])
	case *array.Float64:
		data = slices.Clone(t.Float64Values()[from:to])
	case *array.Float16:
		data = halves(t.Values()[from:to])
	case array.StringLike:
		out := make([]string, to-from)
		for i := range out {
			out[i] = string([]byte(t.Value(from + i)))
		}
		data = out
	default:
		return cell{}, fmt.Errorf("a column of type %s where its schema says %s", a.DataType(), c.field.what)
	}
	return cell{data: data, shape: shape}, nil
}

func halves(in []float16.Num) []float32 {
	out := make([]float32, len(in))
	for i, v := range in {
		out[i] = tensor.FromFloat16(v.Uint16())
	}
	return out
}

func bytesAt(a arrow.Array, i int) ([]byte, error) {
	if b, ok := a.(interface{ Value(int) []byte }); ok {
		return append([]byte{}, b.Value(i)...), nil
	}
	return nil, fmt.Errorf("a %s, and no bytes", a.DataType())
}
