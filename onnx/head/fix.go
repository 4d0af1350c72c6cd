package head

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// FixedKey is the key of what was fixed among the metadata of the model that [Fix] returns.
const FixedKey = "mfgs.fixed"

const (
	maxFixed  = 1 << 24 // elements of a fixed input
	maxStored = 1 << 10 // bytes of one that is stored, not computed
	maxNested = 200     // of branches in branches
)

// Fix returns a model with inputs made constants. fixed names them, and the number or truth value that all of their
// elements have: NAME=VALUE,NAME=VALUE; "" returns m. Where an If depends on nothing else, the branch that is taken is
// put in its place, however deep: a sample rate, or a switch for training, then selects the graph that the search for a
// head sees. One axis of an input may be open: it has the length of the first axis of the first input that is left, the
// examples. Errors name the input, what it is, and what was given. The file of the model is unchanged, and so is its
// SHA256.
func Fix(m *onnx.Model, fixed string) (*onnx.Model, error) {
	values, err := fixedValues(fixed)
	if err != nil || len(values) == 0 {
		return m, err
	}
	pb := onnxpb.Shallow(m.Proto())
	g := onnxpb.Shallow(pb.GetGraph())
	pb.Graph = g
	g.Input, g.Node, g.Initializer = slices.Clone(g.Input), slices.Clone(g.Node), slices.Clone(g.Initializer)
	x := &fixer{g: g, names: m.View().Names(), opset: m.Opset()}
	given := m.Inputs()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := slices.IndexFunc(given, func(v onnx.ValueInfo) bool { return v.Name == name })
		if at < 0 {
			var names []string
			for _, v := range given {
				names = append(names, v.Name)
			}
			return nil, fmt.Errorf("fixed input %.70q: the model has no input of that name, only %s", name, strings.Join(names, ", "))
		}
		left := slices.DeleteFunc(slices.Clone(given), func(v onnx.ValueInfo) bool { return values[v.Name] != "" })
		if len(left) == 0 {
			return nil, fmt.Errorf("fixed input %q: no input is left", name)
		}
		if err := x.fix(given[at], values[name], left[0]); err != nil {
			return nil, fmt.Errorf("fixed input %q: %w", name, err)
		}
	}
	g.Node = append(x.made, g.Node...)
	pb.MetadataProps = append(slices.Clip(pb.MetadataProps), &onnxpb.Entry{Key: proto.String(FixedKey), Value: &fixed})
	derived, err := m.Derive(pb)
	if err != nil {
		return nil, err
	}
	return splice(derived)
}

func fixedValues(fixed string) (map[string]string, error) {
	values := map[string]string{}
	if fixed == "" {
		return values, nil
	}
	for _, part := range strings.Split(fixed, ",") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || name == "" || value == "":
			return nil, fmt.Errorf("fixed input %.70q: want NAME=VALUE", part)
		case values[name] != "":
			return nil, fmt.Errorf("fixed input %.70q is named twice", name)
		}
		values[name] = value
	}
	return values, nil
}

// fixer replaces inputs of a graph.
type fixer struct {
	g     *onnxpb.Graph
	names *onnxpb.Namer
	opset int64
	made  []*onnxpb.Node // to be computed first
}

