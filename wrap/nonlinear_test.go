package wrap_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx/head"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// forest is a bundle of a forest of four classes with matrix scaling.
func forest(t *testing.T) (*Predictor, *calibration.Report) {
	t.Helper()
	c := wraptest.ForestConfig(t, 4, nil)
	c.OOD, c.Classes, c.Decisions = "", []string{"ash", "beech", "oak", "yew"}, wraptest.EveryDecision
	r := mustCalibrate(t, c)
	if !r.Probabilities.Matrix {
		t.Fatal(r.Probabilities.Reason)
	}
	return opened(t, c.Out, Options{}), r
}

// What there is only with a linear layer is absent without one, from structs and from their JSON; the rest is there.
func TestPredictionsWithoutALayerHaveNoPosterior(t *testing.T) {
	t.Parallel()
	p, _ := forest(t)
	x := wraptest.ForestInputs(4, 10)
	own := onnxtest.NewForest(4).Probabilities(x.Data.([]float32))
	predictions, err := p.Predict(t.Context(), []Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := p.PredictFeatures(nil, predictions[0].Logits)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range append(predictions, rows...) {
		if one.LogitVariance != nil || one.Leverage != 0 || one.Abstain == nil || one.OODPercentile == nil ||
			one.OODPValue == nil {
			t.Fatalf("%+v", one)
		}
		for k, a := range one.Logits {
			if want := math.Log(math.Max(own[i%10*4+k], head.LeastProbability)); !approx.Equal(float64(a), want, 1e-5) {
				t.Fatalf("example %d: logits %v, want the logarithms of %v", i, one.Logits, own[i%10*4:i%10*4+4])
			}
		}
		encoded, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := one.EncodeJSON(&b); err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{encoded, b.Bytes()} {
			var keys map[string]any
			if err := json.Unmarshal(text, &keys); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"logit_variance", "leverage"} {
				if v, is := keys[key]; is {
					t.Errorf("%s is %v in %s", key, v, text)
				}
			}
			for _, key := range []string{"probabilities", "logits", "entropy", "confidence", "ood_score", "ood_percentile", "ood_pvalue", "abstain"} {
				if keys[key] == nil {
					t.Errorf("no %s in %s", key, text)
				}
			}
			var again Prediction
			if err := json.Unmarshal(text, &again); err != nil || again.LogitVariance != nil ||
				again.OODScore != one.OODScore {
				t.Errorf("read back as %+v, %v", again, err)
			}
		}
	}
	var names []string
	for _, o := range p.Outputs(Override{}) {
		names = append(names, o.Name)
	}
	if want := []string{"probabilities", "logits", "ood_score", "ood_percentile", "ood_pvalue", "abstain", "prediction_set"}; !slices.Equal(names, want) {
		t.Errorf("outputs %q, want %q", names, want)
	}
	if h := p.Head(); !h.Nonlinear || h.Kind != head.Probabilities || h.Features != 0 {
		t.Errorf("head %+v", h)
	}
	for _, wrong := range [][2][]float32{{{1}, predictions[0].Logits}, {nil, {1, 2, 3}}} {
		if _, err := p.PredictFeatures(wrong[0], wrong[1]); err == nil {
			t.Errorf("%v features and %v logits are predicted", wrong[0], wrong[1])
		}
	}
}

