package wrap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/models"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// edited writes a copy of a bundle with another probe, and seals it.
func edited(t *testing.T, dir string, change func(*bundle.Bundle)) string {
	t.Helper()
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	change(b)
	out := filepath.Join(t.TempDir(), "edited")
	o := bundle.WriteOptions{Model: bundle.Copy(filepath.Join(dir, bundle.ModelName))}
	if err := bundle.Write(out, *b, o); err != nil {
		t.Fatal(err)
	}
	return out
}

// The probe holds the first validation inputs, with the features and logits of the cut network; the bundle passes it.
func TestTheProbeIsTheFirstHeldOutExamples(t *testing.T) {
	for _, s := range structures {
		dir, report := calibrated(t, s)
		b, err := bundle.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := digitTensor(t, 1200, 1204)
		phi, logits := rowsOf(t, digits(t, models.DigitsModel), want)
		if b.Probe == nil || b.Probe.N != 4 || !reflect.DeepEqual(b.Probe.Inputs, []Tensor{want}) ||
			!slices.Equal(b.Probe.Features, phi) || !slices.Equal(b.Probe.Logits, logits) {
			t.Errorf("probe %+v, want %+v, %v", b.Probe, want, logits)
		}
		if report.Probe != (ProbeInfo{Examples: 4}) {
			t.Errorf("the report says %+v", report.Probe)
		}
		if err := opened(t, dir, Options{}).Probe(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Probe detects another network, another last layer and another posterior, and accepts the rounding of another
// processor.
func TestTheProbeDetectsAnotherNetwork(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Full)
	spread := float32(0)
	if b, err := bundle.Open(dir); err != nil {
		t.Fatal(err)
	} else {
		spread = (slices.Max(b.Probe.Logits[:10]) - slices.Min(b.Probe.Logits[:10])) / 2
	}
	noise := random(7, 4*128)
	for name, test := range map[string]struct {
		change func(*bundle.Bundle)
		words  []string // nil: it passes
	}{
		"as it was": {func(*bundle.Bundle) {}, nil},
		"other rounding": {func(b *bundle.Bundle) {
			for i := range b.Probe.Logits {
				b.Probe.Logits[i] += 0.005 * spread * noise[i]
			}
			for i := range b.Probe.Features {
				b.Probe.Features[i] *= 1 + 0.005*noise[i]
			}
		}, nil},
		"another logit": {func(b *bundle.Bundle) { b.Probe.Logits[13] += 0.5 * spread }, []string{"validation input 1: logit 3", "of the logits' range, want at most 0.05"}},
		"another input": {func(b *bundle.Bundle) {
			x := b.Probe.Inputs[0].Data.([]float32)
			copy(x[64:128], x[:64])
		}, []string{"validation input 1: logit"}},
		"other features": {func(b *bundle.Bundle) {
			for i := range b.Probe.Features[:128] {
				b.Probe.Features[i] *= 1.5
			}
		}, []string{"validation input 0: ood_score", "as computed at calibration"}},
		"another posterior": {func(b *bundle.Bundle) {
			for i := range b.Posterior.Leverage {
				b.Posterior.Leverage[i] *= 2
			}
		}, nil}, // the method of the bundle
		"another score": {func(b *bundle.Bundle) { b.Probe.Features = make([]float32, 4*128) }, []string{"validation input 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := opened(t, edited(t, dir, test.change), Options{}).Probe(t.Context())
			if test.words == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			says(t, err, append(test.words, "probe: ")...)
		})
	}
}

// A network with the same layers, trained in the same way from another seed, is another network.
func TestTheProbeDetectsAnotherSeed(t *testing.T) {
	const n, model = 40, "../models/mnist-mlp/model.onnx"
	x := Tensor{Name: "image", Shape: []int64{n, 1, 28, 28}, Data: random(1, n*784)}
	data := write(t, t.TempDir(), "x.npz", npz(t, map[string]array{
		"image": arrayOf(x.Data, n, 1, 28, 28), "labels": arrayOf(labelsOf(t, model, n, x), n),
	}))
	c := quick(Config{Model: model, Train: data, Val: data, Out: filepath.Join(t.TempDir(), "b")})
	mustCalibrate(t, c)
	for i := range 5 {
		seed := fmt.Sprintf("../models/mnist-mlp/seed%d.onnx", i)
		if i == 0 {
			seed = model
		}
		err := opened(t, edited(t, c.Out, func(b *bundle.Bundle) {
			b.Probe.Features, b.Probe.Logits = rowsOf(t, seed, b.Probe.Inputs...)
		}), Options{}).Probe(t.Context())
		if i == 0 && err != nil {
			t.Error(err)
		} else if i > 0 {
			says(t, err, "validation input 0: logit 0", "of the logits' range")
		}
	}
}

// A probe whose inputs are not the model's is refused before anything is run.
func TestAProbeMustSuitTheModel(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	for name, test := range map[string]struct {
		change func(*Tensor)
		words  []string
	}{
		"another name":  {func(x *Tensor) { x.Name = "picture" }, []string{`no input "image"`}},
		"another type":  {func(x *Tensor) { x.Data = make([]float64, 4*64) }, []string{`input "image" is float64`, "the model takes"}},
		"another shape": {func(x *Tensor) { x.Shape = []int64{4, 1, 4, 16} }, []string{"[4 1 4 16]"}},
		"fewer axes":    {func(x *Tensor) { x.Shape = []int64{4, 64} }, []string{"[4 64]"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := edited(t, dir, func(b *bundle.Bundle) { test.change(&b.Probe.Inputs[0]) })
			_, err := Open(t.Context(), out, Options{})
			says(t, err, append(test.words, bundle.ProbeName)...)
		})
	}
	out := edited(t, dir, func(b *bundle.Bundle) {
		b.Probe.Inputs = append(b.Probe.Inputs, Tensor{Name: "more", Shape: []int64{4}, Data: make([]int64, 4)})
	})
	_, err := Open(t.Context(), out, Options{})
	says(t, err, "it has 2 inputs, and the model takes 1")
}

// Without a probe zeros are run, and the error says that nothing was compared.
func TestWithoutAProbeZerosAreRun(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	p := opened(t, edited(t, dir, func(b *bundle.Bundle) { b.Probe = nil }), Options{})
	if err := p.Probe(t.Context()); !errors.Is(err, ErrNoProbe) {
		t.Errorf("error %v, want %v", err, ErrNoProbe)
	}
	c := Config{PrecomputedFeatures: true, Train: classified(t, 600, 4, 3) + "[:400]", Out: filepath.Join(t.TempDir(), "b")}
	c.Val = c.Train[:len(c.Train)-len("[:400]")] + "[400:]"
	r := mustCalibrate(t, c)
	if r.Probe != (ProbeInfo{Reason: "the features are precomputed"}) {
		t.Errorf("the report says %+v", r.Probe)
	}
	if err := opened(t, c.Out, Options{}).Probe(t.Context()); !errors.Is(err, ErrNoProbe) {
		t.Errorf("of precomputed features: error %v, want %v", err, ErrNoProbe)
	}
}

// The latency of an example is measured with a probe and without, within the given time.
func TestLatencyIsOfOneExample(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	for name, edit := range map[string]func(*bundle.Bundle){
		"probe": func(*bundle.Bundle) {},
		"zeros": func(b *bundle.Bundle) { b.Probe = nil },
	} {
		p := opened(t, edited(t, dir, edit), Options{})
		begun := time.Now()
		got, err := p.Latency(t.Context(), time.Millisecond)
		if took := time.Since(begun); err != nil || got <= 0 || got > took {
			t.Errorf("%s: %v, error %v, in a call of %v", name, got, err, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Latency(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v of a call that is cancelled", name, err)
		}
	}
}

// A calibration from any kind of data keeps a probe, unless that is switched off. --resume accepts a finished bundle
// only if it agrees in that.
func TestWhenAProbeIsKept(t *testing.T) {
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	c.OOD, c.Resume, c.Cache = "", true, t.TempDir()
	holds := func(dir string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, bundle.ProbeName))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return data
	}
	mustCalibrate(t, c)
	want := holds(c.Out)
	if len(want) == 0 || len(want) > 8<<10 {
		t.Fatalf("the probe has %d bytes", len(want))
	}
	_, err := Calibrate(t.Context(), c)
	if done := new(*DoneError); !errors.As(err, done) {
		t.Errorf("the second time: %v", err)
	}
	c.NoProbe = true
	_, err = Calibrate(t.Context(), c)
	says(t, err, "NoProbe is false, want true")
	c.Force = true
	if r := mustCalibrate(t, c); r.Probe != (ProbeInfo{Reason: "not wanted"}) || holds(c.Out) != nil {
		t.Errorf("the report says %+v, and the probe has %d bytes", r.Probe, len(holds(c.Out)))
	}
	c.Force, c.NoProbe = false, false
	_, err = Calibrate(t.Context(), c)
	says(t, err, "NoProbe is true, want false")

	// From the cache, which the calls above have filled.
	c.Out = filepath.Join(t.TempDir(), "cached")
	if mustCalibrate(t, c); !bytes.Equal(holds(c.Out), want) {
		t.Error("another probe with a features cache")
	}

	// The part with the first validation examples has it, and merging in any order gives the same.
	c.Resume = false
	all := parts(t, c, 3) // the validation data are one block, in the last shard
	if holds(all[0]) != nil || holds(all[1]) != nil || !bytes.Equal(holds(all[2]), want) {
		t.Errorf("the parts have %d, %d and %d bytes", len(holds(all[0])), len(holds(all[1])), len(holds(all[2])))
	}
	one, other := merged(t, all...), merged(t, group(t, all[2], all[0]), all[1])
	sameFiles(t, "merged", one, other)
	if !bytes.Equal(holds(one), want) {
		t.Error("another probe of parts")
	}
	if err := opened(t, one, Options{}).Probe(t.Context()); err != nil {
		t.Error(err)
	}
	c.NoProbe = true
	if none := merged(t, parts(t, c, 2)...); holds(none) != nil {
		t.Error("a probe of parts that have none")
	}
}

// If all records of the first block are unreadable, the probe comes from the next, in one pass and in parts.
func TestTheProbeOfPartsHoldsTheFirstReadableExamples(t *testing.T) {
	lines := slices.Repeat([]string{"no line"}, rows.BlockSize)
	for i := range 60 {
		lines = append(lines, fmt.Sprintf(`{"ids":[%d,%d],"mask":[1,1],"label":%d}`, i%20, i%7, i%4))
	}
	dir := t.TempDir()
	val := write(t, dir, "val.jsonl", []byte(strings.Join(lines, "\n")))
	train := write(t, dir, "train.jsonl", []byte(strings.Join(lines[rows.BlockSize:], "\n")))
	c := quick(Config{Model: "../featurize/testdata/sequence.onnx", Train: train, Val: val, Out: filepath.Join(dir, "b")})
	c.MaxBad = rows.BlockSize
	if r := mustCalibrate(t, c); r.Probe.Examples != 4 {
		t.Fatalf("in one pass: %+v", r.Probe)
	}
	got := read(t, filepath.Join(merged(t, parts(t, c, 2)...), bundle.ProbeName))
	if want := read(t, filepath.Join(c.Out, bundle.ProbeName)); !bytes.Equal(got, want) {
		t.Error("in parts it is another")
	}
}

// A calibration, or a merge, warns if no inputs can be kept, but not if that was asked for.
func TestAMissingProbeIsAWarning(t *testing.T) {
	lines := []string{}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`{"age":[%d],"size":0.5,"s":["a"],"label":%d}`, i, i%4))
	}
	dir := t.TempDir()
	file := write(t, dir, "s.jsonl", []byte(strings.Join(lines, "\n")))
	c := quick(Config{Model: "../featurize/testdata/columns.onnx", Train: file, Val: file, Out: filepath.Join(dir, "s")})
	const want = `the bundle has no probe (the model's input "s" takes strings)`
	for _, wanted := range []bool{true, false} {
		c.NoProbe, c.Force = !wanted, true
		single := mustCalibrate(t, c)
		c.Force = false
		together, err := Merge(t.Context(), MergeConfig{Parts: parts(t, c, 2), Out: filepath.Join(t.TempDir(), "m")})
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]*Report{"one pass": single, "parts": together} {
			if warned := strings.Contains(strings.Join(r.Warnings, "\n"), want); warned != wanted {
				t.Errorf("%s, wanted %t: %q", name, wanted, r.Warnings)
			}
			if r.Probe.Reason != single.Probe.Reason {
				t.Errorf("%s: %q, one pass says %q", name, r.Probe.Reason, single.Probe.Reason)
			}
		}
	}
}

