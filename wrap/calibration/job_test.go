package calibration

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/yamlcheck"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

const whole = `
model: {sha256: abc, file: {name: m.onnx}}
head: {features: f, logits: l, output: o, link: sigmoid, approximation: relu}
preprocess: {scale: 0.5}
covariance: sandwich
structure: kron
damping: {rule: 'rel:0.25'}
ood_score: {name: leverage}
lambda0: 2
decisions: {target_error: 0.01, alpha: 0.1, sets: aps, class_conditional: true, confidence: 0.9, false_alarm: 0.05}
datasets:
  - {role: train, spec: 'tar:t-{0..9}.tar[0:7]', fingerprint: '123'}
  - {role: val, spec: v.npz}
  - {role: ood, spec: auto}
batch: 13
labels: [cat, dog]
out: b
report: r.html
limit: 11
max_bad: 12
features_cache: c
keep_curvature: true
no_model: true
no_probe: true
provider: cuda
threads: 14
`

// Every key gets where it belongs.
func TestKeys(t *testing.T) {
	t.Parallel()
	got, _, err := parseJob([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &Job{Report: "r.html", Config: Config{
		Model: "m.onnx",
		Settings: bundle.Settings{
			Head: head.Options{
				Features: "f", Logits: "l", Output: "o", Link: layer.Sigmoid, Approximate: head.IgnoreRelu,
			},
			Covariance: calibrate.Sandwich, Structure: calibrate.Kronecker, Damping: calibrate.Damping{Relative: 0.25},
			Lambda0: 2, OODScore: "leverage",
			Decisions: conformal.Plan{
				TargetError: 0.01, FalseAlarm: 0.05, Alpha: 0.1, Sets: conformal.APS, ClassConditional: true,
				Confidence: 0.9,
			},
			Limit: 11, MaxBad: 12,
		},
		Preprocess: &preprocess.Spec{Scale: 0.5}, Classes: []string{"cat", "dog"},
		Train: "tar:t-{0..9}.tar[0:7]", Val: "v.npz", OOD: "auto",
		Runtime: wrap.Runtime{Batch: 13, Threads: 14, Provider: "cuda"}, Cache: "c", Out: "b",
		KeepCurvature: true, NoModel: true, NoProbe: true,
		Expect: Expect{Model: "abc", Data: map[bundle.Role]string{bundle.Train: "123"}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	words, _, err := parseJob([]byte("model: m.onnx\npreprocess: imagenet\ndamping: 0.5\nood_score: mf0\nlabels: l.txt\n"))
	want = &Job{Preprocess: "imagenet", Classes: "l.txt", Config: Config{Model: "m.onnx", Settings: bundle.Settings{
		Damping: calibrate.Damping{Absolute: 0.5}, OODScore: "mf0",
	}}}
	if err != nil || !reflect.DeepEqual(words, want) {
		t.Errorf("%+v, %v, want %+v", words, err, want)
	}
}

// What a job can say has the manifest's key wherever that has one.
func TestKeysOfJobsAreThoseOfManifests(t *testing.T) {
	t.Parallel()
	beyond := strings.Fields("alphabet lambda0 keep_class prior expected out report limit max_bad features_cache keep_curvature no_model no_probe provider threads")
	manifest := yamlcheck.Fields(reflect.TypeFor[bundle.Manifest]())
	for key := range yamlcheck.Fields(reflect.TypeFor[document]()) {
		if _, ok := manifest[key]; ok == slices.Contains(beyond, key) {
			t.Errorf("%s: in the manifest %v", key, ok)
		}
	}
}

func TestInvalidJobsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"", "it is empty"},
		{"a list", "want a mapping with keys"},
		{"[1]", "want a mapping with keys"},
		{"model: m\nstrcture: full", "line 2: strcture is not a key of a job: did you mean structure?"},
		{"max-bad: 3", "max-bad is not a key of a job: did you mean max_bad?"},
		{"classes: c.txt", "classes is not a key of a job"},
		{"temperatures: {}", "temperatures is not a key of a job, since it is a result of calibration"},
		{"head: {featurs: x}", "line 1: head.featurs is not a key of a job: did you mean features?"},
		{"head: {op: Gemm}", "head.op is not a key of a job"},
		{"preprocess: {scael: 1}", "preprocess.scael is not a key of a job: did you mean scale?"},
		{"preprocess: {resize: {siez: 1}}", "preprocess.resize.siez is not a key of a job: did you mean size?"},
		{"preprocess: {layout: XYZ}", "XYZ"},
		{"datasets: [{role: train, spce: x}]", "datasets.spce is not a key of a job: did you mean spec?"},
		{"datasets: [{role: test, spec: x}]", `role "test": want train, val or ood`},
		{"datasets: [{role: train}]", "role train has no spec"},
		{"datasets: [{role: val, spec: x}, {role: val, spec: y}]", "two datasets have the role val"},
		{"covariance: wobbly", "wobbly"},
		{"structure: wobbly", `structure "wobbly": want auto, full or kron`},
		{"damping: -1", `line 1: damping "-1", want auto`},
		{"ood_score: wobbly", "wobbly"},
		{"head: {link: wobbly}", `head: link "wobbly": want softmax`},
		{"head: {approximation: wobbly}", `head: approximation "wobbly": want relu`},
		{"decisions: {target_error: 2}", "decisions: target_error is 2, want"},
		{"decisions: {class_conditional: true}", "decisions: sets and class_conditional apply to prediction sets: give alpha, "},
		{"limit: -1", "limit -1 is negative"},
		{"max_bad: -1", "max_bad -1 is negative"},
		{"batch: -2", "batch -2 is negative"},
		{"batch: many", "many"},
		{"out: &a x\nmodel: *a", "anchors"},
		{"out: x\n---\nout: y", "more than one document"},
		{"format: 2\n", "a field of the manifest is wrong"},
		{"format: 99\n", "format 99"},
		{strings.Repeat("#\n", 2<<20), "at most"},
	} {
		j, _, err := parseJob([]byte(test.text))
		if err == nil {
			t.Errorf("%.60q: %+v", test.text, j)
		} else if s := err.Error(); !strings.Contains(s, test.want) || strings.Contains(s, "\n") {
			t.Errorf("%.60q: %s, want %s", test.text, s, test.want)
		}
	}
}

// Paths are seen from the folder of the file, words that are none stay.
func TestPathsAreRelativeToTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "job.yaml")
	for _, test := range []struct{ text, want string }{
		{"model: m.onnx", "Model:%/m.onnx"},
		{"model: /m.onnx", "Model:/m.onnx"},
		{"model: ../m.onnx", "Model:%/../m.onnx"},
		{"preprocess: p.yaml", "Preprocess:%/p.yaml"},
		{"preprocess: imagenet", "Preprocess:imagenet"},
		{"preprocess: torchvision:x", "Preprocess:torchvision:x"},
		{"labels: l.txt", "Classes:%/l.txt"},
		{"features_cache: c", "Cache:%/c"},
		{"out: b", "Out:%/b"}, {"report: r.md", "Report:%/r.md"},
		{"datasets: [{role: train, spec: 't-{0..9}.tar[0:7]'}]", "Train:%/t-{0..9}.tar[0:7]"},
		{"datasets: [{role: train, spec: 'npz:t'}]", "Train:npz:%/t"},
		{"datasets: [{role: train, spec: 'other:t'}]", "Train:%/other:t"},
		{"datasets: [{role: train, spec: '-'}]", "Train:-"},
		{"datasets: [{role: train, spec: 'jsonl:-'}]", "Train:jsonl:-"},
		{"datasets: [{role: ood, spec: auto}]", "OOD:auto"},
		{"datasets: [{role: val, spec: auto}]", "Val:%/auto"},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o666); err != nil {
			t.Fatal(err)
		}
		j, err := ReadJob(file)
		if err != nil {
			t.Fatal(err)
		}
		got, want := strings.Trim(fmt.Sprintf("%+v", *j), "{}")+" ", strings.ReplaceAll(test.want, "%", dir)+" "
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", test.text, got, want)
		}
	}
	if _, err := ReadJob(filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func FuzzJob(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("model: m.onnx\npreprocess: imagenet\ndamping: 0.5\nood_score: mf0\nlabels: l.txt\n"))
	f.Add([]byte("preprocess: {resize: {size: 1}}\nhead: [x]\ndatasets: {role: train}"))
	for _, name := range []string{"v1-full", "v1-kron"} {
		manifest, err := os.ReadFile("../bundle/testdata/" + name + "/bundle.yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(manifest)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, manifest, err := parseJob(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q takes two lines", err)
			}
			return
		}
		if err := j.validate(); err != nil {
			t.Error(err)
		}
		j.resolvePaths("x", manifest)
	})
}

