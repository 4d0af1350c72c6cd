package calibration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx/head"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// Every error is one line, and leaves no bundle.
func TestCalibrateRefuses(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	model := read(t, digits(t, models.DigitsModel))
	labelled := func(name string, labels []byte) string {
		write(t, data, name+"-labels-idx1", idx(labels, len(labels)))
		return write(t, data, name+"-images-idx3", idx(make([]byte, 64*len(labels)), len(labels), 8, 8))
	}
	broken := tree(t, words, 2)
	write(t, broken, "two/001.png", photo(t, 1, 8)[:50])
	large := t.TempDir()
	write(t, large, "0001.png", photo(t, 1, 28))
	log := "../../featurize/testdata/log.onnx"
	positive := random(1, 60*6)
	for i, v := range positive {
		positive[i] = float32(math.Abs(float64(v))) + .1
	}
	logInputs := func(name string, change func([]float32)) string {
		x := slices.Clone(positive)
		change(x)
		labels := make([]int64, 60)
		return write(t, data, name+".npz", npz(t, map[string]array{"x": arrayOf(x, 60, 6), "labels": arrayOf(labels, 60)}))
	}
	fine := logInputs("fine", func([]float32) {})
	negative := logInputs("negative", func(x []float32) { x[40*6+2] = -1 })
	zero := logInputs("zero", func(x []float32) { x[17*6+5] = 0 })
	ready := func(name string, n, d, k int, change func(phi, logits []float32, labels []int64)) string {
		phi, logits, labels := random(1, n*d), random(2, n*k), make([]int64, n)
		change(phi, logits, labels)
		return write(t, data, name+".npz",
			npz(t, map[string]array{"features": arrayOf(phi, n, d), "logits": arrayOf(logits, n, k), "labels": arrayOf(labels, n)}))
	}
	same := func([]float32, []float32, []int64) {}
	features := ready("features", 50, 6, 3, same)
	unlabelled := write(t, data, "unlabelled.npz",
		npz(t, map[string]array{"features": arrayOf(random(1, 60), 10, 6), "logits": arrayOf(random(2, 30), 10, 3)}))

	precomputed := func(c *Config) {
		*c = Config{PrecomputedFeatures: true, Train: features, Val: features, Out: c.Out,
			Settings: bundle.Settings{Damping: calibrate.Damping{Absolute: 1}}}
	}
	logModel := func(c *Config) { c.Model, c.Train, c.Val, c.OOD = log, fine, fine, "" }
	tests := []struct {
		name  string
		edit  func(c *Config)
		words []string
	}{
		{"no training data", func(c *Config) { c.Train = "" }, []string{"calibration needs both"}},
		{"no validation data", func(c *Config) { c.Val = "" }, []string{"calibration needs both"}},
		{"no model", func(c *Config) { c.Model = "" }, []string{"Model is missing", "PrecomputedFeatures"}},
		{"no folder", func(c *Config) { c.Out = "" }, []string{"folder to write"}},
		{"a folder in none", func(c *Config) { c.Out = filepath.Join(c.Out, "b") }, []string{"no such file"}},
		{"unknown covariance", func(c *Config) { c.Covariance = "laplace" }, []string{"laplace", "hessian"}},
		{"unknown structure", func(c *Config) { c.Structure = "diag" }, []string{"diag", "kron"}},
		{"unknown provider", func(c *Config) { c.Runtime.Provider = "abacus" }, []string{"abacus", "cpu"}},
		{"negative limit", func(c *Config) { c.Limit = -1 }, []string{"Limit -1 is negative"}},
		{"negative max-bad", func(c *Config) { c.MaxBad = -1 }, []string{"MaxBad -1 is negative"}},
		{"negative batch", func(c *Config) { c.Runtime.Batch = -1 }, []string{"Batch -1"}},
		{"negative threads", func(c *Config) { c.Runtime.Threads = -1 }, []string{"Threads -1 is negative"}},
		{"negative damping", func(c *Config) { c.Damping.Absolute = -1 }, []string{"Damping", "-1"}},
		{"infinite damping", func(c *Config) { c.Damping.Relative = math.Inf(1) }, []string{"Damping", "+Inf"}},
		{"two dampings", func(c *Config) { c.Damping = calibrate.Damping{Absolute: 1, Relative: 1} }, []string{"Damping", "want one"}},
		{"negative lambda0", func(c *Config) { c.Lambda0 = -1 }, []string{"lambda0", "-1"}},
		{"lambda0 not a number", func(c *Config) { c.Lambda0 = math.NaN() }, []string{"lambda0", "NaN"}},

		{"model missing", func(c *Config) { c.Model = filepath.Join(data, "none.onnx") }, []string{"none.onnx", "no such file"}},
		{"model empty", func(c *Config) { c.Model = write(t, data, "empty.onnx", nil) }, []string{"empty.onnx", "empty"}},
		{"model truncated", func(c *Config) { c.Model = write(t, data, "cut.onnx", model[:len(model)/2]) }, []string{"cut.onnx", "not an ONNX model"}},
		{"model of noise", func(c *Config) { c.Model = write(t, data, "noise.onnx", photo(t, 1, 50)) }, []string{"noise.onnx", "not an ONNX model"}},
		{"no head", func(c *Config) { c.Model = "../../testdata/onnx/no_layer.onnx" }, []string{"name its tensors with Features and Logits"}},
		{"head of other names", func(c *Config) { c.Head = head.Options{Features: "elsewhere"} }, []string{"elsewhere"}},
		{"preprocessing that does not fit", func(c *Config) { c.Preprocess = &preprocess.Spec{Crop: &preprocess.Crop{Size: 4}} }, []string{"4×4", "[N,1,8,8]"}},

		{"training data missing", func(c *Config) { c.Train = filepath.Join(data, "none") }, []string{"train: ", "none"}},
		{"empty folder", func(c *Config) { c.Train = t.TempDir() }, []string{"train: ", "no PNG or JPEG"}},
		{"no examples", func(c *Config) { c.Val = labelled("empty", nil) }, []string{"val: ", "empty-images-idx3"}},
		{"slice beyond the end", func(c *Config) { c.Train = digits(t, "digits-images-idx3-ubyte.gz[0:2000]") }, []string{"train: ", "1797"}},
		{"OOD data missing", func(c *Config) { c.OOD = filepath.Join(data, "none") }, []string{"ood: ", "none"}},
		{"one out-of-distribution example", func(c *Config) { c.OOD = strings.Replace(c.OOD, ":300]", ":1]", 1) }, []string{"1 example, want at least 2"}},
		{"validation data without labels", func(c *Config) { c.Val = c.OOD }, []string{"val: ", "no labels"}},
		{"label out of range", func(c *Config) { c.Train = labelled("far", []byte{1, 2, 10, 3}) }, []string{"train: ", "far-images-idx3[2]", "label 10", "[0,10)"}},
		{"validation label out of range", func(c *Config) { c.Val = labelled("farther", []byte{255}) }, []string{"val: ", "label 255"}},
		{"more folders than classes", func(c *Config) { c.Train = tree(t, append([]string{"eleven"}, words...), 1) }, []string{"train: ", "11 class folders", "10 classes"}},
		{"fewer folders than classes", func(c *Config) { c.Train = tree(t, words[:9], 1) }, []string{"train: ", "9 class folders", "10 classes"}},
		{"other validation folders", func(c *Config) { c.Train, c.Val = tree(t, words, 1), tree(t, []string{"two", "tow"}, 1) }, []string{"val: ", "tow"}},
		{"too few class names", func(c *Config) { c.Classes = words[:9] }, []string{"9 class names", "10 classes"}},
		{"images of another size", func(c *Config) { c.Train, c.Covariance = large, calibrate.Hessian }, []string{"train: ", "0001.png", "28×28 grey image", "[N,1,8,8]", "give Preprocess"}},
		{"validation images of another size", func(c *Config) { c.OOD = large }, []string{"ood: ", "28×28 grey image"}},
		{"an image that does not decode", func(c *Config) { c.Train = broken }, []string{"train: two/001.png: broken PNG", "use MaxBad"}},

		{"feature not a number", func(c *Config) { logModel(c); c.Train = negative }, []string{"train: ", "negative.npz[40]: feature 2 is NaN", "preprocessing"}},
		{"feature infinite", func(c *Config) { logModel(c); c.Train = zero }, []string{"train: ", "zero.npz[17]: feature 5 is -Inf"}},
		{"validation feature not a number", func(c *Config) { logModel(c); c.Val = negative }, []string{"val: ", "negative.npz[40]: feature 2 is NaN"}},
		{"OOD feature not a number", func(c *Config) { logModel(c); c.OOD = negative }, []string{"ood: ", "negative.npz[40]: feature 2 is NaN"}},

		{"features and a model", func(c *Config) { m := c.Model; precomputed(c); c.Model = m }, []string{"Model and PrecomputedFeatures exclude each other", "give one of them"}},
		{"features and preprocessing", func(c *Config) { precomputed(c); c.Preprocess = &preprocess.Spec{} }, []string{"Preprocess needs a model", "leave it out"}},
		{"features and a cache", func(c *Config) { precomputed(c); c.Cache = data }, []string{"Cache needs a model", "leave it out"}},
		{"features without their model", func(c *Config) { precomputed(c); c.NoModel = true }, []string{"NoModel needs a model", "leave it out"}},
		{"features and an output", func(c *Config) { precomputed(c); c.Head.Output = "y" }, []string{"Output needs a model", "leave it out"}},
		{"features not of a file of features", func(c *Config) { precomputed(c); c.Train = fine }, []string{"train: ", "features"}},
		{"features of another width", func(c *Config) { precomputed(c); c.Val = ready("wide", 50, 7, 3, same) }, []string{"val: ", "7 features and 3 logits", "6 and 3"}},
		{"logits of another width", func(c *Config) { precomputed(c); c.OOD = ready("long", 50, 6, 4, same) }, []string{"ood: ", "4 logits"}},
		{"features not finite", func(c *Config) {
			precomputed(c)
			c.Train = ready("nan", 50, 6, 3, func(phi, _ []float32, _ []int64) { phi[30*6+1] = float32(math.NaN()) })
		}, []string{"train: nan.npz[30]: feature 1 is NaN"}},
		{"logits not finite", func(c *Config) {
			precomputed(c)
			c.Val = ready("inf", 50, 6, 3, func(_, logits []float32, _ []int64) { logits[20*3] = float32(math.Inf(-1)) })
		}, []string{"val: inf.npz[20]: logit 0 is -Inf"}},
		{"label of features out of range", func(c *Config) {
			precomputed(c)
			c.Train = ready("label", 50, 6, 3, func(_, _ []float32, labels []int64) { labels[9] = 3 })
		}, []string{"train: ", "label 3", "example 9", "[0,3)"}},
		{"features without labels for the Fisher matrix", func(c *Config) { precomputed(c); c.Train, c.Covariance = unlabelled, calibrate.Fisher }, []string{"train: ", "no labels", "fisher"}},
		{"validation features without labels", func(c *Config) { precomputed(c); c.Val = unlabelled }, []string{"val: ", "no labels"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			c := quick(config(t, filepath.Join(dir, "b")))
			tt.edit(&c)
			_, err := Calibrate(t.Context(), c)
			says(t, err, tt.words...)
			if left := list(t, dir); len(left) > 0 {
				t.Errorf("there lie %q", left)
			}
			for _, prefix := range []string{"train: train:", "val: val:", "ood: ood:"} {
				if err != nil && strings.Contains(err.Error(), prefix) {
					t.Errorf("the message repeats itself: %q", err)
				}
			}
		})
	}
}

