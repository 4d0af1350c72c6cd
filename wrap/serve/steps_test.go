package serve_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve"
)

// A model of steps is served with an answer for each that counts, and with tensors that have their axis. Metrics
// observe one step of each example.
func TestAModelOfStepsIsServed(t *testing.T) {
	t.Parallel()
	c := wraptest.StepConfig(t, wraptest.StepTagger())
	c.Decisions = conformal.Plan{TargetError: 0.2, Alpha: 0.1}
	wraptest.MustCalibrate(t, c)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "tagger", Dir: c.Out}}})
	const n, steps = 5, 9
	inputs := wraptest.SequenceInputs(wraptest.Sequences(61, n, steps))
	p := wraptest.Opened(t, c.Out, wrap.Options{})
	want, err := p.Predict(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	scores, mask := inputs[0].Data.([]float32), inputs[1].Data.([]int64)
	list := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for i := range n {
		var rows []string
		for at := range steps {
			rows = append(rows, list(scores[(i*steps+at)*3:(i*steps+at+1)*3]))
		}
		_, _, body := r.send("POST", "/v1/predict",
			fmt.Sprintf(`{"line": [%s], "attention_mask": %s}`, strings.Join(rows, ","), list(mask[i*steps:(i+1)*steps])))
		var one struct {
			Step, Class int
			Confidence  float64
			Steps       []struct {
				Step, Class int
				Label       string
				Confidence  float64
				Abstain     *bool
				Set         []int `json:"prediction_set"`
			}
		}
		if err := json.Unmarshal(body, &one); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		counted := p.CountedSteps(inputs, i, steps)
		if len(one.Steps) != len(counted) || len(counted) == 0 {
			t.Fatalf("%d steps of %s, want %d", len(one.Steps), body, len(counted))
		}
		for j, got := range one.Steps {
			w := want[i*steps+counted[j]]
			if got.Step != counted[j] || got.Class != w.Class || got.Label != w.ClassName ||
				*got.Abstain != *w.Abstain || !approx.Equal(got.Confidence, w.Confidence, 1e-6) ||
				!slices.Equal(got.Set, w.PredictionSet) {
				t.Errorf("step %+v, want %+v", got, w)
			}
			if got.Confidence < one.Confidence || got.Step == one.Step && got.Class != one.Class {
				t.Errorf("the answer is that of step %d, and step %+v is less certain", one.Step, got)
			}
		}
	}
	var got struct {
		Outputs []struct {
			Name  string
			Shape []int
			Data  []any
		}
	}
	r.object("POST", "/v2/models/tagger/infer", fmt.Sprintf(`{"inputs": [
		{"name": "line", "datatype": "FP32", "shape": [5, 9, 3], "data": %s},
		{"name": "attention_mask", "datatype": "INT64", "shape": [5, 9], "data": %s}]}`, list(scores), list(mask)), &got)
	for _, o := range got.Outputs {
		shape := "[5 9]"
		if len(o.Shape) == 3 {
			shape = "[5 9 3]"
		}
		if fmt.Sprint(o.Shape) != shape ||
			o.Name == "probabilities" && !approx.Equal(o.Data[4].(float64), want[1].Probabilities[1], 1e-6) {
			t.Errorf("output %s %v, want %s", o.Name, o.Shape, shape)
		}
	}
	_, _, metrics := r.send("GET", "/metrics", "")
	if count := fmt.Sprintf("mfgs_prediction_confidence_count{model=\"tagger\"} %d\n", 2*n); !strings.Contains(string(metrics), count) {
		t.Errorf("metrics lack %q", count)
	}
}