// What stands in a job as null was not given, a key stands there once, and messages name no type of Go.
func TestJobsOfOddShapes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"preprocess: null", "labels: ~", "ood_score: {}", "damping: {}", "structure: auto", "limit: 1e3"} {
		if j, _, err := parseJob([]byte("model: m.onnx\n" + text)); err != nil || j.Preprocess != "" || j.Classes != "" {
			t.Errorf("%s: %+v, %v", text, j, err)
		}
	}
	for text, want := range map[string]string{
		"preprocess: a\npreprocess: b": "already defined",
		"labels: a\nlabels: [b]":       "already defined",
		"damping: {rule: 1, rule: 2}":  "damping: want a string",
		"ood_score: {name: {name: x}}": "ood_score: want a string",
		"model: [x]":                   "line 1: model is a list, want a mapping",
		"datasets: x":                  `line 1: datasets is "x", want a list`,
		"lambda0: 1e9":                 "lambda0 is 1e+09, want 1e-6 to 1e6",
		"threads: x":                   `line 1: threads is "x", want a whole number`,
		"limit: 2.7":                   `line 1: limit is "2.7", want a whole number`,
		"lambda0: x":                   `line 1: lambda0 is "x", want a number`,
		"keep_curvature: maybe":        `line 1: keep_curvature is "maybe", want true or false`,
		"labels: {a: 1}":               "line 1: labels is a mapping, want a list",
		"head: {features: [x]}":        "line 1: head.features is a list, want a string",
		"damping: rel:x":               `line 1: damping "rel:x", want auto`,
		"settings: {limit: 3}":         "its keys are at the top level of a job",
		"batch: -3":                    "batch -3 is negative",
	} {
		_, _, err := parseJob([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "struct") ||
			strings.Contains(err.Error(), "calibration.") {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// Settings that come to the same are the same calibration: what was asked for may be named or found.
func TestAutoIsTheDefaultStructure(t *testing.T) {
	t.Parallel()
	s, auto := bundle.Settings{}.Complete(), bundle.Settings{Structure: calibrate.Auto}.Complete()
	if !reflect.DeepEqual(s, auto) {
		t.Errorf("%+v", s)
	}
}

func TestAJobThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	if j, err := ReadJob(filepath.Join(t.TempDir(), "nowhere.yaml")); err == nil || j != nil {
		t.Errorf("job %+v, error %v", j, err)
	}
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte("nonsense: 1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if j, err := ReadJob(path); err == nil || j != nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("job %+v, error %v", j, err)
	}
}
