package calibration_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// Where the logits are off by class, matrix scaling is chosen, and the network with its head, the formulas and the
// method by name give the same probabilities.
func TestMatrixScalingIsServed(t *testing.T) {
	t.Parallel()
	const model, n, k = "../../testdata/onnx/gemm.onnx", 1200, 4
	x := Tensor{Name: "x", Shape: []int64{n, 5}, Data: random(4, n*5)}
	_, logits := rowsOf(t, model, x)
	for i := range logits {
		logits[i] += 2 * float32(1-i%k%3)
	}
	for link, labels := range map[layer.Link]array{
		layer.Softmax: arrayOf(sampled(logits, n), n), layer.Sigmoid: arrayOf(tossed(logits), n, k),
	} {
		dir := t.TempDir()
		file := write(t, dir, "x.npz", npz(t, map[string]array{"x": arrayOf(x.Data, n, 5), "labels": labels}))
		c := Config{Model: model, Train: file + "[:400]", Val: file + "[400:]", Out: filepath.Join(dir, "bundle")}
		c.Head.Link = link
		r := mustCalibrate(t, c)
		v := r.Validation
		if !r.Probabilities.Matrix || v.Matrix == nil || !(v.After.NLL < v.TS.NLL-0.02) {
			t.Fatalf("%s: %s, figures %+v", link, r.Probabilities.Reason, v)
		}
		if v.ClassChanges == 0 || !(v.After.Error < v.Before.Error) {
			t.Errorf("%s: %d predicted classes change, error %v, before %v", link, v.ClassChanges, v.After.Error, v.Before.Error)
		}
		p := opened(t, c.Out, Options{})
		equalsTheFormulas(t, p, cut(t, c.Out), []Tensor{x})
		outputs, err := p.Run(t.Context(), wraptest.First([]Tensor{x}, 50))
		if err != nil {
			t.Fatal(err)
		}
		apply := func(m calibrate.Method) []float64 {
			got, err := p.Apply(outputs, Override{Method: string(m)})
			if err != nil {
				t.Fatal(err)
			}
			var all []float64
			for _, one := range got.Predictions {
				all = append(all, one.Probabilities...)
			}
			return all
		}
		served := apply("")
		for i, v := range apply(r.Probabilities.Method) {
			if !approx.Equal(v, served[i], 1e-6) {
				t.Fatalf("%s: probability %v by name, %v served", link, v, served[i])
			}
		}
		for _, m := range []calibrate.Method{calibrate.MLE, calibrate.TS} {
			if slices.Equal(apply(m), served) {
				t.Errorf("%s: %s gives what is served", link, m)
			}
		}
		if link == layer.Softmax { // the network's own
			for i, one := range apply(calibrate.MLE)[:k] {
				var sum float64
				own := logits[:k]
				for j, a := range own {
					sum += math.Exp(float64(a) - 2*float64(1-j%3))
				}
				if want := math.Exp(float64(own[i])-2*float64(1-i%3)) / sum; !approx.Equal(one, want, 1e-5) {
					t.Errorf("p[%d] = %v of the network, want %v", i, one, want)
				}
			}
		}

		opened, err := bundle.Open(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		m := opened.Manifest
		for what, change := range map[string]func(*calibrate.Choice){
			"want matrix or mf0": func(c *calibrate.Choice) { c.Method = calibrate.TS },
			"matrix is missing":  func(c *calibrate.Choice) { c.Method, c.Matrix = calibrate.Matrix, false },
			"keep_class allows":  func(c *calibrate.Choice) { c.KeepClass = true },
		} {
			choice := *m.Probabilities
			change(&choice)
			m.Probabilities = &choice
			says(t, m.Validate(), what)
			m.Probabilities = opened.Manifest.Probabilities
		}

		c.KeepClass, c.Out = true, filepath.Join(dir, "kept")
		kept := mustCalibrate(t, c)
		v, reason := kept.Validation, kept.Probabilities.Reason
		if v.ClassChanges != 0 || v.Matrix != nil || !strings.Contains(reason, "may change") {
			t.Errorf("%s: kept: %s, %+v", link, reason, v)
		}
		_, err = wraptest.Opened(t, c.Out, Options{}).Apply(outputs, Override{Method: "matrix"})
		says(t, err, "no matrix scaling")
	}
}
