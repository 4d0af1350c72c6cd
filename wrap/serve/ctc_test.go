package serve_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve"
)

// A recogniser is served with its text, as the label of /v1/predict and as BYTES of the Open Inference Protocol.
func TestARecogniserIsServed(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	c.Decisions = conformal.Plan{TargetError: 0.2}
	wraptest.MustCalibrate(t, c)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "reader", Dir: c.Out}}})
	lines := wraptest.Lines(28, 6, 16)
	in := wraptest.LineInputs(lines)
	want, err := wraptest.Opened(t, c.Out, wrap.Options{}).Predict(t.Context(), []wrap.Tensor{in})
	if err != nil {
		t.Fatal(err)
	}
	list := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for i, l := range lines {
		var steps [][]float32
		for at := 0; at < len(l.Scores); at += 5 {
			steps = append(steps, l.Scores[at:at+5])
		}
		_, _, body := r.send("POST", "/v1/predict", `{"line": `+list(steps)+`}`)
		var one struct {
			Label      string
			Class      int
			Confidence float64
			Abstain    *bool
			Characters []wrap.Character
		}
		if err := json.Unmarshal(body, &one); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		w := want[i]
		if one.Label != *w.Text || one.Class != 1 || !approx.Equal(one.Confidence, w.Confidence, 1e-6) ||
			len(one.Characters) != len(w.Characters) || *one.Abstain != *w.Abstain {
			t.Errorf("%+v, want %+v", one, w)
		}
		for j, c := range one.Characters {
			if c.Text != w.Characters[j].Text || !approx.Equal(c.Probability, w.Characters[j].Probability, 1e-6) {
				t.Errorf("character %+v, want %+v", c, w.Characters[j])
			}
		}
	}

	var meta struct {
		Outputs []struct {
			Name, Datatype string
			Shape          []int
		}
	}
	r.object("GET", "/v2/models/reader", "", &meta)
	found := false
	for _, o := range meta.Outputs {
		if o.Name == "text" {
			found = o.Datatype == "BYTES" && fmt.Sprint(o.Shape) == "[-1 -1]"
		}
	}
	if !found {
		t.Errorf("outputs %+v", meta.Outputs)
	}
	body := fmt.Sprintf(`"inputs": [{"name": "line", "datatype": "FP32", "shape": [6, 16, 5], "data": %s}]`, list(in.Data))
	for _, more := range []string{"", `"parameters": {"method": "mle"}, `, `"parameters": {"max_uncertainty": 0.3}, `} {
		var got struct {
			Outputs []struct {
				Name, Datatype string
				Shape          []int
				Data           []any
			}
		}
		r.object("POST", "/v2/models/reader/infer", "{"+more+body+"}", &got)
		texts := make([]string, len(want))
		for _, o := range got.Outputs {
			switch o.Name {
			case "text":
				width := o.Shape[1]
				for i := range texts {
					for _, s := range o.Data[i*width : (i+1)*width] {
						texts[i] += s.(string)
					}
				}
			case "abstain":
				if len(o.Data) != len(want) {
					t.Errorf("%s: abstain %v", more, o.Data)
				}
			}
		}
		for i, w := range want {
			if texts[i] != *w.Text {
				t.Errorf("%s: %q, want %q", more, texts[i], *w.Text)
			}
		}
	}
	code, _, answer := r.send("POST", "/v2/models/reader/infer", `{"parameters": {"method": "mf0"}, `+body+`}`)
	if code != 400 || strings.Count(strings.TrimSpace(string(answer)), "\n") > 0 {
		t.Errorf("%d %s", code, answer)
	}
}
