package calibration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// benchModel names the variable with the path of what BenchmarkPredictor measures beside the
// digits, such as a ResNet-50: a model of one float32 input with declared sizes and one output of
// logits, which is then calibrated on noise, or a bundle of such a model.
const benchModel = "MFGS_BENCH_MODEL"

// BenchmarkPredictor compares a prediction with one run of the network alone, in a
// session of the same kind and by turns, since a machine's speed drifts. It reports
// the median of each, in milliseconds, and the median of their ratios.
func BenchmarkPredictor(b *testing.B) {
	type subject struct{ name, model, bundle string }
	dir, _ := calibrated(b, calibrate.Kronecker)
	subjects := []subject{{"digits", digits(b, "model.onnx"), dir}}
	if path := os.Getenv(benchModel); path != "" {
		s := subject{filepath.Base(path), filepath.Join(path, bundle.ModelName), path}
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			s.model, s.bundle = path, noisy(b, path)
		}
		subjects = append(subjects, s)
	}
	for _, s := range subjects {
		m, err := onnx.Open(s.model)
		if err != nil {
			b.Fatal(err)
		}
		plain, err := featurize.New(featurize.Config{Model: m, Batch: 16})
		if err != nil {
			b.Fatal(err)
		}
		defer plain.Close()
		p := opened(b, s.bundle, Options{Runtime: Runtime{Batch: 16}})
		for _, n := range []int{1, 16} {
			inputs := []Tensor{noise(b, plain, n)}
			b.Run(fmt.Sprintf("%s/n=%d", s.name, n), func(b *testing.B) {
				b.ReportAllocs()
				var alone, whole []float64
				took := func(f func() error) float64 {
					start := time.Now()
					if err := f(); err != nil {
						b.Fatal(err)
					}
					return float64(time.Since(start)) / float64(time.Millisecond)
				}
				for b.Loop() {
					alone = append(alone, took(func() error { _, err := plain.Run(b.Context(), inputs); return err }))
					whole = append(whole, took(func() error { _, err := p.Predict(b.Context(), inputs); return err }))
				}
				ratios := make([]float64, len(alone))
				for i := range ratios {
					ratios[i] = whole[i] / alone[i]
				}
				b.ReportMetric(median(alone), "network-ms")
				b.ReportMetric(median(whole), "predict-ms")
				b.ReportMetric(median(ratios), "ratio")
			})
		}
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// noise returns n random examples for a network's one input.
func noise(b *testing.B, w *featurize.Network, n int) Tensor {
	in := w.Inputs()
	if len(in) != 1 || in[0].Type != tensor.Float32 || w.InputWidths()[0] == 0 {
		b.Fatalf("inputs %v, want one of float32 with all sizes declared", in)
	}
	shape := []int64{int64(n)}
	for _, d := range in[0].Shape[1:] {
		shape = append(shape, d.Value)
	}
	return Tensor{Shape: shape, Data: random(1, n*w.InputWidths()[0])}
}

// noisy calibrates a model on noise, for which no time is right or wrong.
func noisy(b *testing.B, path string) string {
	const n = 48
	m, err := onnx.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	w, err := featurize.New(featurize.Config{Model: m})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	x := noise(b, w, n)
	labels := make([]int64, n)
	for i := range labels {
		labels[i] = int64(i % int(m.Outputs()[0].Shape[1].Value))
	}
	dims := make([]int, len(x.Shape))
	for i, d := range x.Shape {
		dims[i] = int(d)
	}
	dir := b.TempDir()
	file := write(b, dir, "x.npz", npz(b,
		map[string]array{m.Inputs()[0].Name: arrayOf(x.Data, dims...), "labels": arrayOf(labels, n)}))
	c := quick(Config{Model: path, Train: file, Val: file, Out: filepath.Join(dir, "b")})
	mustCalibrate(b, c)
	return c.Out
}
