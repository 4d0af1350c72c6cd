package serve_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve"
)

// A model without a linear layer is served like any other, without outputs of a posterior.
func TestAForestIsServed(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	c.OOD, c.Classes, c.Decisions = "", []string{"ash", "beech", "oak", "yew"}, wraptest.EveryDecision
	wraptest.MustCalibrate(t, c)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "forest", Dir: c.Out}}})
	want, err := wraptest.Opened(t, c.Out, wrap.Options{}).Predict(t.Context(),
		[]wrap.Tensor{{Name: "x", Shape: []int64{1, 4}, Data: []float32{0, 1, -1, 0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	one := r.predict("?top=9", `{"x": [0, 1, -1, 0.5]}`)
	if len(one.Top) != 4 || one.Class != want[0].Class || one.Label != want[0].ClassName || one.Set == nil ||
		one.Abstain == nil ||
		!approx.Equal(one.OODScore, want[0].OODScore, 1e-9) || !approx.Equal(one.Entropy, want[0].Entropy, 1e-5) {
		t.Errorf("%+v, want %+v", one, want[0])
	}
	_, _, text := r.send("POST", "/v1/predict", `{"x": [0, 1, -1, 0.5]}`)
	if s := string(text); strings.Contains(s, "leverage") || strings.Contains(s, "variance") {
		t.Errorf("answer %s", s)
	}

	var meta struct{ Outputs []struct{ Name string } }
	r.object("GET", "/v2/models/forest", "", &meta)
	var names []string
	for _, o := range meta.Outputs {
		names = append(names, o.Name)
	}
	if slices.Contains(names, "leverage") || slices.Contains(names, "logit_variance") || !slices.Contains(names, "ood_score") {
		t.Errorf("outputs %q", names)
	}
	const x = `"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 1, -1, 0.5]}]`
	var got inference
	r.object("POST", "/v2/models/forest/infer", "{"+x+"}", &got)
	for k, p := range got.numbers(t, names[0]) {
		if !approx.Equal(p, want[0].Probabilities[k], 1e-6) {
			t.Errorf("p[%d] = %v, want %v", k, p, want[0].Probabilities[k])
		}
	}
	for _, method := range []string{"mle", "ts"} {
		r.object("POST", "/v2/models/forest/infer", `{"parameters": {"method": "`+method+`"}, `+x+`}`, &got)
		if p := got.numbers(t, names[0]); !approx.Equal(wraptest.Total(p), 1, 1e-5) {
			t.Errorf("%s: %v", method, p)
		}
	}
	for _, body := range []string{
		`{"parameters": {"method": "mf0"}, ` + x + `}`,
		`{` + x + `, "outputs": [{"name": "leverage"}]}`,
		`{` + x + `, "outputs": [{"name": "logit_variance"}]}`,
	} {
		if code, _, answer := r.send("POST", "/v2/models/forest/infer", body); code != 400 || strings.Count(strings.TrimSpace(string(answer)), "\n") > 0 {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
}
