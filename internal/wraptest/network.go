package wraptest

import (
	"bytes"
	"encoding/binary"
	goimage "image"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// IDX returns the bytes of an IDX file.
func IDX(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

// Photo returns a grey PNG of random pixels.
func Photo(t testing.TB, seed, size int) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(seed), 3))
	img := goimage.NewGray(goimage.Rect(0, 0, size, size))
	for i := range img.Pix {
		img.Pix[i] = byte(rng.Uint32())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// LabelsOf runs a model on inputs [n,…] and draws a label for each example from the model's probabilities, so that a
// calibration makes sense.
func LabelsOf(t testing.TB, model string, n int, inputs ...wrap.Tensor) []int64 {
	t.Helper()
	_, logits := RowsOf(t, model, inputs...)
	return Sampled(logits, n)
}

// Sampled draws a label for each example from the softmax, or sigmoid, of its logits.
func Sampled(logits []float32, n int) []int64 {
	rng := rand.New(rand.NewPCG(5, 5))
	k := len(logits) / n
	head := layer.Head{Logits: k, Features: 1, Link: layer.Softmax}
	if k == 1 {
		head.Link = layer.Sigmoid
	}
	logp, _ := calibrate.Plain(head, logits, n, 1)
	labels := make([]int64, n)
	for i := range labels {
		c := head.Classes()
		left := rng.Float64()
		for j, l := range logp[i*c : (i+1)*c] {
			if left -= math.Exp(l); left < 0 || j == c-1 {
				labels[i] = int64(j)
				break
			}
		}
	}
	return labels
}

// CutNetwork is a bundle's network cut at its head, with a Predictor that predicts in float64 from its features and
// logits.
type CutNetwork struct {
	*attach.Cut
	Formulas *wrap.Predictor
}

// Cut opens the network of a bundle.
func Cut(t testing.TB, dir string) CutNetwork {
	t.Helper()
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := attach.Open(t.Context(), b, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := CutNetwork{Formulas: Opened(t, dir, wrap.Options{})}
	err = a.Run(nil, featurize.Config{Batch: a.Batch()}, func(run featurize.Config) (err error) {
		c.Cut, err = attach.OpenCut(a.Model, a.Head, run)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Cut.Close() })
	return c
}
