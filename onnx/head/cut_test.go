package head

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// cutFixture finds the head of a fixture and cuts there.
func cutFixture(t *testing.T, name string, o Options) *onnx.Model {
	t.Helper()
	m, err := onnx.Parse(name, onnxtest.Fixture(t, name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, o)
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
func formOf(m *onnx.Model) string {
	var ops, weights, inputs []string
	for _, n := range m.Proto().Graph.Node {
		ops = append(ops, n.Op())
	}
	for _, w := range m.Proto().Graph.Initializer {
		weights = append(weights, w.GetName())
	}
	for _, v := range m.Proto().Graph.Input {
		inputs = append(inputs, v.GetName())
	}
	return strings.Join(ops, " ") + " | " + strings.Join(weights, " ") + " | " + strings.Join(inputs, " ")
}

func TestCutKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fixture string
		options Options
		want    string
	}{
		// The operators from logits to probabilities are removed.
		{"tail_temperature", Options{}, "Gemm Relu Gemm Mul Div Flatten Flatten | bw bb w b t u | x"},
		// So is another output, with its weights.
		{"outputs_aux", Options{}, "Gemm Relu Gemm Flatten Flatten | bw bb w b | x"},
		{"outputs_aux", Options{Output: "aux"}, "Gemm Gemm Flatten Flatten | bw bb w2 | x"},
		// The order is topological, for any order of the file.
		{"unordered", Options{}, "Gemm Relu Gemm Flatten Flatten | bw bb w b | x"},
		// Outer tensors that a branch reads stay.
		{"control_flow", Options{}, "Gemm Relu ReduceSum Greater If Gemm Cast Flatten Flatten | bw bb w b zero | x"},
		// Before IR version 4 weights are inputs too, later they need not be.
		{"cntk", Options{}, "Gemm Relu Reshape MatMul Add Flatten Flatten | bw bb w s b | x"},
		{"torch_keep_initializers", Options{},
			"Gemm Relu Gemm Flatten Flatten | body.weight body.bias fc.weight fc.bias | x"},
		// Features take the way of the logits: pooled, turned round, flattened, converted.
		{"torch_conv_pool", Options{}, "Conv Relu Conv GlobalAveragePool Flatten GlobalAveragePool Flatten Flatten | body.weight body.bias fc.weight fc.bias | x"},
		{"torch_token", Options{}, "MatMul Add Relu MatMul Add Constant Gather Gather Flatten Flatten | body.bias fc.bias onnx::MatMul_14 onnx::MatMul_15 | x"},
		{"gemm_transA", Options{}, "Gemm Relu Transpose Gemm Transpose Flatten Flatten | bw bb w b | x"},
		{"float16", Options{}, "Gemm Relu Cast Gemm Cast Cast Flatten Flatten | bw bb w b | x"},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			if got := formOf(cutFixture(t, tt.fixture, tt.options)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestCutKeepsUsedFunctionsOnly(t *testing.T) {
	t.Parallel()
	pb := onnxtest.Functional([]*onnxpb.Node{onnxtest.Calls("Old", "x", "h"), onnxtest.Calls("Plain", "h", "g"),
		onnxtest.Node("MatMul", "g w", "y"), onnxtest.Calls("OldToo", "y", "z")},
		onnxtest.Function("Plain", "a", "b", onnxtest.Node("Relu", "a", "b")))
	pb.Graph.Output = append(pb.Graph.Output, onnxpb.TensorInfo("z", tensor.Float32, -1, 32))
	for _, name := range []string{"Old", "OldToo", "Unused"} { // of another operator set, so that calls of them stay
		f := onnxtest.Function(name, "a", "b", onnxtest.Node("Relu", "a", "b"))
		f.OpsetImport[0].Version = proto.Int64(12)
		pb.Functions = append(pb.Functions, f)
	}
	m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, Options{Output: "y"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range c.Proto().Functions {
		names = append(names, f.GetName())
	}
	if !slices.Equal(names, []string{"Old"}) {
		t.Errorf("functions %v, want Old only", names)
	}
}

func TestCutNamesAreNew(t *testing.T) {
	t.Parallel()
	c := cutFixture(t, "names_taken", Options{})
	if got := []string{c.Outputs()[0].Name, c.Outputs()[1].Name}; !slices.Equal(got,
		[]string{"mfgs_features_1", "mfgs_logits_1"}) {
		t.Errorf("outputs %v", got)
	}
	// A name inside a subgraph counts too.
	pb := onnxtest.Network()
	pb.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("ignored"),
		G: &onnxpb.Graph{Node: []*onnxpb.Node{onnxtest.Node("Relu", "x", CutLogits)}}}}
	m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, Options{})
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
	t.Parallel()
	b := onnxtest.Fixture(t, "torch_conv_pool.onnx")
	m, err := onnx.Parse("model", b)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, Options{})
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
	if !proto.Equal(onnxtest.Unmarshal(t, again), onnxtest.Unmarshal(t, b)) {
		t.Error("the model has changed")
	}
	if c.SHA256() != m.SHA256() {
		t.Error("the cut model has lost its origin's sum")
	}
}

func TestCutRefusesTheHeadOfAnotherModel(t *testing.T) {
	t.Parallel()
	m, err := onnx.Parse("model", onnxtest.Fixture(t, "gemm.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := onnx.Parse("model", onnxtest.Fixture(t, "gemm.onnx"))
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
	t.Parallel()
	pb := onnxtest.Network()
	training := []byte{20<<3&0x7f | 2 | 0x80, 1, 0}
	other := []byte{26<<3&0x7f | 2 | 0x80, 1, 0}
	pb.ProtoReflect().SetUnknown(slices.Concat(training, other))
	m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Proto().ProtoReflect().GetUnknown(); !slices.Equal(got, other) {
		t.Errorf("unknown fields %x, want %x", got, other)
	}
}
