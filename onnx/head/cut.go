package head

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/build"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// The names of a cut model's outputs. If the model has tensors of these names, a suffix is appended:
// Outputs of the cut model has the actual names.
const (
	CutFeatures = "mfgs_features"
	CutLogits   = "mfgs_logits"
)

// Cut returns a model with two outputs: the head's features, [N,d], and its logits, [N,K], both
// float32. Without features there is only the second. One that reads text has two more: see [Head.AddDecoding].
// Operators are appended if the tensors have another type or shape, and operators that the outputs do not need are
// removed. It panics if h was not found in m.
func Cut(m *onnx.Model, h *Head) (*onnx.Model, error) {
	if h.model != m {
		panic("head: Cut with the head of another model")
	}
	return CutBelow(m, h, h)
}

// CutBelow returns a model whose outputs are the features of one layer, and the logits of h.
func CutBelow(m *onnx.Model, h, lowest *Head) (*onnx.Model, error) {
	b := build.New(m)
	var outputs []*onnxpb.ValueInfo
	if h.Steps > 0 {
		return h.cutSteps(b)
	}
	if lowest.Features > 0 {
		outputs = append(outputs, onnxpb.TensorInfo(lowest.AddFeatures(b), tensor.Float32, -1, int64(lowest.Features)))
	}
	if h.Kind.Decodes() {
		logits, text, numbers := h.AddDecoding(b)
		outputs = append(outputs, onnxpb.TensorInfo(logits, tensor.Float32, -1, int64(h.Logits)),
			onnxpb.TensorInfo(text, tensor.Int64, -1, -1), onnxpb.TensorInfo(numbers, tensor.Float32, -1, -1))
	} else {
		logits := h.AddLogits(b, tensor.Float64)
		outputs = append(outputs, onnxpb.TensorInfo(logits, tensor.Float32, -1, int64(h.Logits)))
	}
	cut, err := b.Build(outputs...)
	if err != nil {
		return nil, fmt.Errorf("cutting the model: %w", err)
	}
	return cut, nil
}

// cutSteps returns a model that gives the features and logits of one step of each example.
func (h *Head) cutSteps(b *build.Builder) (*onnx.Model, error) {
	step := b.Names.Fresh(CutStep)
	b.Inputs = append(b.Inputs, onnxpb.TensorInfo(step, tensor.Int64, -1))
	both := []string{h.AddFeatures(b), h.AddLogits(b, tensor.Float64)}
	rows := selectSteps(b, step, both, []string{CutFeatures, CutLogits})
	cut, err := b.Build(
		onnxpb.TensorInfo(rows[0], tensor.Float32, -1, int64(h.Features)),
		onnxpb.TensorInfo(rows[1], tensor.Float32, -1, int64(h.Logits)),
		onnxpb.TensorInfo(h.AddStepShape(b), tensor.Int64, int64(h.Steps)+1))
	if err != nil {
		return nil, fmt.Errorf("cutting the model: %w", err)
	}
	return cut, nil
}

// Of reports whether the head was found in m.
func (h *Head) Of(m *onnx.Model) bool { return h.model == m }

// LogitsAreRows reports whether the tensor Logits is known to have rank 2.
func (h *Head) LogitsAreRows() bool { return len(h.logitsValue.Dims) == 2 }

// ClassesLast reports whether the tensor of the logits of a head with steps is [N,T,K] or [N,H,W,K].
func (h *Head) ClassesLast() bool {
	return h.Steps > 0 && !h.layout.merged && h.layout.class == len(h.logitsValue.Dims)-1
}

// AddLogits appends operators that turn the logits into rows [N,K] of float32, and returns the name of the result.
// Logarithms of probabilities are computed in float32 or float64.
func (h *Head) AddLogits(b *build.Builder, in tensor.Type) string {
	if h.Kind.Decodes() {
		logits, _, _ := h.AddDecoding(b)
		return logits
	}
	if h.Nonlinear {
		return h.addNonlinear(b, in)
	}
	if h.Steps > 0 {
		x := b.Take(h.LogitsTensor)
		return stepRows(b, x, h.logitsValue.Type, len(h.logitsValue.Dims), h.layout.class, h.Logits, CutLogits)
	}
	return b.Rows(b.Take(h.LogitsTensor), h.logitsValue.Type, CutLogits)
}

// AddFeatures appends operators that turn the features into rows [N,d] of float32, and returns the
// name of the result.
func (h *Head) AddFeatures(b *build.Builder) string {
	if h.Missing {
		return h.addMissing(b, h.affine.shares[0].add(b, CutFeatures+"_given"), CutFeatures)
	}
	if h.Steps > 0 {
		s := h.affine.shares[0]
		return stepRows(b, s.selected(b), s.known.Type, h.layout.rank, h.layout.features, h.Features, CutFeatures)
	}
	if len(h.affine.shares) == 1 {
		return h.affine.shares[0].add(b, CutFeatures)
	}
	joined := &onnxpb.Node{OpType: proto.String("Concat"),
		Attribute: []*onnxpb.Attribute{onnxpb.IntAttribute("axis", 1)}}
	for _, s := range h.affine.shares {
		joined.Input = append(joined.Input, s.add(b, CutFeatures+"_share"))
	}
	out := b.Names.Fresh(CutFeatures)
	joined.Name, joined.Output = proto.String(out), []string{out}
	b.Nodes = append(b.Nodes, joined)
	return out
}

// add appends operators that turn the features of one layer into rows.
func (s *share) add(b *build.Builder, name string) string {
	cur := s.selected(b)
	if s.transposed {
		cur = b.Add("Transpose", cur, "mfgs_transposed", onnxpb.IntsAttribute("perm", 1, 0))
	}
	return b.Rows(cur, s.known.Type, name)
}

// selected appends the operators that commute with the layer, on the features.
func (s *share) selected(b *build.Builder) string {
	cur := b.Take(s.features)
	for _, n := range s.selection {
		n = onnxpb.Shallow(n)
		n.Input = slices.Clone(n.Input)
		n.Input[0] = cur
		for i, in := range n.Input[1:] {
			n.Input[1+i] = b.Take(in)
		}
		cur = b.Names.Fresh("mfgs_selected")
		n.Output = []string{cur}
		n.Name = proto.String(cur)
		b.Nodes = append(b.Nodes, n)
	}
	return cur
}

// OnlyLogits returns a model with one output, the head's logits [N,K] as float32, without the
// operators that they do not need. It panics if h was not found in m.
func OnlyLogits(m *onnx.Model, h *Head) (*onnx.Model, error) {
	if h.model != m {
		panic("head: OnlyLogits with the head of another model")
	}
	b := build.New(m)
	logits := h.AddLogits(b, tensor.Float64)
	only, err := b.Build(onnxpb.TensorInfo(logits, tensor.Float32, -1, int64(h.Logits)))
	if err != nil {
		return nil, fmt.Errorf("cutting the model: %w", err)
	}
	return only, nil
}