// fix makes an input a constant. batch is the input whose first axis counts the examples.
func (x *fixer) fix(in onnx.ValueInfo, value string, batch onnx.ValueInfo) error {
	raw, err := elementOf(in.Type, value)
	if err != nil {
		return err
	}
	if in.Shape == nil {
		return fmt.Errorf("it is %v, of an unknown number of axes: export the model with a declared shape", in)
	}
	dims, open := make([]int64, len(in.Shape)), -1
	for i, d := range in.Shape {
		if dims[i] = d.Value; d.Value >= 0 {
			continue
		}
		if open >= 0 {
			return fmt.Errorf("it is %v, and only one axis may be open: export the model with the sizes of the others", in)
		}
		open, dims[i] = i, 1
	}
	elements, ok := onnxpb.Elements(dims)
	if !ok || elements > maxFixed {
		return fmt.Errorf("it is %v, want at most %d elements", in, maxFixed)
	}
	x.g.Input = slices.DeleteFunc(x.g.Input, func(v *onnxpb.ValueInfo) bool { return v.GetName() == in.Name })
	typ := proto.Int32(int32(in.Type))
	if open < 0 && elements*int64(len(raw)) < maxStored {
		data := slices.Repeat(raw, int(elements))
		x.g.Initializer = append(x.g.Initializer,
			&onnxpb.Tensor{Name: proto.String(in.Name), Dims: dims, DataType: typ, RawData: data})
		return nil
	}
	if x.opset < 9 {
		return fmt.Errorf("it is %v, and operator set %d has no operator for so many constants: want 9 or later", in, x.opset)
	}
	shape := x.integers(dims)
	if open >= 0 {
		if len(batch.Shape) == 0 {
			return fmt.Errorf("it is %v, and the input %q has no axis that its open one could be", in, batch.Name)
		}
		shape = x.opened(dims, open, batch.Name)
	}
	one := &onnxpb.Tensor{Dims: []int64{1}, DataType: typ, RawData: raw}
	x.node("ConstantOfShape", in.Name, []string{shape},
		&onnxpb.Attribute{Name: proto.String("value"), Type: proto.Int32(onnxpb.TypeTensor), T: one})
	return nil
}

// opened computes a shape whose open axis has the length of the first axis of a tensor.
func (x *fixer) opened(dims []int64, open int, batch string) string {
	all := x.node("Shape", x.names.Fresh("mfgs_shape"), []string{batch})
	length := x.node("Gather", x.names.Fresh("mfgs_examples"), []string{all, x.integers([]int64{0})},
		onnxpb.IntAttribute("axis", 0))
	var parts []string
	if before := dims[:open]; len(before) > 0 {
		parts = append(parts, x.integers(before))
	}
	parts = append(parts, length)
	if after := dims[open+1:]; len(after) > 0 {
		parts = append(parts, x.integers(after))
	}
	return x.node("Concat", x.names.Fresh("mfgs_fixed_shape"), parts, onnxpb.IntAttribute("axis", 0))
}

func (x *fixer) node(op, out string, in []string, attributes ...*onnxpb.Attribute) string {
	x.made = append(x.made, &onnxpb.Node{OpType: &op, Name: proto.String(x.names.Fresh("mfgs_fixed_" + op)), Input: in,
		Output: []string{out}, Attribute: attributes})
	return out
}

func (x *fixer) integers(list []int64) string {
	name := x.names.Fresh("mfgs_dims")
	x.g.Initializer = append(x.g.Initializer, &onnxpb.Tensor{Name: &name, Dims: []int64{int64(len(list))},
		DataType: proto.Int32(int32(tensor.Int64)), Int64Data: slices.Clone(list)})
	return name
}

// elementOf encodes a value of a type as ONNX stores it.
func elementOf(t tensor.Type, value string) ([]byte, error) {
	bits := int(t.Bits())
	encode := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v)[:bits/8] }
	var err error
	var raw []byte
	switch t {
	case tensor.Bool:
		var v bool
		if v, err = strconv.ParseBool(value); v {
			raw = []byte{1}
		} else {
			raw = []byte{0}
		}
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		var v int64
		v, err = strconv.ParseInt(value, 10, bits)
		raw = encode(uint64(v))
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		var v uint64
		v, err = strconv.ParseUint(value, 10, bits)
		raw = encode(v)
	case tensor.Float16, tensor.Float32, tensor.Float64:
		var v float64
		v, err = strconv.ParseFloat(value, max(bits, 32))
		switch t {
		case tensor.Float16:
			half := tensor.ToFloat16(v)
			v, raw = float64(tensor.FromFloat16(half)), encode(uint64(half))
		case tensor.Float32:
			raw = encode(uint64(math.Float32bits(float32(v))))
		default:
			raw = encode(math.Float64bits(v))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			err = strconv.ErrRange
		}
	default:
		return nil, fmt.Errorf("inputs of type %v cannot be fixed, only numbers and truth values", t)
	}
	if err != nil {
		return nil, fmt.Errorf("%.70q is no value of type %v, which the input has", value, t)
	}
	return raw, nil
}

