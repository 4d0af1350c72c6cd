package onnxlayers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// dropping is a model whose nodes make y, [N,8], of x, and which has the constants p = 0.25, zero =
// 0, one = 1, on and off.
func dropping(opset int64, nodes ...*onnxpb.Node) *onnxpb.Model {
	scalar := func(name string, typ tensor.Type, x float32, flag int32) *onnxpb.Tensor {
		t := &onnxpb.Tensor{Name: &name, DataType: proto.Int32(int32(typ))}
		if typ == tensor.Bool {
			t.Int32Data = []int32{flag}
		} else {
			t.FloatData = []float32{x}
		}
		return t
	}
	return &onnxpb.Model{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSet{{Version: &opset}},
		Graph: &onnxpb.Graph{
			Node: nodes,
			Initializer: []*onnxpb.Tensor{scalar("p", tensor.Float32, 0.25, 0), scalar("zero", tensor.Float32, 0, 0),
				scalar("one", tensor.Float32, 1, 0),
				scalar("on", tensor.Bool, 0, 1), scalar("off", tensor.Bool, 0, 0)},
			Input:  []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, 8)},
			Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, 8)},
		},
	}
}

// withInputs is node with inputs that may be left out: "-".
func withInputs(op, in, out string, attributes ...*onnxpb.Attribute) *onnxpb.Node {
	n := onnxtest.Node(op, in, out, attributes...)
	for i, name := range n.Input {
		if name == "-" {
			n.Input[i] = ""
		}
	}
	return n
}

const masked = "RandomUniformLike Constant Less Cast Constant Mul Mul"

