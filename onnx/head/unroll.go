package head

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/build"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Unroll turns a network that answers for one step of a stream, and passes a state on to the next, into one that
// answers for all steps: h is the head of m, and states pairs the inputs that are states with the outputs that are
// their next values, as IN=OUT,IN=OUT; "" returns m and h.
//
// In the model that it returns, each other input has one more axis after that of the examples, [N,T,…], and so has
// each output that is not a state. A Scan runs the network over the T steps. States begin at zero, so they are neither
// inputs nor outputs, and the model is one of whole recordings. The head that it returns has the features [N,T,d] and
// logits [N,T,K], Steps = 1, and the names and weights of h. If m has S steps of its own in each step of the stream,
// the steps are those of all, in order: T·S.
//
// What does not depend on an input stays in front of the Scan, and all weights stay in the main graph. The batch axis
// of a state is its only open one. If there is none, the model has a fixed number of examples. Errors name the state,
// what it is, and what is wanted.
func Unroll(m *onnx.Model, h *Head, states string) (*onnx.Model, *Head, error) {
	if h.model != m {
		panic("head: Unroll with the head of another model")
	}
	list, data, err := statesOf(m, states)
	if err != nil || len(list) == 0 {
		return m, h, err
	}
	switch {
	case h.Nonlinear:
		return nil, nil, fmt.Errorf("%s is for a model with a linear last layer, and %s %s is not one", option.State, option.Kind, h.Kind)
	case h.Steps > 1:
		return nil, nil, fmt.Errorf("%s: the logits %q have %d axes of steps in each step of the stream, want one or none", option.State, h.LogitsTensor, h.Steps)
	case m.Opset() < stepsOpset:
		return nil, nil, fmt.Errorf("%s needs operator set %d, and the model has %d: convert it with onnx.version_converter", option.State, stepsOpset, m.Opset())
	}
	u := &unroller{Builder: build.New(m), h: h, states: list, data: data, renamed: map[string]string{}}
	unrolled, err := u.model(states)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", option.State, err)
	}
	return unrolled, u.head(unrolled), nil
}

// An unroller builds a model that runs another over the steps of a stream. The Builder's model is that of one step.
type unroller struct {
	*build.Builder
	h      *Head
	states []State
	data   []onnx.ValueInfo // the inputs that are not states

	renamed map[string]string // tensors of a step whose names those of all steps have
	inside  []*onnxpb.Node    // of the step
	outside []*onnxpb.Node    // what does not depend on the stream
	varying map[string]bool   // tensors that do
	given   map[string]bool   // outputs of the step

	features, logits string // of all steps
}

// stacked is a tensor of a step that is wanted for all steps.
type stacked struct {
	name  string // of all steps
	from  string // of the step
	typ   tensor.Type
	shape []onnx.Dim // of the step; nil if unknown
}