// An update keeps the probe of a bundle, and adds none to a bundle without one.
func TestAnUpdateKeepsTheProbe(t *testing.T) {
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	images := digits(t, "digits-images-idx3-ubyte.gz")
	c.OOD, c.KeepCurvature, c.Limit, c.Train = "", true, 0, images+"[0:512]"
	for _, none := range []bool{false, true} {
		c.NoProbe, c.Force = none, true
		mustCalibrate(t, c)
		before, _ := os.ReadFile(filepath.Join(c.Out, bundle.ProbeName))
		r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: images + "[512:700]"})
		if err != nil {
			t.Fatal(err)
		}
		after, _ := os.ReadFile(filepath.Join(c.Out, bundle.ProbeName))
		if !bytes.Equal(before, after) || (after == nil) != none || (r.Probe.Examples == 4) == none {
			t.Errorf("NoProbe %t: %d bytes, then %d: %+v", none, len(before), len(after), r.Probe)
		}
	}
}

// A probe keeps fewer large examples, and none if one alone takes more than 4 MiB.
func TestTheProbeKeepsFewerLargeExamples(t *testing.T) {
	const n = 4
	for _, test := range []struct{ height, width, want int }{
		{100, 100, 4}, {420, 420, 1}, {1025, 341, 0},
	} {
		dir := t.TempDir()
		data := write(t, dir, "x.npz", npz(t, map[string]array{
			"image": arrayOf(random(3, n*3*test.height*test.width), n, 3, test.height, test.width),
			"label": arrayOf([]int64{0, 1, 2, 3}, n),
		}))
		c := quick(Config{Model: "../featurize/testdata/open.onnx", Train: data, Val: data, Out: filepath.Join(dir, "b")})
		r := mustCalibrate(t, c)
		if r.Probe.Examples != test.want || (test.want == 0) != strings.HasSuffix(r.Probe.Reason, "want at most 4194304") {
			t.Errorf("%d rows: %+v, want %d", test.height, r.Probe, test.want)
		}
		s, err := os.Stat(filepath.Join(c.Out, bundle.ProbeName))
		if err == nil && s.Size() > bundle.MaxProbeBytes+64<<10 {
			t.Errorf("%d rows: %d bytes", test.height, s.Size())
		}
		err = opened(t, c.Out, Options{}).Probe(t.Context())
		if test.want > 0 && err != nil {
			t.Error(err)
		}
		if test.want == 0 && (!errors.Is(err, ErrNoProbe) || !strings.Contains(err.Error(), "not even zeros")) {
			t.Errorf("without a probe, of open sizes: %v", err)
		}
	}
}

