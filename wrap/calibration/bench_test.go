package calibration_test

import (
	"fmt"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx"
	. "github.com/mfgs/mfgs/wrap"
)

// BenchmarkPredict shows beside the whole prediction its parts: the network as
// it is, the cut one, and what turns features into predictions.
func BenchmarkPredict(b *testing.B) {
	for _, n := range []int{1, 256} {
		inputs := []Tensor{{Shape: []int64{int64(n), 1, 8, 8}, Data: make([]float32, n*64)}}
		for i := range inputs[0].Data.([]float32) {
			inputs[0].Data.([]float32)[i] = float32(i%17) / 16
		}
		model, err := onnx.Open(digits(b, "model.onnx"))
		if err != nil {
			b.Fatal(err)
		}
		graph, err := model.Bytes()
		if err != nil {
			b.Fatal(err)
		}
		session, err := ort.NewSession(ort.SessionConfig{Graph: graph})
		if err != nil {
			b.Fatal(err)
		}
		each := func(name string, f func() error) {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		each("network", func() error {
			_, err := session.Run(b.Context(), inputs)
			return err
		})
		for _, s := range structures {
			dir, _ := calibrated(b, s)
			p, cutter := opened(b, dir, Options{}), cut(b, dir)
			rows, err := cutter.Network.Run(b.Context(), inputs)
			if err != nil {
				b.Fatal(err)
			}
			each("cut", func() error {
				_, err := cutter.Network.Run(b.Context(), inputs)
				return err
			})
			each("features/"+string(s), func() error {
				_, err := p.PredictFeatures(rows.Columns[0], rows.Columns[1])
				return err
			})
			each("all/"+string(s), func() error {
				_, err := p.Predict(b.Context(), inputs)
				return err
			})
		}
		session.Close()
	}
}
