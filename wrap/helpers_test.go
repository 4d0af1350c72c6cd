package wrap_test

import (
	"bytes"
	"encoding/binary"
	goimage "image"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/wraptest"
	. "github.com/mfgs/mfgs/wrap"
)

type array struct {
	Data any
	Dims []int
}

func npz(t testing.TB, arrays map[string]array) []byte {
	t.Helper()
	m := map[string]wraptest.Array{}
	for name, a := range arrays {
		m[name] = wraptest.Array(a)
	}
	return wraptest.NPZ(t, m)
}

var (
	structures    = wraptest.Structures
	digits        = wraptest.Digits
	config        = wraptest.Config
	quick         = wraptest.Quick
	calibrated    = wraptest.Calibrated
	mustCalibrate = wraptest.MustCalibrate
	opened        = wraptest.Opened
	write         = wraptest.Write
	read          = wraptest.Read
	list          = wraptest.List
	random        = wraptest.Random
	digitTensor   = wraptest.DigitTensor
	rowsOf        = wraptest.RowsOf
	says          = wraptest.Says
)

// idx makes an IDX file of bytes.
func idx(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

// photo is a grey PNG of random pixels.
func photo(t testing.TB, seed, size int) []byte {
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

// labelsOf runs a model on inputs [n,…] and returns for each example a class
// that it gives a fair chance: data a calibration can make sense of.
func labelsOf(t testing.TB, model string, n int, inputs ...Tensor) []int64 {
	t.Helper()
	_, logits := rowsOf(t, model, inputs...)
	return sampled(logits, n)
}

// sampled draws a label from the softmax, or the sigmoid, of each example's logits.
func sampled(logits []float32, n int) []int64 {
	rng := rand.New(rand.NewPCG(5, 5))
	k := len(logits) / n
	head := calibrate.Head{Logits: k, Features: 1, Link: calibrate.Softmax}
	if k == 1 {
		head.Link = calibrate.Sigmoid
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
