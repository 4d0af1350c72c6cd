package featurize

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	goimage "image"
	"image/color"
	"image/png"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// model opens one of the models of testdata/make_models.py.
func model(t testing.TB, name string) *onnx.Model {
	t.Helper()
	m, err := onnx.Open(filepath.Join("testdata", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// extractor cuts one of those models. c needs no Model and no Head.
func extractor(t testing.TB, name string, c Config) *Network {
	t.Helper()
	e, err := newExtractor(name, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func newExtractor(name string, c Config) (*Network, error) {
	var err error
	if c.Model, err = onnx.Open(filepath.Join("testdata", name+".onnx")); err != nil {
		return nil, err
	}
	if c.Head, err = head.Find(c.Model, head.Options{}); err != nil {
		return nil, err
	}
	return New(c)
}

// uncut runs a whole network on one example at a time: the slow twin. Its
// outputs are logits and phi.
func uncut(t testing.TB, name string, n int, inputs func(i int) []tensor.Tensor) *rows.Batch {
	t.Helper()
	graph, err := model(t, name).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ort.NewSession(ort.SessionConfig{Graph: graph, Outputs: []string{"phi", "logits"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := &rows.Batch{N: n}
	for i := range n {
		out, err := s.Run(t.Context(), inputs(i))
		if err != nil {
			t.Fatal(err)
		}
		rows.Features = append(rows.Features, out[0].Data.([]float32)...)
		rows.Logits = append(rows.Logits, out[1].Data.([]float32)...)
	}
	return rows
}

// same compares rows: ONNX Runtime adds in another order for another batch.
func same(t testing.TB, got, want *rows.Batch) {
	t.Helper()
	if got.N != want.N {
		t.Fatalf("%d examples, want %d", got.N, want.N)
	}
	for _, v := range []struct {
		name      string
		got, want []float32
	}{{"features", got.Features, want.Features}, {"logits", got.Logits, want.Logits}} {
		if len(v.got) != len(v.want) || len(v.want) == 0 {
			t.Fatalf("%d %s, want %d", len(v.got), v.name, len(v.want))
		}
		size := 0.0
		for _, w := range v.want {
			size = max(size, math.Abs(float64(w)))
		}
		if size == 0 {
			t.Fatalf("all %s are zero: this compares nothing", v.name)
		}
		for i, w := range v.want {
			if d := math.Abs(float64(v.got[i] - w)); !(d <= 1e-5*size) {
				t.Fatalf("%s[%d] = %v, want %v", v.name, i, v.got[i], w)
			}
		}
	}
}

// collected is all that a stream gave.
type collected struct {
	rows.Batch
	Blocks []int // examples of each batch
}

func collect(c *collected) func(*rows.Batch) error {
	return func(b *rows.Batch) error {
		c.Append(b)
		c.Blocks = append(c.Blocks, b.N)
		return nil
	}
}

// pass hands the batches that read gives over to yield until that fails, and counts on top of what c
// counts already.
func pass[B any](ctx context.Context,
	read func(context.Context, *dataset.Dataset, StreamConfig) iter.Seq2[B, error], ds *dataset.Dataset, c StreamConfig,
	yield func(B) error) (stats rows.Stats, err error) {
	if c.Stats != nil {
		stats = *c.Stats
	}
	c.Stats = &stats
	for b, err := range read(ctx, ds, c) {
		if err == nil {
			err = yield(b)
		}
		if err != nil {
			return stats, err
		}
	}
	return stats, nil
}

func stream(t testing.TB, e *Network, ds *dataset.Dataset, c StreamConfig) (*collected, rows.Stats) {
	t.Helper()
	got := &collected{}
	stats, err := pass(context.Background(), e.Rows, ds, c, collect(got))
	if err != nil {
		t.Fatal(err)
	}
	if stats.Examples != got.N {
		t.Errorf("Stats say %d examples, %d came", stats.Examples, got.N)
	}
	return got, stats
}

func openData(t testing.TB, spec string, o dataset.Options) *dataset.Dataset {
	t.Helper()
	ds, err := dataset.Open(t.Context(), spec, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ds.Close() })
	return ds
}

// write puts a file into dir and returns its path.
func write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// idx makes an IDX file of bytes.
func idx(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

// npy makes a NumPy array.
func npy[T uint8 | int64 | float32](data []T, dims ...int) []byte {
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ", "), "[]")
	descr := map[string]string{"[]uint8": "|u1", "[]int64": "<i8", "[]float32": "<f4"}[fmt.Sprintf("%T", data)]
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }", descr, shape)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(header)))
	b.WriteString(header)
	binary.Write(&b, binary.LittleEndian, data)
	return b.Bytes()
}

// npz makes a file of NumPy arrays: name, content, name, content, …
func npz(t testing.TB, arrays ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(arrays); i += 2 {
		w, err := z.CreateHeader(&zip.FileHeader{Name: arrays[i].(string) + ".npy", Method: zip.Store})
		if err == nil {
			_, err = w.Write(arrays[i+1].([]byte))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pixels are the bytes of image i, [h,w,c].
func pixels(i, h, w, c int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	p := make([]byte, h*w*c)
	for j := range p {
		p[j] = byte(rng.Uint32())
	}
	return p
}

// pngOf encodes the bytes [h,w,c] of an image.
func pngOf(t testing.TB, p []byte, h, w, c int) []byte {
	t.Helper()
	img := goimage.Image(&goimage.Gray{Pix: p, Stride: w, Rect: goimage.Rect(0, 0, w, h)})
	if c == 3 {
		rgba := goimage.NewNRGBA(goimage.Rect(0, 0, w, h))
		for y := range h {
			for x := range w {
				q := p[(y*w+x)*3:]
				rgba.SetNRGBA(x, y, color.NRGBA{q[0], q[1], q[2], 255})
			}
		}
		img = rgba
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// photos makes a flat folder of n images; those in broken do not decode.
func photos(t testing.TB, n, h, w, c int, broken ...int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		content := pngOf(t, pixels(i, h, w, c), h, w, c)
		for _, b := range broken {
			if i == b {
				content = content[:len(content)-20]
			}
		}
		write(t, dir, fmt.Sprintf("%04d.png", i), content)
	}
	return dir
}

// chw puts the pixels [h,w,c] into the order of channels first, by 255.
func chw(p []byte, h, w, c int) []float32 {
	out := make([]float32, 0, len(p))
	for k := range c {
		for j := range h * w {
			out = append(out, float32(p[j*c+k])/255)
		}
	}
	return out
}

// random returns n standard normal numbers.
func random(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// noLeaks fails the test if goroutines outlive it.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}
