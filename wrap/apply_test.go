package wrap_test

import (
	"bytes"
	"encoding/json"
	"errors"
	goimage "image"
	"image/png"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/onnx"
	. "github.com/mfgs/mfgs/wrap"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// digitsWithDecisions returns a predictor of digits with decisions, and the outputs of its network for some digits.
func digitsWithDecisions(t *testing.T) (*Predictor, []Tensor) {
	c := quick(config(t, filepath.Join(t.TempDir(), "bundle")))
	c.Decisions = conformal.Plan{TargetCoverage: 0.8, FalseAlarm: 0.1, Alpha: 0.05}
	mustCalibrate(t, c)
	p := opened(t, c.Out, Options{})
	outputs, err := p.Run(t.Context(), []Tensor{digitTensor(t, 1500, 1600)})
	if err != nil {
		t.Fatal(err)
	}
	return p, outputs
}

func TestOverridesGiveOtherProbabilitiesOfTheSameResults(t *testing.T) {
	t.Parallel()
	p, outputs := digitsWithDecisions(t)
	applied, err := p.Apply(outputs, Override{})
	if err != nil {
		t.Fatal(err)
	}
	plain := applied.Predictions
	again, err := p.Predict(t.Context(), []Tensor{digitTensor(t, 1500, 1600)})
	if err != nil || !reflect.DeepEqual(again, plain) {
		t.Errorf("the empty override is not what Predict gives: %v", err)
	}
	nll := p.Bundle().Temperatures.NLL
	mf0 := func(act, ens float64) func(Prediction) []float64 {
		return func(one Prediction) []float64 { // as the paper prints it, eq. 9
			e, sum := make([]float64, len(one.Logits)), 0.0
			for k := range e {
				s := math.Sqrt(1 + 3/(math.Pi*math.Pi)*one.LogitVariance[k]/ens)
				for _, a := range one.Logits {
					e[k] += math.Exp((float64(a) - float64(one.Logits[k])) / act / s)
				}
				e[k] = 1 / e[k]
				sum += e[k]
			}
			for k := range e {
				e[k] /= sum
			}
			return e
		}
	}
	scaled := func(temperature float64) func(Prediction) []float64 { return mf0(temperature, math.Inf(1)) }
	for name, c := range map[string]struct {
		Override
		want func(Prediction) []float64
	}{
		"mle":                    {Override{Method: "mle"}, scaled(1)},
		"ts":                     {Override{Method: "ts"}, scaled(p.Bundle().Temperatures.TS)},
		"mf0":                    {Override{Method: "mf0"}, mf0(nll.Act, nll.Ens)},
		"mf0, other temperature": {Override{Method: "mf0", TEns: 3e-3}, mf0(nll.Act, 3e-3)},
		"mf0, both others":       {Override{Method: "mf0", TAct: 2, TEns: 1e-2}, mf0(2, 1e-2)},
	} {
		t.Run(name, func(t *testing.T) {
			results, err := p.Apply(outputs, c.Override)
			if err != nil {
				t.Fatal(err)
			}
			got := results.Predictions
			served := string(p.Bundle().Probabilities.Method) == c.Method && c.TAct == 0 && c.TEns == 0
			for i, one := range got {
				want := c.want(plain[i])
				for k, v := range one.Probabilities {
					if !approx.Equal(v, want[k], 2e-6*want[k]+1e-9) {
						t.Fatalf("example %d has %v, want %v", i, one.Probabilities, want)
					}
				}
				if one.OODScore != plain[i].OODScore || *one.OODPercentile != *plain[i].OODPercentile {
					t.Fatalf("example %d scores %v, the bundle %v", i, one.OODScore, plain[i].OODScore)
				}
				if !served && (one.PredictionSet != nil || one.AbstainReason == conformal.ReasonUncertain) {
					t.Fatalf("example %d has decisions about other probabilities: %+v", i, one)
				}
			}
		})
	}
}

func TestOverridesHaveSeparateThresholds(t *testing.T) {
	t.Parallel()
	p, outputs := digitsWithDecisions(t)
	at := func(v float64) *float64 { return &v }
	if got := p.Outputs(Override{Method: "mle", MaxUncertainty: at(0.5)}); len(got) != 8 || got[7].Name != "abstain" {
		t.Errorf("outputs %v, want abstain at the end and no prediction set", got)
	}
	for name, c := range map[string]struct {
		Override
		want func(Prediction) string
	}{
		"uncertain": {Override{MaxUncertainty: at(0.01), MaxOODScore: at(1)}, func(one Prediction) string {
			if one.Confidence < 0.99 {
				return "uncertain"
			}
			return ""
		}},
		"out-of-distribution": {Override{MaxUncertainty: at(1), MaxOODScore: at(0.5)}, func(one Prediction) string {
			if one.OODScore > 0.5 {
				return "out-of-distribution"
			}
			return ""
		}},
		"neither": {Override{Method: "mle", MaxUncertainty: at(1), MaxOODScore: at(1)}, func(Prediction) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			results, err := p.Apply(outputs, c.Override)
			if err != nil {
				t.Fatal(err)
			}
			got := results.Predictions
			kinds := map[string]int{}
			for i, one := range got {
				kinds[one.AbstainReason]++
				if one.Abstain == nil || one.AbstainReason != c.want(one) || *one.Abstain != (one.AbstainReason != "") {
					t.Fatalf("example %d: %+v", i, one)
				}
			}
			if c.Method == "" && len(kinds) != 2 {
				t.Errorf("the threshold parts nothing: %v", kinds)
			}
		})
	}
}

