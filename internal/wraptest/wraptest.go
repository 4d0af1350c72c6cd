// Package wraptest has what the tests of wrap and the packages below it share: the digits, bundles calibrated with
// them, and files of small arrays. Only tests import it.
package wraptest

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"google.golang.org/protobuf/encoding/protowire"
)

// shared is a folder with the digits and bundles calibrated with them. Tests must not change it.
var shared struct {
	sync.Mutex
	dir     string
	reports map[string]*calibration.Report // by name of the bundle
}

// Main runs the tests of a package with a real ONNX Runtime, which is installed into the user's cache if there is none.
// If an environment variable in instead is set, the binary calls that function with its value, and runs no tests.
func Main(m *testing.M, instead map[string]func(string)) {
	r := wrap.Runtime{Install: true}
	if err := r.Load(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for name, do := range instead {
		if v := os.Getenv(name); v != "" {
			do(v)
			return
		}
	}
	code := m.Run()
	os.RemoveAll(shared.dir)
	os.Exit(code)
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
		shared.dir, shared.reports = dir, map[string]*calibration.Report{}
	}
	return shared.dir
}

// Digits returns the path or SPEC of one of the files of models.DigitsMLP.
func Digits(t testing.TB, name string) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	return filepath.Join(sharedDir(t), "digits", name)
}

// Config returns a calibration of the digits. It sets the OOD score, since the best one on the letters might change
// with rounding.
func Config(t testing.TB, out string) calibration.Config {
	t.Helper()
	return calibration.Config{
		Model: Digits(t, models.DigitsModel), Train: Digits(t, models.DigitsTrain), Val: Digits(t, models.DigitsVal),
		OOD: Digits(t, models.OODVal), Out: out,
		Settings: bundle.Settings{OODScore: "studentized"},
	}
}

// Quick makes a calibration fast: few examples, one damping, a small posterior.
func Quick(c calibration.Config) calibration.Config {
	c.Structure, c.Damping, c.Limit = calibrate.Kronecker, calibrate.Damping{Relative: 1}, 300
	return c
}

// Structures are the structures of shared bundles.
var Structures = []calibrate.Structure{calibrate.Full, calibrate.Kronecker}

// Calibrated returns a shared bundle of the digits, and the report of its calibration.
func Calibrated(t testing.TB, s calibrate.Structure) (string, *calibration.Report) {
	t.Helper()
	c := Config(t, "")
	c.Structure = s
	return Shared(t, "bundle-"+string(s), c)
}

// Shared returns the bundle of a name, and the report of its calibration. It calibrates c the first time that it is
// called with the name. Tests must not change the bundle; Copy copies it.
func Shared(t testing.TB, name string, c calibration.Config) (string, *calibration.Report) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	c.Out = filepath.Join(sharedDir(t), "bundles", name)
	if shared.reports[name] == nil {
		if err := os.MkdirAll(filepath.Dir(c.Out), 0o777); err != nil {
			t.Fatal(err)
		}
		shared.reports[name] = MustCalibrate(t, c)
	}
	return c.Out, shared.reports[name]
}

// Copy returns a copy of a bundle, in a folder of the same name.
func Copy(t testing.TB, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(dir))
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

