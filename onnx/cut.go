package onnx

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// The outputs of a cut model are called this, unless the model has tensors of these names already; then something is
// appended. Ask the cut model's Outputs.
const (
	CutFeatures = "mfgs_features"
	CutLogits   = "mfgs_logits"
)

// Cut returns a model with two outputs: the head's features, [N,d], and its logits, [N,K], both float32. Operators are
// appended where the tensors have another type or shape, and all that is not needed for the two is left out. It panics if
// h was not found in m.
func Cut(m *Model, h *Head) (*Model, error) {
	if h.model != m {
		panic("onnx: Cut with the head of another model")
	}
	return cutBelow(m, h, h)
}

// cutBelow returns a model whose outputs are the features of one layer, and the logits of h.
func cutBelow(m *Model, h, lowest *Head) (*Model, error) {
	b := newBuilder(m)
	features := b.features(lowest)
	logits := b.rows(b.take(h.Logits), &h.logitsValue, CutLogits)
	cut, err := b.build(
		tensorInfo(features, Float32, -1, int64(lowest.FeatureDim)),
		tensorInfo(logits, Float32, -1, int64(h.Classes)))
	if err != nil {
		return nil, fmt.Errorf("cutting the model: %w", err)
	}
	return cut, nil
}

// A builder makes a model from parts of another and new nodes.
type builder struct {
	m      *Model
	names  namer
	nodes  []*onnxpb.Node // the new ones
	consts []*onnxpb.Tensor
	lent   map[string]bool // tensors of the model's view that have been taken over
	kept   []file          // with the bytes of new constants
}

func newBuilder(m *Model) *builder {
	b := &builder{m: m, lent: map[string]bool{}}
	b.names.take(m.pb.GetGraph())
	for name := range m.view.producer {
		b.names.taken[name] = true
	}
	for name := range m.view.consts {
		b.names.taken[name] = true
	}
	return b
}

// take makes sure that a tensor of the model's view is there, and returns its name: what only the view has is computed by
// the view's nodes.
func (b *builder) take(name string) string {
	if name == "" || b.m.graph.has(name) || b.lent[name] {
		return name
	}
	b.lent[name] = true
	if t := b.m.view.consts[name]; t != nil {
		b.consts = append(b.consts, t)
		return name
	}
	n := b.m.view.producer[name]
	for _, in := range n.GetInput() {
		b.take(in)
	}
	for _, out := range n.GetOutput() {
		b.lent[out] = true
	}
	n = shallow(n)
	n.Name = proto.String(b.names.fresh("mfgs_" + n.GetOpType()))
	b.nodes = append(b.nodes, n)
	return name
}

// allNames collects the names of all tensors and nodes, those of subgraphs too, as they may not hide outer ones.
func allNames(g *onnxpb.Graph, names map[string]bool) {
	for _, list := range [][]*onnxpb.ValueInfo{g.GetInput(), g.GetOutput(), g.GetValueInfo()} {
		for _, v := range list {
			names[v.GetName()] = true
		}
	}
	for _, t := range g.GetInitializer() {
		names[t.GetName()] = true
	}
	for _, s := range g.GetSparseInitializer() {
		names[s.GetValues().GetName()] = true
	}
	for _, n := range g.GetNode() {
		names[n.GetName()] = true
		for _, out := range n.GetOutput() {
			names[out] = true
		}
		for _, a := range n.GetAttribute() {
			for _, sub := range subgraphs(a) {
				allNames(sub, names)
			}
		}
	}
}

// add appends a node of the default domain and returns its output.
func (b *builder) add(op, in, out string, attributes ...*onnxpb.Attribute) string {
	out = b.names.fresh(out)
	b.nodes = append(b.nodes, &onnxpb.Node{
		OpType: &op, Name: &out, Input: []string{in}, Output: []string{out}, Attribute: attributes})
	return out
}

