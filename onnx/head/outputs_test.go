package head

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

func TestOutputsAreFollowedFromTheLogits(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]Output{
		"keras.onnx":               {{Name: "y", Width: 4, Ops: []string{"Softmax"}}},
		"torch_linear_opset7.onnx": {{Name: "y", Width: 4}},
		"torch_argmax.onnx":        {{Name: "y", Width: 1, Integer: true, Ops: []string{"ArgMax"}}},
		"torch_binary.onnx":        {{Name: "y", Width: 1, Ops: []string{"Sigmoid", "Squeeze"}}},
		"tail_label_and_probabilities.onnx": {{Name: "l", Width: 1, Integer: true, Ops: []string{"ArgMax"}},
			{Name: "p", Width: 4, Ops: []string{"Softmax"}}},
		"operators/qdq_softmax.onnx": {{Name: "y", Width: 4, Coarse: true,
			Ops: []string{"DequantizeLinear", "QuantizeLinear", "Softmax"}}},
		// after it a ZipMap; the labels are strings
		"operators/linear_classifier.onnx": {{Name: "y", Width: 4,
			Ops: []string{"Softmax", "ai.onnx.ml.Normalizer"}}},
		"operators/tail_softmax_by_hand.onnx": {{Name: "y", Width: 4, Ops: []string{"Softmax"}}},
		"outputs_aux_chosen.onnx":             {{Name: "main", Width: 4}}, // the other output is made of other logits
	} {
		m := mustOpen(t, filepath.Join("../../testdata/onnx", file))
		h, err := Find(m, Options{})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		with, got, err := WithOutputs(m, h)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", file, got, err, want)
			continue
		}
		outputs := with.Outputs()
		if len(outputs) != 1+len(want) || outputs[0].Shape[1].Value != int64(h.Logits) {
			t.Errorf("%s: outputs %v", file, outputs)
			continue
		}
		for i, o := range outputs[1:] {
			if o.Type != tensor.Float32 || len(o.Shape) != 2 || o.Shape[1].Value != int64(want[i].Width) {
				t.Errorf("%s: output %v for %+v", file, o, want[i])
			}
		}
	}
}

func mustOpen(t *testing.T, path string) *onnx.Model {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
