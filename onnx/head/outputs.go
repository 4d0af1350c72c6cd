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

	// Of a head with steps: the lengths of the output's axes, and the one of the classes, noClass if there is none.
	dims  []int64
	class int
}

// WithOutputs returns a model whose outputs are the head's logits [N,K], followed by the model's own
// outputs that are computed from them [N,Width], all as float32. Outputs that are not numeric, do not
// depend on the logits or have an unknown width are left out, and so are those beyond 16. Of a head with steps
// these are those of the first step of each example, also of a model that was unrolled, and there are none if the
// model merges the steps of all. It panics if h was not found in m.
func WithOutputs(m *onnx.Model, h *Head) (*onnx.Model, []Output, error) {
	if h.model != m {
		panic("head: WithOutputs with the head of another model")
	}
	const most = 16
	of := h // the head in the model as it was given, which has these outputs
	if h.origin != nil {
		of = h.origin
	}
	if of.layout.merged {
		return nil, nil, nil
	}
	b, in := build.New(m), of.model.View().Infer()
	logits := ""
	if h.Steps > 0 {
		first := firstStep(b, b.Take(h.LogitsTensor), len(h.logitsValue.Dims), h.layout.class, false)
		logits = b.Rows(first, h.logitsValue.Type, CutLogits)
	} else {
		logits = h.AddLogits(b, tensor.Float64)
	}
	outputs := []*onnxpb.ValueInfo{onnxpb.TensorInfo(logits, tensor.Float32, -1, int64(h.Logits))}
	below := of.model.View().Descendants(h.LogitsTensor)
	var outs []Output
	for _, v := range of.model.Proto().GetGraph().GetOutput() {
		name := v.GetName()
		if n := of.model.Graph().Producer[name]; n != nil && n.Op() == "ai.onnx.ml.ZipMap" {
			name = n.In(0)
		}
		o, ok := describeOutput(of.model, of, in, below, name, v)
		if o.Name = v.GetName(); !ok || len(outs) == most || of != h && !overSteps(m, name) {
			continue
		}
		own := b.Take(name)
		if h.Steps > 0 {
			own = firstStep(b, own, len(o.dims), o.class, of != h)
		}
		out := b.Rows(own, tensor.Undefined, "mfgs_own") // converted from any type
		outputs = append(outputs, onnxpb.TensorInfo(out, tensor.Float32, -1, int64(o.Width)))
		outs = append(outs, o)
	}
	with, err := b.Build(outputs...)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the model's own outputs: %w", err)
	}
	return with, outs, nil
}

// overSteps reports whether an output of an unrolled model has all steps.
func overSteps(m *onnx.Model, name string) bool {
	return slices.ContainsFunc(m.Outputs(), func(v onnx.ValueInfo) bool {
		return v.Name == name && len(v.Shape) > 1 && v.Shape[1].Param == stepsParam
	})
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
	if h.Steps > 0 {
		if ok = o.steps(h, dims); !ok {
			return o, false
		}
	} else if dims != nil {
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
	// A Transpose may bring the steps in front of the examples.
	return o, h.Steps == 0 || !slices.Contains(o.Ops, "Transpose")
}

// steps finds the classes among the axes of an output of a head with steps, and reports whether it has them, or
// picks one.
func (o *Output) steps(h *Head, dims []int64) bool {
	o.dims, o.class = dims, noClass
	switch len(dims) {
	case 0:
		return false
	case h.Steps + 1:
		o.Width = 1
		return o.Integer || h.Logits == 1
	}
	last := len(dims) - 1
	for _, axis := range []int{h.layout.class, last, 1} {
		if len(dims) == h.Steps+2 && dims[axis] == int64(h.Logits) {
			o.class = axis
			return true
		}
	}
	return false
}

// firstStep appends the operator that takes the first step of each example from a tensor of a rank, along all axes
// but those of the examples and classes. Of an unrolled model the rank and axes are those before, and the tensor has
// one more axis of steps, the second.
func firstStep(b *build.Builder, x string, rank, class int, unrolled bool) string {
	var axes, from, to []int64
	take := func(axis int) {
		axes, from, to = append(axes, int64(axis)), append(from, 0), append(to, 1)
	}
	added := 0
	if unrolled {
		take(1)
		added = 1
	}
	for i := 1; i < rank; i++ {
		if i != class {
			take(i + added)
		}
	}
	return b.Op("Slice", []string{x, b.Ints(from...), b.Ints(to...), b.Ints(axes...)}, "mfgs_first_step")
}