func TestContradictoryOverridesAreRefused(t *testing.T) {
	t.Parallel()
	p, outputs := digitsWithDecisions(t)
	at := func(v float64) *float64 { return &v }
	for want, v := range map[string]Override{
		`Method is "mf1", want mf0, matrix, ts or mle`:                 {Method: "mf1"},
		"TAct and TEns are temperatures of mf0, and the probabilities": {Method: "ts", TAct: 2},
		"TAct is -1, want a number from 1e-06 to 1e+06":                {Method: "mf0", TAct: -1},
		"TEns is NaN":                       {Method: "mf0", TEns: math.NaN()},
		"MaxUncertainty is 1.5":             {MaxUncertainty: at(1.5)},
		"MaxOODScore is NaN, want a number": {MaxOODScore: at(math.NaN())},
	} {
		if err := p.CheckOverride(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", v, err, want)
		}
		if _, err := p.Apply(outputs, v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", v, err, want)
		}
	}
}

func TestApplyRefusesWhatRunDoesNotGive(t *testing.T) {
	t.Parallel()
	p, outputs := digitsWithDecisions(t)
	with := func(i int, change func(*Tensor)) []Tensor {
		changed := slices.Clone(outputs)
		changed[i].Shape = slices.Clone(changed[i].Shape)
		change(&changed[i])
		return changed
	}
	for name, c := range map[string]struct {
		outputs []Tensor
		want    string
	}{
		"one too few":          {outputs[1:], "6 tensors, want the 7"},
		"another element type": {with(3, func(t *Tensor) { t.Data = make([]float32, 100) }), "tensor 3 is float32[100]"},
		"no elements":          {with(1, func(t *Tensor) { t.Data = nil }), "want logits as Run gives it: float32[100 10]"},
		"too few elements":     {with(2, func(t *Tensor) { t.Data = make([]float32, 10) }), "10 numbers"},
		"too few rows":         {with(4, func(t *Tensor) { t.Shape[0] = 99; t.Data = make([]float64, 99) }), "tensor 4"},
		"no shape":             {with(0, func(t *Tensor) { t.Shape = nil }), "tensor 0"},
		"a negative shape":     {with(0, func(t *Tensor) { t.Shape[0] = -1 }), "tensor 0"},
	} {
		got, err := p.Apply(c.outputs, Override{})
		if err == nil || !strings.Contains(err.Error(), c.want) || got.Outputs != nil || got.Predictions != nil {
			t.Errorf("%s: %+v, %v; want the error %q", name, got, err, c.want)
		}
	}

	data := classified(t, 600, 4, 3)
	c := Config{PrecomputedFeatures: true, Train: data + "[:400]", Val: data + "[400:]", Out: filepath.Join(t.TempDir(), "b")}
	mustCalibrate(t, c)
	for _, outputs := range [][]Tensor{nil, outputs} {
		if _, err := opened(t, c.Out, Options{}).Apply(outputs, Override{}); !errors.Is(err, ErrNoModel) {
			t.Errorf("without a model: %v", err)
		}
	}
}

