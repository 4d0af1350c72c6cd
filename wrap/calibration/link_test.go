package calibration_test

import (
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/onnx/head"
	. "github.com/mfgs/mfgs/wrap"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// A model that ends in bare logits does not say whether its labels exclude each other; who uses it
// does.
func TestTheLinkCanBeConfigured(t *testing.T) {
	t.Parallel()
	const model, n, k = "../../testdata/onnx/gemm.onnx", 120, 4
	x := Tensor{Name: "x", Shape: []int64{n, 5}, Data: random(4, n*5)}
	_, logits := rowsOf(t, model, x)
	dir := t.TempDir()
	file := write(t, dir, "x.npz", npz(t, map[string]array{"x": arrayOf(x.Data, n, 5), "labels": arrayOf(tossed(logits), n, k)}))
	c := Config{Model: model, Train: file + "[:80]", Val: file + "[80:]", Out: filepath.Join(dir, "bundle")}
	_, err := Calibrate(t.Context(), c)
	says(t, err, "labels")
	c.Head.Link = layer.Sigmoid
	if r := mustCalibrate(t, c); r.Head.Link != "sigmoid" {
		t.Errorf("head %+v", r.Head)
	}
	predictions, _ := predicted(t, opened(t, c.Out, Options{}), file)
	for i, p := range predictions {
		for j, a := range p.Logits {
			if !approx.Equal(float64(a), float64(logits[i*k+j]), 1e-5) || p.Targets == nil {
				t.Fatalf("example %d: %+v, want logits %v", i, p, logits[i*k:(i+1)*k])
			}
		}
	}
	if len(predictions) != n {
		t.Errorf("%d predictions", len(predictions))
	}
	c.Head.Link, c.Force = "cauchit", true
	_, err = Calibrate(t.Context(), c)
	says(t, err, "cauchit", "one-vs-rest")
}

// The link of several precomputed logits is softmax unless another is configured.
func TestTheLinkOfPrecomputedFeaturesCanBeConfigured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const n = 200
	phi, logits := random(1, n*3), random(2, n*4)
	file := write(t, dir, "f.npz", npz(t,
		map[string]array{"features": arrayOf(phi, n, 3), "logits": arrayOf(logits, n, 4), "labels": arrayOf(sampled(logits, n), n)}))
	c := Config{PrecomputedFeatures: true, Train: file + "[:100]", Val: file + "[100:]", Out: filepath.Join(dir, "bundle")}
	c.Head.Link = layer.OneVsRest
	if r := mustCalibrate(t, c); r.Head.Link != "one-vs-rest" {
		t.Errorf("head %+v", r.Head)
	}
	c.Head.Link, c.Force = layer.Sigmoid, true
	_, err := Calibrate(t.Context(), c)
	says(t, err, "4 logits", "0 or 1")
	c.Head = head.Options{Link: layer.Softmax, Features: "phi"}
	_, err = Calibrate(t.Context(), c)
	says(t, err, "precomputed features")
}
