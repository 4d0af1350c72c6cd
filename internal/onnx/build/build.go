// Package build builds models from parts of others and new nodes.
package build

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Builder builds a model from parts of another and new nodes.
type Builder struct {
	Model  *onnx.Model
	Names  *onnxpb.Namer
	Nodes  []*onnxpb.Node // the new ones
	Consts []*onnxpb.Tensor
	Inputs []*onnxpb.ValueInfo // new ones, after those of the model
	lent   map[string]bool     // tensors of the model's view that have been taken
	Kept   []onnx.Payload      // of new constants
}

func New(m *onnx.Model) *Builder {
	return &Builder{Model: m, Names: m.View().Names(), lent: map[string]bool{}}
}

// Take makes a tensor of the model's view available, and returns its name. A tensor that only the view has
// is computed by the view's nodes.
func (b *Builder) Take(name string) string {
	if name == "" || b.Model.Graph().Has(name) || b.lent[name] {
		return name
	}
	b.lent[name] = true
	if t := b.Model.View().Consts[name]; t != nil {
		b.Consts = append(b.Consts, t)
		return name
	}
	n := b.Model.View().Producer[name]
	for _, in := range n.GetInput() {
		b.Take(in)
	}
	for _, out := range n.GetOutput() {
		b.lent[out] = true
	}
	n = onnxpb.Shallow(n)
	n.Name = proto.String(b.Names.Fresh("mfgs_" + n.GetOpType()))
	b.Nodes = append(b.Nodes, n)
	return name
}

// Add appends a node of the default domain and returns its output.
func (b *Builder) Add(op, in, out string, attributes ...*onnxpb.Attribute) string {
	out = b.Names.Fresh(out)
	b.Nodes = append(b.Nodes, &onnxpb.Node{
		OpType: &op, Name: &out, Input: []string{in}, Output: []string{out}, Attribute: attributes})
	return out
}

// Rows appends operators that make a tensor two-dimensional and float32, and names the result name, or
// similarly. Even rows pass through a Flatten, and not an Identity: when ONNX Runtime removes an Identity
// it may in the same pass fuse the producer of the tensor with an earlier node, and then miss the tensor,
// which is now an output (seen in 1.26 to 1.31).
func (b *Builder) Rows(cur string, typ tensor.Type, name string) string {
	if typ != tensor.Float32 {
		cur = b.Add("Cast", cur, name+"_float", onnxpb.IntAttribute("to", int64(tensor.Float32)))
	}
	return b.Add("Flatten", cur, name, onnxpb.IntAttribute("axis", 1))
}

// Build returns a model with the given outputs, of new nodes and of the old graph, and what they need. If
// there are outputs of the old graph, the model has all of its inputs.
func (b *Builder) Build(outputs ...*onnxpb.ValueInfo) (*onnx.Model, error) {
	old := b.Model.Proto().GetGraph()
	nodes, roots := b.needed(outputs)
	whole := false
	for _, v := range outputs {
		if b.Model.Graph().Has(v.GetName()) {
			whole = true
			roots = append(roots, v.GetName())
		}
	}
	needed := b.Model.Graph().Ancestors(roots...)
	g := onnxpb.Shallow(old)
	g.Node, g.Initializer, g.SparseInitializer, g.Input, g.ValueInfo, g.Output = nil, nil, nil, nil, nil, outputs
	for _, n := range b.Model.Graph().Order {
		if needed[n] {
			g.Node = append(g.Node, n)
		}
	}
	g.Node = append(g.Node, nodes...)
	read := map[string]bool{}
	for _, name := range roots {
		read[name] = true
	}
	for _, n := range g.Node {
		for _, name := range onnxpb.Dependencies(n) {
			read[name] = true
		}
	}
	for _, t := range slices.Concat(b.Consts, old.GetInitializer()) {
		if read[t.GetName()] {
			g.Initializer = append(g.Initializer, t)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(b.Kept), func(p onnx.Payload) bool { return !read[p.Tensor.GetName()] })
	for _, s := range old.GetSparseInitializer() {
		if read[s.GetValues().GetName()] {
			g.SparseInitializer = append(g.SparseInitializer, s)
		}
	}
	for _, v := range old.GetInput() {
		// Before IR version 4 an initializer had to be an input too; since then that only allows
		// overriding it.
		if (whole || read[v.GetName()]) && !b.Model.Graph().Initialized(v.GetName()) {
			g.Input = append(g.Input, v)
		}
	}
	g.Input = append(g.Input, b.Inputs...)
	for _, v := range old.GetValueInfo() {
		if read[v.GetName()] {
			g.ValueInfo = append(g.ValueInfo, v)
		}
	}
	pb := onnxpb.Shallow(b.Model.Proto())
	pb.Graph = g
	pb.IrVersion = proto.Int64(max(4, b.Model.IRVersion()))
	pb.Functions = onnxpb.UsedFunctions(g.Node, b.Model.Proto().GetFunctions())
	// Training information refers to tensors that are gone.
	pb.ProtoReflect().SetUnknown(without(pb.ProtoReflect().GetUnknown(), 20))
	return b.Model.Derive(pb, kept...)
}

// needed returns the new nodes that the outputs need, and the tensors that these nodes read.
func (b *Builder) needed(outputs []*onnxpb.ValueInfo) (nodes []*onnxpb.Node, read []string) {
	wanted := map[string]bool{}
	for _, v := range outputs {
		wanted[v.GetName()] = true
	}
	for _, n := range slices.Backward(b.Nodes) {
		if !slices.ContainsFunc(n.GetOutput(), func(name string) bool { return wanted[name] }) {
			continue
		}
		nodes = append(nodes, n)
		for _, name := range onnxpb.Dependencies(n) {
			wanted[name] = true
			read = append(read, name)
		}
	}
	slices.Reverse(nodes)
	return nodes, read
}

// without returns unknown fields except those with the given number.
func without(unknown []byte, num protowire.Number) []byte {
	var kept []byte
	for len(unknown) > 0 {
		got, _, n := protowire.ConsumeField(unknown)
		if n < 0 { // impossible: they were parsed before
			break
		}
		if got != num {
			kept = append(kept, unknown[:n]...)
		}
		unknown = unknown[n:]
	}
	return kept
}
