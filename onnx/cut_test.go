package onnx

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// cutFixture finds the head of a fixture and cuts there.
func cutFixture(t *testing.T, name string, o HeadOptions) *Model {
	t.Helper()
	m, err := Parse(name, fixture(t, name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := FindHead(m, o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// form lists operators, initializers and inputs.
func (m *Model) form() string {
	var ops, weights, inputs []string
	for _, n := range m.pb.Graph.Node {
		ops = append(ops, opName(n))
	}
	for _, w := range m.pb.Graph.Initializer {
		weights = append(weights, w.GetName())
	}
	for _, v := range m.pb.Graph.Input {
		inputs = append(inputs, v.GetName())
	}
	return strings.Join(ops, " ") + " | " + strings.Join(weights, " ") + " | " + strings.Join(inputs, " ")
}

func TestCutKeepsWhatIsNeeded(t *testing.T) {
	for _, tt := range []struct {
		fixture string
		options HeadOptions
		want    string
	}{
		// What makes probabilities of the logits is gone.
		{"tail_temperature", HeadOptions{}, "Gemm Relu Gemm Mul Div Flatten Flatten | bw bb w b t u | x"},
		// So is another output, with its weights.
		{"outputs_aux", HeadOptions{}, "Gemm Relu Gemm Flatten Flatten | bw bb w b | x"},
		{"outputs_aux", HeadOptions{Output: "aux"}, "Gemm Gemm Flatten Flatten | bw bb w2 | x"},
		// A topological order, whatever the file's.
		{"unordered", HeadOptions{}, "Gemm Relu Gemm Flatten Flatten | bw bb w b | x"},
		// Outer tensors that a branch reads stay.
		{"control_flow", HeadOptions{}, "Gemm Relu ReduceSum Greater If Gemm Cast Flatten Flatten | bw bb w b zero | x"},
		// Before IR version 4 weights are inputs too, later they need not be.
		{"cntk", HeadOptions{}, "Gemm Relu Reshape MatMul Add Flatten Flatten | bw bb w s b | x"},
		{"torch_keep_initializers", HeadOptions{}, "Gemm Relu Gemm Flatten Flatten | body.weight body.bias fc.weight fc.bias | x"},
		// Features take the way of the logits: pooled, turned round, flattened, converted.
		{"torch_conv_pool", HeadOptions{}, "Conv Relu Conv GlobalAveragePool Flatten GlobalAveragePool Flatten Flatten | body.weight body.bias fc.weight fc.bias | x"},
		{"torch_token", HeadOptions{}, "MatMul Add Relu MatMul Add Constant Gather Gather Flatten Flatten | body.bias fc.bias onnx::MatMul_14 onnx::MatMul_15 | x"},
		{"gemm_transA", HeadOptions{}, "Gemm Relu Transpose Gemm Transpose Flatten Flatten | bw bb w b | x"},
		{"float16", HeadOptions{}, "Gemm Relu Cast Gemm Cast Cast Flatten Flatten | bw bb w b | x"},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			if got := cutFixture(t, tt.fixture, tt.options).form(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestCutKeepsUsedFunctionsOnly(t *testing.T) {
	pb := functional([]*onnxpb.Node{calls("Old", "x", "h"), calls("Plain", "h", "g"), node("MatMul", "g w", "y"), calls("OldToo", "y", "z")},
		function("Plain", "a", "b", node("Relu", "a", "b")))
	pb.Graph.Output = append(pb.Graph.Output, tensorInfo("z", Float32, -1, 32))
	for _, name := range []string{"Old", "OldToo", "Unused"} { // of another operator set, so that calls of them stay
		f := function(name, "a", "b", node("Relu", "a", "b"))
		f.OpsetImport[0].Version = proto.Int64(12)
		pb.Functions = append(pb.Functions, f)
	}
	m, err := Parse("model", marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := FindHead(m, HeadOptions{Output: "y"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range c.pb.Functions {
		names = append(names, f.GetName())
	}
	if !slices.Equal(names, []string{"Old"}) {
		t.Errorf("functions %v, want Old only", names)
	}
}

func TestCutNamesAreNew(t *testing.T) {
	c := cutFixture(t, "names_taken", HeadOptions{})
	if got := []string{c.Outputs()[0].Name, c.Outputs()[1].Name}; !slices.Equal(got, []string{"mfgs_features_1", "mfgs_logits_1"}) {
		t.Errorf("outputs %v", got)
	}
	// A name inside a subgraph counts too.
	pb := network()
	pb.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("ignored"), G: &onnxpb.Graph{Node: []*onnxpb.Node{node("Relu", "x", CutLogits)}}}}
	m, err := Parse("model", marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := FindHead(m, HeadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c, err = Cut(m, h); err != nil {
		t.Fatal(err)
	}
	if got := c.Outputs()[1].Name; got != "mfgs_logits_1" {
		t.Errorf("output %s, and a subgraph has a tensor of this name", got)
	}
}

// Cutting gives a new model and leaves the old one as it was.
func TestCutChangesNothing(t *testing.T) {
	b := fixture(t, "torch_conv_pool.onnx")
	m, err := Parse("model", b)
	if err != nil {
		t.Fatal(err)
	}
	h, err := FindHead(m, HeadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(plain(t, again), plain(t, b)) {
		t.Error("the model has changed")
	}
	if c.SHA256() != m.SHA256() {
		t.Error("the cut model has lost its origin's sum")
	}
}

func TestCutRefusesTheHeadOfAnotherModel(t *testing.T) {
	m, err := Parse("model", fixture(t, "gemm.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := FindHead(m, HeadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := Parse("model", fixture(t, "gemm.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Cut(other, h)
}

// Training information speaks of tensors that are gone, other fields of a newer version stay.
func TestCutDropsTrainingInformation(t *testing.T) {
	pb := network()
	training := []byte{20<<3&0x7f | 2 | 0x80, 1, 0}
	other := []byte{26<<3&0x7f | 2 | 0x80, 1, 0}
	pb.ProtoReflect().SetUnknown(slices.Concat(training, other))
	m, err := Parse("model", marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := FindHead(m, HeadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.pb.ProtoReflect().GetUnknown(); !slices.Equal(got, other) {
		t.Errorf("unknown fields %x, want %x", got, other)
	}
}
