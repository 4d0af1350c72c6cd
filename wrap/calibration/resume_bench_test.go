package calibration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// BenchmarkCheckpoint is what a checkpoint costs, with the disk's share; one is written a minute.
func BenchmarkCheckpoint(b *testing.B) {
	for _, size := range []struct {
		structure calibrate.Structure
		d, k      int
	}{{calibrate.Full, 784, 10}, {calibrate.Kronecker, 1280, 1000}} {
		b.Run(fmt.Sprintf("%s,K=%d,d=%d", size.structure, size.k, size.d), func(b *testing.B) {
			const n = calibrate.BlockSize
			logits, dir := random(2, n*size.k), b.TempDir()
			file := write(b, dir, "x.npz", npz(b, map[string]array{
				"features": arrayOf(random(1, n*size.d), n, size.d), "logits": arrayOf(logits, n, size.k),
				"labels": arrayOf(sampled(logits, n), n),
			}))
			save, part := Checkpointed(b, Config{
				PrecomputedFeatures: true, Train: file, Val: file, Out: filepath.Join(dir, "b"),
				Settings: bundle.Settings{Structure: size.structure},
			})
			for b.Loop() {
				if err := save(); err != nil {
					b.Fatal(err)
				}
			}
			bytes := 0.0
			for _, name := range list(b, part) {
				if info, err := os.Stat(filepath.Join(part, name)); err == nil {
					bytes += float64(info.Size())
				}
			}
			b.ReportMetric(bytes/1e6, "MB")
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/60, "%/min")
		})
	}
}
