package onnxtest

import (
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Recogniser is a network that reads lines of text: its output "steps", [N,T,K], are the numbers of its input "line",
// so that a test says what it reads.
type Recogniser struct {
	Opset      int64
	Symbols    int         // K
	Batch      int         // N, 0 if any
	Steps      int         // T, 0 if any
	Type       tensor.Type // of the output
	StepsFirst bool        // the output is [T,N,K]
	Softmax    bool        // the input's numbers are scores, the output's probabilities
	Layer      bool        // scores are the input's numbers times Weight
	Character  string      // PaddleOCR's metadata, "" for none
	Misstated  bool        // the output is declared with two axes, as ddddocr's
	Mask       bool        // it also has an input attention_mask [N,T], as taggers have
}

// Weight is what the linear layer of a Recogniser multiplies number i by, for score j.
func Weight(i, j int) float32 {
	if i == j {
		return 1.5
	}
	return 0.125 * float32(i-j)
}

// Model returns the network.
func (r Recogniser) Model() *onnxpb.Model {
	n, steps := int64(r.Batch), int64(r.Steps)
	for _, size := range []*int64{&n, &steps} {
		if *size == 0 {
			*size = -1
		}
	}
	k, last := int64(r.Symbols), "line"
	var nodes []*onnxpb.Node
	add := func(op string, attributes ...*onnxpb.Attribute) {
		nodes = append(nodes, Node(op, last, op+"_out", attributes...))
		last = op + "_out"
	}
	var constants []*onnxpb.Tensor
	if r.Mask { // steps that it leaves out have zeros
		constants = append(constants, &onnxpb.Tensor{Name: proto.String("column"), Dims: []int64{3},
			DataType: proto.Int32(int32(tensor.Int64)), Int64Data: []int64{0, -1, 1}})
		nodes = append(nodes,
			Node("Cast", "attention_mask", "seen", onnxpb.IntAttribute("to", int64(tensor.Float32))),
			&onnxpb.Node{OpType: proto.String("Reshape"), Input: []string{"seen", "column"}, Output: []string{"seen_column"}},
			&onnxpb.Node{OpType: proto.String("Mul"), Input: []string{"line", "seen_column"}, Output: []string{"masked"}})
		last = "masked"
	}
	if r.Layer {
		weights := &onnxpb.Tensor{
			Name: proto.String("w"), Dims: []int64{k, k}, DataType: proto.Int32(int32(tensor.Float32)),
		}
		for i := range r.Symbols {
			for j := range r.Symbols {
				weights.FloatData = append(weights.FloatData, Weight(i, j))
			}
		}
		constants = append(constants, weights)
		nodes = append(nodes, &onnxpb.Node{
			OpType: proto.String("MatMul"), Name: proto.String("layer"), Input: []string{last, "w"}, Output: []string{"scores"},
		})
		last = "scores"
	}
	if r.Softmax {
		add("Softmax", onnxpb.IntAttribute("axis", 2))
	}
	if r.Type != tensor.Float32 {
		add("Cast", onnxpb.IntAttribute("to", int64(r.Type)))
	}
	output := onnxpb.TensorInfo("steps", r.Type, n, steps, k)
	if r.StepsFirst {
		add("Transpose", onnxpb.IntsAttribute("perm", 1, 0, 2))
		output = onnxpb.TensorInfo("steps", r.Type, steps, n, k)
	}
	if r.Misstated { // the axes are the input's, so that the declaration is all that is known of them
		output = onnxpb.TensorInfo("steps", r.Type, 1, -1)
		nodes = append(nodes, Node("Shape", last, "sizes"),
			&onnxpb.Node{OpType: proto.String("Reshape"), Input: []string{last, "sizes"}, Output: []string{"steps"}})
	} else {
		nodes = append(nodes, Node("Identity", last, "steps"))
	}
	m := &onnxpb.Model{
		IrVersion:   proto.Int64(7),
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(r.Opset)}},
		Graph: &onnxpb.Graph{
			Name: proto.String("recogniser"), Node: nodes, Initializer: constants,
			Input:  []*onnxpb.ValueInfo{onnxpb.TensorInfo("line", tensor.Float32, n, steps, k)},
			Output: []*onnxpb.ValueInfo{output},
		},
	}
	if r.Mask {
		m.Graph.Input = append(m.Graph.Input, onnxpb.TensorInfo("attention_mask", tensor.Int64, -1, steps))
	}
	if r.Character != "" {
		m.MetadataProps = []*onnxpb.Entry{{Key: proto.String("character"), Value: &r.Character}}
	}
	return m
}

// File is the network as a file.
func (r Recogniser) File() []byte {
	b, err := proto.Marshal(r.Model())
	if err != nil {
		panic(err)
	}
	return b
}
