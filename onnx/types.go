package onnx

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Dim is one dimension of a shape. Value is -1 if the model leaves it open; then Param is its name, if it has
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

// ValueInfo is the name, element type and shape of a model's input or output. Type is Undefined for sequences
// and maps. Shape is nil if the rank is unknown, and empty for a scalar.
type ValueInfo struct {
	Name  string      `json:"name"`
	Type  tensor.Type `json:"type"`
	Shape []Dim       `json:"shape"`
}

// String returns shape and type, as in "[N,3,224,224] float32".
func (v ValueInfo) String() string {
	if v.Type == tensor.Undefined {
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

func InfoOf(pb *onnxpb.ValueInfo) ValueInfo {
	v := ValueInfo{Name: pb.GetName()}
	t := pb.GetType().GetTensorType()
	v.Type = tensor.Type(t.GetElemType())
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
