package onnxtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// The shape of a Forest.
const (
	ForestColumns = 4
	ForestTrees   = 20
	forestDepth   = 3
)

// A Forest is a small random forest: trees of random splits, whose leaves vote for the class that most of some training
// examples have there. The examples of each class are normal around a mean of its own.
type Forest struct {
	Classes int
	means   []float32 // [C,columns]
	trees   []tree
}

// A tree has the splits of a complete binary tree, the root first, and then the classes of its leaves. x goes left,
// to child 2i+1, where its column is at most the threshold.
type tree struct {
	columns    []int
	thresholds []float32
	votes      []int
}

// NewForest grows a forest, the same one each time.
func NewForest(classes int) *Forest {
	const training = 300
	rng := rand.New(rand.NewPCG(uint64(classes), 77))
	f := &Forest{Classes: classes}
	for range classes * ForestColumns {
		f.means = append(f.means, 1.3*float32(rng.NormFloat64()))
	}
	x, labels := f.Draw(1, training)
	for range ForestTrees {
		t := tree{}
		for range 1<<forestDepth - 1 {
			column := rng.IntN(ForestColumns)
			t.columns = append(t.columns, column)
			t.thresholds = append(t.thresholds, x[rng.IntN(training)*ForestColumns+column])
		}
		counts := make([]int, len(t.columns)+1<<forestDepth*classes)
		for i := range training {
			counts[t.leaf(x[i*ForestColumns:])*classes+int(labels[i])]++
		}
		for leaf := range 1 << forestDepth {
			of := counts[leaf*classes : (leaf+1)*classes]
			t.votes = append(t.votes, slices.Index(of, slices.Max(of)))
		}
		f.trees = append(f.trees, t)
	}
	return f
}

func (t *tree) leaf(x []float32) int {
	i := 0
	for i < len(t.columns) {
		if x[t.columns[i]] <= t.thresholds[i] {
			i = 2*i + 1
		} else {
			i = 2*i + 2
		}
	}
	return i - len(t.columns)
}

// Draw returns n examples [n,columns] with their classes.
func (f *Forest) Draw(seed uint64, n int) (x []float32, labels []int64) {
	rng := rand.New(rand.NewPCG(seed, 78))
	for range n {
		y := rng.IntN(f.Classes)
		for _, m := range f.means[y*ForestColumns : (y+1)*ForestColumns] {
			x = append(x, m+float32(rng.NormFloat64()))
		}
		labels = append(labels, int64(y))
	}
	return x, labels
}

// Probabilities are the fractions of votes for examples, [n,C].
func (f *Forest) Probabilities(x []float32) []float64 {
	n := len(x) / ForestColumns
	p := make([]float64, n*f.Classes)
	for i := range n {
		for _, t := range f.trees {
			p[i*f.Classes+t.votes[t.leaf(x[i*ForestColumns:])]] += 1. / ForestTrees
		}
	}
	return p
}

// Node is the operator, with the inputs x and the outputs "label" and "probabilities". Classes without names count
// from 0.
func (f *Forest) Node(names ...string) *onnxpb.Node {
	var ids, nodes, columns, yes, no, leafIDs, leaves, classes []int64
	var values, weights []float32
	var modes []string
	for id, t := range f.trees {
		splits := len(t.columns)
		for i := range splits + len(t.votes) {
			ids, nodes = append(ids, int64(id)), append(nodes, int64(i))
			if i < splits {
				columns, values = append(columns, int64(t.columns[i])), append(values, t.thresholds[i])
				yes, no, modes = append(yes, int64(2*i+1)), append(no, int64(2*i+2)), append(modes, "BRANCH_LEQ")
				continue
			}
			columns, values, yes, no, modes = append(columns, 0), append(values, 0), append(yes, 0), append(no,
				0), append(modes, "LEAF")
			for c := range f.Classes {
				weight := float32(0)
				if t.votes[i-splits] == c {
					weight = 1. / ForestTrees
				}
				leafIDs, leaves = append(leafIDs, int64(id)), append(leaves, int64(i))
				classes, weights = append(classes, int64(c)), append(weights, weight)
			}
		}
	}
	n := Node("TreeEnsembleClassifier", "x", "label probabilities",
		onnxpb.IntsAttribute("nodes_treeids", ids...), onnxpb.IntsAttribute("nodes_nodeids", nodes...),
		onnxpb.IntsAttribute("nodes_featureids", columns...), FloatsAttribute("nodes_values", values...),
		StringsAttribute("nodes_modes", modes...), onnxpb.IntsAttribute("nodes_truenodeids", yes...),
		onnxpb.IntsAttribute("nodes_falsenodeids", no...), onnxpb.IntsAttribute("class_treeids", leafIDs...),
		onnxpb.IntsAttribute("class_nodeids", leaves...), onnxpb.IntsAttribute("class_ids", classes...),
		FloatsAttribute("class_weights", weights...), ClassLabels("classlabels_int64s", f.Classes, names...))
	n.Domain = proto.String("ai.onnx.ml")
	return n
}