func (u *unroller) model(states string) (*onnx.Model, error) {
	m, h := u.Model, u.h
	features, logits := h.AddFeatures(u.Builder), h.AddLogits(u.Builder, tensor.Float64)
	if h.Steps > 0 { // [N·S,width] → [N,S,width]
		shape := h.AddStepShape(u.Builder)
		for _, x := range []struct {
			rows  *string
			width int
		}{{&features, h.Features}, {&logits, h.Logits}} {
			to := u.Op("Concat", []string{shape, u.Ints(int64(x.width))}, "mfgs_step_shape", onnxpb.IntAttribute("axis", 0))
			*x.rows = u.Op("Reshape", []string{*x.rows, to}, "mfgs_step_rows")
		}
	}
	u.features, u.logits = u.Names.Fresh("mfgs_stream_features"), h.LogitsTensor
	u.split(features, logits)
	own, outputs := u.own()
	wanted := append([]stacked{
		{u.features, features, tensor.Float32, u.rows(h.Features)},
		{u.logits, logits, tensor.Float32, u.rows(h.Logits)},
	}, own...)
	u.rename(wanted)
	after := u.scan(wanted)

	old := m.Proto().GetGraph()
	g := onnxpb.Shallow(old)
	g.Input = slices.DeleteFunc(slices.Clone(old.Input), func(v *onnxpb.ValueInfo) bool {
		return slices.ContainsFunc(u.states, func(s State) bool { return s.In == v.GetName() })
	})
	for i, v := range g.Input {
		if u.isData(v.GetName()) {
			g.Input[i] = u.overSteps(v)
		}
	}
	g.Node = append(u.outside, after...)
	g.Initializer = append(slices.Clip(old.Initializer), u.Consts...)
	g.ValueInfo = []*onnxpb.ValueInfo{
		onnxpb.TensorInfo(u.features, tensor.Float32, -1, -1, int64(h.Features)),
		onnxpb.TensorInfo(u.logits, tensor.Float32, -1, -1, int64(h.Logits)),
	}
	g.Output = outputs
	pb := onnxpb.Shallow(m.Proto())
	pb.Graph = g
	pb.MetadataProps = append(slices.Clip(pb.MetadataProps), &onnxpb.Entry{Key: proto.String(StateKey), Value: &states})
	return m.Derive(pb, u.Kept...)
}

// rows is the shape of the numbers of a step.
func (u *unroller) rows(width int) []onnx.Dim {
	shape := []onnx.Dim{{Value: -1}, {Value: int64(width)}}
	if u.h.Steps > 0 {
		shape = slices.Insert(shape, 1, onnx.Dim{Value: -1})
	}
	return shape
}

// own returns the model's own outputs that are given for all steps, and the declarations of all outputs of the unrolled
// model. Where the logits are an output, it has their form, [N,T,K]. What has no axis of examples is left out.
func (u *unroller) own() (own []stacked, outputs []*onnxpb.ValueInfo) {
	logits := onnxpb.TensorInfo(u.logits, tensor.Float32, -1, -1, int64(u.h.Logits))
	for _, pb := range u.Model.Proto().GetGraph().GetOutput() {
		v := onnx.InfoOf(pb)
		switch {
		case v.Name == u.logits:
			pb = logits
		case slices.ContainsFunc(u.states, func(s State) bool { return s.Out == v.Name }):
			continue
		case !u.varying[v.Name]:
		case v.Type == tensor.Undefined || len(v.Shape) == 0:
			continue
		default:
			pb = u.overSteps(pb)
			if !u.isData(v.Name) {
				own = append(own, stacked{v.Name, v.Name, v.Type, v.Shape})
			}
		}
		outputs = append(outputs, pb)
	}
	if len(outputs) == 0 {
		outputs = append(outputs, logits)
	}
	return own, outputs
}

// isData reports whether a tensor is an input that is not a state.
func (u *unroller) isData(name string) bool {
	return slices.ContainsFunc(u.data, func(v onnx.ValueInfo) bool { return v.Name == name })
}

// stepsParam is the name of the axis of steps in declarations.
const stepsParam = "steps"

// overSteps declares a tensor of a step for all steps.
func (u *unroller) overSteps(v *onnxpb.ValueInfo) *onnxpb.ValueInfo {
	v = proto.Clone(v).(*onnxpb.ValueInfo)
	shape := v.GetType().GetTensorType().GetShape()
	shape.Dim = slices.Insert(shape.Dim, 1, &onnxpb.Dimension{Value: &onnxpb.Dimension_DimParam{DimParam: stepsParam}})
	return v
}

