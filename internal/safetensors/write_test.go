package safetensors

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

func TestTensorsOfSeveralChunksComeBack(t *testing.T) {
	t.Parallel()
	data := make([]float64, 2*chunk/8+5)
	for i := range data {
		data[i] = float64(i)
	}
	var b bytes.Buffer
	if err := Encode(&b, []Tensor{{Name: "data", Shape: []int{len(data)}, Data: data},
		{Name: "none", Shape: []int{0}, Data: []float64{}}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := open(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Read[float64](f, "data"); err != nil || !slices.Equal(back, data) {
		t.Errorf("the data came back changed, %v", err)
	}
}

func TestDataInPiecesIsWrittenAsOne(t *testing.T) {
	t.Parallel()
	data := make([]float64, 3*chunk/8)
	for i := range data {
		data[i] = float64(i)
	}
	written := func(data any) []byte {
		var b bytes.Buffer
		if err := Encode(&b, []Tensor{{Name: "data", Shape: []int{3, chunk / 8}, Data: data}}, nil); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	want := written(data)
	for _, size := range []int{1, 1000, chunk/8 - 1, chunk / 8, chunk/8 + 1, len(data)} {
		pieces := append(slices.Collect(slices.Chunk(data, size)), nil)
		if !bytes.Equal(written(pieces), want) {
			t.Errorf("pieces of %d numbers give another file", size)
		}
	}
	err := Encode(io.Discard, []Tensor{{Name: "data", Shape: []int{3}, Data: [][]float64{{1}, {2}}}}, nil)
	if !errors.Is(err, ErrShape) {
		t.Errorf("two numbers of three: %v", err)
	}
}

func TestASealedFileIsTheOneThatWasWritten(t *testing.T) {
	t.Parallel()
	tensors := []Tensor{{Name: "b", Shape: []int{2}, Data: []float32{1, 2}},
		{Name: "a", Shape: []int{3}, Data: []int64{1, 2, 3}}}
	var b bytes.Buffer
	if err := EncodeSealed(&b, tensors, map[string]string{"x": "y"}); err != nil {
		t.Fatal(err)
	}
	sealed := func(data []byte) (*File, error) { return NewSealedFile(bytes.NewReader(data), int64(len(data))) }
	f, err := sealed(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Tensors(); len(got) != 2 || got[0].Name != "b" || got[1].Name != "a" || f.Metadata()["x"] != "y" {
		t.Errorf("tensors %v, metadata %v", got, f.Metadata())
	}
	if got, err := Read[int64](f, "a"); err != nil || !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("%v, %v", got, err)
	}
	for i := range b.Len() {
		damaged := bytes.Clone(b.Bytes())
		damaged[i] ^= 1 << (i % 8)
		if _, err := sealed(damaged); err == nil {
			t.Errorf("byte %d is another, and nobody notices", i)
		}
		if _, err := sealed(b.Bytes()[:i]); err == nil {
			t.Errorf("cut at byte %d, and nobody notices", i)
		}
	}
	var plain bytes.Buffer
	if err := Encode(&plain, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sealed(plain.Bytes()); !errors.Is(err, ErrSeal) {
		t.Errorf("without a seal: %v", err)
	}
}

func TestTheOrderOfTensorsDoesNotCount(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	for n := range 40 {
		var b bytes.Buffer
		if err := Encode(&b, []Tensor{{Name: strings.Repeat("x", n), Shape: []int{1}, Data: []float64{1}}},
			nil); err != nil {
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

func TestAskingForAnotherType(t *testing.T) {
	t.Parallel()
	f := golden(t)
	_, err := Read[float64](f, "I64.vector")
	if !errors.Is(err, ErrType) || !strings.Contains(err.Error(), "I64, want F64") {
		t.Errorf("float64 from I64: %v", err)
	}
	if _, err = Read[float32](f, "F64.vector"); !errors.Is(err, ErrType) {
		t.Errorf("float32 from F64: %v", err)
	}
	if _, err = Read[int64](f, "U64.vector"); !errors.Is(err, ErrType) {
		t.Errorf("int64 from U64: %v", err)
	}
	if _, err = Read[int64](f, "absent"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "BF16.vector") {
		t.Errorf("absent tensor: %v", err)
	}
	if _, err = f.Section("absent"); !errors.Is(err, ErrNotFound) {
		t.Errorf("section of an absent tensor: %v", err)
	}
}

func TestInconsistentTensorsAreNotWritten(t *testing.T) {
	t.Parallel()
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
		{"dtype of other data", []Tensor{{Name: "a", Shape: []int{1}, Data: []float64{1}, Type: tensor.Int64}}, nil, ErrType},
		{"dtype of other integers", []Tensor{{Name: "a", Shape: []int{1}, Data: []int64{1}, Type: tensor.Float64}}, nil, ErrType},
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

func TestMessagesNameTypesAsTheFormatDoes(t *testing.T) {
	t.Parallel()
	for want, bad := range map[string]Tensor{
		"[]float64 declared as I64":    {Name: "a", Shape: []int{1}, Data: []float64{1}, Type: tensor.Int64},
		"[]float64 declared as string": {Name: "a", Shape: []int{1}, Data: []float64{1}, Type: tensor.String}, // not in the format
		"4 bytes of data for F32 [2]":  {Name: "a", Shape: []int{2}, Data: []float32{1}},
	} {
		if err := Encode(io.Discard, []Tensor{bad}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
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
	t.Parallel()
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
