package onnx

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx/tensor"
)

var typeFixtures = onnxtest.Fixtures + "/types"

// Every pattern of the narrow element types has the value that onnx's own library gives it, in both
// ways of storing it.
func TestNarrowElements(t *testing.T) {
	t.Parallel()
	var list []struct {
		Type   int32
		Name   string
		Dims   []int64
		Raw    string
		Int32  []int32
		Values []any // numbers, or "nan", "inf", "-inf"
	}
	onnxtest.ReadJSON(t, filepath.Join(typeFixtures, "values.json"), &list)
	if len(list) == 0 {
		t.Fatal("no values")
	}
	for _, g := range list {
		t.Run(g.Name, func(t *testing.T) {
			if name := tensor.Type(g.Type).String(); !strings.EqualFold(name, g.Name) {
				t.Errorf("called %s", name)
			}
			raw, err := hex.DecodeString(g.Raw)
			if err != nil {
				t.Fatal(err)
			}
			for form, x := range map[string]*onnxpb.Tensor{"raw_data": {RawData: raw},
				"int32_data": {Int32Data: g.Int32}} {
				x.Dims, x.DataType = g.Dims, &g.Type
				if err := checkTensor(x); err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				var got []float64
				if err := new(store).Floats(x, func(v float64) { got = append(got, v) }); err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				if len(got) != len(g.Values) {
					t.Fatalf("%s: %d elements, want %d", form, len(got), len(g.Values))
				}
				for i, v := range g.Values {
					want, ok := v.(float64)
					if !ok {
						if want, err = strconv.ParseFloat(v.(string), 64); err != nil {
							t.Fatal(err)
						}
					}
					if !(got[i] == want || math.IsNaN(want) && math.IsNaN(got[i])) ||
						math.Signbit(got[i]) != math.Signbit(want) && !math.IsNaN(want) {
						t.Errorf("%s: element %d is %v, want %v", form, i, got[i], want)
					}
				}
			}
		})
	}
}

// Positions that are none are an error, not a panic; and a shape alone takes no memory.
func TestInconsistentSparseInitializersAreRefused(t *testing.T) {
	t.Parallel()
	values := func(n int64) *onnxpb.Tensor {
		return &onnxpb.Tensor{Name: proto.String("w"), Dims: []int64{n}, DataType: proto.Int32(int32(tensor.Float32)),
			RawData: make([]byte, 4*n)}
	}
	indices := func(dims []int64, list ...int64) *onnxpb.Tensor {
		x := &onnxpb.Tensor{Dims: dims, DataType: proto.Int32(int32(tensor.Int64))}
		for _, i := range list {
			x.RawData = protowire.AppendFixed64(x.RawData, uint64(i))
		}
		return x
	}
	for _, tt := range []struct {
		name string
		st   *onnxpb.SparseTensor
		want string // "" where it is read
	}{
		{"nothing stored", &onnxpb.SparseTensor{Values: values(0), Dims: []int64{16, 32}}, ""},
		{"one", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1}, 511), Dims: []int64{16, 32}}, ""},
		{"one by pairs", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 2}, 15, 31),
			Dims: []int64{16, 32}}, ""},
		{"no values", &onnxpb.SparseTensor{Dims: []int64{16, 32}}, "values of shape []"},
		{"an impossible shape", &onnxpb.SparseTensor{Values: values(0), Dims: []int64{1 << 40, 1 << 40}},
			"is impossible"},
		{"more values than elements", &onnxpb.SparseTensor{Values: values(3), Indices: indices([]int64{3}, 0, 1, 2),
			Dims: []int64{1, 2}}, "values of shape [3] for 2 elements"},
		{"no positions", &onnxpb.SparseTensor{Values: values(1), Dims: []int64{16, 32}}, "positions of shape []"},
		{"too few positions", &onnxpb.SparseTensor{Values: values(2), Indices: indices([]int64{1}, 0),
			Dims: []int64{16, 32}}, "positions of shape [1] for 2 values"},
		{"positions in three dimensions",
			&onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 3}, 0, 0, 0),
				Dims: []int64{16, 32}}, "in 2 dimensions"},
		{"positions in none", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 0})},
			"in 0 dimensions"},
		{"positions of another type", &onnxpb.SparseTensor{Values: values(1), Indices: values(1),
			Dims: []int64{16, 32}}, "positions of type float32"},
		{"a position beyond the end", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1}, 512),
			Dims: []int64{16, 32}}, "position 512 along 512 elements"},
		{"a row beyond the end", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 2}, 16, 0),
			Dims: []int64{16, 32}}, "position 16 along 16 elements"},
		{"a column beyond the end", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 2}, 0, 32),
			Dims: []int64{16, 32}}, "position 32 along 32 elements"},
		{"a negative position", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1}, -1),
			Dims: []int64{16, 32}}, "position -1 along 512 elements"},
		{"too large to be worked out", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1}, 0),
			Dims: []int64{1 << 20, 1 << 20}}, "cannot read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pb := onnxtest.Network()
			pb.Graph.Initializer = nil
			pb.Graph.SparseInitializer = []*onnxpb.SparseTensor{tt.st}
			if tt.st.Values == nil {
				tt.st.Values = &onnxpb.Tensor{Name: proto.String("w"), DataType: proto.Int32(int32(tensor.Float32)),
					FloatData: []float32{0}}
			}
			m, err := Parse("model", onnxtest.Marshal(t, pb))
			var v *graph.Value
			if err == nil {
				v, err = m.View().Evaluate("w")
			}
			if tt.want == "" && (err != nil || len(v.Data) != 512) || tt.want != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// The same numbers come out of every way to store them.
