// Package onnxtest provides the models that tests of several packages use.
package onnxtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Fixtures is the folder of the models in testdata; "" for a test binary that runs elsewhere, as in scripts.
var Fixtures = func() string {
	for dir := "."; len(dir) < 100; dir = filepath.Join("..", dir) {
		fixtures := filepath.Join(dir, "testdata", "onnx")
		if _, err := os.Stat(fixtures); err == nil {
			return fixtures
		}
	}
	return ""
}()

// FunctionFixtures is the folder of fixtures with functions.
var FunctionFixtures = filepath.Join(Fixtures, "functions")

// Unmarshal decodes a model by protobuf alone, including its weights.
func Unmarshal(t testing.TB, b []byte) *onnxpb.Model {
	t.Helper()
	m := new(onnxpb.Model)
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Fixture reads a file of fixtures.
func Fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Network returns a small model to modify: y = x·w, with w [16,32] in raw data of 2 KiB.
func Network() *onnxpb.Model {
	w := &onnxpb.Tensor{Name: proto.String("w"), Dims: []int64{16, 32}, DataType: proto.Int32(int32(tensor.Float32)),
		RawData: make([]byte, 16*32*4)}
	for i := range w.RawData {
		w.RawData[i] = byte(i) & 0x3f
	}
	return &onnxpb.Model{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}},
		Graph: &onnxpb.Graph{
			Node:        []*onnxpb.Node{Node("MatMul", "x w", "y")},
			Initializer: []*onnxpb.Tensor{w},
			Input:       []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, 16)},
			Output:      []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, 32)},
		},
	}
}

// Node makes a node; inputs and outputs are separated by spaces.
func Node(op, in, out string, attributes ...*onnxpb.Attribute) *onnxpb.Node {
	return &onnxpb.Node{OpType: &op, Input: strings.Fields(in), Output: strings.Fields(out), Attribute: attributes}
}

// Marshal encodes a message.
func Marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// WriteModel writes a model to a file.
func WriteModel(t testing.TB, path string, m *onnxpb.Model) {
	t.Helper()
	if err := os.WriteFile(path, Marshal(t, m), 0o644); err != nil {
		t.Fatal(err)
	}
}

// FixturePaths lists the fixtures by their paths in the folder of fixtures.
func FixturePaths(t testing.TB) []string {
	var paths []string
	for _, pattern := range []string{"*.onnx", "*/*.onnx"} {
		list, err := filepath.Glob(filepath.Join(Fixtures, pattern))
		if err != nil || len(list) == 0 {
			t.Fatalf("no fixtures %s: %v", pattern, err)
		}
		for _, p := range list {
			rel, err := filepath.Rel(Fixtures, p)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, rel)
		}
	}
	return paths
}

// Function makes a function of the domain f.
func Function(name, in, out string, nodes ...*onnxpb.Node) *onnxpb.Function {
	return &onnxpb.Function{Name: &name, Domain: proto.String("f"), Input: strings.Fields(in),
		Output: strings.Fields(out), Node: nodes,
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)},
			{Domain: proto.String("f"), Version: proto.Int64(1)}}}
}

// Calls makes a node that calls a function; "_" is an omitted name.
func Calls(name, in, out string, attributes ...*onnxpb.Attribute) *onnxpb.Node {
	n := Node(name, in, out, attributes...)
	n.Domain = proto.String("f")
	for _, list := range [][]string{n.Input, n.Output} {
		for i := range list {
			if list[i] == "_" {
				list[i] = ""
			}
		}
	}
	return n
}

// Functional is Network with these functions, and these nodes, which compute y from x and w.
func Functional(nodes []*onnxpb.Node, functions ...*onnxpb.Function) *onnxpb.Model {
	m := Network()
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSet{Domain: proto.String("f"), Version: proto.Int64(1)})
	m.Graph.Node, m.Functions = nodes, functions
	return m
}

