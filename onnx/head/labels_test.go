package head

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// modelOf returns a model that computes y from x, of four features.
func modelOf(nodes []*onnxpb.Node, constants ...*onnxpb.Tensor) *onnxpb.Model {
	return &onnxpb.Model{
		IrVersion: proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)},
			{Domain: proto.String("ai.onnx.ml"), Version: proto.Int64(3)}},
		Graph: &onnxpb.Graph{Node: nodes, Initializer: constants,
			Input:  []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, 4)},
			Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, 3)}},
	}
}

func TestIntegersIndexedByTheClassAreClassNames(t *testing.T) {
	t.Parallel()
	names := &onnxpb.Tensor{Name: proto.String("names"), Dims: []int64{3}, DataType: proto.Int32(int32(tensor.Int64)),
		Int64Data: []int64{7, 30, 5}}
	pick := onnxtest.Node("ArrayFeatureExtractor", "names at", "label")
	pick.Domain = proto.String("ai.onnx.ml")
	_, h := parsed(t, modelOf([]*onnxpb.Node{
		onnxtest.Node("MatMul", "x w", "z"), onnxtest.Node("Softmax", "z", "y"),
		onnxtest.Node("ArgMax", "y", "at", onnxpb.IntAttribute("axis", 1)), pick,
	}, onnxtest.FloatTensor("w", make([]float64, 12), 4, 3), names))
	if want := []string{"7", "30", "5"}; !slices.Equal(h.Labels, want) {
		t.Errorf("labels %q, want %q", h.Labels, want)
	}
}

func TestALayerBelowHasABiasIfItsSumHasOne(t *testing.T) {
	t.Parallel()
	relu := func(n *onnxpb.Node) string {
		if n.Op() == "Relu" {
			return n.In(0)
		}
		return ""
	}
	for _, bias := range []bool{false, true} {
		inner := []*onnxpb.Node{onnxtest.Node("MatMul", "x v", "u")}
		if bias {
			inner = []*onnxpb.Node{onnxtest.Node("MatMul", "x v", "s"), onnxtest.Node("Add", "s b", "u")}
		}
		_, h := parsed(t, modelOf(append(inner, onnxtest.Node("Relu", "u", "phi"),
			onnxtest.Node("MatMul", "phi w", "z"), onnxtest.Node("Softmax", "z", "y")),
			onnxtest.FloatTensor("v", make([]float64, 8), 4, 2), onnxtest.FloatTensor("b", []float64{1, 2}, 2),
			onnxtest.FloatTensor("w", make([]float64, 6), 2, 3)))
		if below, err := Below(h, relu); err != nil || below.Bias != bias || below.Features != 4 || below.Logits != 2 {
			t.Errorf("%+v, %v, want bias %v", below, err, bias)
		}
	}
}

// A mean over an axis of length 1 is no average of probabilities; one over any other is, and over the examples.
func TestAMeanOfOneProbabilityIsPassed(t *testing.T) {
	t.Parallel()
	model := func(frames, axis, keep int64) *onnxpb.Model {
		m := modelOf([]*onnxpb.Node{
			onnxtest.Node("MatMul", "x w", "z"), onnxtest.Node("Sigmoid", "z", "p"),
			onnxtest.Node("ReduceMean", "p", "y", onnxpb.IntsAttribute("axes", axis), onnxpb.IntAttribute("keepdims", keep)),
		}, onnxtest.FloatTensor("w", make([]float64, 12), 4, 3))
		m.Graph.Input = []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, frames, 4)}
		return m
	}
	for _, keep := range []int64{0, 1} {
		_, h := parsed(t, model(1, 1, keep))
		if h.FeaturesTensor != "x" || h.Features != 4 || h.Logits != 3 || h.Link != layer.Sigmoid {
			t.Errorf("the head %+v, want the layer before the mean", h)
		}
		for _, c := range [][2]int64{{2, 1}, {1, 0}, {2, 0}} {
			m, err := onnx.Parse("mean", onnxtest.Marshal(t, model(c[0], c[1], keep)))
			if err != nil {
				t.Fatal(err)
			}
			if h, err := Find(m, Options{}); err == nil {
				t.Errorf("the head %+v of a mean over axis %d of [N,%d,3], want an error", h, c[1], c[0])
			}
		}
	}
}
