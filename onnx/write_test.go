package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A model in two files is the same model, wherever its weights were before.
func TestFilesWithExternalData(t *testing.T) {
	t.Parallel()
	split := 0
	eachFixture(t, func(t *testing.T, path string) {
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		files, err := m.files("model.onnx", spanMin)
		if errors.Is(err, errTooLarge) {
			return // no tensor is large enough to be put elsewhere
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 1 {
			if files[0].Size > spanMin {
				t.Fatalf("one file of %d bytes", files[0].Size)
			}
			return
		}
		split++
		dir := t.TempDir()
		if err := writeFiles(dir, files); err != nil {
			t.Fatal(err)
		}
		if len(files) != 2 || files[0].Name != "model.onnx" || files[1].Name != "model.onnx.data" {
			t.Errorf("files %v", files)
		}
		for _, f := range files {
			if info, err := os.Stat(filepath.Join(dir, f.Name)); err != nil || info.Size() != f.Size {
				t.Errorf("%s: %v (%v), want %d bytes", f.Name, info, err, f.Size)
			}
		}
		again, err := Open(filepath.Join(dir, "model.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		if again.SelfContained() {
			t.Error("no weights in the second file")
		}
		if !proto.Equal(plain(t, onnxtest.BytesOf(t, again)), plain(t, onnxtest.BytesOf(t, m))) {
			t.Error("the model has changed")
		}
		eachTensor(again.pb, func(x *onnxpb.Tensor) error {
			if s := x.GetSpan(); s != nil && (s.GetFile() != 1 || s.GetOffset()%dataAlign != 0 ||
				s.GetLength() < spanMin) {
				t.Errorf("tensor %q lies at %v", x.GetName(), s)
			}
			return nil
		})
	})
	if split < 5 {
		t.Errorf("only %d models were written in two files", split)
	}
}

// writeFiles puts files into a folder, over what is there.
func writeFiles(folder string, files []File) error {
	for _, file := range files {
		var b bytes.Buffer
		if err := file.Write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, file.Name), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// huge is a model whose declared weights have so many bytes, which do not exist.
func huge(t *testing.T, lengths ...int64) *Model {
	t.Helper()
	pb := onnxtest.Network()
	w := pb.Graph.Initializer[0]
	pb.Graph.Initializer = nil
	s := &store{folder: t.TempDir(), files: []file{{name: "model"}}}
	var at int64
	for i, n := range lengths {
		w := onnxpb.Shallow(w)
		w.RawData, w.Dims = nil, []int64{16, n / 64}
		w.Name = proto.String(strings.Repeat("v", i) + "w")
		w.Span = &onnxpb.Span{Offset: proto.Int64(at), Length: proto.Int64(n)}
		at += n
		pb.Graph.Initializer = append(pb.Graph.Initializer, w)
	}
	s.files[0].size = at
	m, err := newModel(pb, s, "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Above 2 GiB a model is two files, and planning them takes no memory to speak of.
func TestFilesAboveTwoGiB(t *testing.T) {
	m := huge(t, 1<<31, 1000, 1<<34, 3<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := m.Files("m.onnx"); err == nil {
		t.Fatal("a small tensor that is not in its file was not missed")
	}
	m = huge(t, 1<<31, 1<<34, 3<<10)
	files, err := m.Files("m.onnx")
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("allocated %d KiB", n>>10)
	}
	if len(files) != 2 || files[0].Name != "m.onnx" || files[0].Size > 1000 || files[1].Name != "m.onnx.data" ||
		files[1].Size != 1<<31+1<<34+3<<10 {
		t.Errorf("files %+v", files)
	}
	var graph bytes.Buffer
	if err := files[0].Write(&graph); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range plain(t, graph.Bytes()).Graph.Initializer {
		got = append(got, fmt.Sprintf("%s %s+%s", w.ExternalData[0].GetValue(), w.ExternalData[1].GetValue(),
			w.ExternalData[2].GetValue()))
	}
	if want := []string{"m.onnx.data 0+2147483648", "m.onnx.data 2147483648+17179869184",
		"m.onnx.data 19327352832+3072"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if _, err := m.Bytes(); !errors.Is(err, errTooLarge) {
		t.Errorf("Bytes: %v, want it refused", err)
	}
	if files, err := huge(t, 1<<31-1<<10).Files("m.onnx"); err != nil || len(files) != 1 {
		t.Errorf("just below 2 GiB: %v (%v), want one file", files, err)
	}
}

// A graph that is too large without its weights cannot be written.
func TestFilesRefuseAGraphAboveTheLimit(t *testing.T) {
	t.Parallel()
	m, err := Parse("model", onnxtest.Marshal(t, onnxtest.Network()))
	if err != nil {
		t.Fatal(err)
	}
	m.pb.Graph.Initializer[0].Span, m.pb.Graph.Initializer[0].RawData = nil, make([]byte, 2048)
	if files, err := m.files("m.onnx", 1000); !errors.Is(err, errTooLarge) {
		t.Errorf("files %v, error %v", files, err)
	}
}

// A tensor that two nodes share, as the bodies of functions do, is written once.
func TestFilesShareSpans(t *testing.T) {
	t.Parallel()
	constant := onnxtest.Node("Constant", "", "c", &onnxpb.Attribute{Name: proto.String("value"), T: &onnxpb.Tensor{
		Dims: []int64{16, 32}, DataType: proto.Int32(int32(tensor.Float32)), RawData: make([]byte, 2048)}})
	mix := onnxtest.Function("Mix", "a", "b", constant, onnxtest.Node("Add", "a c", "b"))
	pb := onnxtest.Functional([]*onnxpb.Node{onnxtest.Node("MatMul", "x w", "h"), onnxtest.Calls("Mix", "h", "g"),
		onnxtest.Calls("Mix", "g", "y")}, mix)
	m, err := Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	files, err := m.files("m.onnx", spanMin)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || files[1].Size != dataAlign+2048 {
		t.Errorf("files %+v, want w and one c", files)
	}
}

// Payloads go where the model's weights go: into the file, or beside it when one is too small.
func TestPayloadsAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	onnxtest.WriteModel(t, path, onnxtest.Network())
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	pb := onnxpb.Shallow(m.Proto())
	pb.Graph = onnxpb.Shallow(pb.Graph)
	var payloads []Payload
	for i, size := range []int64{1, 1 << 10} { // one is small
		raw := make([]byte, 4*size)
		raw[0] = byte(i + 1)
		more := &onnxpb.Tensor{Name: proto.String(fmt.Sprint("more", i)), DataType: proto.Int32(int32(tensor.Float32)),
			Dims: []int64{size}}
		pb.Graph.Initializer = append(slices.Clip(pb.Graph.Initializer), more)
		payloads = append(payloads, Payload{more, raw})
	}
	derived, err := m.Derive(pb, payloads...)
	if err != nil {
		t.Fatal(err)
	}
	whole := plain(t, onnxtest.BytesOf(t, derived))
	for i, x := range whole.Graph.Initializer[1:] {
		if !bytes.Equal(x.RawData, payloads[i].Raw) {
			t.Errorf("%s is written as %d other bytes", x.GetName(), len(x.RawData))
		}
	}
	files, err := derived.files("two.onnx", 4096)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files, want two: %v", len(files), err)
	}
	if err := writeFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	two, err := Open(filepath.Join(dir, "two.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(plain(t, onnxtest.BytesOf(t, two)), whole) {
		t.Error("with external data it is another model")
	}
}
