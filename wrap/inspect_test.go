package wrap_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx/head"
	. "github.com/mfgs/mfgs/wrap"
)

func TestInspectReportsTheHead(t *testing.T) {
	t.Parallel()
	in, err := Inspect(digits(t, models.DigitsModel), head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !in.Supported || in.Reason != "" || in.Head == nil || in.Head.Logits != 10 || len(in.Evidence) == 0 ||
		len(in.Model.SHA256) != 64 || len(in.Model.Inputs) != 1 {
		t.Errorf("%+v", in)
	}
	out, err := json.Marshal(in)
	if err != nil || !strings.Contains(string(out), `"feature_dim":128`) {
		t.Errorf("%s, %v", out, err)
	}
}

// A head that is not recognised is an answer, not an error.
func TestInspectSaysWhyThereIsNoHead(t *testing.T) {
	t.Parallel()
	in, err := Inspect("../testdata/onnx/no_layer.onnx", head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if in.Supported || in.Head != nil || !strings.Contains(in.Reason, "name its tensors with Features and Logits") {
		t.Errorf("%+v", in)
	}
	out, err := json.Marshal(in)
	if err != nil || !strings.Contains(string(out), `"head":null`) || !strings.Contains(string(out), `"evidence":[]`) {
		t.Errorf("%s, %v", out, err)
	}
	_, err = Inspect(write(t, t.TempDir(), "x.onnx", []byte("no model")), head.Options{})
	says(t, err, "x.onnx", "not an ONNX model")
}

// Heads with every link can be calibrated.
func TestInspectSupportsAllLinks(t *testing.T) {
	t.Parallel()
	for model, link := range map[string]layer.Link{multiLabelModel: layer.Sigmoid, oneVsRestModel: layer.OneVsRest,
		"../testdata/onnx/torch_binary.onnx": layer.Sigmoid} {
		in, err := Inspect(model, head.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !in.Supported || in.Reason != "" || in.Head.Link != link || len(in.Evidence) == 0 {
			t.Errorf("%s: %+v", model, in)
		}
	}
}