// features appends what turns the features tensors into rows.
func (b *builder) features(h *Head) string {
	if len(h.affine.shares) == 1 {
		return b.share(h.affine.shares[0], CutFeatures)
	}
	joined := &onnxpb.Node{OpType: proto.String("Concat"), Attribute: []*onnxpb.Attribute{intAttribute("axis", 1)}}
	for _, s := range h.affine.shares {
		joined.Input = append(joined.Input, b.share(s, CutFeatures+"_share"))
	}
	out := b.names.fresh(CutFeatures)
	joined.Name, joined.Output = proto.String(out), []string{out}
	b.nodes = append(b.nodes, joined)
	return out
}

// share appends what turns the features of one layer into rows.
func (b *builder) share(s *share, name string) string {
	cur := b.take(s.features)
	known := s.known
	for _, n := range s.selection {
		n = shallow(n)
		n.Input = slices.Clone(n.Input)
		n.Input[0] = cur
		for i, in := range n.Input[1:] {
			n.Input[1+i] = b.take(in)
		}
		cur = b.names.fresh("mfgs_selected")
		n.Output = []string{cur}
		n.Name = proto.String(cur)
		b.nodes = append(b.nodes, n)
		known.dims = nil
	}
	if s.transposed {
		cur = b.add("Transpose", cur, "mfgs_transposed", intsAttribute("perm", 1, 0))
	}
	return b.rows(cur, &known, name)
}

// rows appends what makes a tensor two-dimensional and float32, and calls the result name or something like it. Rows that
// are so already go through Flatten and not Identity: where ONNX Runtime takes an Identity away it may fuse, in the same
// pass, what makes the tensor with what comes before, and then miss a tensor that is an output now (seen in 1.26 to 1.31).
func (b *builder) rows(cur string, known *value, name string) string {
	if known.typ != Float32 {
		cur = b.add("Cast", cur, name+"_float", intAttribute("to", int64(Float32)))
	}
	return b.add("Flatten", cur, name, intAttribute("axis", 1))
}

// build returns a model with the given outputs, which are the new nodes' and the old graph's, and what they need. Where the
// old graph's are among them, so are all its inputs.
func (b *builder) build(outputs ...*onnxpb.ValueInfo) (*Model, error) {
	old := b.m.pb.GetGraph()
	var roots []string
	for _, n := range b.nodes {
		roots = append(roots, dependencies(n)...)
	}
	whole := false
	for _, v := range outputs {
		if b.m.graph.has(v.GetName()) {
			whole = true
			roots = append(roots, v.GetName())
		}
	}
	needed := b.m.graph.ancestors(roots...)
	g := shallow(old)
	g.Node, g.Initializer, g.SparseInitializer, g.Input, g.ValueInfo, g.Output = nil, nil, nil, nil, nil, outputs
	for _, n := range b.m.graph.order {
		if needed[n] {
			g.Node = append(g.Node, n)
		}
	}
	g.Node = append(g.Node, b.nodes...)
	g.Initializer = append(g.Initializer, b.consts...)
	read := map[string]bool{}
	for _, name := range roots {
		read[name] = true
	}
	for _, n := range g.Node {
		for _, name := range dependencies(n) {
			read[name] = true
		}
	}
	for _, t := range old.GetInitializer() {
		if read[t.GetName()] {
			g.Initializer = append(g.Initializer, t)
		}
	}
	for _, s := range old.GetSparseInitializer() {
		if read[s.GetValues().GetName()] {
			g.SparseInitializer = append(g.SparseInitializer, s)
		}
	}
	for _, v := range old.GetInput() {
		// Before IR version 4 an initializer had to be an input as well; later it is one only so that it can be replaced.
		if (whole || read[v.GetName()]) && !b.m.graph.initialized(v.GetName()) {
			g.Input = append(g.Input, v)
		}
	}
	for _, v := range old.GetValueInfo() {
		if read[v.GetName()] {
			g.ValueInfo = append(g.ValueInfo, v)
		}
	}
	pb := shallow(b.m.pb)
	pb.Graph = g
	pb.IrVersion = proto.Int64(max(4, b.m.IRVersion()))
	pb.Functions = usedFunctions(g.Node, b.m.pb.GetFunctions())
	// Training information speaks of tensors that are gone.
	pb.ProtoReflect().SetUnknown(without(pb.ProtoReflect().GetUnknown(), 20))
	s := *b.m.store
	s.files = slices.Concat(s.files, b.kept)
	m, err := newModel(pb, &s, b.m.sha256)
	if err != nil {
		return nil, err
	}
	m.path = b.m.path
	return m, nil
}