func TestDecode(t *testing.T) {
	t.Parallel()
	values := []float64{1, 0, 2, 100}
	for _, tt := range []struct {
		typ   tensor.Type
		typed *onnxpb.Tensor
		raw   func(b []byte, x float64) []byte
	}{
		{tensor.Float32, &onnxpb.Tensor{FloatData: []float32{1, 0, 2, 100}}, func(b []byte, x float64) []byte {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		}},
		{tensor.Float64, &onnxpb.Tensor{DoubleData: []float64{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)) }},
		{tensor.Float16, &onnxpb.Tensor{Int32Data: []int32{0x3c00, 0, 0x4000, 0x5640}},
			func(b []byte, x float64) []byte {
				return binary.LittleEndian.AppendUint16(b, map[float64]uint16{0: 0, 1: 0x3c00, 2: 0x4000,
					100: 0x5640}[x])
			}},
		{tensor.BFloat16, &onnxpb.Tensor{Int32Data: []int32{0x3f80, 0, 0x4000, 0x42c8}},
			func(b []byte, x float64) []byte {
				return binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(x))>>16))
			}},
		{tensor.Int8, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return append(b, byte(x)) }},
		{tensor.Uint8, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return append(b, byte(x)) }},
		{tensor.Int16, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint16(b, uint16(x)) }},
		{tensor.Uint16, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint16(b, uint16(x)) }},
		{tensor.Int32, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint32(b, uint32(x)) }},
		{tensor.Uint32, &onnxpb.Tensor{Uint64Data: []uint64{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint32(b, uint32(x)) }},
		{tensor.Int64, &onnxpb.Tensor{Int64Data: []int64{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(x)) }},
		{tensor.Uint64, &onnxpb.Tensor{Uint64Data: []uint64{1, 0, 2, 100}},
			func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(x)) }},
	} {
		t.Run(tt.typ.String(), func(t *testing.T) {
			var b []byte
			for _, x := range values {
				b = tt.raw(b, x)
			}
			for name, x := range map[string]*onnxpb.Tensor{"typed": tt.typed, "raw": {RawData: b}} {
				x.Dims, x.DataType = []int64{4}, proto.Int32(int32(tt.typ))
				if err := checkTensor(x); err != nil {
					t.Fatal(err)
				}
				var got []float64
				if err := new(store).Floats(x, func(v float64) { got = append(got, v) }); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, values) {
					t.Errorf("%s: got %v, want %v", name, got, values)
				}
			}
		})
	}
	signs := &onnxpb.Tensor{DataType: proto.Int32(int32(tensor.Int8)), Dims: []int64{2}, RawData: []byte{0xff, 0x80}}
	var got []float64
	if err := new(store).Floats(signs, func(v float64) { got = append(got, v) }); err != nil ||
		!slices.Equal(got, []float64{-1, -128}) {
		t.Errorf("int8 0xff, 0x80 = %v (%v), want -1, -128", got, err)
	}
}