// Wherever calibration is cancelled, nothing is left but what it has read.
func TestACancelledCalibrationLeavesNoBundle(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user went home")
	begins := func(stage string) func(Progress) bool {
		return func(p Progress) bool { return p.Stage == stage }
	}
	for name, when := range map[string]func(Progress) bool{
		"before it begins":      nil,
		"while training":        begins("train"),
		"while holding out":     begins("val"),
		"at OOD data":           begins("ood"),
		"while tuning":          begins("tuning"),
		"before it is written":  func(p Progress) bool { return p.Stage == "tuning" && p.Done == p.Total },
		"before it is replaced": func(p Progress) bool { return p.Stage == "tuning" && p.Done == p.Total },
	} {
		for _, precomputed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, features precomputed %t", name, precomputed), func(t *testing.T) {
				dir := t.TempDir()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				c := quick(config(t, filepath.Join(dir, "b")))
				if precomputed {
					n, d, k := 600, 6, 3
					logits := random(2, n*k)
					file := write(t, t.TempDir(), "x.npz", npz(t, map[string]array{
						"features": arrayOf(random(1, n*d), n, d),
						"logits":   arrayOf(logits, n, k),
						"labels":   arrayOf(sampled(logits, n), n),
					}))
					c = quick(Config{Out: c.Out, Settings: c.Settings})
					c.PrecomputedFeatures, c.Train, c.Val, c.OOD = true, file, file, file
				}
				before := []string{}
				if name == "before it is replaced" {
					before = []string{"b"}
					mustCalibrate(t, c)
					c.Force = true
				}
				var at time.Time
				c.Progress = func(p Progress) {
					if when != nil && when(p) && ctx.Err() == nil {
						at = time.Now()
						cancel(cause)
					}
				}
				if when == nil {
					at = time.Now()
					cancel(cause)
				}
				_, err := Calibrate(ctx, c)
				if !errors.Is(err, cause) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(at); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				left := list(t, dir)
				if name != "before it begins" && name != "while training" {
					before = append(before, "b.checkpoint")
				}
				if !slices.Equal(left, before) && len(left)+len(before) > 0 {
					t.Errorf("there lie %q", left)
				}
			})
		}
	}
}

