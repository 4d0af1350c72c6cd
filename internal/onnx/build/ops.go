package build

import (
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Op appends a node of the default domain with several inputs, and returns its output.
func (b *Builder) Op(op string, in []string, out string, attributes ...*onnxpb.Attribute) string {
	out = b.Names.Fresh(out)
	b.Nodes = append(b.Nodes,
		&onnxpb.Node{OpType: &op, Name: &out, Input: in, Output: []string{out}, Attribute: attributes})
	return out
}

// Reduce appends a node that reduces axes, which became an input in operator set 13 for ReduceSum and in 18 for the
// others.
func (b *Builder) Reduce(op, in, out string, keep bool, axes ...int64) string {
	kept := onnxpb.IntAttribute("keepdims", 0)
	if keep {
		kept = onnxpb.IntAttribute("keepdims", 1)
	}
	if opset := b.Model.Opset(); opset >= 18 || op == "ReduceSum" && opset >= 13 {
		return b.Op(op, []string{in, b.Ints(axes...)}, out, kept)
	}
	return b.Op(op, []string{in}, out, kept, onnxpb.IntsAttribute("axes", axes...))
}

// Scalar returns a constant of rank 0.
func (b *Builder) Scalar(typ tensor.Type, v float64) string {
	t := b.constant("mfgs_number", typ)
	switch typ {
	case tensor.Float64:
		t.DoubleData = []float64{v}
	case tensor.Int64:
		t.Int64Data = []int64{int64(v)}
	default:
		t.FloatData = []float32{float32(v)}
	}
	return t.GetName()
}

// Ints returns a constant of rank 1.
func (b *Builder) Ints(x ...int64) string {
	t := b.constant("mfgs_ints", tensor.Int64)
	t.Dims = []int64{int64(len(x))}
	for _, v := range x {
		t.RawData = binary.LittleEndian.AppendUint64(t.RawData, uint64(v))
	}
	return t.GetName()
}

func (b *Builder) constant(name string, typ tensor.Type) *onnxpb.Tensor {
	t := &onnxpb.Tensor{Name: proto.String(b.Names.Fresh(name)), DataType: proto.Int32(int32(typ))}
	b.Consts = append(b.Consts, t)
	return t
}
