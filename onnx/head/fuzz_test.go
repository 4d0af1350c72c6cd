package head

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Find refuses any graph with a one-line *UnsupportedError, or returns a head at which Cut succeeds.
// Mutated bytes rarely decode as a model, so the target mutates fixtures instead: each edit is four bytes,
// what to change, where (two bytes), and the new value. ops lists the operators that edits may assign,
// separated by spaces. Fixture and operators are named, so that the files in testdata/fuzz keep their
// meaning when fixtures or operators are added.
func FuzzFindHead(f *testing.F) {
	models := map[string][]byte{}
	for _, path := range onnxtest.FixturePaths(f) {
		if path != "external.onnx" { // cannot be read from memory
			models[path] = onnxtest.Fixture(f, path)
			f.Add(path, "", false, []byte{})
			f.Add(path, "", true, []byte{1, 2, 0, 3, 4, 1, 0, 0, 6, 0, 0, 255})
		}
	}
	f.Fuzz(func(t *testing.T, fixture, ops string, approximate bool, edits []byte) {
		m, err := onnx.Parse("model", edited(t, models, fixture, ops, edits))
		if err != nil {
			return
		}
		var o Options
		if approximate {
			o.Approximate = IgnoreRelu
		}
		h, err := Find(m, o)
		if err != nil {
			unsupported(t, err)
			return
		}
		if h.Logits < 1 || h.Features < 1 || h.Link == "" || h.LogitsTensor == "" {
			t.Fatalf("impossible head %+v", h)
		}
		if w, b, err := h.Weights(); err == nil && (len(w) != h.Logits*h.Features || b != nil &&
			len(b) != h.Logits) {
			t.Fatalf("%d weights and %d biases for %+v", len(w), len(b), h)
		}
		if _, err := Cut(m, h); err != nil {
			t.Fatal(err)
		}
	})
}

// edited is the fixture that a name is nearest to, with edits that assign operators of ops.
func edited(t *testing.T, models map[string][]byte, fixture, ops string, edits []byte) []byte {
	operators := slices.Concat(slices.Sorted(maps.Keys(graph.Ops)), slices.Sorted(maps.Keys(steps)),
		slices.Sorted(maps.Keys(graph.Lowerings)))
	var assignable []string
	for _, op := range strings.Split(ops, " ") {
		assignable = append(assignable, oneOf(operators, op))
	}
	pb := onnxtest.Unmarshal(t, models[oneOf(slices.Sorted(maps.Keys(models)), fixture)])
	for ; len(edits) >= 4; edits = edits[4:] {
		edit(pb.Graph, assignable, edits[0], int(edits[1]), int(edits[2]), edits[3])
	}
	return onnxtest.Marshal(t, pb)
}

func unsupported(t *testing.T, err error) {
	t.Helper()
	var u *UnsupportedError
	if !errors.As(err, &u) || u.Reason == "" || strings.Contains(err.Error(), "\n") {
		t.Fatalf("not an *UnsupportedError of one line: %v", err)
	}
}

// Find with a kind refuses any graph with a one-line *UnsupportedError, or returns a head without a layer at which Cut
// succeeds, and which has each kind that does not contradict its numbers. One that reads text takes any decoding.
func FuzzFindOutput(f *testing.F) {
	models := map[string][]byte{}
	for _, path := range onnxtest.FixturePaths(f) {
		if path != "external.onnx" { // cannot be read from memory
			models[path] = onnxtest.Fixture(f, path)
			f.Add(path, "", string(Probabilities), false, []byte{})
		}
	}
	for _, stepsFirst := range []bool{false, true} {
		path := fmt.Sprintf("recogniser with steps first: %t", stepsFirst)
		models[path] = onnxtest.Marshal(f, onnxtest.Recogniser{
			Opset: 13, Symbols: 3, Type: tensor.Float32, StepsFirst: stepsFirst, Softmax: true,
		}.Model())
		f.Add(path, "", string(CTC), false, []byte{})
		f.Add(path, "LogSoftmax", string(CTC), false, []byte{1, 2, 0, 3, 0, 1, 0, 0, 6, 0, 0, 255})
	}
	for _, classes := range []int{2, 4} {
		path := fmt.Sprintf("forest of %d", classes)
		models[path] = onnxtest.Marshal(f, onnxtest.NewForest(classes).Model(13, nil,
			[]*onnxpb.Node{onnxtest.ZipMap("probabilities", "maps", classes)}, onnxtest.Maps("maps", tensor.Int64)))
		for _, kind := range Kinds {
			f.Add(path, "", string(kind), true, []byte{})
			f.Add(path, "Gather", string(kind), false, []byte{9, 1, 0, 3, 0, 1, 0, 0, 6, 0, 0, 255})
		}
	}
	f.Fuzz(func(t *testing.T, fixture, ops, kind string, features bool, edits []byte) {
		m, err := onnx.Parse("model", edited(t, models, fixture, ops, edits))
		if err != nil {
			return
		}
		o := Options{Kind: Kind(kind)}
		if features {
			o.Features = m.Inputs()[0].Name
		}
		if o.Kind == Linear {
			return
		}
		h, err := Find(m, o)
		if err != nil {
			unsupported(t, err)
			return
		}
		if !h.Nonlinear || h.Bias || h.Kind != o.Kind || h.Logits < 1 || h.Link == "" || h.LogitsTensor == "" ||
			(h.Features > 0) != features || h.Labels != nil && len(h.Labels) != h.Classes() {
			t.Fatalf("impossible head %+v", h)
		}
		if h.Kind.Decodes() {
			unread(t, m, h, edits)
			return
		}
		for _, kind := range Kinds[:len(Kinds)-2] {
			as, err := h.As(kind)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Fatalf("not of one line: %v", err)
				}
				continue
			}
			if _, err := Cut(m, as); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
	})
}

