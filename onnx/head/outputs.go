package head

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/build"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Output describes what a model itself computes from a head's logits: one of its outputs or, if that
// is a list of maps, the tensor it is made from.
type Output struct {
	Name    string   // of the model's output
	Width   int      // numbers for each example
	Integer bool     // it holds integers, such as the predicted class
	Coarse  bool     // between logits and output, numbers are rounded more coarsely than to float32
	Ops     []string // the types of the operators in between, sorted; none if the output is the logits
}

// WithOutputs returns a model whose outputs are the head's logits [N,K], followed by the model's own
// outputs that are computed from them [N,Width], all as float32. Outputs that are not numeric, do not
// depend on the logits or have an unknown width are left out, and so are those beyond 16. It panics
// if h was not found in m.
func WithOutputs(m *onnx.Model, h *Head) (*onnx.Model, []Output, error) {
	if h.model != m {
		panic("head: WithOutputs with the head of another model")
	}
	const most = 16
	b, in := build.New(m), m.View().Infer()
	logits := h.AddLogits(b)
	outputs := []*onnxpb.ValueInfo{onnxpb.TensorInfo(logits, tensor.Float32, -1, int64(h.Logits))}
	below := m.View().Descendants(h.LogitsTensor)
	var outs []Output
	for _, v := range m.Proto().GetGraph().GetOutput() {
		name := v.GetName()
		if n := m.Graph().Producer[name]; n != nil && n.Op() == "ai.onnx.ml.ZipMap" {
			name = n.In(0)
		}
		o, ok := describeOutput(m, h, in, below, name, v)
		if o.Name = v.GetName(); !ok || len(outs) == most {
			continue
		}
		out := b.Rows(b.Take(name), tensor.Undefined, "mfgs_own") // converted from any type
		outputs = append(outputs, onnxpb.TensorInfo(out, tensor.Float32, -1, int64(o.Width)))
		outs = append(outs, o)
	}
	with, err := b.Build(outputs...)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the model's own outputs: %w", err)
	}
	return with, outs, nil
}

// describeOutput describes an output, or the tensor it is made from.
func describeOutput(m *onnx.Model, h *Head, in *graph.Interpreter, below map[*onnxpb.Node]bool, name string,
	output *onnxpb.ValueInfo) (o Output, ok bool) {
	v := *in.Get(name)
	v.Merge(graph.Declared(output))
	typ, dims := v.Type, v.Dims
	o.Integer = typ == tensor.Int32 || typ == tensor.Int64
	if !o.Integer && !typ.IsFloat() || dims != nil && len(dims) == 0 {
		return o, false
	}
	if o.Width = h.Logits; o.Integer {
		o.Width = 1
	}
	if dims != nil {
		if n, known := onnxpb.Elements(dims[1:]); known && n > 0 && n <= 1<<24 {
			o.Width = int(n)
		}
	}
	if name == h.LogitsTensor {
		return o, true
	}
	made := m.View().Ancestors(name)
	if p := m.View().Producer[name]; p == nil || !below[p] {
		return o, false
	}
	o.Coarse = typ.IsFloat() && typ != tensor.Float32 && typ != tensor.Float64
	for n := range below {
		if !made[n] {
			continue
		}
		op := n.Op()
		if !slices.Contains(o.Ops, op) {
			o.Ops = append(o.Ops, op)
		}
		o.Coarse = o.Coarse || op == "Round" || op == "Floor" || op == "Ceil"
		for _, out := range n.GetOutput() {
			t := in.Get(out).Type
			o.Coarse = o.Coarse || t == tensor.Float16 || t == tensor.BFloat16 || t == tensor.Uint8 ||
				t == tensor.Int8 || t == tensor.Uint16 || t == tensor.Int16
		}
	}
	slices.Sort(o.Ops)
	return o, true
}
