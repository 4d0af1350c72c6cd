package onnx

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/approx"
	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

const typeFixtures = fixtures + "/types"

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Every pattern of the narrow element types has the value that onnx's own library gives it, in both ways of storing it.
func TestNarrowElements(t *testing.T) {
	var list []struct {
		Type   int32
		Name   string
		Dims   []int64
		Raw    string
		Int32  []int32
		Values []any // numbers, or "nan", "inf", "-inf"
	}
	readJSON(t, filepath.Join(typeFixtures, "values.json"), &list)
	if len(list) == 0 {
		t.Fatal("no values")
	}
	for _, g := range list {
		t.Run(g.Name, func(t *testing.T) {
			if name := DataType(g.Type).String(); !strings.EqualFold(name, g.Name) {
				t.Errorf("called %s", name)
			}
			raw, err := hex.DecodeString(g.Raw)
			if err != nil {
				t.Fatal(err)
			}
			for form, x := range map[string]*onnxpb.Tensor{"raw_data": {RawData: raw}, "int32_data": {Int32Data: g.Int32}} {
				x.Dims, x.DataType = g.Dims, &g.Type
				if err := checkTensor(x); err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				var got []float64
				if err := new(store).floats(x, func(v float64) { got = append(got, v) }); err != nil {
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
					if !(got[i] == want || math.IsNaN(want) && math.IsNaN(got[i])) || math.Signbit(got[i]) != math.Signbit(want) && !math.IsNaN(want) {
						t.Errorf("%s: element %d is %v, want %v", form, i, got[i], want)
					}
				}
			}
		})
	}
}

func TestSparseInitializers(t *testing.T) {
	var want map[string][]float64
	readJSON(t, filepath.Join(typeFixtures, "sparse.json"), &want)
	m, err := Open(filepath.Join(typeFixtures, "sparse.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		v, err := m.evaluate(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slicesAlmostEqual(v.data, w, 0) {
			t.Errorf("%s is %v, want %v", name, v.data, w)
		}
	}
	h, err := FindHead(m, HeadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := h.Weights()
	if err != nil {
		t.Fatal(err)
	}
	for k := range h.Classes {
		for d := range h.FeatureDim {
			if got, want := float64(w[k*h.FeatureDim+d]), want["w"][d*h.Classes+k]; got != want {
				t.Errorf("weight of feature %d for class %d is %v, want %v", d, k, got, want)
			}
		}
	}
	// The cut model keeps them sparse.
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.pb.Graph.SparseInitializer); n != 2 {
		t.Errorf("%d sparse initializers after the cut", n)
	}
}

func slicesAlmostEqual(a, b []float64, tol float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !approx.Equal(a[i], b[i], tol) {
			return false
		}
	}
	return true
}

// Positions that are none are an error, not a panic; and a shape alone takes no memory.
func TestSparseInitializersThatLie(t *testing.T) {
	values := func(n int64) *onnxpb.Tensor {
		return &onnxpb.Tensor{Name: proto.String("w"), Dims: []int64{n}, DataType: proto.Int32(int32(Float32)), RawData: make([]byte, 4*n)}
	}
	indices := func(dims []int64, list ...int64) *onnxpb.Tensor {
		x := &onnxpb.Tensor{Dims: dims, DataType: proto.Int32(int32(Int64))}
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
		{"one by pairs", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 2}, 15, 31), Dims: []int64{16, 32}}, ""},
		{"no values", &onnxpb.SparseTensor{Dims: []int64{16, 32}}, "values of shape []"},
		{"an impossible shape", &onnxpb.SparseTensor{Values: values(0), Dims: []int64{1 << 40, 1 << 40}}, "is impossible"},
		{"more values than elements", &onnxpb.SparseTensor{Values: values(3), Indices: indices([]int64{3}, 0, 1, 2), Dims: []int64{1, 2}}, "values of shape [3] for 2 elements"},
		{"no positions", &onnxpb.SparseTensor{Values: values(1), Dims: []int64{16, 32}}, "positions of shape []"},
		{"too few positions", &onnxpb.SparseTensor{Values: values(2), Indices: indices([]int64{1}, 0), Dims: []int64{16, 32}}, "positions of shape [1] for 2 values"},
		{"positions in three dimensions", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 3}, 0, 0, 0), Dims: []int64{16, 32}}, "in 2 dimensions"},
		{"positions in none", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 0})}, "in 0 dimensions"},
		{"positions of another type", &onnxpb.SparseTensor{Values: values(1), Indices: values(1), Dims: []int64{16, 32}}, "positions of type float32"},
		{"a position behind the end", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1}, 512), Dims: []int64{16, 32}}, "position 512 along 512 elements"},
		{"a row behind the end", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 2}, 16, 0), Dims: []int64{16, 32}}, "position 16 along 16 elements"},
		{"a column behind the end", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1, 2}, 0, 32), Dims: []int64{16, 32}}, "position 32 along 32 elements"},
		{"a negative position", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1}, -1), Dims: []int64{16, 32}}, "position -1 along 512 elements"},
		{"too large to be worked out", &onnxpb.SparseTensor{Values: values(1), Indices: indices([]int64{1}, 0), Dims: []int64{1 << 20, 1 << 20}}, "cannot read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pb := network()
			pb.Graph.Initializer = nil
			pb.Graph.SparseInitializer = []*onnxpb.SparseTensor{tt.st}
			if tt.st.Values == nil {
				tt.st.Values = &onnxpb.Tensor{Name: proto.String("w"), DataType: proto.Int32(int32(Float32)), FloatData: []float32{0}}
			}
			m, err := Parse("model", marshal(t, pb))
			var v *value
			if err == nil {
				v, err = m.evaluate("w")
			}
			if tt.want == "" && (err != nil || len(v.data) != 512) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