// split divides the nodes that the outputs of the model and roots need into those that depend on the stream and those
// that do not.
func (u *unroller) split(roots ...string) {
	u.varying, u.given = map[string]bool{}, map[string]bool{}
	for _, v := range u.data {
		u.varying[v.Name] = true
	}
	for _, s := range u.states {
		u.varying[s.In] = true
	}
	for _, v := range u.Model.Outputs() {
		roots = append(roots, v.Name)
	}
	for _, n := range u.Nodes {
		roots = append(roots, onnxpb.Dependencies(n)...)
	}
	needed := u.Model.Graph().Ancestors(roots...)
	add := func(n *onnxpb.Node) {
		if !slices.ContainsFunc(onnxpb.Dependencies(n), func(name string) bool { return u.varying[name] }) {
			u.outside = append(u.outside, n)
			return
		}
		u.inside = append(u.inside, n)
		for _, out := range n.GetOutput() {
			u.varying[out] = out != ""
		}
	}
	for _, n := range u.Model.Graph().Order {
		if needed[n] {
			add(n)
		}
	}
	for _, n := range u.Nodes {
		add(n)
	}
	u.Nodes = nil
}

// rename gives other names to those tensors of the step whose names the tensors of all steps take.
func (u *unroller) rename(wanted []stacked) {
	for _, v := range u.data {
		u.renamed[v.Name] = u.Names.Fresh("mfgs_step_" + v.Name)
	}
	for _, s := range u.states {
		u.renamed[s.In] = u.Names.Fresh("mfgs_step_" + s.In)
	}
	for _, w := range wanted {
		if u.varying[w.name] && u.renamed[w.name] == "" {
			u.renamed[w.name] = u.Names.Fresh("mfgs_step_" + w.name)
		}
	}
	var nodes func([]*onnxpb.Node) []*onnxpb.Node
	inner := func(g *onnxpb.Graph) *onnxpb.Graph { return onnxpb.Renamed(g, u.inStep, u.inStep, nodes) }
	nodes = func(list []*onnxpb.Node) []*onnxpb.Node {
		return onnxpb.MapNodes(list, inner, func(n *onnxpb.Node) {
			n.Input, n.Output = mappedNames(n.Input, u.inStep), mappedNames(n.Output, u.inStep)
		})
	}
	u.inside = nodes(u.inside)
}

// inStep is the name of a tensor within the step.
func (u *unroller) inStep(name string) string {
	if other := u.renamed[name]; other != "" {
		return other
	}
	return name
}

func mappedNames(list []string, name func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = name(s)
	}
	return out
}

// result returns the name of a tensor as an output of the step, which must be computed there, and only once given.
func (u *unroller) result(name string) string {
	inner := u.inStep(name)
	made := slices.ContainsFunc(u.inside, func(n *onnxpb.Node) bool { return slices.Contains(n.GetOutput(), inner) })
	if made && !u.given[inner] {
		u.given[inner] = true
		return inner
	}
	copied, op := u.Names.Fresh("mfgs_step_given"), "Identity"
	u.inside = append(u.inside, &onnxpb.Node{
		OpType: &op, Name: proto.String(copied), Input: []string{inner}, Output: []string{copied}})
	u.given[copied] = true
	return copied
}

// bodyName is the name of the body of the Scan of an unrolled model.
const bodyName = "mfgs_stream_step"