func TestNoExamplesHaveTheOutputsOfSome(t *testing.T) {
	t.Parallel()
	p, outputs := digitsWithDecisions(t)
	none := make([]Tensor, len(outputs))
	for i, o := range outputs {
		none[i] = o.Slice(0, 0)
	}
	same := func(d int64, of onnx.Dim) bool { return d == of.Value }
	half := 0.5
	for name, o := range map[string]Override{
		"the bundle's": {}, "mf0": {Method: "mf0", TAct: 2}, "ts": {Method: "ts"},
		"mle": {Method: "mle", MaxUncertainty: &half},
	} {
		got, err := p.Apply(none, o)
		if err != nil || len(got.Predictions) != 0 || len(got.Outputs) != len(p.Outputs(o)) {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		for i, info := range p.Outputs(o) {
			have := got.Outputs[i]
			if have.Name != info.Name || have.Type() != info.Type || have.Len() != 0 || have.Shape[0] != 0 ||
				!slices.EqualFunc(have.Shape[1:], info.Shape[1:], same) {
				t.Errorf("%s: output %+v, want %v", name, have, info)
			}
		}
	}
}

func TestImagesAndObjectsBecomeModelInputs(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Full)
	p := opened(t, dir, Options{})
	digit := digitTensor(t, 1500, 1501)
	img := goimage.NewGray(goimage.Rect(0, 0, 8, 8))
	for j, v := range digit.Data.([]float32) {
		img.Pix[j] = uint8(v*255 + .5)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	want, err := p.PredictImages(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	same := func(inputs []Tensor, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Predict(t.Context(), inputs); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	same(p.ImageInputs(file.Bytes()))
	rows := slices.Collect(slices.Chunk(digit.Data.([]float32), 8))
	text, err := json.MarshalIndent(map[string]any{"image": [][][]float32{rows}}, "", "\t") // over many lines
	if err != nil {
		t.Fatal(err)
	}
	line, err := p.JSONInputs(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Predict(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	alike(t, got[0], want[0])

	// NaN and infinities reach the model, as in lines.
	for word, is := range map[string]func(float64) bool{
		"NaN":       math.IsNaN,
		"Infinity":  func(v float64) bool { return math.IsInf(v, 1) },
		"-Infinity": func(v float64) bool { return math.IsInf(v, -1) },
		"null":      math.IsNaN,
	} {
		inputs, err := p.JSONInputs([]byte(strings.Replace(string(text), "0", word, 1)))
		found := func(v float32) bool { return is(float64(v)) }
		if err != nil || !slices.ContainsFunc(inputs[0].Data.([]float32), found) {
			t.Errorf("%s among the numbers: %v", word, err)
		}
	}

	for object, why := range map[string]string{
		"":                     "broken JSON",
		"{\"image\":\"a\nb\"}": "broken JSON",
		`{"image":[NaN1]}`:     "broken JSON",
		"{":                    "broken JSON",
		"[1,2]":                "an object",
		"{}":                   "no inputs",
		`{"image":[1,2]}`:      "[N,1,8,8]",
		`{"a":1} {"a":2}`:      "broken JSON",
		`{"image":"three"}`:    "",
	} {
		_, err := p.JSONInputs([]byte(object))
		says(t, err, why)
	}
	_, err = p.ImageInputs([]byte("no image"))
	says(t, err, "image: not a PNG or JPEG file")
	features, _ := decided(t)
	mustCalibrate(t, features)
	alone := opened(t, features.Out, Options{})
	if _, err := alone.ImageInputs(file.Bytes()); err == nil {
		t.Error("a bundle without a model takes images")
	}
	if _, err := alone.JSONInputs(text); err == nil {
		t.Error("a bundle without a model takes its inputs")
	}
}