func TestStochasticReplacesDropout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		opset int64
		ratio float64
		nodes []*onnxpb.Node
		want  string  // operators
		keep  float64 // of the first
		n     int
	}{
		{"attribute", 7, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x", "y", onnxpb.FloatAttribute("ratio", 0.25))},
			masked, 0.75, 1},
		{"attribute left out", 11, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x", "y")}, masked, 0.5, 1},
		{"input", 13, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x p", "y")}, masked, 0.75, 1},
		{"input left out", 13, 0, []*onnxpb.Node{withInputs("Dropout", "x - off", "y")}, masked, 0.5, 1},
		{"on already", 13, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x p on", "y")}, masked, 0.75, 1},
		{"constant of a node", 13, 0, []*onnxpb.Node{onnxtest.Node("Neg", "p", "minus"),
			onnxtest.Node("Abs", "minus", "q"), onnxtest.Node("Dropout", "x q", "y")}, "Neg Abs " + masked, 0.75, 1},
		{"given", 13, 0.1, []*onnxpb.Node{onnxtest.Node("Dropout", "x p", "y")}, masked, 0.9, 1},
		{"given for one that has none", 13, 0.1, []*onnxpb.Node{onnxtest.Node("Dropout", "x zero", "y")}, masked, 0.9,
			1},
		{"given for one that varies", 13, 0.1, []*onnxpb.Node{onnxtest.Node("ReduceMax", "x", "m"),
			onnxtest.Node("Dropout", "x m", "y")}, "ReduceMax " + masked, 0.9, 1},
		{"zero", 13, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x zero", "y")}, "Dropout", 0, 0},
		{"mask not used", 13, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x p", "y mask")}, masked, 0.75, 1},
		{"two and one that stays", 13, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x p", "a"),
			onnxtest.Node("Dropout", "a zero", "b"), onnxtest.Node("Dropout", "b", "y")},
			masked + " Dropout " + masked, 0.75, 2},
		{"half", 13, 0, []*onnxpb.Node{onnxtest.Node("Cast", "x", "c",
			onnxpb.IntAttribute("to", int64(tensor.Float16))), onnxtest.Node("Dropout", "c p", "d"),
			onnxtest.Node("Cast", "d", "y", onnxpb.IntAttribute("to",
				1))},
			"Cast RandomUniformLike Constant Less Cast Constant Mul Cast Mul Cast", 0.75, 1},
		{"none", 13, 0, []*onnxpb.Node{onnxtest.Node("Relu", "x", "y")}, "Relu", 0, 0},
		{"new operator set", 22, 0, []*onnxpb.Node{onnxtest.Node("Dropout", "x p", "y")}, masked, 0.75, 1},
		{"new operator set, none", 30, 0, []*onnxpb.Node{onnxtest.Node("Relu", "x", "y")}, "Relu", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pb := dropping(tt.opset, tt.nodes...)
			m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
			if err != nil {
				t.Fatal(err)
			}
			before := onnxtest.BytesOf(t, m)
			on, n, err := Stochastic(m, tt.ratio, 7)
			if err != nil || n != tt.n {
				t.Fatalf("%d nodes switched on with error %v, want %d", n, err, tt.n)
			}
			var ops []string
			var keep []float64
			names := map[string]bool{}
			for _, node := range on.Proto().Graph.Node {
				ops = append(ops, node.Op())
				if v := node.Attr("value"); v != nil {
					keep = append(keep, float64(v.GetT().GetFloatData()[0]))
				}
				if node.GetName() != "" && names[node.GetName()] {
					t.Errorf("two nodes are named %q", node.GetName())
				}
				names[node.GetName()] = true
			}
			if got := strings.Join(ops, " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if tt.n > 0 && (!approx.Equal(keep[0], tt.keep, 1e-6) || !approx.Equal(keep[1], 1/tt.keep, 1e-6)) {
				t.Errorf("kept with probability %v and scaled by %v, want %v", keep[0], keep[1], tt.keep)
			}
			if tt.n == 0 && on != m {
				t.Error("another model, though there is nothing to be switched on")
			}
			if want := min(tt.opset, 21); tt.n > 0 && on.Opset() != want {
				t.Errorf("operator set %d, want %d", on.Opset(), want)
			}
			if !slices.Equal(onnxtest.BytesOf(t, m), before) {
				t.Error("the model itself has changed")
			}
			if on.SHA256() != m.SHA256() {
				t.Error("the model has lost its origin's sum")
			}
			if got := len(Random(on)); tt.n > 0 && got != tt.n {
				t.Errorf("%d nodes at random, want %d", got, tt.n)
			}
			if again, err := onnx.Parse("again", onnxtest.BytesOf(t, on)); err != nil || len(again.Outputs()) != 1 {
				t.Errorf("cannot be read again: %v", err)
			}
		})
	}
}

func TestStochasticRefusesWhatItCannotActivate(t *testing.T) {
	t.Parallel()
	branch := &onnxpb.Attribute{Name: proto.String("then_branch"), Type: proto.Int32(onnxpb.TypeGraph),
		G: &onnxpb.Graph{
			Node: []*onnxpb.Node{onnxtest.Node("Dropout", "x p",
				"inner")}, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("inner", tensor.Float32)}}}
	called := onnxtest.Functional([]*onnxpb.Node{onnxtest.Calls("Drops", "x", "y")},
		onnxtest.Function("Drops", "a", "b", onnxtest.Node("Dropout", "a", "b")))
	called.Functions[0].OpsetImport[0].Version = proto.Int64(12) // another than the model's, so that the call stays
	for _, tt := range []struct {
		name  string
		pb    *onnxpb.Model
		ratio float64
		want  string
	}{
		{"negative ratio", dropping(13), -0.1, "dropout ratio -0.1, want a number in [0,1)"},
		{"ratio 1", dropping(13), 1, "dropout ratio 1, want"},
		{"no number", dropping(13), math.NaN(), "dropout ratio NaN, want"},
		{"old", dropping(6, onnxtest.Node("Dropout", "x", "y")), 0, "operator set 6 is older than 7"},
		{"all dropped", dropping(13, onnxtest.Node("Dropout", "x one", "y")), 0, `Dropout "y" has ratio 1`},
		{"varies", dropping(13, onnxtest.Node("ReduceMax", "x", "m"), onnxtest.Node("Dropout", "x m", "y")), 0,
			`the ratio "m" of Dropout "y" is no constant; give one for all`},
		{"mask used", dropping(13, onnxtest.Node("Dropout", "x p", "d mask"),
			onnxtest.Node("Cast", "mask", "c", onnxpb.IntAttribute("to", 1)), onnxtest.Node("Mul", "d c",
				"y")), 0, `the mask "mask" of Dropout "d" is used`},
		{"branch", dropping(13, onnxtest.Node("If", "on", "y", branch)), 0,
			`Dropout "inner" is in a branch or loop of If "y"`},
		{"function", called, 0, `Dropout "b" is part of the model's function Drops`},
		{"too new", dropping(27, onnxtest.Node("Dropout", "x p", "y")), 0,
			"up to operator set 21, and the model has 27"},
		{"new operator", dropping(24, onnxtest.Node("Swish", "x", "s"), onnxtest.Node("Dropout", "s p", "y")), 0,
			`up to operator set 21, and Swish "s" is not in that`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.pb.Graph.Node) == 0 {
				tt.pb.Graph.Node = []*onnxpb.Node{onnxtest.Node("Relu", "x", "y")}
			}
			m, err := onnx.Parse("model", onnxtest.Marshal(t, tt.pb))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = Stochastic(m, tt.ratio, 1)
			var u *UnsupportedError
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want one line with %q", err, tt.want)
			}
			if !strings.HasPrefix(tt.want, "dropout ratio") && !errors.As(err, &u) {
				t.Errorf("%v is a %T", err, err)
			}
		})
	}
}

