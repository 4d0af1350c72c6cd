package calibration_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// digitsLayer is the last layer of the digits network.
func digitsLayer(t *testing.T) (h layer.Head, w, b []float32) {
	t.Helper()
	model, err := onnx.Open(digits(t, models.DigitsModel))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	found, err := head.Find(model, head.Options{})
	if err == nil {
		w, b, err = found.Weights()
	}
	if err != nil {
		t.Fatal(err)
	}
	return found.Head, w, b
}

// writePosterior writes tensors, by names, with the weights of the digits network beside them.
func writePosterior(t *testing.T, name string, tensors ...safetensors.Tensor) string {
	t.Helper()
	h, w, b := digitsLayer(t)
	tensors = append(tensors, safetensors.Tensor{Name: "weight", Shape: []int{h.Logits, h.Features}, Data: w},
		safetensors.Tensor{Name: "bias", Shape: []int{h.Logits}, Data: b})
	var file bytes.Buffer
	if err := safetensors.Encode(&file, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return write(t, t.TempDir(), name, file.Bytes())
}

// diagonalPosterior is a posterior of the digits network.
func diagonalPosterior(t *testing.T, scale float64) string {
	t.Helper()
	h, _, _ := digitsLayer(t)
	v := make([]float64, h.Logits*h.Dim())
	for i := range v {
		v[i] = scale * (1 + math.Sin(float64(i))/2)
	}
	return writePosterior(t, "posterior.safetensors", safetensors.Tensor{Name: "covariance", Shape: []int{len(v)}, Data: v})
}

// withPosterior is a calibration of the digits with a posterior and without training data.
func withPosterior(t *testing.T, path string) Config {
	t.Helper()
	c := config(t, filepath.Join(t.TempDir(), "b"))
	c.Posterior, c.Train, c.OODScore, c.OOD = path, "", "", ""
	return c
}

// The covariance of all weights that mfgs computes gives, read from a file in PyTorch's order, the variances of the
// bundle with the posterior that mfgs computes: in Go, and in the network that serves.
func TestAPosteriorFromAFileGivesTheVariancesOfTheSameOneComputed(t *testing.T) {
	t.Parallel()
	c := config(t, filepath.Join(t.TempDir(), "own"))
	c.Structure, c.Damping, c.KeepCurvature, c.KeepClass = calibrate.Full, calibrate.Damping{Relative: 1}, true, true
	mustCalibrate(t, c)
	own, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := own.Sums(nil)
	if err != nil {
		t.Fatal(err)
	}
	curvature, err := sums.Finish()
	if err != nil {
		t.Fatal(err)
	}
	h := own.Manifest.Head.Head
	k, d := h.Logits, h.Dim()
	n := k * d
	place := func(i int) int { // in PyTorch's order
		if logit, feature := i/d, i%d; feature < h.Features {
			return logit*h.Features + feature
		}
		return k*h.Features + i/d
	}
	sigma := make([]float64, n*n)
	err = curvature.Inverse(calibrate.Hessian, own.Posterior.Epsilon, func(logit int, rows []float64) error {
		for r := range d {
			for j, v := range rows[r*n : (r+1)*n] {
				sigma[place(logit*d+r)*n+place(j)] = v
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := withPosterior(t, writePosterior(t, "full", safetensors.Tensor{Name: "covariance", Shape: []int{n, n}, Data: sigma}))
	cfg.KeepClass = true
	report := mustCalibrate(t, cfg)
	e := report.External
	if e == nil || e.Form != "full" || !e.Weights || report.Covariance != "external" || report.Structure != "full" {
		t.Errorf("posterior %+v, %s covariance, %s structure", e, report.Covariance, report.Structure)
	}
	if report.Head.LogitError == 0 || report.Examples.Train != report.Examples.Val || len(report.Warnings) > 0 {
		t.Errorf("logit error %v, %d training examples, warnings %q: want the validation data in their place, and no warning",
			report.Head.LogitError, report.Examples.Train, report.Warnings)
	}
	if reason := report.OODScore.Reason; report.OODScore.Name != "studentized" || !strings.Contains(reason, "needs training data") {
		t.Errorf("score %s: %s", report.OODScore.Name, reason)
	}
	want, _ := predicted(t, opened(t, c.Out, Options{}), digits(t, models.DigitsTest))
	got, _ := predicted(t, opened(t, cfg.Out, Options{}), digits(t, models.DigitsTest))
	for i := range want {
		for j, v := range want[i].LogitVariance {
			if !approx.Relative(got[i].LogitVariance[j], v, 3e-5) { // own variances may be float32
				t.Fatalf("example %d, logit %d: variance %v, want %v", i, j, got[i].LogitVariance[j], v)
			}
		}
	}
}

// Every form is served as the formulas in float64 say, with training data and without, and with matrix scaling.
func TestEveryFormOfPosteriorIsServed(t *testing.T) {
	t.Parallel()
	h, _, _ := digitsLayer(t)
	k, d := h.Logits, h.Features
	identity := func(n int, scale float64) []float64 {
		m := make([]float64, n*n)
		for i := range n {
			m[i*n+i] = scale * (1 + float64(i)/float64(n))
		}
		return m
	}
	blocks := slices.Concat(slices.Repeat([][]float64{identity(d, 0.02)}, k)...)
	for _, f := range []struct {
		name    string
		tensors []safetensors.Tensor
		form    string
		train   bool
	}{
		{"shared", []safetensors.Tensor{{Name: "precision", Shape: []int{d, d}, Data: identity(d, 30)}}, "shared", true},
		{"per logit", []safetensors.Tensor{{Name: "covariance", Shape: []int{k, d, d}, Data: blocks}}, "per-logit", false},
	} {
		c := withPosterior(t, writePosterior(t, "p", f.tensors...))
		score := "studentized"
		if f.train {
			c.Train, c.Limit, score = digits(t, models.DigitsTrain), 300, "guarded_margin"
		}
		report := mustCalibrate(t, c)
		if got := string(report.External.Form); got != f.form || report.OODScore.Name != score {
			t.Errorf("%s: form %s, score %s, want %s and %s: %s", f.name, got, report.OODScore.Name, f.form, score, report.OODScore.Reason)
		}
		equalsTheFormulas(t, opened(t, c.Out, Options{}), cut(t, c.Out), []Tensor{digitTensor(t, 0, 40)})
	}
	c := withPosterior(t, diagonalPosterior(t, 0.01))
	c.OOD = digits(t, models.OODVal)
	mustCalibrate(t, c)
	equalsTheFormulas(t, opened(t, c.Out, Options{}), cut(t, c.Out), []Tensor{digitTensor(t, 0, 40)})
}

// What contradicts a posterior from a file is refused, as is a file of another network.
func TestAPosteriorThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	path := diagonalPosterior(t, 0.01)
	h, w, _ := digitsLayer(t)
	other := slices.Clone(w)
	for i := range other {
		other[i] = -other[i]
	}
	var file bytes.Buffer
	err := safetensors.Encode(&file, []safetensors.Tensor{
		{Name: "covariance", Shape: []int{h.Logits * h.Dim()}, Data: make([]float64, h.Logits*h.Dim())},
		{Name: "weight", Shape: []int{h.Logits, h.Features}, Data: other}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	others := write(t, t.TempDir(), "other.safetensors", file.Bytes())
	zero := writePosterior(t, "zero", safetensors.Tensor{
		Name: "covariance", Shape: []int{h.Logits * h.Dim()}, Data: make([]float64, h.Logits*h.Dim())})
	for _, c := range []struct {
		name  string
		edit  func(*Config)
		words []string
	}{
		{"another network's", func(c *Config) { c.Posterior = others }, []string{"other.safetensors: the weight of logit 0 and feature 0", "export the network"}},
		{"no file", func(c *Config) { c.Posterior += "x" }, []string{"no such file"}},
		{"no posterior", func(c *Config) { c.Posterior = c.Model }, []string{".onnx", "header"}},
		{"a covariance", func(c *Config) { c.Covariance = calibrate.Fisher }, []string{"Covariance is for a posterior that is computed", "Posterior has one"}},
		{"a structure", func(c *Config) { c.Structure = calibrate.Full }, []string{"Structure is for"}},
		{"a damping", func(c *Config) { c.Damping.Relative = 1 }, []string{"Damping is for"}},
		{"a curvature", func(c *Config) { c.KeepCurvature = true }, []string{"KeepCurvature is for"}},
		{"no linear layer", func(c *Config) { c.Head.Kind = head.Scores }, []string{"linear last layer"}},
		{"covariance without a file", func(c *Config) { c.Posterior, c.Covariance = "", calibrate.External }, []string{"give Posterior"}},
		{"a stream", func(c *Config) { c.Val = "npz:-" }, []string{"a stream is read once", "give Train"}},
		{"features", func(c *Config) { c.Model, c.PrecomputedFeatures = "", true }, []string{"Posterior needs a model"}},
		{"variances of zero", func(c *Config) { c.Posterior = zero }, []string{"median logit variance", "does not fit these features"}},
	} {
		cfg := withPosterior(t, path)
		c.edit(&cfg)
		_, err := Calibrate(t.Context(), cfg)
		t.Log(c.name)
		says(t, err, c.words...)
		if _, err := os.Stat(cfg.Out); err == nil {
			t.Errorf("%s: a bundle was written", c.name)
		}
	}
	cfg := withPosterior(t, path)
	cfg.Shard.Index, cfg.Shard.Count = 1, 2
	_, err = Accumulate(t.Context(), cfg)
	says(t, err, "Shard", "is not done in parts")
}

// A calibration with a posterior is done when its bundle is there, and another file is another calibration; the
// bundle's own manifest repeats it.
func TestACalibrationWithAPosteriorIsRepeated(t *testing.T) {
	t.Parallel()
	c := withPosterior(t, diagonalPosterior(t, 0.01))
	mustCalibrate(t, c)
	c.Resume = true
	if _, err := Calibrate(t.Context(), c); !errors.As(err, new(*DoneError)) {
		t.Errorf("error %v, want one that says that it is done", err)
	}
	changed := c
	changed.Posterior = diagonalPosterior(t, 0.02)
	_, err := Calibrate(t.Context(), changed)
	says(t, err, "is not the result of this calibration: its Posterior is")

	job, err := ReadJob(filepath.Join(c.Out, bundle.ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	again := job.Config
	again.Out = filepath.Join(t.TempDir(), "again")
	mustCalibrate(t, again)
	sameFiles(t, "repeated", c.Out, again.Out)
	write(t, filepath.Dir(c.Posterior), filepath.Base(c.Posterior), read(t, changed.Posterior))
	again.Force = true
	_, err = Calibrate(t.Context(), again)
	says(t, err, "its SHA-256 is", "not the expected posterior")
}