// MustCalibrate calibrates, or ends the test.
func MustCalibrate(t testing.TB, c calibration.Config) *calibration.Report {
	t.Helper()
	r, err := calibration.Calibrate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Opened opens a bundle until the end of the test.
func Opened(t testing.TB, dir string, o wrap.Options) *wrap.Predictor {
	t.Helper()
	p, err := wrap.Open(t.Context(), dir, o)
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

// Predicted returns the predictions of a dataset, and what was passed over. An error fails the test.
func Predicted(t testing.TB, p *wrap.Predictor, spec string) (all []wrap.Prediction, report wrap.DatasetReport) {
	t.Helper()
	for one, err := range p.PredictDataset(t.Context(), spec, &report) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all, report
}

// PredictError returns the first error of the predictions of a dataset, nil if there is none.
func PredictError(ctx context.Context, p *wrap.Predictor, spec string) error {
	for _, err := range p.PredictDataset(ctx, spec, nil) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Write puts a file into dir and returns its path.
func Write(t testing.TB, dir, name string, content []byte) string {
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

// Read returns the bytes of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// List returns the names in a folder, hidden ones included.
func List(t testing.TB, dir string) []string {
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

// Array is a NumPy array of float32 or int64.
type Array struct {
	Data any
	Dims []int
}

func (a Array) bytes() []byte {
	descr := map[string]string{"[]int64": "<i8", "[]float32": "<f4"}[fmt.Sprintf("%T", a.Data)]
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }", descr, strings.Trim(strings.ReplaceAll(fmt.Sprint(a.Dims), " ", ", "), "[]"))
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(header)))
	b.WriteString(header)
	binary.Write(&b, binary.LittleEndian, a.Data)
	return b.Bytes()
}

// ArrayOf makes an array of a slice.
func ArrayOf(data any, dims ...int) Array { return Array{data, dims} }

// NPY makes an .npy file of an array.
func NPY(a Array) []byte { return a.bytes() }

// NPZ makes an .npz file of arrays by name.
func NPZ(t testing.TB, arrays map[string]Array) []byte {
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

// Random returns n standard normal numbers.
func Random(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// DigitTensor returns the digits from one position to another as ready inputs [n,1,8,8].
func DigitTensor(t testing.TB, from, to int) wrap.Tensor {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(Read(t, Digits(t, "digits-images-idx3-ubyte.gz"))))
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
	return tensor.Tensor{Name: "image", Shape: []int64{int64(to - from), 1, 8, 8}, Data: data}
}

// Says checks that an error is one line that holds all of the words.
func Says(t testing.TB, err error, words ...string) {
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

// Selector returns a model with one MatMul, in the given operator set: the r-th unit vector as input x, [N,R],
// gives the r-th of the given logits, [R,K].
func Selector(opset uint64, output string, logits []float32, r, k int) []byte {
	message := func(b []byte, field protowire.Number, m []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
	}
	number := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	text := func(b []byte, field protowire.Number, s string) []byte { return message(b, field, []byte(s)) }
	value := func(name string, width int) []byte {
		shape := message(nil, 1, text(nil, 2, "N"))
		shape = message(shape, 1, number(nil, 1, uint64(width)))
		tensor := message(number(nil, 1, 1), 2, shape)
		return message(text(nil, 1, name), 2, message(nil, 1, tensor))
	}
	raw := make([]byte, 0, 4*len(logits))
	for _, v := range logits {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	w := number(number(number(nil, 1, uint64(r)), 1, uint64(k)), 2, 1)
	w = message(text(w, 8, "w"), 9, raw)
	node := text(text(text(text(nil, 1, "x"), 1, "w"), 2, output), 4, "MatMul")
	graph := text(message(nil, 1, node), 2, "selector")
	graph = message(message(message(graph, 5, w), 11, value("x", r)), 12, value(output, k))
	model := message(number(nil, 1, 7), 7, graph)
	return message(model, 8, number(nil, 2, opset))
}

// Embedding returns a model of three classes with random weights, whose features are rows of a table selected by its
// input ids [N,1]. ONNX Runtime uses the table in place, in the model's file or, with external, in a file of its own.
// It returns the files by name.
func Embedding(seed uint64, vocabulary int, external bool) map[string][]byte {
	const d, k = 8, 3
	message := func(b []byte, field protowire.Number, m []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
	}
	number := func(b []byte, field protowire.Number, v int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
	}
	text := func(b []byte, field protowire.Number, s string) []byte { return message(b, field, []byte(s)) }
	value := func(name string, typ, width int) []byte {
		shape := message(message(nil, 1, text(nil, 2, "N")), 1, number(nil, 1, width))
		return message(text(nil, 1, name), 2, message(nil, 1, message(number(nil, 1, typ), 2, shape)))
	}
	node := func(op, out string, in ...string) (b []byte) {
		for _, name := range in {
			b = text(b, 1, name)
		}
		return text(text(b, 2, out), 4, op)
	}
	weights := func(seed uint64, n int) (raw []byte) {
		for _, v := range Random(seed, n) {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		return raw
	}
	files := map[string][]byte{}
	table := text(number(number(number(nil, 1, vocabulary), 1, d), 2, 1), 8, "table")
	if raw := weights(seed, vocabulary*d); external {
		files["table.bin"] = raw
		for key, v := range map[string]string{"location": "table.bin", "length": strconv.Itoa(len(raw))} {
			table = message(table, 13, text(text(nil, 1, key), 2, v))
		}
		table = number(table, 14, 1)
	} else {
		table = message(table, 9, raw)
	}
	w := message(text(number(number(number(nil, 1, d), 1, k), 2, 1), 8, "w"), 9, weights(seed+1, d*k))
	graph := text(nil, 2, "embedding")
	for _, n := range [][]byte{
		node("Gather", "rows", "table", "ids"), node("Flatten", "phi", "rows"), node("MatMul", "logits", "phi", "w"),
	} {
		graph = message(graph, 1, n)
	}
	graph = message(message(message(message(graph, 5, table), 5, w), 11, value("ids", 7, 1)), 12, value("logits", 1, k))
	files["model.onnx"] = message(message(number(nil, 1, 8), 7, graph), 8, number(nil, 2, 13))
	return files
}

// RowsOf runs a model's network on inputs.
func RowsOf(t testing.TB, model string, inputs ...wrap.Tensor) (phi, logits []float32) {
	t.Helper()
	m, err := onnx.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	net, err := attach.OpenCut(m, h, featurize.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	rows, err := net.Network.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	return rows.Columns[0], rows.Columns[1]
}