func TestProgressGoesThroughTheStages(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	var stages []string
	var last Progress
	c.Progress = func(p Progress) {
		if len(stages) == 0 || stages[len(stages)-1] != p.Stage {
			if last.Done != last.Total {
				t.Errorf("%s follows on %+v", p.Stage, last)
			}
			stages = append(stages, p.Stage)
		} else if p.Done < last.Done {
			t.Errorf("%+v follows on %+v", p, last)
		}
		last = p
	}
	mustCalibrate(t, c)
	want := []string{
		"opening", "train", "val", "ood", "fingerprint", "tuning", "scores", "intervals", "writing",
	}
	if !slices.Equal(stages, want) || last.Done != last.Total {
		t.Errorf("stages %q, want %q, the last %+v", stages, want, last)
	}
}

func TestForceReplacesABundleAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := quick(config(t, filepath.Join(dir, "b")))
	mustCalibrate(t, c)
	files := func() map[string]string {
		m := map[string]string{}
		for _, name := range list(t, c.Out) {
			m[name] = string(read(t, filepath.Join(c.Out, name)))
		}
		return m
	}
	first := files()
	unchanged := func() {
		t.Helper()
		now := files()
		for name, content := range first {
			if now[name] != content {
				t.Errorf("%s has changed", name)
			}
		}
		if left := list(t, dir); !slices.Equal(left, []string{"b"}) {
			t.Errorf("there lie %q", left)
		}
	}

	c.Progress = func(p Progress) { t.Errorf("work was done: %+v", p) }
	_, err := Calibrate(t.Context(), c)
	says(t, err, c.Out, "use Force")
	if !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
	unchanged()
	c.Progress = nil

	c.Force = true
	failing := c
	failing.Val = digits(t, models.OODVal) // without labels
	_, err = Calibrate(t.Context(), failing)
	says(t, err, "no labels")
	unchanged()

	c.Lambda0 = 0.5
	mustCalibrate(t, c)
	if b, err := bundle.Open(c.Out); err != nil || b.Manifest.MeanField.Lambda0 != 0.5 {
		t.Errorf("%v", err)
	}
	if left := list(t, dir); !slices.Equal(left, []string{"b"}) {
		t.Errorf("there lie %q", left)
	}
}

