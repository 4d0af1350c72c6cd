package onnx

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

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

var dataTypes = [...]struct {
	name string
	bits int64 // 0: of no fixed size
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
	if t >= 0 && int(t) < len(dataTypes) {
		return dataTypes[t].name
	}
	return fmt.Sprintf("type %d", int32(t))
}

// MarshalText writes the type's name.
func (t DataType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *DataType) UnmarshalText(text []byte) error {
	for i, d := range dataTypes {
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

// payload returns the bytes that n elements take in raw form, and false where that is not fixed or not known, or does
// not fit an int64.
func (t DataType) payload(n int64) (int64, bool) {
	if t <= 0 || int(t) >= len(dataTypes) || dataTypes[t].bits == 0 || n > math.MaxInt64/128 {
		return 0, false
	}
	return (n*dataTypes[t].bits + 7) / 8, true
}

// Dim is one dimension of a shape. Value is -1 where the model leaves it open, and Param is then its name, if it has
// one.
type Dim struct {
	Value int64
	Param string
}

// String returns the number, the name, or "?".
func (d Dim) String() string {
	switch {
	case d.Value >= 0:
		return fmt.Sprint(d.Value)
	case d.Param != "":
		return d.Param
	}
	return "?"
}

// MarshalJSON writes a known dimension as a number, a named one as a string, and any other as -1.
func (d Dim) MarshalJSON() ([]byte, error) {
	if d.Value < 0 && d.Param != "" {
		return json.Marshal(d.Param)
	}
	return json.Marshal(max(d.Value, -1))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Dim) UnmarshalJSON(data []byte) error {
	*d = Dim{Value: -1}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &d.Param)
	}
	return json.Unmarshal(data, &d.Value)
}

// ValueInfo is the name, element type and shape of a model's input or output. Type is Undefined for what is not a
// tensor (sequences and maps). Shape is nil where the model does not give the rank, and empty for a scalar.
type ValueInfo struct {
	Name  string   `json:"name"`
	Type  DataType `json:"type"`
	Shape []Dim    `json:"shape"`
}

// String returns shape and type, as in "[N,3,224,224] float32".
func (v ValueInfo) String() string {
	if v.Type == Undefined {
		return "not a tensor"
	}
	if v.Shape == nil {
		return "[…] " + v.Type.String()
	}
	dims := make([]string, len(v.Shape))
	for i, d := range v.Shape {
		dims[i] = d.String()
	}
	return "[" + strings.Join(dims, ",") + "] " + v.Type.String()
}

func valueInfo(pb *onnxpb.ValueInfo) ValueInfo {
	v := ValueInfo{Name: pb.GetName()}
	t := pb.GetType().GetTensorType()
	v.Type = DataType(t.GetElemType())
	if t.GetShape() == nil {
		return v
	}
	v.Shape = make([]Dim, len(t.GetShape().GetDim()))
	for i, d := range t.GetShape().GetDim() {
		v.Shape[i] = Dim{Value: -1, Param: d.GetDimParam()}
		if n, ok := d.GetValue().(*onnxpb.Dimension_DimValue); ok && n.DimValue >= 0 {
			v.Shape[i].Value = n.DimValue
		}
	}
	return v
}

// elements returns the product of dims and whether all are known, non-negative and their product fits an int64 with
// room for any element size.
func elements(dims []int64) (int64, bool) {
	n := int64(1)
	for _, d := range dims {
		if d < 0 || d > math.MaxInt64/128/max(n, 1) {
			return 0, false
		}
		n *= d
	}
	return n, true
}