// The probabilities of every method but mf0 can be asked for, and are those of its formula.
func TestMethodsWithoutALayer(t *testing.T) {
	t.Parallel()
	p, r := forest(t)
	x := wraptest.ForestInputs(4, 30)
	outputs, err := p.Run(t.Context(), []Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	served, err := p.Apply(outputs, Override{})
	if err != nil {
		t.Fatal(err)
	}
	temperature, smoothing := r.Temperatures.TS, r.Temperatures.Smoothing
	for method, of := range map[string]func(Prediction) []float64{
		"mle":    func(one Prediction) []float64 { return softmax(one.Logits, 0, 1) },
		"ts":     func(one Prediction) []float64 { return softmax(one.Logits, smoothing, temperature) },
		"matrix": func(one Prediction) []float64 { return one.Probabilities },
	} {
		applied, err := p.Apply(outputs, Override{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range applied.Predictions {
			if one.LogitVariance != nil || one.OODScore != served.Predictions[i].OODScore {
				t.Fatalf("%s: %+v", method, one)
			}
			for k, want := range of(served.Predictions[i]) {
				if !approx.Equal(one.Probabilities[k], want, 1e-6) {
					t.Fatalf("%s: p[%d] = %v, want %v", method, k, one.Probabilities[k], want)
				}
			}
		}
	}
	for want, o := range map[string]Override{
		"Method is mf0, which needs a linear last layer": {Method: "mf0"},
		"TAct and TEns are temperatures of mf0":          {Method: "ts", TEns: 1},
		"temperatures of mf0":                            {TAct: 2},
	} {
		var e *OverrideError
		if _, err := p.Apply(outputs, o); !errors.As(err, &e) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
		if err := p.CheckOverride(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// softmax is softmax(log(p + ε)/T) with p the softmax of logits.
func softmax(logits []float32, smoothing, temperature float64) (p []float64) {
	sum, norm := 0.0, 0.0
	for _, a := range logits {
		sum += math.Exp(float64(a))
	}
	for _, a := range logits {
		v := math.Pow(math.Exp(float64(a))/sum+smoothing, 1/temperature)
		p, norm = append(p, v), norm+v
	}
	for k := range p {
		p[k] /= norm
	}
	return p
}

// Inspect offers the output of a model without a linear layer, unless one was asked for that is none.
func TestInspectOffersAnOutput(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	in, err := Inspect(c.Model, head.Options{})
	if err != nil || in.Supported || in.Head != nil || in.Output == nil || in.Output.LogitsTensor != "probabilities" ||
		in.Output.Kind != head.None || !strings.Contains(in.Reason, "no classification head") {
		t.Errorf("%+v, %v", in, err)
	}
	in, err = Inspect(c.Model, head.Options{Kind: head.Probabilities, Features: "x"})
	if err != nil || !in.Supported || in.Head == nil || in.Head.Kind != head.Probabilities ||
		in.Head.FeaturesTensor != "x" || in.Output != nil || in.Reason != "" {
		t.Errorf("%+v, %v", in, err)
	}
	in, err = Inspect(c.Model, head.Options{Kind: head.Scores, Output: "label"})
	if err != nil || in.Supported || in.Head != nil || in.Output != nil || !strings.Contains(in.Reason, "no output to calibrate") ||
		len(in.Nearest) > 0 {
		t.Errorf("%+v, %v", in, err)
	}
	in, err = Inspect(c.Model, head.Options{Output: "label"})
	if err != nil || in.Supported || in.Output != nil {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err = Inspect(digits(t, "model.onnx"), head.Options{}); err != nil || !in.Supported || in.Output != nil {
		t.Errorf("with a layer: %+v, %v", in, err)
	}
}

// Inspect says that an output may be text, unless it has a row for each example, or inputs are words.
func TestInspectOffersText(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	in, err := Inspect(c.Model, head.Options{})
	if err != nil || in.Supported || in.Output != nil || in.Steps == nil || in.Steps.LogitsTensor != "steps" {
		t.Errorf("%+v, %v", in, err)
	}
	in, err = Inspect(c.Model, head.Options{Kind: head.CTC})
	if err != nil || !in.Supported || in.Head == nil || in.Head.Kind != head.CTC || in.Steps != nil {
		t.Errorf("with the kind: %+v, %v", in, err)
	}
	if in, err = Inspect(wraptest.ForestConfig(t, 4, nil).Model, head.Options{}); err != nil || in.Steps != nil {
		t.Errorf("of a forest: %+v, %v", in, err)
	}
	two := wraptest.Recogniser()
	two.Symbols = 2
	if in, err = Inspect(wraptest.LineConfig(t, two).Model, head.Options{}); err != nil || in.Steps != nil {
		t.Errorf("of two symbols: %+v, %v", in, err)
	}
}
