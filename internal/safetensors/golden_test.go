package safetensors

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

var goldenMetadata = map[string]string{"format": "golden & 'ünïcode'"}

// goldenTensors are those of testdata/golden.py.
func goldenTensors() []Tensor {
	raw := func(values any) []byte {
		b, err := binary.Append(nil, binary.LittleEndian, values)
		if err != nil {
			panic(err)
		}
		return b
	}
	matrix := make([]float64, 12)
	for i := range matrix {
		matrix[i] = float64(i)
	}
	negativeZero := math.Copysign(0, -1)
	return []Tensor{
		{"BOOL.vector", []int{3}, []byte{1, 0, 1}, tensor.Bool},
		{"U8.vector", []int{3}, []byte{0, 1, 255}, tensor.Uint8},
		{"I8.vector", []int{3}, raw([]int8{-128, 0, 127}), tensor.Int8},
		{"I16.vector", []int{3}, raw([]int16{-32768, 0, 32767}), tensor.Int16},
		{"U16.vector", []int{3}, raw([]uint16{0, 1, 65535}), tensor.Uint16},
		{"F16.vector", []int{3}, raw([]uint16{0x8000, 1, 0x7bff}), tensor.Float16},
		{"BF16.vector", []int{3}, raw([]uint16{1, 0x3f80, 0xff80}), tensor.BFloat16},
		{"I32.vector", []int{3}, raw([]int32{math.MinInt32, 0, math.MaxInt32}), tensor.Int32},
		{"U32.vector", []int{3}, raw([]uint32{0, 1, math.MaxUint32}), tensor.Uint32},
		{"F32.vector", []int{3}, []float32{float32(negativeZero), 0x1p-149, float32(math.Inf(1))}, tensor.Undefined},
		{"F64.vector", []int{3}, []float64{1. / 3, 5e-324, math.Inf(-1)}, tensor.Undefined},
		{"I64.vector", []int{3}, []int64{math.MinInt64, 0, math.MaxInt64}, tensor.Undefined},
		{"U64.vector", []int{3}, raw([]uint64{0, 1, math.MaxUint64}), tensor.Uint64},
		{"matrix", []int{2, 3, 2}, matrix, tensor.Float64},
		{"number", nil, []float32{2.5}, tensor.Float32},
		{"empty", []int{0, 4}, []int64{}, tensor.Undefined},
		{"quoted \"\\\n<é>", []int{1}, []byte{7}, tensor.Uint8},
	}
}

const goldenPath = "testdata/golden.safetensors"

func TestWritesTheBytesOfTheReferenceImplementation(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := Encode(&got, goldenTensors(), goldenMetadata); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got\n%q\nwant\n%q", got.Bytes(), want)
	}
}

// golden opens the reference implementation's file.
func golden(t *testing.T) *File {
	t.Helper()
	data, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReadsAFileOfTheReferenceImplementation(t *testing.T) {
	t.Parallel()
	f := golden(t)
	if !reflect.DeepEqual(f.Metadata(), goldenMetadata) {
		t.Errorf("metadata %q, want %q", f.Metadata(), goldenMetadata)
	}
	if len(f.Tensors()) != len(goldenTensors()) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors()), len(goldenTensors()))
	}
	for _, want := range goldenTensors() {
		info, err := want.info()
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Lookup(want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.Type != info.Type || !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%q: %s %v, want %s %v", want.Name, got.Type, got.Shape, info.Type, want.Shape)
		}
		var values any
		switch want.Data.(type) {
		case []float64:
			values, err = Read[float64](f, want.Name)
		case []float32:
			values, err = Read[float32](f, want.Name)
		case []int64:
			values, err = Read[int64](f, want.Name)
		default:
			var s *io.SectionReader
			if s, err = f.Section(want.Name); err == nil {
				values, err = io.ReadAll(s)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(values, want.Data) {
			t.Errorf("%q: %v, want %v", want.Name, values, want.Data)
		}
	}
}
