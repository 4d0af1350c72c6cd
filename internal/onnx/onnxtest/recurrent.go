package onnxtest

import (
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// The sizes of a Recurrent network.
const (
	RecurrentWidth   = 3 // of its input
	RecurrentHidden  = 4
	RecurrentClasses = 3
)

// A Recurrent network is one step of a stream: from its input "x" [N,3] and its states "h" [N,4] and "c" [2,N,4] it
// gives "y" [N,3], the probabilities of the classes, and the next states "hn" and "cn". Its weights are random.
type Recurrent struct {
	Seed       uint64
	Batch      int  // N, 0 if any
	Inner      int  // S > 0: x is [N,S,3], of which each step classifies all S, and y is [N,S,3]
	NamesClash bool // the logits are an output too, and x is one
	Frozen     bool // c stays what it was
	Half       bool // c and cn are float16
}

// Model returns the network.
func (r Recurrent) Model() *onnxpb.Model {
	const d, hidden, k = RecurrentWidth, RecurrentHidden, RecurrentClasses
	rng := rand.New(rand.NewPCG(r.Seed, 5))
	weights := func(name string, dims ...int64) *onnxpb.Tensor {
		n, _ := onnxpb.Elements(dims)
		data := make([]float64, n)
		for i := range data {
			data[i] = rng.NormFloat64()
		}
		return FloatTensor(name, data, dims...)
	}
	ints := func(name string, dims []int64, x ...int64) *onnxpb.Tensor {
		return &onnxpb.Tensor{Name: &name, Dims: dims, DataType: proto.Int32(int32(tensor.Int64)), Int64Data: x}
	}
	n := int64(r.Batch)
	if n == 0 {
		n = -1
	}
	half := &onnxpb.Tensor{Name: proto.String("half"), DataType: proto.Int32(int32(tensor.Float32)),
		FloatData: []float32{0.5}}
	branch := func(op, in string) *onnxpb.Graph { // reads a tensor of the graph around it
		return &onnxpb.Graph{Name: proto.String(op), Node: []*onnxpb.Node{Node(op, in, "kept")},
			Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("kept", tensor.Float32, -1, hidden)}}
	}
	c, cn, typ := "c", "cn", tensor.Float32
	if r.Half {
		c, cn, typ = "c_single", "cn_single", tensor.Float16
	}
	nodes := []*onnxpb.Node{
		Node("Mul", "scale half", "halved"), // does not depend on the stream
		Node("ReduceSum", c+" first", "sum", onnxpb.IntAttribute("keepdims", 0)),
		Node("Size", "x", "size"), Node("Less", "size zero", "never"),
		Node("If", "never", "kept_h", onnxpb.GraphAttribute("then_branch", branch("Neg", "h")),
			onnxpb.GraphAttribute("else_branch", branch("Identity", "h"))),
	}
	if r.Half {
		nodes = slices.Insert(nodes, 0, Node("Cast", "c", c, onnxpb.IntAttribute("to", int64(tensor.Float32))))
	}
	input, output := []int64{n, d}, []int64{n, k}
	x := "x"
	if r.Inner > 0 {
		input, output = []int64{n, int64(r.Inner), d}, []int64{n, int64(r.Inner), k}
		nodes = append(nodes, Node("ReduceMean", "x", "mean", onnxpb.IntsAttribute("axes", 1),
			onnxpb.IntAttribute("keepdims", 0)))
		x = "mean"
	}
	nodes = append(nodes,
		Node("MatMul", x+" a", "xa"), Node("MatMul", "kept_h b", "hb"), Node("Sum", "xa hb sum", "added"),
		Node("Tanh", "added", "hn"),
		Node("Unsqueeze", "hn first", "hn_first"),
	)
	if r.Frozen {
		nodes = append(nodes, Node("Identity", c, cn))
	} else {
		nodes = append(nodes, Node("Mul", c+" halved", "c_halved"), Node("Sub", "c_halved hn_first", cn))
	}
	if r.Half {
		nodes = append(nodes, Node("Cast", cn, "cn", onnxpb.IntAttribute("to", int64(typ))))
	}
	read := "hn"
	if r.Inner > 0 { // each inner step sees its own input beside the state
		nodes = append(nodes, Node("MatMul", "x a", "inner"), Node("Unsqueeze", "hn second", "hn_second"),
			Node("Add", "inner hn_second", "both"))
		read = "both"
	}
	nodes = append(nodes, Node("Relu", read, "phi"), Node("MatMul", "phi w", "product"),
		Node("Add", "product bias", "logits"), Node("Softmax", "logits", "y", onnxpb.IntAttribute("axis", -1)))
	g := &onnxpb.Graph{
		Name: proto.String("recurrent"), Node: nodes,
		Initializer: []*onnxpb.Tensor{
			weights("a", d, hidden), weights("b", hidden, hidden), weights("w", hidden, k), weights("bias", k),
			weights("scale", 1), half, ints("zero", nil, 0), ints("first", []int64{1}, 0), ints("second", []int64{1}, 1)},
		Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, input...),
			onnxpb.TensorInfo("h", tensor.Float32, n, hidden), onnxpb.TensorInfo("c", typ, 2, n, hidden)},
		Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, output...),
			onnxpb.TensorInfo("hn", tensor.Float32, n, hidden), onnxpb.TensorInfo("cn", typ, 2, n, hidden)},
	}
	if r.NamesClash {
		g.Output = append(g.Output, onnxpb.TensorInfo("logits", tensor.Float32, output...),
			onnxpb.TensorInfo("x", tensor.Float32, input...), onnxpb.TensorInfo("halved", tensor.Float32, 1))
	}
	return &onnxpb.Model{IrVersion: proto.Int64(8), Graph: g,
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}}}
}

// File is the network as a file.
func (r Recurrent) File() []byte {
	b, err := proto.Marshal(r.Model())
	if err != nil {
		panic(err)
	}
	return b
}
