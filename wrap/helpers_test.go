package wrap

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	goimage "image"
	"image/png"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/models"
)

// shared is a folder with the digits and bundles made of them, which tests read
// and never change.
var shared struct {
	sync.Mutex
	dir     string
	reports map[calibrate.Structure]*Report
}

// sharedDir returns the folder; shared is locked.
func sharedDir(t testing.TB) string {
	t.Helper()
	if shared.dir == "" {
		dir, err := os.MkdirTemp("", "wrap-test-")
		if err == nil {
			err = os.CopyFS(filepath.Join(dir, "digits"), models.DigitsMLP())
		}
		if err != nil {
			t.Fatal(err)
		}
		shared.dir, shared.reports = dir, map[calibrate.Structure]*Report{}
	}
	return shared.dir
}

// digits returns the path or SPEC of one of the files of models.DigitsMLP.
func digits(t testing.TB, name string) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	return filepath.Join(sharedDir(t), "digits", name)
}

// config is a calibration of the digits.
func config(t testing.TB, out string) Config {
	t.Helper()
	return Config{
		Model: digits(t, models.DigitsModel), Train: digits(t, models.DigitsTrain), Val: digits(t, models.DigitsVal),
		OOD: digits(t, models.UnfamiliarVal), Out: out,
	}
}

// quick makes a calibration fast: few examples, one damping, a small posterior.
func quick(c Config) Config {
	c.Structure, c.Damping, c.Limit = calibrate.Kronecker, calibrate.Damping{Relative: 1}, 300
	return c
}

var structures = []calibrate.Structure{calibrate.Full, calibrate.Kronecker}

// calibrated returns a shared bundle of the digits, and the report that came with it.
func calibrated(t testing.TB, s calibrate.Structure) (string, *Report) {
	t.Helper()
	c := config(t, "")
	shared.Lock()
	defer shared.Unlock()
	c.Out, c.Structure = filepath.Join(shared.dir, "bundle-"+string(s)), s
	if shared.reports[s] == nil {
		r, err := Calibrate(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		shared.reports[s] = r
	}
	return c.Out, shared.reports[s]
}

func mustCalibrate(t testing.TB, c Config) *Report {
	t.Helper()
	r, err := Calibrate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func opened(t testing.TB, dir string, o Options) *Predictor {
	t.Helper()
	p, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
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

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// list returns what lies in a folder, hidden or not.
func list(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// idx makes an IDX file of bytes.
func idx(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

// array is a NumPy array of float32 or int64.
type array struct {
	data any
	dims []int
}

func (a array) bytes() []byte {
	descr := map[string]string{"[]int64": "<i8", "[]float32": "<f4"}[fmt.Sprintf("%T", a.data)]
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }", descr, strings.Trim(strings.ReplaceAll(fmt.Sprint(a.dims), " ", ", "), "[]"))
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(header)))
	b.WriteString(header)
	binary.Write(&b, binary.LittleEndian, a.data)
	return b.Bytes()
}

func npz(t testing.TB, arrays map[string]array) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err == nil {
			_, err = w.Write(arrays[name].bytes())
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

// random returns n standard normal numbers.
func random(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
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

// digitTensor returns the digits from one position to another as ready inputs
// [n,1,8,8].
func digitTensor(t testing.TB, from, to int) Tensor {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(read(t, digits(t, "digits-images-idx3-ubyte.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	raw = raw[16:] // the header
	data := make([]float32, (to-from)*64)
	for i := range data {
		data[i] = float32(raw[from*64+i]) / 255
	}
	return ort.Tensor{Name: "image", Shape: []int64{int64(to - from), 1, 8, 8}, Data: data}
}

// says checks that an error is one line that holds all of the words.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the message has more than one line: %q", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the message %q does not say %q", err, w)
		}
	}
}