// Model is the forest in an operator set, with the outputs of nodes behind it, by default its probabilities.
func (f *Forest) Model(opset int64, names []string, nodes []*onnxpb.Node, outputs ...*onnxpb.ValueInfo) *onnxpb.Model {
	label := tensor.Int64
	if len(names) > 0 {
		label = tensor.String
	}
	if len(outputs) == 0 {
		outputs = []*onnxpb.ValueInfo{onnxpb.TensorInfo("label", label, -1),
			onnxpb.TensorInfo("probabilities", tensor.Float32, -1, int64(f.Classes))}
	}
	return TableModel(opset, ForestColumns, append([]*onnxpb.Node{f.Node(names...)}, nodes...), outputs...)
}

// File is the model of a forest, with its probabilities, as a file.
func (f *Forest) File(opset int64, names ...string) []byte {
	b, err := proto.Marshal(f.Model(opset, names, nil))
	if err != nil {
		panic(err)
	}
	return b
}

// TableModel is a model of nodes with the input x [N,columns], which may be of ai.onnx.ml.
func TableModel(opset int64, columns int, nodes []*onnxpb.Node, outputs ...*onnxpb.ValueInfo) *onnxpb.Model {
	return &onnxpb.Model{
		IrVersion: proto.Int64(4), ProducerName: proto.String("onnxtest"),
		OpsetImport: []*onnxpb.OperatorSet{{Version: &opset}, {Domain: proto.String("ai.onnx.ml"), Version: proto.Int64(1)}},
		Graph: &onnxpb.Graph{Name: proto.String("table"), Node: nodes,
			Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, int64(columns))}, Output: outputs},
	}
}

// ZipMap is the operator that turns rows into maps by the names of classes, or by numbers that count from 0.
func ZipMap(in, out string, classes int, names ...string) *onnxpb.Node {
	n := Node("ZipMap", in, out, ClassLabels("classlabels_int64s", classes, names...))
	n.Domain = proto.String("ai.onnx.ml")
	return n
}

// Maps describes the output of a ZipMap: seq(map(int64 or string, float32)).
func Maps(name string, key tensor.Type) *onnxpb.ValueInfo {
	message := func(field protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), b)
	}
	number := func(field protowire.Number, v tensor.Type) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), uint64(v))
	}
	value := message(2, message(1, number(1, tensor.Float32)))
	t := new(onnxpb.Type)
	t.ProtoReflect().SetUnknown(message(4, message(1, message(5, append(number(1, key), value...)))))
	return &onnxpb.ValueInfo{Name: &name, Type: t}
}

// ClassLabels is an attribute of class names, or of this name and numbers that count from 0.
func ClassLabels(ints string, classes int, names ...string) *onnxpb.Attribute {
	if len(names) > 0 {
		return StringsAttribute("classlabels_strings", names...)
	}
	var list []int64
	for c := range classes {
		list = append(list, int64(c))
	}
	return onnxpb.IntsAttribute(ints, list...)
}

// Values of Attribute.type.
const (
	typeString  = 3
	typeFloats  = 6
	typeStrings = 8
)

// FloatsAttribute is an attribute of floats.
func FloatsAttribute(name string, list ...float32) *onnxpb.Attribute {
	return &onnxpb.Attribute{Name: &name, Type: proto.Int32(typeFloats), Floats: list}
}

// StringAttribute is an attribute of one string.
func StringAttribute(name, s string) *onnxpb.Attribute {
	return &onnxpb.Attribute{Name: &name, Type: proto.Int32(typeString), S: []byte(s)}
}

// StringsAttribute is an attribute of strings.
func StringsAttribute(name string, list ...string) *onnxpb.Attribute {
	a := &onnxpb.Attribute{Name: &name, Type: proto.Int32(typeStrings)}
	for _, s := range list {
		a.Strings = append(a.Strings, []byte(s))
	}
	return a
}

// ForestCSV is a table of examples, with a column of labels if there are any.
func ForestCSV(x []float32, labels []int64) []byte {
	var b strings.Builder
	for j := range ForestColumns {
		fmt.Fprintf(&b, "c%d,", j)
	}
	b.WriteString("label\n")
	if labels == nil {
		b.Reset()
		b.WriteString("c0,c1,c2,c3\n")
	}
	for i := range len(x) / ForestColumns {
		for j, v := range x[i*ForestColumns : (i+1)*ForestColumns] {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, v)
		}
		if labels != nil {
			fmt.Fprintf(&b, ",%d", labels[i])
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
