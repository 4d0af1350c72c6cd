package wrap_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	. "github.com/mfgs/mfgs/wrap"
)

// The JSON of a multi-label prediction has lists of labels, even if they are empty; others have none.
func TestLabelsInJSON(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Prediction{
		`"label":null,"class":0,"confidence":0,"labels":[],"targets":[2],"probabilities"`:        {Labels: []int{}, Targets: []int{2}},
		`"label":null,"class":0,"confidence":0,"labels":[1],"label_names":["b"],"probabilities"`: {Labels: []int{1}, LabelNames: []string{"b"}},
		`"label":null,"class":0,"confidence":0,"probabilities"`:                                  {},
	} {
		out, err := json.Marshal(p)
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s, %v; want %s", out, err, want)
		}
	}
}

// JSON is read back as it was written, and has <, > and & unescaped if the encoder is set so.
func TestPredictionsInJSONAreReadBack(t *testing.T) {
	t.Parallel()
	label := 1
	want := Prediction{
		Input: "a&b<c>.png", Label: &label, Probabilities: []float64{0.25, 0.75}, Logits: []float32{-1, 2},
		LogitVariance: []float64{1, 2}, OODScore: 0.5, Leverage: 1e-300,
	}
	var plain bytes.Buffer
	if err := want.EncodeJSON(&plain); err != nil || !strings.HasPrefix(plain.String(), `{"input":"a&b<c>.png",`) ||
		!strings.HasSuffix(plain.String(), `"ood_score":0.5,"ood_percentile":null,"ood_pvalue":null,"leverage":1e-300}`) {
		t.Errorf("%s, %v", plain.String(), err)
	}
	escaped, err := json.Marshal(want)
	if err != nil || !strings.HasPrefix(string(escaped), `{"input":"a\u0026b\u003cc\u003e.png",`) {
		t.Errorf("%s, %v", escaped, err)
	}
	for _, text := range [][]byte{plain.Bytes(), escaped} {
		var got Prediction
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	if none := (&Prediction{}); none.OODScore != 0 || none.Leverage != 0 {
		t.Error("a prediction without scores has some")
	}
}

// The caller may change the descriptions of inputs and outputs.
func TestDescriptionsBelongToTheCaller(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, structures[0])
	p := opened(t, dir, Options{})
	p.Outputs(Override{})[0].Shape[1].Value, p.Inputs()[0].Shape[1].Value = 99, 99
	if p.Outputs(Override{})[0].Shape[1].Value != 10 || p.Inputs()[0].Shape[1].Value == 99 {
		t.Errorf("outputs %v, inputs %v", p.Outputs(Override{}), p.Inputs())
	}
}
