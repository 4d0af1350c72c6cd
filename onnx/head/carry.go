package head

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Carry returns an unrolled model, or what it was fused to, that takes the states before the first step as its last
// inputs and gives those after the last step as its last outputs: so it continues a stream. The states that it returns
// have the names of these inputs and outputs, which are those of the model of a step unless others have these names.
// A model that was not unrolled has none. States of float16 are given and taken as float32, which has all of their
// values: of float16, ONNX Runtime gives no tensors whose shape is open.
func Carry(m *onnx.Model) (*onnx.Model, []State, error) {
	list, err := parseStates(m.Metadata()[StateKey])
	if err != nil || len(list) == 0 {
		return m, nil, err
	}
	old := m.Proto().GetGraph()
	at := slices.IndexFunc(old.GetNode(), func(n *onnxpb.Node) bool {
		return n.Op() == "Scan" && n.Attr("body").GetG().GetName() == bodyName
	})
	if at < 0 {
		return nil, nil, errors.New("the model has states and does not run over steps")
	}
	scan := onnxpb.Shallow(old.Node[at])
	scan.Input, scan.Output = slices.Clone(scan.Input), slices.Clone(scan.Output)
	body := scan.Attr("body").GetG()
	if min(len(scan.Input), len(scan.Output), len(body.GetInput())) < len(list) {
		return nil, nil, errors.New("the model runs over steps without its states")
	}
	g := onnxpb.Shallow(old)
	g.Input, g.Output = slices.Clone(g.Input), slices.Clone(g.Output)
	names := m.View().Names()
	var before, after []*onnxpb.Node
	cast := func(from, to string, typ tensor.Type) *onnxpb.Node {
		return &onnxpb.Node{OpType: proto.String("Cast"), Name: proto.String(names.Fresh(to + "_cast")),
			Input: []string{from}, Output: []string{to},
			Attribute: []*onnxpb.Attribute{onnxpb.IntAttribute("to", int64(typ))}}
	}
	for i := range list {
		s := &list[i]
		if err := s.take(onnx.InfoOf(body.Input[i]), onnx.InfoOf(body.Input[i])); err != nil {
			return nil, nil, err
		}
		s.In, s.Out = names.Fresh(s.In), names.Fresh(s.Out)
		scan.Input[i], scan.Output[i] = s.In, s.Out
		if s.Type == tensor.Float16 {
			s.Type = tensor.Float32
			scan.Input[i], scan.Output[i] = names.Fresh(s.In+"_half"), names.Fresh(s.Out+"_half")
			before = append(before, cast(s.In, scan.Input[i], tensor.Float16))
			after = append(after, cast(scan.Output[i], s.Out, tensor.Float32))
		}
		g.Input = append(g.Input, stateInfo(s.In, s.Type, s.Shape))
		g.Output = append(g.Output, stateInfo(s.Out, s.Type, s.Shape))
	}
	g.Node = slices.Concat(g.Node[:at], before, []*onnxpb.Node{scan}, after, g.Node[at+1:])
	pb := onnxpb.Shallow(m.Proto())
	pb.Graph = g
	pb.IrVersion = proto.Int64(max(4, m.IRVersion()))
	carried, err := m.Derive(pb)
	return carried, list, err
}

// Zeros is the state of n examples before the first step.
func (s *State) Zeros(n int) (shape []int64, elements int) {
	shape = s.dims(int64(n))
	size, _ := onnxpb.Elements(shape)
	return shape, int(size)
}
