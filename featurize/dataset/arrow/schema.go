package arrow

import (
	"encoding/json"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A field describes a column of a file. Numbers, booleans and strings are single or in nested lists; bytes are
// single.
type field struct {
	name  string
	elem  tensor.Type // Undefined for bytes, and for unsupported types
	bytes bool        // an image file, perhaps wrapped as {bytes, path}
	depth int         // of lists
	shape []int       // of one example, nil if open
	names []string    // of classes, in the order of their numbers; nil for none
	what  string      // its type, for messages
}

// usable reports whether the column can be a model's input.
func (f *field) usable() bool { return f.elem != tensor.Undefined }

// scalar reports whether an example has one number or boolean.
func (f *field) scalar() bool { return f.usable() && f.depth == 0 && f.elem != tensor.String }

// elems maps Arrow's types to element types.
var elems = map[arrow.Type]tensor.Type{
	arrow.BOOL: tensor.Bool, arrow.FLOAT16: tensor.Float16, arrow.FLOAT32: tensor.Float32,
	arrow.FLOAT64: tensor.Float64,
	arrow.INT8:    tensor.Int8, arrow.INT16: tensor.Int16, arrow.INT32: tensor.Int32, arrow.INT64: tensor.Int64,
	arrow.UINT8: tensor.Uint8, arrow.UINT16: tensor.Uint16, arrow.UINT32: tensor.Uint32, arrow.UINT64: tensor.Uint64,
	arrow.STRING: tensor.String, arrow.LARGE_STRING: tensor.String, arrow.STRING_VIEW: tensor.String,
}

// fieldOf describes a column of an Arrow schema.
func fieldOf(f arrow.Field) field {
	out := field{name: f.Name, what: f.Type.String()}
	fixed, shape := true, []int{}
	t := storage(f.Type)
	for {
		list, ok := t.(arrow.ListLikeType)
		if !ok {
			break
		}
		switch l := t.(type) {
		case *arrow.ListType, *arrow.LargeListType:
			fixed = false
		case *arrow.FixedSizeListType:
			shape = append(shape, int(l.Len()))
		default: // maps, and views of lists
			return out
		}
		out.depth++
		t = storage(list.Elem())
	}
	if d, ok := t.(*arrow.DictionaryType); ok && out.depth == 0 {
		t = storage(d.ValueType)
	}
	if s, ok := t.(*arrow.StructType); ok {
		i, ok := s.FieldIdx(imageBytes)
		if !ok || out.depth > 0 {
			return out
		}
		t = storage(s.Field(i).Type)
	}
	switch t.ID() {
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW:
		out.bytes = out.depth == 0
	default:
		out.elem = elems[t.ID()]
	}
	if out.depth > 0 && fixed {
		out.shape = shape
	}
	if tensorShape := extensionShape(f); tensorShape != nil && out.shape != nil {
		out.shape = tensorShape
	}
	return out
}

// storage returns the storage type of an extension.
func storage(t arrow.DataType) arrow.DataType {
	for {
		e, ok := t.(arrow.ExtensionType)
		if !ok {
			return t
		}
		t = e.StorageType()
	}
}

const (
	// imageBytes is the field with the file in Hugging Face's images.
	imageBytes = "bytes"

	extensionName     = "ARROW:extension:name"
	extensionMetadata = "ARROW:extension:metadata"
	fixedShapeTensor  = "arrow.fixed_shape_tensor"
)

// extensionShape returns the shape of a fixed-shape tensor, nil for other columns and for permuted axes.
func extensionShape(f arrow.Field) []int {
	if name, _ := f.Metadata.GetValue(extensionName); name != fixedShapeTensor {
		return nil
	}
	text, _ := f.Metadata.GetValue(extensionMetadata)
	var m struct {
		Shape       []int `json:"shape"`
		Permutation []int `json:"permutation"`
	}
	if json.Unmarshal([]byte(text), &m) != nil || !positive(m.Shape) || !slices.IsSorted(m.Permutation) {
		return nil
	}
	return m.Shape
}

// positive reports whether a shape has positive sizes and not too many elements.
func positive(shape []int) bool {
	n := 1
	for _, d := range shape {
		if d <= 0 || d > dataset.MaxItem/n {
			return false
		}
		n *= d
	}
	return len(shape) <= maxDims
}

// huggingFace is the metadata key of Hugging Face's column descriptions.
const huggingFace = "huggingface"

// describe adds Hugging Face's descriptions to the columns.
func describe(fields []field, metadata string) {
	var m struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(metadata), &m) != nil {
		return // optional: the columns have types of their own
	}
	for i := range fields {
		f := &fields[i]
		var feature struct {
			Type  string   `json:"_type"`
			Names []string `json:"names"`
			Shape []int    `json:"shape"`
		}
		if json.Unmarshal(m.Info.Features[f.name], &feature) != nil {
			continue
		}
		switch feature.Type {
		case "ClassLabel":
			if f.depth == 0 && f.elem != tensor.String {
				f.names = feature.Names
			}
		case "Array2D", "Array3D", "Array4D", "Array5D":
			if len(feature.Shape) == f.depth && positive(feature.Shape) {
				f.shape = feature.Shape
			}
		}
	}
}
