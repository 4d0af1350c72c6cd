package arrow

import (
	"encoding/base64"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A leaf describes where the values of a column are stored.
type leaf struct {
	*field
	index  int // among the file's leaves
	column *pqschema.Column
	// nulls says for each definition level below the largest whether it means a null, and not an empty
	// list.
	nulls []bool
}

// leavesOf describes the columns of a file. Columns that cannot be read have no type.
func leavesOf(meta *metadata.FileMetaData) []leaf {
	root := meta.Schema.Root()
	leaves := make([]leaf, root.NumFields())
	next := 0
	for i := range leaves {
		node := root.Field(i)
		leaves[i] = leafOf(meta.Schema, node, next)
		next += countLeaves(node)
	}
	fields := make([]field, len(leaves))
	for i := range leaves {
		fields[i] = *leaves[i].field
	}
	// The writer may have recorded types that Parquet lacks.
	if text := meta.KeyValueMetadata().FindValue("ARROW:schema"); text != nil {
		addShapes(fields, *text)
	}
	if text := meta.KeyValueMetadata().FindValue(huggingFace); text != nil {
		describe(fields, *text)
	}
	for i := range leaves {
		leaves[i].field = &fields[i]
	}
	return leaves
}

func countLeaves(node pqschema.Node) int {
	g, ok := node.(*pqschema.GroupNode)
	if !ok {
		return 1
	}
	n := 0
	for i := range g.NumFields() {
		n += countLeaves(g.Field(i))
	}
	return n
}

// leafOf describes the column whose first leaf has the given index.
func leafOf(schema *pqschema.Schema, node pqschema.Node, index int) leaf {
	f := &field{name: node.Name(), what: "records"}
	l := leaf{field: f, index: index}
	var nulls []bool
	wrapped := false
	for {
		switch node.RepetitionType() {
		case parquet.Repetitions.Repeated:
			f.depth++
			nulls = append(nulls, false)
		case parquet.Repetitions.Optional:
			nulls = append(nulls, true)
		}
		g, ok := node.(*pqschema.GroupNode)
		if !ok {
			break
		}
		switch at := g.FieldIndexByName(imageBytes); {
		case at >= 0 && f.depth == 0:
			for i := range at {
				l.index += countLeaves(g.Field(i))
			}
			node, wrapped = g.Field(at), true
		case g.NumFields() == 1:
			node = g.Field(0)
		default:
			return l
		}
	}
	l.column, l.nulls = schema.Column(l.index), nulls
	primitive := node.(*pqschema.PrimitiveNode)
	f.elem, f.bytes = elementOf(primitive)
	f.bytes = f.bytes && f.depth == 0
	if wrapped && !f.bytes || f.depth > maxDims {
		f.elem = tensor.Undefined
	}
	f.what = primitive.PhysicalType().String()
	if t := primitive.LogicalType(); t != nil && t.IsValid() && !t.IsNone() {
		f.what = t.String()
	}
	for range f.depth {
		f.what = "list<" + f.what + ">"
	}
	return l
}

// elementOf returns the type of a leaf's values, or whether they are bytes.
func elementOf(p *pqschema.PrimitiveNode) (elem tensor.Type, bytes bool) {
	logical := p.LogicalType()
	if logical == nil || !logical.IsValid() || logical.IsNone() {
		logical = p.ConvertedType().ToLogicalType(p.DecimalMetadata())
	}
	plain := logical == nil || logical.IsNone() || !logical.IsValid()
	integer, isInteger := logical.(pqschema.IntLogicalType)
	if isInteger {
		bits, signed := integer.BitWidth(), integer.IsSigned()
		if bits > 32 != (p.PhysicalType() == parquet.Types.Int64) {
			return tensor.Undefined, false
		}
		return wholeTypes[bits][signed], false
	}
	switch t := p.PhysicalType(); {
	case t == parquet.Types.ByteArray:
		switch logical.(type) {
		case pqschema.StringLogicalType, *pqschema.StringLogicalType, pqschema.EnumLogicalType,
			*pqschema.EnumLogicalType, pqschema.JSONLogicalType, *pqschema.JSONLogicalType:
			return tensor.String, false
		}
		return tensor.Undefined, plain
	case t == parquet.Types.FixedLenByteArray && p.TypeLength() == 2:
		switch logical.(type) {
		case pqschema.Float16LogicalType, *pqschema.Float16LogicalType:
			return tensor.Float16, false
		}
		return tensor.Undefined, false
	case !plain:
		return tensor.Undefined, false // decimals, dates and times
	default:
		return physical[t], false
	}
}

var physical = map[parquet.Type]tensor.Type{
	parquet.Types.Boolean: tensor.Bool, parquet.Types.Int32: tensor.Int32, parquet.Types.Int64: tensor.Int64,
	parquet.Types.Float: tensor.Float32, parquet.Types.Double: tensor.Float64,
}

var wholeTypes = map[int8]map[bool]tensor.Type{
	8: {true: tensor.Int8, false: tensor.Uint8}, 16: {true: tensor.Int16, false: tensor.Uint16},
	32: {true: tensor.Int32, false: tensor.Uint32}, 64: {true: tensor.Int64, false: tensor.Uint64},
}

// addShapes adds the shapes of lists from the Arrow schema that the file was written with.
func addShapes(fields []field, text string) {
	message, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return
	}
	written, err := decodeSchema(message)
	if err != nil || written.NumFields() != len(fields) {
		return // optional: the columns have types of their own
	}
	for i, w := range written.Fields() {
		if f := fieldOf(w); f.name == fields[i].name && f.depth == fields[i].depth {
			fields[i].shape = f.shape
		}
	}
}
