package wrap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize"
)

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
			h := calibrate.Head{Logits: c.logits, Features: c.features, Bias: true, Link: calibrate.Softmax}
			curvature, err := calibrate.NewCurvature(calibrate.CurvatureConfig{Head: h, Structure: c.structure, Fisher: c.fisher, Product: product})
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
			position := 0
			for b.Loop() {
				for i := range n {
					if err := curvature.Add(position, phi[i*c.features:(i+1)*c.features], logits[i*c.logits:(i+1)*c.logits], i%c.logits); err != nil {
						b.Fatal(err)
					}
					position++
				}
				if err := curvature.Flush(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*n), "ms/example")
		})
	}
}