func TestRandomListsRandomNodes(t *testing.T) {
	t.Parallel()
	branch := &onnxpb.Attribute{Name: proto.String("then_branch"), Type: proto.Int32(onnxpb.TypeGraph),
		G: &onnxpb.Graph{
			Node: []*onnxpb.Node{onnxtest.Node("RandomNormalLike", "x",
				"inner")}, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("inner", tensor.Float32)}}}
	ints := onnxpb.IntsAttribute("shape", 8)
	called := onnxtest.Functional([]*onnxpb.Node{onnxtest.Calls("Draws", "x", "y")},
		onnxtest.Function("Draws", "a", "b", onnxtest.Node("Bernoulli", "a", "b")))
	called.Functions[0].OpsetImport[0].Version = proto.Int64(12)
	own := onnxtest.Functional([]*onnxpb.Node{onnxtest.Node("Bernoulli", "x", "y")},
		onnxtest.Function("Bernoulli", "a", "b", onnxtest.Node("Relu", "a", "b")))
	own.Functions[0].Domain = proto.String("")
	for _, tt := range []struct {
		name string
		pb   *onnxpb.Model
		want string
	}{
		{"nothing", dropping(13, onnxtest.Node("Relu", "x", "y")), ""},
		{"dropout that is off", dropping(13, onnxtest.Node("Dropout", "x p off", "a"),
			onnxtest.Node("Dropout", "a p", "b"), onnxtest.Node("Dropout", "b", "y")), ""},
		{"dropout that is on", dropping(13, onnxtest.Node("Dropout", "x p off", "a"),
			onnxtest.Node("Dropout", "a p on", "y")), "y"},
		{"dropout that may be on", dropping(13, onnxtest.Node("ReduceMax", "x", "m"),
			onnxtest.Node("Cast", "m", "t", onnxpb.IntAttribute("to", int64(tensor.Bool))), onnxtest.Node("Dropout",
				"x p t", "y")), "y"},
		{"draws", dropping(13, onnxtest.Node("RandomNormal", "", "a", ints),
			onnxtest.Node("RandomUniform", "", "b", ints), onnxtest.Node("RandomNormalLike", "x",
				"c"), onnxtest.Node("RandomUniformLike", "x", "d"),
			onnxtest.Node("Multinomial", "x", "e"), onnxtest.Node("Bernoulli", "x", "f"), onnxtest.Node("Relu", "x",
				"y")), "a b c d e f"},
		{"branch", dropping(13, onnxtest.Node("If", "on", "y", branch)), "inner"},
		{"function", called, "b"},
		{"function of that name", own, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := onnx.Parse("model", onnxtest.Marshal(t, tt.pb))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(Random(m), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSeededReplacesAllSeeds(t *testing.T) {
	t.Parallel()
	branch := func(nodes ...*onnxpb.Node) *onnxpb.Attribute {
		return &onnxpb.Attribute{Name: proto.String("then_branch"), Type: proto.Int32(onnxpb.TypeGraph),
			G: &onnxpb.Graph{
				Node: nodes, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("inner", tensor.Float32)}}}
	}
	ints := onnxpb.IntsAttribute("shape", 8)
	own := onnxtest.Functional([]*onnxpb.Node{onnxtest.Node("Bernoulli", "x", "f"),
		onnxtest.Node("RandomNormalLike", "f", "y")}, onnxtest.Function("Bernoulli", "a", "b", onnxtest.Node("Relu",
		"a", "b")))
	own.Functions[0].Domain = proto.String("")
	for _, tt := range []struct {
		name string
		pb   *onnxpb.Model
		want string // the nodes with a seed, in the order of their numbers
	}{
		{"all operators", dropping(13, onnxtest.Node("RandomNormal", "", "a", ints),
			onnxtest.Node("RandomUniform", "", "b", ints), onnxtest.Node("RandomNormalLike", "x", "c"),
			onnxtest.Node("RandomUniformLike", "x", "d"), onnxtest.Node("Relu", "x", "r"), onnxtest.Node("Multinomial",
				"x", "e"), onnxtest.Node("Bernoulli", "x", "y")), "a b c d e y"},
		{"replaced", dropping(13, onnxtest.Node("RandomNormalLike", "x", "a", onnxpb.FloatAttribute("seed", 5),
			onnxpb.FloatAttribute("mean", 2)), onnxtest.Node("RandomNormalLike", "a", "y", onnxpb.FloatAttribute("seed",
			5))), "a y"},
		{"dropout that is on", dropping(13, onnxtest.Node("Dropout", "x p off", "a"),
			onnxtest.Node("Dropout", "a p on", "y", onnxpb.IntAttribute("seed", 5))), "y"},
		{"branch", dropping(13, onnxtest.Node("RandomNormalLike", "x", "a"),
			onnxtest.Node("If", "on", "y", branch(onnxtest.Node("RandomNormalLike", "x", "b"),
				onnxtest.Node("If", "on", "inner", branch(onnxtest.Node("RandomUniformLike", "x", "inner")))))),
			"a b inner"},
		{"function of that name", own, "y"},
		{"nothing", dropping(13, onnxtest.Node("Relu", "x", "y")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := onnx.Parse("model", onnxtest.Marshal(t, tt.pb))
			if err != nil {
				t.Fatal(err)
			}
			before := onnxtest.BytesOf(t, m)
			seeded, err := Seeded(m, 7)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(onnxtest.BytesOf(t, m), before) {
				t.Error("the model itself has changed")
			}
			if tt.want == "" {
				if seeded != m {
					t.Error("another model, though nothing is drawn")
				}
				return
			}
			seeds := seedsOf(t, seeded)
			for i, name := range strings.Fields(tt.want) {
				if want := nodeSeed(7, i+1); seeds[name] != want {
					t.Errorf("node %q has seed %v, want %v", name, seeds[name], want)
				}
				delete(seeds, name)
			}
			if len(seeds) > 0 {
				t.Errorf("seeds too of %v", seeds)
			}
			if seeded.SHA256() != m.SHA256() || !slices.Equal(Random(seeded), Random(m)) {
				t.Errorf("seeded, the model has the sum %s and draws in %q", seeded.SHA256(), Random(seeded))
			}
			same, err := Seeded(seeded, 7)
			if err != nil || !slices.Equal(onnxtest.BytesOf(t, same), onnxtest.BytesOf(t, seeded)) {
				t.Errorf("seeded again it is another, error %v", err)
			}
			// But for the seeds it is the model itself.
			for _, pb := range []*onnxpb.Model{seeded.Proto(), m.Proto()} {
				withoutSeeds(pb.Graph.Node)
			}
			if !proto.Equal(seeded.Proto(), m.Proto()) {
				t.Errorf("without seeds it is\n%v\nwant\n%v", seeded.Proto(), m.Proto())
			}
		})
	}
}

// seedsOf returns the seeds of a model's nodes by their first outputs.
func seedsOf(t *testing.T, m *onnx.Model) map[string]float32 {
	t.Helper()
	seeds := map[string]float32{}
	onnxpb.EachNode(m.Proto().Graph.Node, func(n *onnxpb.Node) {
		typ, n0 := int32(onnxpb.TypeFloat), 0
		if isDropout(n) {
			typ = onnxpb.TypeInt
		}
		for _, a := range n.GetAttribute() {
			if a.GetName() == "seed" {
				seeds[n.Output[0]] = a.GetF() + float32(a.GetI())
				n0++
				if a.GetType() != typ || n0 > 1 {
					t.Errorf("%s has %d seeds, one of type %d, want one of %d", n.Describe(), n0, a.GetType(), typ)
				}
			}
		}
	})
	return seeds
}

// withoutSeeds takes the seeds off nodes, for good.
func withoutSeeds(nodes []*onnxpb.Node) {
	onnxpb.EachNode(nodes, func(n *onnxpb.Node) {
		n.Attribute = slices.DeleteFunc(n.Attribute, func(a *onnxpb.Attribute) bool { return a.GetName() == "seed" })
		if len(n.Attribute) == 0 {
			n.Attribute = nil
		}
	})
}

func TestSeededRefusesFunctions(t *testing.T) {
	t.Parallel()
	for _, inner := range []*onnxpb.Node{onnxtest.Node("RandomNormalLike", "a", "b"),
		onnxtest.Node("Dropout", "a a a", "b")} {
		pb := onnxtest.Functional([]*onnxpb.Node{onnxtest.Calls("Draws", "x", "y")},
			onnxtest.Function("Draws", "a", "b", inner))
		pb.Functions[0].OpsetImport[0].Version = proto.Int64(12) // another than the model's, so that the call stays
		m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Seeded(m, 1)
		var u *UnsupportedError
		if want := inner.GetOpType() + ` "b" is part of the model's function Draws`; !errors.As(err, &u) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNodeSeedsAreExactAndDependOnTheSeed(t *testing.T) {
	t.Parallel()
	seen := map[float32]string{}
	for _, seed := range []int{0, 1, 2, -1, math.MaxInt, math.MinInt} {
		for i := 1; i <= 2000; i++ {
			x, where := nodeSeed(seed, i), fmt.Sprint(seed, i)
			if x < 1 || x >= 1<<24 || x != float32(math.Trunc(float64(x))) {
				t.Fatalf("seed %s is %v", where, x)
			}
			if other, ok := seen[x]; ok && strings.Fields(other)[0] == strings.Fields(where)[0] {
				t.Fatalf("seeds %s and %s are both %v", other, where, x)
			}
			seen[x] = where
		}
	}
	// Seeds of neighbours are far from each other, wherever they begin: the runtime's
	// generators give similar streams for similar seeds.
	for _, seed := range []int{0, 1, 2, 3, 4, 5} {
		for i := 1; i < 100; i++ {
			d := math.Abs(float64(nodeSeed(seed, i+1)) - float64(nodeSeed(seed, i)))
			if d = min(d, 1<<24-1-d); !(d > 1<<20) {
				t.Errorf("seeds of nodes %d and %d are %v apart", i, i+1, d)
			}
		}
	}
	if len(seen) < 6*2000-100 {
		t.Errorf("only %d seeds of %d are different", len(seen), 6*2000)
	}
}

// The seed of all only shifts them, modulo 2²⁴ - 1.
func TestNodeSeedsOfOneModelDiffer(t *testing.T) {
	t.Parallel()
	last := make([]int, 1<<24) // the seed that had this number last, plus 1
	check := func(seed int) {
		for i := 1; i <= 1000; i++ {
			x := nodeSeed(seed, i)
			n := int(x)
			if float32(n) != x || n < 1 || n >= 1<<24 {
				t.Fatalf("node %d has seed %v, want a whole number in [1, 2²⁴)", i, x)
			}
			if last[n] == seed+1 {
				t.Fatalf("two of 1000 nodes have seed %v", x)
			}
			last[n] = seed + 1
		}
	}
	for seed := 0; seed <= 1<<20; seed += 1021 {
		check(seed)
	}
	check(1 << 20)
}

// For any order of nodes the tail, the stochastic form and the seeds are found or refused, and a model that is found
// can be cut and read again.
func FuzzDense(f *testing.F) {
	for _, path := range onnxtest.FixturePaths(f) {
		if strings.HasPrefix(path, "dense") || strings.HasPrefix(path, "dropout") {
			f.Add(onnxtest.Fixture(f, path))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Parse("model", data)
		if err != nil {
			return
		}
		Random(m)
		if seeded, err := Seeded(m, 1); err == nil && len(Random(seeded)) != len(Random(m)) {
			t.Errorf("seeded, %q draw, and before %q", Random(seeded), Random(m))
		}
		if on, n, err := Stochastic(m, 0, 1); err == nil && n > 0 {
			if len(Random(on)) < n {
				t.Errorf("%d nodes are switched on and only %q draw", n, Random(on))
			}
		}
		h, err := head.Find(m, head.Options{})
		if err != nil {
			return
		}
		tail, err := Find(m, h, 0)
		if err != nil {
			return
		}
		for i, d := range tail.Layers[1:] {
			if d.In != tail.Layers[i].Out {
				t.Errorf("%d numbers come out of %s and %d go into %s", tail.Layers[i].Out, tail.Layers[i].Node, d.In,
					d.Node)
			}
		}
		for _, d := range tail.Layers {
			if w, b, err := d.Weights(); err == nil && (len(w) != d.In*d.Out || b != nil && len(b) != d.Out) {
				t.Errorf("%d weights and %d biases of a layer %d→%d", len(w), len(b), d.In, d.Out)
			}
			d.Activation.At(1)
		}
		if c, err := Cut(m, h, tail); err == nil && len(c.Outputs()) != 2 {
			t.Errorf("%d outputs, want 2", len(c.Outputs()))
		}
	})
}

func TestSeededRefusesInvalidDistributions(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tt := range []struct {
		op         string
		attributes map[string]float32
		want       string
	}{
		{"RandomNormalLike", map[string]float32{"scale": 0}, "scale 0"},
		{"RandomNormalLike", map[string]float32{"scale": -1}, "scale -1"},
		{"RandomNormalLike", map[string]float32{"scale": inf}, "scale +Inf"},
		{"RandomNormalLike", map[string]float32{"mean": nan}, "mean NaN"},
		{"RandomUniformLike", map[string]float32{"low": 1}, "low 1 and high 1"},
		{"RandomUniformLike", map[string]float32{"low": -inf}, "low -Inf"},
		{"RandomNormalLike", map[string]float32{"scale": 0.1, "mean": -3}, ""},
		{"RandomUniformLike", map[string]float32{"low": -1, "high": 0}, ""},
	} {
		n := onnxtest.Node(tt.op, "x", "y")
		for name, v := range tt.attributes {
			n.Attribute = append(n.Attribute, onnxpb.FloatAttribute(name, v))
		}
		m, err := onnx.Parse("model", onnxtest.Marshal(t, onnxtest.Functional([]*onnxpb.Node{n})))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Seeded(m, 1)
		var u *UnsupportedError
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s %v: %v", tt.op, tt.attributes, err)
			}
		} else if !errors.As(err, &u) || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), `"y"`) {
			t.Errorf("%s %v: error %v, want %q", tt.op, tt.attributes, err, tt.want)
		}
	}
}
