package calibration_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/onnx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// BenchmarkCalibrate compares the training pass of a calibration, from a file of
// tensors to the sums of the Kronecker structure, with runs of the network alone
// on the same batches, by turns. It reports the time for an example of each and the
// throughput of the pass in units of the network's.
func BenchmarkCalibrate(b *testing.B) {
	models := []string{digits(b, "model.onnx")}
	if path := os.Getenv(benchModel); path != "" {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			models = append(models, path)
		}
	}
	const n, batch = calibrate.BlockSize, 16
	for _, path := range models {
		m, err := onnx.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		plain, err := featurize.New(featurize.Config{Model: m, Batch: batch})
		if err != nil {
			b.Fatal(err)
		}
		defer plain.Close()
		x := noise(b, plain, n)
		data, width := x.Data.([]float32), plain.InputWidths()[0]
		dims := make([]int, len(x.Shape))
		for i, d := range x.Shape {
			dims[i] = int(d)
		}
		dir := b.TempDir()
		labels := make([]int64, n)
		file := write(b, dir, "x.npz", npz(b,
			map[string]array{m.Inputs()[0].Name: arrayOf(data, dims...), "labels": arrayOf(labels, n)}))
		accumulate := Accumulation(b, Config{
			Model: path, Train: file, Val: file, Out: filepath.Join(dir, "b"),
			Runtime:  Runtime{Batch: batch},
			Settings: bundle.Settings{Structure: calibrate.Kronecker},
		})
		b.Run(filepath.Base(path), func(b *testing.B) {
			var alone, pass, ratios []float64
			took := func(f func()) float64 {
				start := time.Now()
				f()
				return float64(time.Since(start)) / float64(time.Millisecond) / n
			}
			for b.Loop() {
				alone = append(alone, took(func() {
					for i := 0; i < n; i += batch {
						shape := append([]int64{batch}, x.Shape[1:]...)
						if _, err := plain.Run(b.Context(),
							[]Tensor{{Shape: shape, Data: data[i*width : (i+batch)*width]}}); err != nil {
							b.Fatal(err)
						}
					}
				}))
				pass = append(pass, took(func() {
					if err := accumulate(b.Context()); err != nil {
						b.Fatal(err)
					}
				}))
				ratios = append(ratios, alone[len(alone)-1]/pass[len(pass)-1])
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(alone), "network-ms/example")
			b.ReportMetric(median(pass), "calibrate-ms/example")
			b.ReportMetric(median(ratios), "throughput")
		})
	}
}

// BenchmarkCurvature accumulates the curvature of blocks of examples, with the
// runtime's matrix product, and reports the time on all cores for each example.
func BenchmarkCurvature(b *testing.B) {
	for _, c := range []struct {
		logits, features int
		structure        calibrate.Structure
		fisher           bool
	}{
		{10, 256, calibrate.Full, false},
		{10, 512, calibrate.Full, false},
		{10, 512, calibrate.Kronecker, false},
		{100, 512, calibrate.Kronecker, false},
		{1000, 512, calibrate.Kronecker, false},
		{1000, 2048, calibrate.Kronecker, false},
		{1000, 2048, calibrate.Kronecker, true},
	} {
		b.Run(fmt.Sprintf("K=%d/d=%d/%s/fisher=%v", c.logits, c.features, c.structure, c.fisher), func(b *testing.B) {
			product, err := featurize.NewProduct(0)
			if err != nil {
				b.Fatal(err)
			}
			defer product.Close()
			h := layer.Head{Logits: c.logits, Features: c.features, Bias: true, Link: layer.Softmax}
			sums, err := calibrate.NewSums(calibrate.CurvatureConfig{Head: h, Structure: c.structure, Fisher: c.fisher,
				Product: product})
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			const n = calibrate.BlockSize
			phi, logits := make([]float32, n*c.features), make([]float32, n*c.logits)
			for i := range phi {
				phi[i] = rng.Float32()
			}
			for i := range logits {
				logits[i] = float32(3 * rng.NormFloat64())
			}
			block := &rows.Batch{N: n, Positions: make([]int, n), Features: phi, Logits: logits, Labels: make([]int, n)}
			for i := range n {
				block.Positions[i], block.Labels[i] = i, i%c.logits
			}
			for b.Loop() {
				if err := sums.AddBlock(block); err != nil {
					b.Fatal(err)
				}
				for i := range n {
					block.Positions[i] += n
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*n), "ms/example")
		})
	}
}