// splice puts the branch that is taken in the place of each If whose condition is a constant.
func splice(m *onnx.Model) (*onnx.Model, error) {
	for range maxNested {
		pb, changed := spliced(m)
		if !changed {
			return m, nil
		}
		var err error
		if m, err = m.Derive(pb); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the model has branches nested more than %d deep", maxNested)
}

// exact returns the value of a constant tensor, if every number on the way to it is one of its type. Numbers are
// computed in float64 here: where one has to be rounded, or an integer is too large, a comparison may hold here and not
// in ONNX Runtime, or the other way round.
func exact(g *graph.View, in *graph.Interpreter, name string) (*graph.Value, bool) {
	const most, mostInteger = 1 << 10, 1 << 53
	var last *graph.Value
	interpreter := g.Interpreter(true)
	queue, seen := []string{name}, map[string]bool{name: true}
	for i := 0; i < len(queue); i++ {
		v := in.Get(queue[i])
		if v.Data == nil { // not of a shape
			var err error
			if v, err = interpreter.Evaluate(queue[i]); err != nil || v.Data == nil {
				return nil, false
			}
		}
		if len(queue) > most {
			return nil, false
		}
		if i == 0 {
			last = v
		}
		for _, x := range v.Data {
			ok := false
			switch v.Type {
			case tensor.Float64:
				ok = !math.IsNaN(x)
			case tensor.Float32:
				ok = float64(float32(x)) == x
			case tensor.Float16:
				ok = float64(tensor.FromFloat16(tensor.ToFloat16(x))) == x
			default:
				// An unknown size is NaN: of others on the way.
				ok = x == math.Trunc(x) && math.Abs(x) < mostInteger || math.IsNaN(x) && i > 0
			}
			if !ok {
				return nil, false
			}
		}
		if n := g.Producer[queue[i]]; n != nil && n.Op() != "Shape" && n.Op() != "Size" {
			for _, in := range n.GetInput() {
				if in != "" && !seen[in] {
					seen[in], queue = true, append(queue, in)
				}
			}
		}
	}
	return last, true
}

// spliced replaces all such nodes of the main graph once.
func spliced(m *onnx.Model) (*onnxpb.Model, bool) {
	in := m.View().Infer()
	var which []*onnxpb.Node
	taken := map[*onnxpb.Node]*onnxpb.Graph{}
	for _, n := range m.Proto().GetGraph().GetNode() {
		if n.Op() != "If" || len(n.GetInput()) != 1 || !in.Get(n.In(0)).Constant {
			continue
		}
		v, ok := exact(m.View(), in, n.In(0))
		if !ok || len(v.Data) != 1 {
			continue
		}
		name := "else_branch"
		if v.Data[0] != 0 {
			name = "then_branch"
		}
		if g := n.Attr(name).GetG(); g != nil && len(g.GetInput()) == 0 && len(g.GetOutput()) >= len(n.GetOutput()) {
			which, taken[n] = append(which, n), g
		}
	}
	if len(which) == 0 {
		return nil, false
	}
	pb := onnxpb.Shallow(m.Proto())
	g := onnxpb.Shallow(pb.GetGraph())
	pb.Graph = g
	g.Initializer = slices.Clone(g.Initializer)
	rest := onnxpb.Shallow(g)
	rest.Node = slices.DeleteFunc(slices.Clone(g.Node), func(n *onnxpb.Node) bool { return taken[n] != nil })
	names := new(onnxpb.Namer)
	names.Take(rest)
	for _, n := range which {
		for _, out := range n.GetOutput() {
			names.Taken[out] = true
		}
	}
	var nodes []*onnxpb.Node
	for _, n := range g.Node {
		branch := taken[n]
		if branch == nil {
			nodes = append(nodes, n)
			continue
		}
		branch = graph.Apart(branch, n.Label(), names)
		g.Initializer = append(g.Initializer, branch.GetInitializer()...)
		g.SparseInitializer = append(slices.Clip(g.SparseInitializer), branch.GetSparseInitializer()...)
		g.ValueInfo = append(slices.Clip(g.ValueInfo), branch.GetValueInfo()...)
		nodes = append(nodes, branch.GetNode()...)
		for i, out := range n.GetOutput() {
			if out != "" {
				op := "Identity"
				from := branch.GetOutput()[i].GetName()
				nodes = append(nodes, &onnxpb.Node{OpType: &op, Input: []string{from}, Output: []string{out}})
			}
		}
	}
	g.Node = nodes
	return pb, true
}