// usedFunctions returns the model-local functions that nodes call, directly or through others.
func usedFunctions(nodes []*onnxpb.Node, functions []*onnxpb.Function) []*onnxpb.Function {
	type id struct{ domain, name string }
	byName := map[id][]*onnxpb.Function{}
	for _, f := range functions {
		key := id{f.GetDomain(), f.GetName()}
		byName[key] = append(byName[key], f)
	}
	used := map[*onnxpb.Function]bool{}
	var visit func([]*onnxpb.Node)
	visit = func(nodes []*onnxpb.Node) {
		for _, n := range nodes {
			for _, f := range byName[id{n.GetDomain(), n.GetOpType()}] {
				if !used[f] {
					used[f] = true
					visit(f.GetNode())
				}
			}
			for _, a := range n.GetAttribute() {
				for _, g := range subgraphs(a) {
					visit(g.GetNode())
				}
			}
		}
	}
	visit(nodes)
	return slices.DeleteFunc(slices.Clone(functions), func(f *onnxpb.Function) bool { return !used[f] })
}

// without returns unknown fields less those with the given number.
func without(unknown []byte, num protowire.Number) []byte {
	var kept []byte
	for len(unknown) > 0 {
		got, _, n := protowire.ConsumeField(unknown)
		if n < 0 { // cannot be: they have been parsed before
			break
		}
		if got != num {
			kept = append(kept, unknown[:n]...)
		}
		unknown = unknown[n:]
	}
	return kept
}

// shallow returns a copy of a message that shares its fields, for replacing some of them.
func shallow[M interface {
	*T
	proto.Message
}, T any](m M) M {
	c := M(new(T))
	src, dst := m.ProtoReflect(), c.ProtoReflect()
	for fd, v := range src.Range {
		dst.Set(fd, v)
	}
	dst.SetUnknown(src.GetUnknown())
	return c
}

// tensorInfo describes a tensor; a dimension below 0 is left open.
func tensorInfo(name string, typ DataType, dims ...int64) *onnxpb.ValueInfo {
	shape := new(onnxpb.Shape)
	for _, d := range dims {
		dim := new(onnxpb.Dimension)
		if d >= 0 {
			dim.Value = &onnxpb.Dimension_DimValue{DimValue: d}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &onnxpb.ValueInfo{Name: &name, Type: &onnxpb.Type{
		TensorType: &onnxpb.TensorType{ElemType: proto.Int32(int32(typ)), Shape: shape}}}
}

// The values of Attribute.type in use.
const (
	typeFloat  = 1
	typeInt    = 2
	typeTensor = 4
	typeGraph  = 5
	typeInts   = 7
)

func intAttribute(name string, x int64) *onnxpb.Attribute {
	return &onnxpb.Attribute{Name: &name, Type: proto.Int32(typeInt), I: &x}
}

func intsAttribute(name string, list ...int64) *onnxpb.Attribute {
	return &onnxpb.Attribute{Name: &name, Type: proto.Int32(typeInts), Ints: list}
}

func floatAttribute(name string, x float32) *onnxpb.Attribute {
	return &onnxpb.Attribute{Name: &name, Type: proto.Int32(typeFloat), F: &x}
}
