package job

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
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

const whole = `
model: {sha256: abc, file: {name: m.onnx}}
head: {features: f, logits: l, output: o, link: sigmoid, approximation: relu}
preprocess: {scale: 0.5}
covariance: sandwich
structure: kron
damping: {rule: 'rel:0.25'}
ood_score: {name: leverage}
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
	got, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &Job{
		Model: "m.onnx",
		Head: head.Options{
			Features: "f", Logits: "l", Output: "o", Link: head.Sigmoid, Approximate: head.IgnoreRelu,
		},
		Spec: &preprocess.Spec{Scale: 0.5}, Labels: []string{"cat", "dog"},
		Covariance: calibrate.Sandwich, Structure: calibrate.Kronecker, Damping: "rel:0.25", OODScore: "leverage",
		Decisions: conformal.Plan{
			TargetError: 0.01, FalseAlarm: 0.05, Alpha: 0.1, Sets: conformal.APS, ClassConditional: true,
			Confidence: 0.9,
		},
		Train: "tar:t-{0..9}.tar[0:7]", Val: "v.npz", OOD: "auto",
		Limit: 11, MaxBad: 12, Batch: 13, Threads: 14, Provider: "cuda", Cache: "c", Out: "b", Report: "r.html",
		KeepCurvature: true, NoModel: true, NoProbe: true,
		Known: calibration.Known{Model: "abc", Data: map[bundle.Role]string{bundle.Train: "123"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	words, err := Parse([]byte("model: m.onnx\npreprocess: imagenet\ndamping: 0.5\nood_score: mf0\nlabels: l.txt\n"))
	want = &Job{Model: "m.onnx", Preprocess: "imagenet", Damping: "0.5", OODScore: "mf0", Classes: "l.txt"}
	if err != nil || !reflect.DeepEqual(words, want) {
		t.Errorf("%+v, %v, want %+v", words, err, want)
	}
}

// What a job can say has the manifest's key wherever that has one.
func TestKeysAreTheManifests(t *testing.T) {
	beyond := strings.Fields("out report limit max_bad features_cache keep_curvature no_model no_probe provider threads")
	manifest := fieldsOf(reflect.TypeFor[bundle.Manifest]())
	for key := range fieldsOf(reflect.TypeFor[document]()) {
		if _, ok := manifest[key]; ok == slices.Contains(beyond, key) {
			t.Errorf("%s: in the manifest %v", key, ok)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "it is empty"},
		{"a list", "a job is a mapping"},
		{"[1]", "a job is a mapping"},
		{"model: m\nstrcture: full", "line 2: strcture is no key of a job: did you mean structure?"},
		{"max-bad: 3", "max-bad is no key of a job: did you mean max_bad?"},
		{"classes: c.txt", "classes is no key of a job"},
		{"temperatures: {}", "temperatures is no key of a job, as it is what a calibration finds out"},
		{"head: {featurs: x}", "line 1: head.featurs is no key of a job: did you mean features?"},
		{"head: {op: Gemm}", "head.op is no key of a job"},
		{"preprocess: {scael: 1}", "preprocess.scael is no key of a job: did you mean scale?"},
		{"preprocess: {resize: {siez: 1}}", "preprocess.resize.siez is no key of a job: did you mean size?"},
		{"preprocess: {layout: XYZ}", "XYZ"},
		{"datasets: [{role: train, spce: x}]", "datasets.spce is no key of a job: did you mean spec?"},
		{"datasets: [{role: test, spec: x}]", `role "test": want train, val or ood`},
		{"datasets: [{role: train}]", "role train has no spec"},
		{"datasets: [{role: val, spec: x}, {role: val, spec: y}]", "two sets have the role val"},
		{"covariance: wobbly", "wobbly"},
		{"structure: wobbly", `structure "wobbly": want auto, full or kron`},
		{"damping: -1", `damping "-1", want auto`},
		{"ood_score: wobbly", "wobbly"},
		{"head: {link: wobbly}", `head.link "wobbly": want softmax`},
		{"head: {approximation: wobbly}", `head.approximation "wobbly": want relu`},
		{"decisions: {target_error: 2}", "decisions: "},
		{"limit: -1", "limit -1 is negative"},
		{"batch: many", "many"},
		{"out: &a x\nmodel: *a", "anchors"},
		{"out: x\n---\nout: y", "more than one document"},
		{"format: 2\n", "a field of the manifest is wrong"},
		{"format: 99\n", "format 99"},
		{strings.Repeat("#\n", 2<<20), "at most"},
	} {
		j, err := Parse([]byte(test.text))
		if err == nil {
			t.Errorf("%.60q: %+v", test.text, j)
		} else if s := err.Error(); !strings.Contains(s, test.want) || strings.Contains(s, "\n") {
			t.Errorf("%.60q: %s, want %s", test.text, s, test.want)
		}
	}
}

// Paths are seen from the folder of the file, words that are none stay.
func TestPathsAreSeenFromTheFile(t *testing.T) {
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
		j, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		got, want := strings.Trim(fmt.Sprintf("%+v", *j), "{}")+" ", strings.ReplaceAll(test.want, "%", dir)+" "
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", test.text, got, want)
		}
	}
	if _, err := Read(filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// A manifest says what was found, and Locate by which options: as if nothing had been said where that
// suffices.
func TestHeadsAreLocated(t *testing.T) {
	files, err := filepath.Glob("../../testdata/onnx/operators/*.onnx")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d models, %v", len(files), err)
	}
	tried := 0
	for _, file := range files {
		model, err := onnx.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		options := []head.Options{{}, {Approximate: head.IgnoreRelu}}
		for _, o := range model.Outputs() {
			options = append(options, head.Options{Output: o.Name})
		}
		for _, o := range options {
			h, err := head.Find(model, o)
			if err != nil {
				continue
			}
			named, err := head.Find(model, head.Options{
				Features: h.Features, Logits: h.Logits, Link: h.Link, Approximate: h.Approximation,
			})
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			tried++
			if got := locate(t, file, model, h); o == (head.Options{}) && got != o {
				t.Errorf("%s: %+v, want no options", file, got)
			}
			locate(t, file, model, named)
		}
	}
	if tried < 200 {
		t.Errorf("%d heads tried, want 200 at least", tried)
	}
}

// locate returns the options for the head of a manifest, which they must find.
func locate(t *testing.T, file string, model *onnx.Model, h *head.Head) head.Options {
	t.Helper()
	j := &Job{found: &bundle.Head{
		Op: h.Op, Node: h.Node, FeaturesTensor: h.Features, LogitsTensor: h.Logits,
		Head: calibrate.Head{Link: calibrate.Link(h.Link)}, Tail: h.Tail, Approximation: string(h.Approximation),
	}}
	o, err := j.Locate(file)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := head.Find(model, o); err != nil || !j.isFound(again) {
		t.Errorf("%s: %+v does not find the head again: %v", file, o, err)
	}
	return o
}

func FuzzParse(f *testing.F) {
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
		j, err := Parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q takes two lines", err)
			}
			return
		}
		if err := j.validate(); err != nil {
			t.Error(err)
		}
		j.seenFrom("x")
	})
}