// scan returns the nodes that run the step over all steps.
func (u *unroller) scan(wanted []stacked) []*onnxpb.Node {
	body := &onnxpb.Graph{Name: proto.String(bodyName)}
	var starts, ends, inputs, stacks []string
	for _, s := range u.states {
		starts = append(starts, u.zeros(&s))
		ends = append(ends, u.Names.Fresh("mfgs_last_"+s.In))
		body.Input = append(body.Input, stateInfo(u.inStep(s.In), s.Type, s.Shape))
		body.Output = append(body.Output, stateInfo(u.result(s.Out), s.Type, s.Shape))
	}
	for _, v := range u.data {
		inputs = append(inputs, v.Name)
		body.Input = append(body.Input, stateInfo(u.inStep(v.Name), v.Type, v.Shape))
	}
	var merged []*onnxpb.Node
	for i, w := range wanted {
		name := w.name
		body.Output = append(body.Output, stateInfo(u.result(w.from), w.typ, w.shape))
		if i < 2 && u.h.Steps > 0 { // [N,T,S,width] → [N,T·S,width]
			name = u.Names.Fresh("mfgs_stream_rows")
			merged = append(merged, &onnxpb.Node{OpType: proto.String("Reshape"), Name: proto.String(name + "_merged"),
				Input: []string{name, u.Ints(0, -1, w.shape[2].Value)}, Output: []string{w.name}})
		}
		stacks = append(stacks, name)
	}
	body.Node = u.inside
	axes := func(n int) []int64 { return slices.Repeat([]int64{1}, n) }
	scan := &onnxpb.Node{OpType: proto.String("Scan"), Name: proto.String(u.Names.Fresh("mfgs_stream")),
		Input: append(starts, inputs...), Output: append(ends, stacks...),
		Attribute: []*onnxpb.Attribute{
			onnxpb.GraphAttribute("body", body), onnxpb.IntAttribute("num_scan_inputs", int64(len(inputs))),
			onnxpb.IntsAttribute("scan_input_axes", axes(len(inputs))...),
			onnxpb.IntsAttribute("scan_output_axes", axes(len(stacks))...),
		}}
	return slices.Concat(u.Nodes, []*onnxpb.Node{scan}, merged)
}

// zeros appends operators that compute the state before the first step.
func (u *unroller) zeros(s *State) string {
	dims := s.dims(-1)
	shape := ""
	if s.Batch < 0 {
		shape = u.Ints(dims...)
	} else {
		n := u.Add("Shape", u.data[0].Name, "mfgs_state_input")
		parts := []string{u.Op("Slice", []string{n, u.Ints(0), u.Ints(1)}, "mfgs_state_examples")}
		if before := dims[:s.Batch]; len(before) > 0 {
			parts = slices.Insert(parts, 0, u.Ints(before...))
		}
		if after := dims[s.Batch+1:]; len(after) > 0 {
			parts = append(parts, u.Ints(after...))
		}
		shape = u.Op("Concat", parts, "mfgs_state_shape", onnxpb.IntAttribute("axis", 0))
	}
	zero := &onnxpb.Tensor{Dims: []int64{1}, DataType: proto.Int32(int32(s.Type)),
		RawData: make([]byte, s.Type.Bits()/8)}
	return u.Op("ConstantOfShape", []string{shape}, "mfgs_first_"+s.In,
		&onnxpb.Attribute{Name: proto.String("value"), Type: proto.Int32(onnxpb.TypeTensor), T: zero})
}

// head is the head of the unrolled model.
func (u *unroller) head(m *onnx.Model) *Head {
	h := *u.h
	value := func(width int) graph.Value {
		return graph.Value{Type: tensor.Float32, Dims: []int64{-1, -1, int64(width)}}
	}
	h.model, h.origin, h.Steps = m, u.h, 1
	h.layout = layout{steps: 1, class: 2, rank: 3, features: 2}
	h.logitsValue = value(h.Logits)
	h.affine = affine{k: h.Logits, shares: []*share{{features: u.features, d: h.Features, known: value(h.Features)}}}
	h.Evidence = slices.DeleteFunc(slices.Clone(h.Evidence), func(s string) bool { return s == u.h.stepsEvidence() })
	for _, s := range u.states {
		h.Evidence = append(h.Evidence, fmt.Sprintf("the state %q %v begins at zero, and %q is its value for the next step", s.In,
			onnx.ValueInfo{Type: s.Type, Shape: s.Shape}, s.Out))
	}
	var inputs []string
	for _, v := range m.Inputs() {
		inputs = append(inputs, fmt.Sprintf("%q %v", v.Name, v))
	}
	h.Evidence = append(h.Evidence, fmt.Sprintf("an example is a stream of steps, %s: every step is classified by itself",
		strings.Join(inputs, ", ")))
	return &h
}