// A probe of sequences keeps those as long as the first readable one. A model that takes strings has no probe.
func TestProbesOfOtherInputs(t *testing.T) {
	lines := []string{"no line", `{"ids":[1,2,3],"mask":[1,1,1],"label":1}`, `{"ids":[4],"mask":[1],"label":2}`,
		`{"ids":[5,6,7],"mask":[1,1,0],"label":3}`}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`{"ids":[%d,%d],"mask":[1,1],"label":%d}`, i%20, i%7, i%4))
	}
	dir := t.TempDir()
	file := write(t, dir, "x.jsonl", []byte(strings.Join(lines, "\n")))
	c := quick(Config{Model: "../featurize/testdata/sequence.onnx", Train: file, Val: file, Out: filepath.Join(dir, "b")})
	c.MaxBad = 1
	mustCalibrate(t, c)
	b, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	want := []Tensor{
		{Name: "ids", Shape: []int64{2, 3}, Data: []int64{1, 2, 3, 5, 6, 7}},
		{Name: "mask", Shape: []int64{2, 3}, Data: []int64{1, 1, 1, 1, 1, 0}},
	}
	if !reflect.DeepEqual(b.Probe.Inputs, want) {
		t.Errorf("inputs %+v, want %+v", b.Probe.Inputs, want)
	}
	if err := opened(t, c.Out, Options{}).Probe(t.Context()); err != nil {
		t.Error(err)
	}

	lines = nil
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`{"age":[%d],"size":0.5,"s":["a"],"label":%d}`, i, i%4))
	}
	file = write(t, dir, "s.jsonl", []byte(strings.Join(lines, "\n")))
	c = quick(Config{Model: "../featurize/testdata/columns.onnx", Train: file, Val: file, Out: filepath.Join(dir, "s")})
	r := mustCalibrate(t, c)
	if r.Probe != (ProbeInfo{Reason: `the model's input "s" takes strings`}) {
		t.Errorf("of strings: %+v", r.Probe)
	}
	if err := opened(t, c.Out, Options{}).Probe(t.Context()); !errors.Is(err, ErrNoProbe) {
		t.Errorf("of strings: error %v, want %v", err, ErrNoProbe)
	}
}