// unread cuts a head that reads text, without a decoding and with one that depends on the input.
func unread(t *testing.T, m *onnx.Model, h *Head, edits []byte) {
	d := Decoding{Of: Scores, Alphabet: []string{"", "a"}}
	if len(edits) > 0 {
		d.Of, d.StepsFirst = Kinds[1+edits[0]%3], edits[0]%2 == 1
		d.Alphabet = append(d.Alphabet, ParseAlphabet(string(edits))...)
		d.Blank = slices.Index(d.Alphabet, "")
	}
	if h.Kind == Tags {
		d.Blank, d.Mask = -1, MaskInput(m)
		d.Alphabet = slices.DeleteFunc(d.Alphabet, func(s string) bool { return s == "" })
		d.SkipFirst, d.SkipLast = len(edits)%3, len(edits)%2
	}
	as, err := h.Read(d)
	if err != nil {
		if d.Validate() == nil || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%+v: %v", d, err)
		}
		as = h
	}
	for _, h := range []*Head{h, as} {
		if _, err := Cut(m, h); err != nil {
			t.Fatal(err)
		}
	}
}

// oneOf returns name if it is one of names, else one of them that depends on name alone, so that the fuzzer
// reaches all of them.
func oneOf(names []string, name string) string {
	if slices.Contains(names, name) {
		return name
	}
	return names[int(crc32.ChecksumIEEE([]byte(name)))%len(names)]
}

// edit changes one thing in a graph.
func edit(g *onnxpb.Graph, assignable []string, what byte, i, j int, to byte) {
	number := int64(int8(to))
	if to == 127 {
		number = 1 << 40
	}
	if len(g.Node) == 0 {
		return
	}
	n := g.Node[i%len(g.Node)]
	switch what % 10 {
	case 0: // another operator
		domain, op := "", assignable[int(to)%len(assignable)]
		if dot := strings.LastIndex(op, "."); dot >= 0 {
			domain, op = op[:dot], op[dot+1:]
		}
		n.OpType, n.Domain = &op, &domain
	case 1: // another wire
		from := g.Node[int(to)%len(g.Node)]
		if len(n.Input) > 0 && len(from.Output) > 0 {
			n.Input[j%len(n.Input)] = from.Output[0]
		}
	case 2: // a weight for an input
		if len(n.Input) > 0 && len(g.Initializer) > 0 {
			n.Input[j%len(n.Input)] = g.Initializer[int(to)%len(g.Initializer)].GetName()
		}
	case 3: // an input more or less
		if to%2 == 0 && len(n.Input) > 0 {
			n.Input = n.Input[1:]
		} else {
			n.Input = append(n.Input, "")
		}
	case 4: // an attribute more
		names := []string{"axis", "axes", "perm", "keepdims", "to", "transA", "transB", "alpha", "beta", "pads",
			"strides", "kernel_shape", "group", "allowzero", "auto_pad"}
		n.Attribute = append(n.Attribute, &onnxpb.Attribute{Name: &names[j%len(names)], I: &number,
			Ints: []int64{number, 0}, F: proto.Float32(float32(number)), S: []byte("VALID")})
	case 5: // another attribute
		if len(n.Attribute) > 0 {
			a := n.Attribute[j%len(n.Attribute)]
			a.I = &number
			for k := range a.Ints {
				a.Ints[k] = number
			}
		}
	case 6: // another shape of the input
		if dims := g.Input[i%len(g.Input)].GetType().GetTensorType().GetShape().GetDim(); len(dims) > 0 {
			dims[j%len(dims)].Value = &onnxpb.Dimension_DimValue{DimValue: number}
		}
	case 7: // another shape of a weight, of as many elements
		if len(g.Initializer) > 0 {
			t := g.Initializer[i%len(g.Initializer)]
			if size, ok := onnxpb.Elements(t.Dims); ok {
				t.Dims = [][]int64{{size}, {size, 1}, {1, size}, {1, 1, size, 1}}[to%4]
			}
		}
	case 8: // other numbers in a weight
		if len(g.Initializer) > 0 {
			if raw := g.Initializer[i%len(g.Initializer)].RawData; len(raw) > 0 {
				raw[j%len(raw)] = to
			}
		}
	case 9: // another output
		if len(n.Output) > 0 {
			g.Output = append(g.Output, &onnxpb.ValueInfo{Name: &n.Output[0]})
		}
	}
}
