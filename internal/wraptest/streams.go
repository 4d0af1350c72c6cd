package wraptest

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// StreamStates are the states of the recurrent network of StreamConfig.
const StreamStates = "h=hn,c=cn"

// A Stream is a sequence of steps as a recurrent network takes it, with a label for each: -100 for none.
type Stream struct {
	X      [][]float32 `json:"x"`
	Labels []int       `json:"labels"`
}

// Streams draws n streams of 2 to 9 steps.
func Streams(seed uint64, n int) []Stream {
	rng := rand.New(rand.NewPCG(seed, 19))
	all := make([]Stream, n)
	for i := range all {
		for step := range 2 + rng.IntN(8) {
			x := make([]float32, onnxtest.RecurrentWidth)
			for j := range x {
				x[j] = float32(rng.NormFloat64())
			}
			label := rng.IntN(onnxtest.RecurrentClasses)
			if step > 0 && rng.IntN(4) == 0 {
				label = -100
			}
			all[i].X, all[i].Labels = append(all[i].X, x), append(all[i].Labels, label)
		}
	}
	return all
}

// JSONStreams are streams as a dataset.
func JSONStreams(streams []Stream) []byte {
	var b []byte
	for _, s := range streams {
		line, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		b = append(append(b, line...), '\n')
	}
	return b
}

// StreamInput is a stream as the network's input.
func StreamInput(s Stream) wrap.Tensor {
	in := wrap.Tensor{Name: "x", Shape: []int64{1, int64(len(s.X)), onnxtest.RecurrentWidth}}
	var data []float32
	for _, x := range s.X {
		data = append(data, x...)
	}
	in.Data = data
	return in
}

// StreamConfig returns a calibration of a recurrent network, whose files it writes.
func StreamConfig(t testing.TB, r onnxtest.Recurrent) calibration.Config {
	t.Helper()
	dir := t.TempDir()
	onnxtest.WriteModel(t, filepath.Join(dir, "recurrent.onnx"), r.Model())
	c := calibration.Config{Model: filepath.Join(dir, "recurrent.onnx"),
		Train: Write(t, dir, "train.jsonl", JSONStreams(Streams(61, 200))),
		Val:   Write(t, dir, "val.jsonl", JSONStreams(Streams(62, 200))), Out: filepath.Join(dir, "b")}
	c.Head.State = StreamStates
	return c
}
