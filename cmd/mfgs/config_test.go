package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

// Every flag of calibrate sets its field.
func TestFlagsOfCalibrate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model, classes, spec := put("m.onnx", "a model"), put("classes.txt", "cat\ndog\n"), put("spec.yaml", "scale: 0.5\n")
	out := filepath.Join(dir, "b")
	config := func(args ...string) calibration.Config {
		t.Helper()
		p := &program{strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)}
		var got calibration.Config
		command := p.calibrate()
		command.Action = func(c *cli.Context) (err error) {
			got, err = p.calibrateConfig(c, p.progress())
			return err
		}
		app := &cli.App{Name: "mfgs", Commands: []*cli.Command{command}}
		if err := app.Run(append([]string{"mfgs", "calibrate"}, args...)); err != nil {
			t.Fatal(err)
		}
		if got.Progress == nil || got.Notice == nil || got.Runtime.Installing == nil {
			t.Error("nobody hears of progress")
		}
		got.Progress, got.Notice, got.Runtime.Installing = nil, nil, nil // functions are not comparable
		return got
	}
	got := config("--model", model, "--train", "T", "--val", "V", "--ood", "O", "--out", out, "--force", "--resume", "--no-model",
		"--covariance", "sandwich", "--structure", "kron", "--damping", "rel:0.25", "--limit", "11", "--max-bad", "12",
		"--features-cache", "C", "--classes", classes, "--preprocess", spec, "--features", "f", "--logits", "l", "--output", "o",
		"--link", "sigmoid", "--approximate", "relu", "--batch", "13", "--threads", "14", "--runtime", "R", "--no-install")
	want := calibration.Config{
		Model: model, Train: "T", Val: "V", OOD: "O", Out: out, Force: true, Resume: true, NoModel: true,

		Classes: []string{"cat", "dog"},
		Settings: bundle.Settings{
			Head:       head.Options{Features: "f", Logits: "l", Output: "o", Link: layer.Sigmoid, Approximate: head.IgnoreRelu},
			Covariance: calibrate.Sandwich, Structure: calibrate.Kronecker,
			Damping: calibrate.Damping{Relative: 0.25}, Limit: 11,
		},
	}
	want.MaxBad, want.Cache = 12, "C"
	want.Runtime.Batch, want.Runtime.Threads = 13, 14
	want.Runtime.Library = "R"
	if got.Preprocess == nil || got.Preprocess.Scale != 0.5 {
		t.Errorf("preprocessing %+v", got.Preprocess)
	}
	got.Preprocess = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	got = config("--train-features", "T", "--val-features", "V", "--ood-features", "O", "--out", out, "--link", "one-vs-rest")
	want = calibration.Config{
		PrecomputedFeatures: true, Train: "T", Val: "V", OOD: "O", Out: out,
		Settings: bundle.Settings{Head: head.Options{Link: layer.OneVsRest}},
	}
	want.Runtime.Install = true
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Temperatures are in their columns.
func TestTemperaturesForPeople(t *testing.T) {
	t.Parallel()
	both := bundle.TemperatureInfo{NLL: layer.Temperatures{Act: 1.5, Ens: 20},
		OOD: layer.Temperatures{Act: 0.5, Ens: 7}, OODTuned: true, TS: 2.5, TSOOD: 3.5}
	same := both
	same.OODTuned, same.TSOOD = false, 0
	for _, test := range []struct {
		of   bundle.TemperatureInfo
		want string
	}{
		{both, "temperatures activation ensemble mf0, for NLL 1.5 20 mf0, for OOD detection 0.5 7 temperature scaling, for NLL 2.5 temperature scaling, for OOD detection 3.5"},
		{same, "temperatures activation ensemble mf0, for NLL 1.5 20 mf0, for OOD detection the same temperature scaling, for NLL 2.5"},
	} {
		var b bytes.Buffer
		if err := temperatures(test.of).write(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(b.String()), " "); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

// A preset is fitted to the model of --model, or else of the bundle.
func TestPresetsAreFittedToTheModelThatIsRun(t *testing.T) {
	t.Parallel()
	digits, err := filepath.Abs("../../models/digits-mlp/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	empty, whole := t.TempDir(), t.TempDir()
	data, err := os.ReadFile(digits)
	if err == nil {
		err = os.WriteFile(filepath.Join(whole, "model.onnx"), data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"--bundle", whole}, true}, {[]string{"--bundle", empty, "--model", digits}, true}, {[]string{"--bundle", empty}, false},
	} {
		p := &program{strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)}
		command := p.predict()
		command.Action = func(c *cli.Context) error {
			spec, err := bundlePreprocessing(c)
			if err == nil && (spec == nil || spec.Scale != 1./255) {
				t.Errorf("%q: preprocessing %+v", test.args, spec)
			}
			return err
		}
		app := &cli.App{Name: "mfgs", Commands: []*cli.Command{command}}
		if err := app.Run(append([]string{"mfgs", "predict", "--preprocess", "unit"}, test.args...)); (err == nil) != test.ok {
			t.Errorf("%q: %v", test.args, err)
		}
	}
}
