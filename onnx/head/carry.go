package head

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
)

// Carry returns an unrolled model, or what it was fused to, that takes the states before the first step as its last
// inputs and gives those after the last step as its last outputs: so it continues a stream. The states that it returns
// have the names of these inputs and outputs, which are those of the model of a step unless others have these names.
// A model that was not unrolled has none.
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
	g.Node = slices.Clone(g.Node)
	g.Node[at] = scan
	g.Input, g.Output = slices.Clone(g.Input), slices.Clone(g.Output)
	names := m.View().Names()
	for i := range list {
		s := &list[i]
		if err := s.take(onnx.InfoOf(body.Input[i]), onnx.InfoOf(body.Input[i])); err != nil {
			return nil, nil, err
		}
		s.In, s.Out = names.Fresh(s.In), names.Fresh(s.Out)
		scan.Input[i], scan.Output[i] = s.In, s.Out
		g.Input = append(g.Input, stateInfo(s.In, s.Type, s.Shape))
		g.Output = append(g.Output, stateInfo(s.Out, s.Type, s.Shape))
	}
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