// BytesOf returns a model in one piece.
func BytesOf(t testing.TB, m interface{ Bytes() ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FloatTensor makes a float32 initializer.
func FloatTensor(name string, data []float64, dims ...int64) *onnxpb.Tensor {
	if n, _ := onnxpb.Elements(dims); int(n) != len(data) {
		panic(fmt.Sprintf("%s: %d numbers of shape %v", name, len(data), dims))
	}
	x := &onnxpb.Tensor{Name: &name, Dims: dims, DataType: proto.Int32(int32(tensor.Float32))}
	for _, v := range data {
		x.FloatData = append(x.FloatData, float32(v))
	}
	return x
}

// ReadJSON decodes a file.
func ReadJSON(t testing.TB, path string, to any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// SeedFunctions seeds a fuzz target, whose arguments are the number of a model and edits to it, with the
// fixtures that have functions, and returns these.
func SeedFunctions(f *testing.F) [][]byte {
	paths, err := filepath.Glob(filepath.Join(FunctionFixtures, "*.onnx"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no fixtures: %v", err)
	}
	var models [][]byte
	for i, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		models = append(models, b)
		f.Add(uint16(i), []byte{})
		f.Add(uint16(i), []byte{0, 0, 1, 1, 3, 0, 1, 2, 5, 1, 0, 1})
	}
	return models
}

// EditFunctions changes a model's functions and their calls by edits of four bytes: what to change, where,
// and how.
func EditFunctions(m *onnxpb.Model, edits []byte) {
	for ; len(edits) >= 4 && len(m.Functions) > 0; edits = edits[4:] {
		editFunction(m, edits[0], int(edits[1]), int(edits[2]), int(edits[3]))
	}
}

// editFunction applies one edit.
func editFunction(m *onnxpb.Model, what byte, i, j, to int) {
	f := m.Functions[i%len(m.Functions)]
	other := m.Functions[to%len(m.Functions)]
	names := append([]string{"", "x"}, f.Input...)
	for _, n := range f.Node {
		names = append(names, n.Output...)
	}
	name := names[to%len(names)]
	change := func(list []string) {
		if len(list) > 0 {
			list[j%len(list)] = name
		}
	}
	nodes := f.Node
	if what&0x80 != 0 || len(nodes) == 0 {
		nodes = m.Graph.Node
	}
	n := nodes[j%len(nodes)]
	switch what & 0x7f % 9 {
	case 0: // a call of another function, or of its own
		n.OpType, n.Domain, n.Overload = other.Name, other.Domain, other.Overload
	case 1:
		change(n.Input)
	case 2:
		change(n.Output)
	case 3:
		change(f.Output)
	case 4:
		change(f.Input)
	case 5:
		n.Input = append(n.Input, name)
	case 6:
		f.Output = append(f.Output, name)
	case 7:
		f.OpsetImport[j%len(f.OpsetImport)].Version = proto.Int64(int64(to))
	case 8:
		if len(n.Attribute) > 0 {
			n.Attribute[j%len(n.Attribute)].RefAttrName = proto.String([]string{"slope", "s", "t", "alpha"}[to%4])
		}
	}
}

// SparseModel writes a model with a weight of size zero bytes, as a sparse file.
func SparseModel(t testing.TB, size int64) string {
	t.Helper()
	const rawData = 9 // the number of the field
	pb := Network()
	w := pb.Graph.Initializer[0]
	pb.Graph.Initializer = nil
	w.RawData, w.Dims = nil, []int64{16, size / 64}
	head := Marshal(t, w)
	head = protowire.AppendTag(head, rawData, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(size))
	graph := Marshal(t, pb.Graph)
	graph = protowire.AppendTag(graph, 5, protowire.BytesType)
	graph = protowire.AppendVarint(graph, uint64(int64(len(head))+size))
	graph = append(graph, head...)
	pb.Graph = nil
	b := Marshal(t, pb)
	b = protowire.AppendTag(b, 7, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(int64(len(graph))+size))
	b = append(b, graph...)
	path := filepath.Join(t.TempDir(), "sparse.onnx")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(b))+size); err != nil {
		t.Fatal(err)
	}
	return path
}
