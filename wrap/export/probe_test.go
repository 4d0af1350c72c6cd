package export

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// probed exports a bundle with its probe, and returns this.
func probed(t *testing.T, dir string, o Options) (*oip.Request, *oip.Response, string) {
	t.Helper()
	o.Out, o.Probe = filepath.Join(t.TempDir(), "m.onnx"), true
	r, err := Write(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if last := r.Files[len(r.Files)-1].Path; filepath.Base(last) != "m.probe.json" {
		t.Fatalf("the last file is %s", last)
	}
	var both struct{ Request, Response json.RawMessage }
	if err := json.Unmarshal(read(t, r.Files[len(r.Files)-1].Path), &both); err != nil {
		t.Fatal(err)
	}
	request, err := oip.ReadRequest(both.Request, "", oip.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	response, err := oip.ReadResponse(both.Response, "", oip.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return request, response, o.Out
}

// numbers returns a tensor's numbers, of booleans 0 and 1.
func numbers(data any) (all []float64) {
	switch d := data.(type) {
	case []float64:
		return d
	case []float32:
		for _, v := range d {
			all = append(all, float64(v))
		}
	case []bool:
		for _, v := range d {
			all = append(all, map[bool]float64{true: 1}[v])
		}
	}
	return all
}

// furthest returns for each output of the response the largest difference of the first numbers of each example.
func furthest(t *testing.T, got map[string]wrap.Tensor, want *oip.Response) map[string]float64 {
	t.Helper()
	far := map[string]float64{}
	for _, w := range want.Outputs {
		n := int(w.Shape[0])
		a, b := numbers(got[w.Name].Data), numbers(w.Data)
		if len(a) == 0 || len(a)%n != 0 || len(b)%n != 0 || len(a) < len(b) {
			t.Fatalf("%s: %d numbers, and %d in the probe of %d examples", w.Name, len(a), len(b), n)
		}
		for i := range n {
			for j, v := range b[i*len(b)/n : (i+1)*len(b)/n] {
				if by := a[i*len(a)/n+j] - v; !(by*by <= far[w.Name]*far[w.Name]) {
					far[w.Name] = max(by, -by)
				}
			}
		}
	}
	return far
}

// A probe is a request, and the response that the exported model gives for it, whatever the head and the method.
func TestAProbeIsWhatTheExportedModelGives(t *testing.T) {
	t.Parallel()
	decided := func(c calibration.Config) calibration.Config {
		c.Decisions = conformal.Plan{TargetError: 0.1, FalseAlarm: 0.1}
		return c
	}
	usual := []string{"probabilities", "logits", "logit_variance", "leverage", "ood_score", "ood_percentile", "ood_pvalue"}
	text := slices.Concat(usual[:2], usual[4:]) // has no linear layer
	for name, tt := range map[string]struct {
		config  calibration.Config
		options Options
		outputs []string
	}{
		"one answer":     {decided(quick(config(t, filepath.Join(t.TempDir(), "b")))), Options{}, append(slices.Clone(usual), "abstain")},
		"one output":     {quick(config(t, filepath.Join(t.TempDir(), "b"))), Options{Outputs: []string{"logits", "leverage"}}, []string{"logits", "leverage"}},
		"float32":        {quick(config(t, filepath.Join(t.TempDir(), "b"))), Options{Precision: "float32", Method: "mf0"}, usual},
		"mf0":            {quick(config(t, filepath.Join(t.TempDir(), "b"))), Options{Method: "mf0"}, usual},
		"steps":          {wraptest.StepConfig(t, wraptest.StepTagger()), Options{}, usual},
		"steps, float32": {wraptest.StepConfig(t, wraptest.StepTagger()), Options{Precision: "float32"}, usual},
		"steps, one":     {wraptest.StepConfig(t, wraptest.StepTagger()), Options{Outputs: usual[:1]}, usual[:1]},
		"text, some":     {wraptest.LineConfig(t, wraptest.Recogniser()), Options{Outputs: []string{"text", "ood_score"}}, []string{"ood_score"}},
		"text":           {wraptest.LineConfig(t, wraptest.Recogniser()), Options{}, text},
	} {
		mustCalibrate(t, tt.config)
		request, response, path := probed(t, tt.config.Out, tt.options)
		var given []string
		for _, o := range response.Outputs {
			given = append(given, o.Name)
		}
		if !slices.Equal(given, tt.outputs) {
			t.Errorf("%s: outputs %q, want %q", name, given, tt.outputs)
		}
		for output, by := range furthest(t, exported(t, path, request.Inputs...), response) {
			tolerance, ok, err := response.Parameters.Number(output)
			if !ok || err != nil || !approx.Equal(by, 0, max(1e-5, tolerance/10)) || by > tolerance {
				t.Errorf("%s: %s differs by %v, with tolerance %v, %t, %v", name, output, by, tolerance, ok, err)
			}
		}
		// Of other inputs they are beyond the tolerances.
		for _, in := range request.Inputs {
			if x, ok := in.Data.([]float32); ok {
				for i, v := range x {
					x[i] = 1 - v/2
				}
			}
		}
		beyond := 0
		for output, by := range furthest(t, exported(t, path, request.Inputs...), response) {
			if tolerance, _, _ := response.Parameters.Number(output); by > tolerance {
				beyond++
			}
		}
		if beyond == 0 {
			t.Errorf("%s: other inputs pass", name)
		}
	}
}

// A probe has the batch that the model takes, and inputs that JSON has a form for.
func TestAProbeHasInputsThatCanBeRun(t *testing.T) {
	t.Parallel()
	for _, batch := range []int64{3, 6} {
		c := quick(config(t, filepath.Join(t.TempDir(), "b")))
		var pb onnxpb.Model
		if err := proto.Unmarshal(read(t, c.Model), &pb); err != nil {
			t.Fatal(err)
		}
		for _, v := range append(pb.Graph.Input, pb.Graph.Output...) {
			v.Type.TensorType.Shape.Dim[0].Value = &onnxpb.Dimension_DimValue{DimValue: batch}
		}
		c.Model = write(t, t.TempDir(), "model.onnx", onnxtest.Marshal(t, &pb))
		mustCalibrate(t, c)
		request, response, path := probed(t, c.Out, Options{})
		if got := request.Inputs[0].Shape[0]; got != batch {
			t.Errorf("%d examples, want %d", got, batch)
		}
		for output, by := range furthest(t, exported(t, path, request.Inputs...), response) {
			if tolerance, _, _ := response.Parameters.Number(output); by > tolerance/10+1e-5 {
				t.Errorf("%s differs by %v, with tolerance %v", output, by, tolerance)
			}
		}
	}

	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	head := layer.Head{Features: 2, Logits: 1}
	for name, tt := range map[string]struct {
		x    any
		rows int
		want string
	}{
		"all finite":       {[]float32{1, 2, 3, 4, 5, 6}, 3, ""},
		"one of them":      {[]float32{1, 2, 3, nan, inf, 6}, 1, ""},
		"none":             {[]float32{1, nan, nan, 4, inf, 6}, 0, "all validation inputs"},
		"numbers of float": {tensor.Float16Bits{1, 2, 3, 4, 5, 6}, 0, "float16, for which JSON has no form"},
	} {
		kept := &bundle.Probe{N: 3, Inputs: []tensor.Tensor{{Name: "x", Shape: []int64{3, 2}, Data: tt.x}},
			Features: make([]float32, 6), Logits: make([]float32, 3)}
		got, err := writable(kept, head, nil)
		for _, inputs := range [][]onnx.ValueInfo{
			{{Name: "x"}, {Name: "aux"}}, // which the bundle has no values of
			{{Name: "x", Shape: []onnx.Dim{{Value: 1 << 40}}}},
		} {
			_, err := writable(kept, head, inputs)
			testerr.OneLine(t, err, "there is no probe")
		}
		if tt.want != "" {
			testerr.OneLine(t, err, tt.want)
		} else if err != nil || got.N != tt.rows || got.Inputs[0].Len() != 2*tt.rows {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Decisions that another rounding could change are not in a probe.
func TestUncertainDecisionsAreNotProbed(t *testing.T) {
	t.Parallel()
	p, ood := []float64{0.9, 0.1, 0.6, 0.4}, []float64{0.2, 0.5}
	for _, tt := range []struct {
		uncertainty, ood float64
		sure             bool
		want             []bool
	}{
		{0.3, 0.9, true, []bool{false, true}},
		{0.05, 0.1, true, []bool{true, true}},
		{0.1, 0.9, false, nil},                 // the first is at the threshold
		{0.3, 0.49, true, []bool{false, true}}, // the second is abstained from in any case
		{0.5, 0.49, false, nil},
	} {
		rule := func(at float64) *conformal.Rule { return &conformal.Rule{Threshold: at} }
		d := &conformal.Decisions{Uncertainty: rule(tt.uncertainty), OOD: rule(tt.ood)}
		got, sure := abstentions(d, p, ood)
		if sure != tt.sure || !slices.Equal(got, tt.want) {
			t.Errorf("thresholds %v and %v: %t, %t", tt.uncertainty, tt.ood, got, sure)
		}
		if d.Uncertainty.Threshold != tt.uncertainty {
			t.Error("the decisions were changed")
		}
	}
}

// Nor are prediction sets of which another rounding could make others.
func TestUncertainSetsAreNotProbed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		score     conformal.Score
		threshold float64
		p         []float64
		want      []bool
	}{
		"below":                 {conformal.LAC, 0.5, []float64{0.6, 0.3, 0.1}, []bool{true, false, false}},
		"at the threshold":      {conformal.LAC, 0.401, []float64{0.6, 0.3, 0.1}, nil},
		"ranked":                {conformal.APS, 0.7, []float64{0.6, 0.3, 0.1}, []bool{true, true, false}},
		"ranked, at the end":    {conformal.APS, 0.899, []float64{0.6, 0.3, 0.1}, nil},
		"ranks within rounding": {conformal.APS, 0.5, []float64{0.333335, 0.333332, 0.333333}, nil},
		"ranks within the set":  {conformal.APS, 0.7, []float64{0.45, 0.45, 0.1}, []bool{true, true, false}},
	} {
		d := &conformal.Decisions{Set: &conformal.Sets{Score: tt.score, Thresholds: []float64{tt.threshold}}}
		if got, sure := members(d, tt.p, 3); sure != (tt.want != nil) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %t, want %v", name, got, sure, tt.want)
		}
	}
}

// A probe replaces an earlier one, and nothing else. A warning says that one is old.
func TestAProbeIsReplacedLikeAModel(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	mustCalibrate(t, c)
	_, _, path := probed(t, c.Out, Options{})
	beside := filepath.Join(filepath.Dir(path), "m.probe.json")
	if _, err := Write(t.Context(), c.Out, Options{Out: path, Probe: true}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if _, err := Write(t.Context(), c.Out, Options{Out: path, Probe: true, Force: true}); err != nil {
		t.Error(err)
	}
	r, err := Write(t.Context(), c.Out, Options{Out: path, Force: true})
	if err != nil || len(r.Warnings) != 1 || r.Warnings[0] != beside+" is of an earlier export: remove it, or write it again" {
		t.Errorf("%v, %q", err, r.Warnings)
	}
	if err := os.WriteFile(beside, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Write(t.Context(), c.Out, Options{Out: path, Probe: true, Force: true})
	testerr.OneLine(t, err, "m.probe.json is not replaced: it is not a probe")
	_, err = Write(t.Context(), c.Out, Options{Out: path, Probe: true, Force: true, Method: "mf1"})
	testerr.OneLine(t, err, "no probe for mf1")
	c.NoProbe, c.Out = true, filepath.Join(t.TempDir(), "b")
	mustCalibrate(t, c)
	out := filepath.Join(t.TempDir(), "m.onnx")
	_, err = Write(t.Context(), c.Out, Options{Out: out, Probe: true})
	testerr.OneLine(t, err, "keeps no validation inputs", "NoProbe")
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a model without its probe is left")
	}
}