// A bundle may be made again from its own model, unless that would be lost.
func TestAModelInTheBundleToReplaceIsNotLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := quick(config(t, filepath.Join(dir, "b")))
	mustCalibrate(t, c)
	c.Force, c.Model = true, filepath.Join(c.Out, bundle.ModelName)
	mustCalibrate(t, c)

	c.Progress = func(p Progress) { t.Errorf("work was done: %+v", p) }
	link := filepath.Join(dir, "link.onnx")
	if err := os.Symlink(c.Model, link); err != nil {
		t.Fatal(err)
	}
	c.NoModel = true
	for _, c.Model = range []string{c.Model, link} {
		_, err := Calibrate(t.Context(), c)
		says(t, err, c.Out, c.Model, "would be lost")
	}
	if left, want := list(t, c.Out), []string{bundle.ManifestName, bundle.ModelName,
		bundle.PosteriorName, bundle.ProbeName}; !slices.Equal(left, want) {
		t.Errorf("there lie %q, want %q", left, want)
	}
}

// The model that was opened is the one that is calibrated and comes into the bundle, whatever its file
// becomes meanwhile.
func TestACalibrationKeepsTheModelItBeganWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := quick(config(t, filepath.Join(dir, "b")))
	data := read(t, c.Model)
	c.Model = write(t, t.TempDir(), "model.onnx", data)
	c.Progress = func(p Progress) {
		if p.Stage == "tuning" {
			write(t, filepath.Dir(c.Model), "model.onnx", data[:len(data)/2])
		}
	}
	mustCalibrate(t, c)
	if !bytes.Equal(read(t, filepath.Join(c.Out, bundle.ModelName)), data) {
		t.Error("the bundle does not hold the model that was opened")
	}
	if err := opened(t, c.Out, Options{}).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// So it is where weights lie in a file of their own.
func TestACalibrationKeepsTheExternalDataItBeganWith(t *testing.T) {
	t.Parallel()
	const n = 60
	dir := t.TempDir()
	data := read(t, external+".data")
	write(t, dir, "external.onnx.data", data)
	model := write(t, dir, "external.onnx", read(t, external))
	x := Tensor{Shape: []int64{n, 5}, Data: random(1, n*5)}
	file := write(t, dir, "x.npz", npz(t, map[string]array{"x": arrayOf(x.Data, n, 5), "labels": arrayOf(labelsOf(t, model, n, x), n)}))
	c := quick(Config{Model: model, Train: file, Val: file, Out: filepath.Join(t.TempDir(), "b")})
	c.Progress = func(p Progress) {
		if p.Stage == "tuning" {
			write(t, dir, "external.onnx.data", make([]byte, len(data)))
		}
	}
	mustCalibrate(t, c)
	if err := opened(t, c.Out, Options{}).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}
