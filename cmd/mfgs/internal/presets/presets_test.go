package presets

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/internal/tensor"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

const model = "../../../../models/cifar10-resnet20/model.onnx"

func TestMain(m *testing.M) { wraptest.Main(m, nil) }

func TestLow(t *testing.T) {
	for _, c := range []struct {
		n, classes int
		error, ece float64
		want       bool
	}{
		{1000, 10, .9, .05, true},   // chance
		{1000, 10, .88, .05, true},  // within chance of it
		{1000, 10, .8, .05, false},  // poor, and knows it
		{1000, 10, .8, .6, true},    // poor, and sure
		{1000, 10, .3, .28, false},  // right mostly
		{1000, 1000, .999, 0, true}, // chance
		{1000, 1000, .9, .1, false},
		{1000, 1000, .7, .35, true},
		{1000, 2, .48, .02, true},
		{1000, 2, .3, .3, false},
		{10, 10, 1, .9, false}, // of so few nothing is known
		{1000, 1, 1, 1, false},
	} {
		if got := Low(metrics.InDomain{N: c.n, Error: c.error, ECE: c.ece}, c.classes); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// labelled writes images in CIFAR's format, each of a few waves and edges, whose labels are what the
// network says under a preset.
func labelled(t *testing.T, preset string, n int) string {
	t.Helper()
	const size = 32 * 32
	r := rand.New(rand.NewPCG(7, 1))
	records := make([]byte, 0, n*(1+3*size))
	for range n {
		var ink, paper [3]byte
		for c := range 3 {
			ink[c], paper[c] = byte(r.IntN(256)), byte(r.IntN(256))
		}
		x0, y0, x1, y1 := r.IntN(20), r.IntN(20), 8+r.IntN(24), 8+r.IntN(24)
		records = append(records, 0)
		for c := range 3 {
			for i := range size {
				v := paper[c]
				if x, y := i%32, i/32; x >= x0 && x < x0+x1 && y >= y0 && y < y0+y1 && (x+y)%7 > 2 {
					v = ink[c]
				}
				records = append(records, v/2+byte(r.IntN(128)))
			}
		}
	}
	path := filepath.Join(t.TempDir(), "data_batch.bin")
	write := func() {
		if err := os.WriteFile(path, records, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write()
	m, h := network(t)
	s, err := preprocess.Preset(preset, pretrained.Targets(m)[0])
	if err != nil {
		t.Fatal(err)
	}
	var runtime wrap.Runtime
	run := attach.RunConfig(runtime.Provider, runtime.Threads, runtime.Batch)
	run.Preprocess = &s
	cut, err := attach.OpenCut(m, h, run)
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	o := source.Opener{Network: cut.Network, Extractor: cut.Extractor, Notes: &source.Notes{}}
	set, err := o.Open(t.Context(), "images", path, 10, true)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	at := 0
	for b, err := range cut.Batches(t.Context(), set.Data, set.Config) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.N {
			records[at*(1+3*size)] = byte(attach.Head(h).Predicted(b.Logits[i*10:][:10]))
			at++
		}
	}
	write()
	return path
}

func network(t *testing.T) (*onnx.Model, *head.Head) {
	t.Helper()
	m, err := onnx.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m, h
}

// Whether image files are turned is no part of a preset: what was done is known by its name either way.
func TestPresetsLeaveEXIFAsItIs(t *testing.T) {
	target := preprocess.Target{Shape: []int64{-1, 3, 32, 32}, Type: tensor.Float32}
	for _, exif := range []bool{true, false} {
		p, err := preprocess.New(preprocess.Spec{Scale: 1. / 255, Exif: &exif}, target)
		if err != nil {
			t.Fatal(err)
		}
		used := p.Spec()
		list := candidates(filepath.Join(t.TempDir(), "model.onnx"), target, &used)
		if len(list) != len(preprocess.Presets) || list[0].name != "unit" || !list[0].used {
			t.Errorf("EXIF %v: %d candidates, first %+v, want %d, and unit used", exif, len(list), list[0], len(preprocess.Presets))
		}
		for _, c := range list {
			if *c.spec.Exif != exif {
				t.Errorf("EXIF %v: %s has it %v", exif, c.name, *c.spec.Exif)
			}
		}
	}
}

// Images that were labelled under one preset are known again under it, and the advice names it.
func TestThePresetThatFitsIsFound(t *testing.T) {
	data := labelled(t, "caffe-pixels", 60)
	m, _ := network(t)
	unit, err := preprocess.Preset("unit", pretrained.Targets(m)[0])
	if err != nil {
		t.Fatal(err)
	}
	config := calibration.Config{Model: model, Val: data}
	report := &calibration.Report{Preprocess: &bundle.Preprocessing{Spec: &unit}}
	report.Head.Head.Head = calibrate.Head{Logits: 10, Features: 64, Bias: true, Link: calibrate.Softmax}
	report.HeldOut.Before = bundle.Figures{InDomain: metrics.InDomain{N: 60, Error: .8, ECE: .7}}
	got := Calibration(t.Context(), config, report)
	for _, want := range []string{
		"val: the network is right on 20.0 % of 60 examples of 10 classes: pixels seem to become its input in another way: " +
			"try --preprocess caffe-pixels (tried on 60 of them: caffe-pixels 100.0 %; ",
		"unit ", ", which is what was done", "; none ", "; imagenet-pixels ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if strings.Contains(got, "\n") {
		t.Errorf("several lines: %s", got)
	}

	// Nothing is tried where the figures are those of a network that works.
	report.HeldOut.Before.Error, report.HeldOut.Before.ECE = .1, .05
	if got := Calibration(t.Context(), config, report); got != "" {
		t.Error(got)
	}
	// Where what was done is the best there is, that is said.
	caffe, err := preprocess.Preset("caffe-pixels", pretrained.Targets(m)[0])
	if err != nil {
		t.Fatal(err)
	}
	report.Preprocess.Spec = &caffe
	report.HeldOut.Before.Error, report.HeldOut.Before.ECE = .9, .05
	if got := Calibration(t.Context(), config, report); !strings.Contains(got, "no preset does better: look at the labels") ||
		!strings.Contains(got, "caffe-pixels 100.0 %, which is what was done") {
		t.Error(got)
	}
	// What cannot be tried is no reason to be silent.
	config.Val = filepath.Join(t.TempDir(), "gone.bin")
	if got := Calibration(t.Context(), config, report); !strings.Contains(got, "could not be tried") {
		t.Error(got)
	}
}
