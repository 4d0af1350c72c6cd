package safetensors

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestStreamedInPiecesIsTheSameFile(t *testing.T) {
	// More than one chunk, and pieces that do not divide it.
	data := make([]float64, 2*chunk/8+5)
	for i := range data {
		data[i] = float64(i)
	}
	counts := []int64{1, 2, 3}
	var want bytes.Buffer
	if err := Encode(&want, []Tensor{
		{Name: "data", Shape: []int{len(data)}, Data: data},
		{Name: "none", Shape: []int{0}, Data: []float64{}},
		{Name: "counts", Shape: []int{3}, Data: counts},
	}, nil); err != nil {
		t.Fatal(err)
	}

	var got bytes.Buffer
	w, err := NewWriter(&got, []Info{
		{Name: "counts", DType: I64, Shape: []int{3}},
		{Name: "data", DType: F64, Shape: []int{len(data)}},
		{Name: "none", DType: F64, Shape: []int{0}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(w, "counts", counts); err != nil {
		t.Fatal(err)
	}
	for piece := range slices.Chunk(data, 1001) {
		if err := Write(w, "data", piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("not the file that Encode writes")
	}

	f, err := open(got.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read[float64](f, "data")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back, data) {
		t.Error("the data came back changed")
	}
}

func TestTheOrderOfTensorsDoesNotCount(t *testing.T) {
	var want bytes.Buffer
	if err := Encode(&want, goldenTensors(), goldenMetadata); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		tensors := goldenTensors()
		rng.Shuffle(len(tensors), func(i, j int) { tensors[i], tensors[j] = tensors[j], tensors[i] })
		var got bytes.Buffer
		if err := Encode(&got, tensors, goldenMetadata); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatal("another order of arguments gave another file")
		}
	}
}

func TestDataIsAligned(t *testing.T) {
	for n := range 40 {
		var b bytes.Buffer
		if err := Encode(&b, []Tensor{{Name: strings.Repeat("x", n), Shape: []int{1}, Data: []float64{1}}}, nil); err != nil {
			t.Fatal(err)
		}
		f, err := open(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if f.data%8 != 0 {
			t.Errorf("name of %d bytes: the data starts at byte %d", n, f.data)
		}
	}
}

func TestReadRows(t *testing.T) {
	f := golden(t)
	for _, test := range []struct {
		name string
		n    int // values asked for
		lo   int
		want []float64 // nil: ErrRows
	}{
		{"matrix", 6, 1, []float64{6, 7, 8, 9, 10, 11}},
		{"matrix", 0, 2, []float64{}},
		{"matrix", 6, 2, nil},
		{"matrix", 6, -1, nil},
		{"matrix", 0, 3, nil},
		{"matrix", 5, 0, nil},
		{"matrix", 18, 0, nil},
		{"F64.vector", 1, 1, []float64{5e-324}},
		{"number", 1, 0, []float64{2.5}},
		{"number", 1, 1, nil},
	} {
		got := make([]float64, test.n)
		err := ReadRowsTo(got, f, test.name, test.lo)
		switch {
		case test.want == nil:
			if !errors.Is(err, ErrRows) {
				t.Errorf("%s: %d values from row %d: error %v", test.name, test.n, test.lo, err)
			}
		case err != nil:
			t.Error(err)
		case !slices.Equal(got, test.want):
			t.Errorf("%s: %d values from row %d: %v, want %v", test.name, test.n, test.lo, got, test.want)
		}
	}

	empty, err := open(file(`{"a":{"dtype":"F64","shape":[2,0],"data_offsets":[0,0]}}`, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := ReadRowsTo([]float64{}, empty, "a", 0); err != nil {
		t.Error(err)
	}
	if err := ReadRowsTo([]float64{1}, empty, "a", 0); !errors.Is(err, ErrRows) {
		t.Errorf("error %v", err)
	}
}

func TestAskingForAnotherType(t *testing.T) {
	f := golden(t)
	_, err := Read[float64](f, "I64.vector")
	if !errors.Is(err, ErrType) || !strings.Contains(err.Error(), "I64, want F64, F32, F16, BF16") {
		t.Errorf("float64 from I64: %v", err)
	}
	if _, err = Read[float32](f, "F64.vector"); !errors.Is(err, ErrType) {
		t.Errorf("float32 from F64: %v", err)
	}
	if _, err = Read[int64](f, "U64.vector"); !errors.Is(err, ErrType) {
		t.Errorf("int64 from U64: %v", err)
	}
	if _, err = Read[int64](f, "BOOL.vector"); !errors.Is(err, ErrType) {
		t.Errorf("int64 from BOOL: %v", err)
	}
	if _, err = Read[int64](f, "absent"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "BF16.vector") {
		t.Errorf("absent tensor: %v", err)
	}
	if _, err = f.Section("absent"); !errors.Is(err, ErrNotFound) {
		t.Errorf("section of an absent tensor: %v", err)
	}
}

func TestAWriterKeepsToItsDeclaration(t *testing.T) {
	for _, test := range []struct {
		name string
		fill func(*Writer) error
		want string
	}{
		{"out of order", func(w *Writer) error { return Write(w, "b", []int64{1}) }, `16 bytes of "a" come first`},
		{"next before the end", func(w *Writer) error {
			Write(w, "a", []float64{1})
			return Write(w, "b", []int64{1})
		}, `8 bytes of "a" come first`},
		{"another type", func(w *Writer) error { return Write(w, "a", []float32{1}) }, "F32, declared as F64"},
		{"too much", func(w *Writer) error { return Write(w, "a", []float64{1, 2, 3}) }, "more data"},
		{"after the last", func(w *Writer) error {
			Write(w, "a", []float64{1, 2})
			Write(w, "b", []int64{1})
			return w.WriteRaw("c", []byte{1})
		}, "all tensors are written"},
		{"too little", func(w *Writer) error {
			return Write(w, "a", []float64{1, 2})
		}, `"b": 8 bytes were not written`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, err := NewWriter(&bytes.Buffer{}, []Info{{Name: "a", DType: F64, Shape: []int{2}}, {Name: "b", DType: I64, Shape: []int{1}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			first := test.fill(w)
			err = w.Close()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if first != nil && first != err {
				t.Errorf("first %v, at Close %v", first, err)
			}
		})
	}
}

func TestTensorsThatContradictThemselvesAreNotWritten(t *testing.T) {
	ok := Tensor{Name: "a", Shape: []int{1}, Data: []float64{1}}
	for _, test := range []struct {
		name     string
		tensors  []Tensor
		metadata map[string]string
		err      error
	}{
		{"two of a name", []Tensor{ok, ok}, nil, ErrDuplicate},
		{"the reserved name", []Tensor{{Name: "__metadata__", Shape: []int{1}, Data: []float64{1}}}, nil, ErrDuplicate},
		{"name that is not UTF-8", []Tensor{{Name: "\xff", Shape: []int{1}, Data: []float64{1}}}, nil, nil},
		{"metadata that is not UTF-8", nil, map[string]string{"a": "\xff"}, nil},
		{"shape of more", []Tensor{{Name: "a", Shape: []int{2}, Data: []float64{1}}}, nil, ErrShape},
		{"shape of a negative", []Tensor{{Name: "a", Shape: []int{-1, -1}, Data: []float64{1}}}, nil, ErrShape},
		{"shape that overflows", []Tensor{{Name: "a", Shape: []int{1 << 32, 1 << 32}, Data: []float64{}}}, nil, ErrShape},
		{"dtype of other data", []Tensor{{Name: "a", Shape: []int{1}, Data: []float64{1}, DType: I64}}, nil, ErrType},
		{"bytes without dtype", []Tensor{{Name: "a", Shape: []int{1}, Data: []byte{1}}}, nil, ErrDType},
		{"data of no known type", []Tensor{{Name: "a", Shape: []int{1}, Data: []int{1}}}, nil, ErrType},
		{"header too long", []Tensor{{Name: strings.Repeat("x", MaxHeader), Shape: []int{1}, Data: []float64{1}}}, nil, ErrHeaderSize},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Encode(io.Discard, test.tensors, test.metadata)
			if err == nil || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
		})
	}
}

// full has room for a number of bytes.
type full struct{ room int }

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return f.room, errFull
	}
	f.room -= len(p)
	return len(p), nil
}

func TestAFullDiskIsReported(t *testing.T) {
	var whole bytes.Buffer
	if err := Encode(&whole, goldenTensors(), goldenMetadata); err != nil {
		t.Fatal(err)
	}
	for room := range whole.Len() {
		if err := Encode(&full{room}, goldenTensors(), goldenMetadata); err != errFull {
			t.Fatalf("room for %d bytes of %d: error %v", room, whole.Len(), err)
		}
	}
	if err := Encode(&full{whole.Len()}, goldenTensors(), goldenMetadata); err != nil {
		t.Error(err)
	}
}
