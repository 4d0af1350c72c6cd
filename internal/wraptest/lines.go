package wraptest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// LineAlphabet are the symbols of the recogniser of LineConfig but for the blank, which is the first.
var LineAlphabet = []string{"a", "b", "é", " "}

// LineVal is the number of lines of LineConfig's validation data.
const LineVal = 400

// A Line is a line of text as the recogniser of LineConfig takes it.
type Line struct {
	Scores []float32 // [T,K]
	Text   string    // the right one
}

// Lines draws n lines. Their texts have 0 to 4 symbols, some are hard to read. steps is T, or 0 for a T of each
// line's own.
func Lines(seed uint64, n, steps int) []Line {
	rng := rand.New(rand.NewPCG(seed, 17))
	k := len(LineAlphabet) + 1
	all := make([]Line, n)
	for i := range all {
		path := []int{0}
		for range rng.IntN(5) {
			s := 1 + rng.IntN(k-1)
			if s == path[len(path)-1] || rng.IntN(2) == 0 {
				path = append(path, 0)
			}
			path = append(path, s)
			if rng.IntN(2) == 0 {
				path = append(path, s)
			}
			all[i].Text += LineAlphabet[s-1]
		}
		path = append(path, 0, 0)
		for len(path) < steps {
			path = append(path, 0)
		}
		margin := 2 + 6*rng.Float64()
		for _, at := range path {
			for s := range k {
				score := rng.NormFloat64()
				if s == at {
					score += margin
				}
				all[i].Scores = append(all[i].Scores, float32(score))
			}
		}
	}
	return all
}

// LineInputs are lines of one length as the recogniser's input.
func LineInputs(lines []Line) wrap.Tensor {
	k := len(LineAlphabet) + 1
	in := wrap.Tensor{Name: "line", Shape: []int64{int64(len(lines)), int64(len(lines[0].Scores) / k), int64(k)}}
	var data []float32
	for _, l := range lines {
		data = append(data, l.Scores...)
	}
	in.Data = data
	return in
}

// JSONLines are lines as a dataset, with their texts as labels.
func JSONLines(lines []Line) []byte {
	var b strings.Builder
	k := len(LineAlphabet) + 1
	for _, l := range lines {
		var steps []string
		for at := 0; at < len(l.Scores); at += k {
			steps = append(steps, strings.ReplaceAll(fmt.Sprint(l.Scores[at:at+k]), " ", ","))
		}
		fmt.Fprintf(&b, "{\"line\":[%s],\"label\":%q}\n", strings.Join(steps, ","), l.Text)
	}
	return []byte(b.String())
}

// Recogniser is the recogniser of LineConfig.
func Recogniser() onnxtest.Recogniser {
	return onnxtest.Recogniser{Opset: 13, Symbols: len(LineAlphabet) + 1, Type: tensor.Float32, Softmax: true}
}

// LineConfig returns a calibration of a recogniser of text, whose files it writes.
func LineConfig(t testing.TB, r onnxtest.Recogniser) calibration.Config {
	t.Helper()
	dir := t.TempDir()
	onnxtest.WriteModel(t, filepath.Join(dir, "recogniser.onnx"), r.Model())
	c := calibration.Config{Model: filepath.Join(dir, "recogniser.onnx"), Alphabet: LineAlphabet,
		Val: Write(t, dir, "val.jsonl", JSONLines(Lines(21, LineVal, 0))), Out: filepath.Join(dir, "b")}
	c.Head.Kind = head.CTC
	return c
}
