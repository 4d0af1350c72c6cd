package featurize_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

func to[T any](v T) *T { return &v }

// branches is an If with two branches, each of the nodes and the output that it is given.
func branches(cond, out string, taken, other *onnxpb.Graph) *onnxpb.Node {
	attribute := func(name string, g *onnxpb.Graph) *onnxpb.Attribute {
		return &onnxpb.Attribute{Name: &name, Type: to(int32(onnxpb.TypeGraph)), G: g}
	}
	return onnxtest.Node("If", cond, out, attribute("then_branch", taken), attribute("else_branch", other))
}

func branch(out string, nodes ...*onnxpb.Node) *onnxpb.Graph {
	return &onnxpb.Graph{Name: to("branch"), Node: nodes,
		Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo(out, tensor.Float32)}}
}

// switched is y = ±3x or ±5x, plus the state of each example: 3 at a rate of 16,000, negative in training. Its
// branches use the same names, in one another and beside one another.
func switched(t testing.TB) *onnx.Model {
	t.Helper()
	number := func(name string, typ tensor.Type, dims ...int64) *onnxpb.Tensor {
		return &onnxpb.Tensor{Name: &name, DataType: to(int32(typ)), Dims: dims}
	}
	rate, axis := number("wide", tensor.Int64), number("axis", tensor.Int64, 1)
	rate.Int64Data, axis.Int64Data = []int64{16000}, []int64{0}
	three, five := number("three", tensor.Float32), number("five", tensor.Float32)
	three.FloatData, five.FloatData = []float32{3}, []float32{5}
	times := func(by string) *onnxpb.Graph {
		return branch("signed", onnxtest.Node("Mul", "x "+by, "h"), branches("training", "signed",
			branch("s", onnxtest.Node("Neg", "h", "s")), branch("s", onnxtest.Node("Identity", "h", "s"))))
	}
	m := &onnxpb.Model{
		IrVersion:   to(int64(8)),
		OpsetImport: []*onnxpb.OperatorSet{{Version: to(int64(13))}},
		Graph: &onnxpb.Graph{
			Initializer: []*onnxpb.Tensor{rate, axis, three, five},
			Node: []*onnxpb.Node{
				onnxtest.Node("Equal", "rate wide", "is"),
				branches("is", "scaled", times("three"), times("five")),
				onnxtest.Node("Not", "training", "serving"),
				branches("serving", "kept", branch("h", onnxtest.Node("Identity", "state", "h")),
					branch("h", onnxtest.Node("Neg", "state", "h"))),
				onnxtest.Node("ReduceSum", "kept axis", "sums", onnxpb.IntAttribute("keepdims", 0)),
				onnxtest.Node("Add", "scaled sums", "y"),
			},
			Input: []*onnxpb.ValueInfo{
				onnxpb.TensorInfo("rate", tensor.Int64), onnxpb.TensorInfo("x", tensor.Float32, -1, 2),
				onnxpb.TensorInfo("state", tensor.Float32, 4, -1, 2), onnxpb.TensorInfo("training", tensor.Bool),
			},
			Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, 2)},
		},
	}
	model, err := onnx.Parse("switched", onnxtest.Marshal(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// small is a model of operator set 13 whose output y has two numbers for each example.
func small(t testing.TB, g *onnxpb.Graph) *onnx.Model {
	t.Helper()
	g.Input = append(g.Input, onnxpb.TensorInfo("x", tensor.Float32, -1, 2))
	g.Output = []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, 2)}
	m, err := onnx.Parse("small", onnxtest.Marshal(t, &onnxpb.Model{
		IrVersion: to(int64(8)), OpsetImport: []*onnxpb.OperatorSet{{Version: to(int64(13))}}, Graph: g}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// chosen is an If that gives y: x or, if the condition holds, its negative.
func chosen(cond, x string) *onnxpb.Node {
	return branches(cond, "y", branch("h", onnxtest.Node("Neg", x, "h")), branch("h", onnxtest.Node("Identity", x, "h")))
}

// spliced reports whether no If of a model is left once inputs are fixed.
func spliced(t testing.TB, m *onnx.Model, fix string) bool {
	t.Helper()
	fixed, err := head.Fix(m, fix)
	if err != nil {
		t.Fatal(err)
	}
	isIf := func(n *onnxpb.Node) bool { return n.Op() == "If" }
	return !slices.ContainsFunc(fixed.Proto().GetGraph().GetNode(), isIf)
}

func TestFixedInputsSelectTheirBranches(t *testing.T) {
	t.Parallel()
	for fix, want := range map[string]float32{
		"rate=16000,training=false,state=0": 3, "rate=16000,training=true,state=0": -3,
		"rate=8000,training=0,state=0": 5, "rate=8000,training=1,state=0": -5,
		"rate=16000,training=false,state=0.25": 4, "rate=16000,training=true,state=0.25": -4,
	} {
		m := switched(t)
		fixed, err := head.Fix(m, fix)
		if err != nil {
			t.Fatal(err)
		}
		recorded := fixed.SHA256() == m.SHA256() && fixed.Metadata()[head.FixedKey] == fix
		if !recorded || len(m.Inputs()) != 4 || len(fixed.Inputs()) != 1 {
			t.Errorf("%s: %v, want only x", fix, fixed.Inputs())
		}
		onnxpb.EachNode(fixed.Proto().GetGraph().GetNode(), func(n *onnxpb.Node) {
			if n.Op() == "If" {
				t.Errorf("%s: %s is left", fix, n.Describe())
			}
		})
		net, err := featurize.New(featurize.Config{Model: fixed})
		if err != nil {
			t.Fatal(fix, err)
		}
		defer net.Close()
		ones := tensor.Tensor{Name: "x", Shape: []int64{3, 2}, Data: []float32{1, 1, 1, 1, 1, 1}}
		got, err := net.Run(t.Context(), []tensor.Tensor{ones})
		if err != nil {
			t.Fatal(fix, err)
		}
		for i, v := range got.Columns[0] {
			if !approx.Equal(float64(v), float64(want), 1e-6) {
				t.Errorf("%s: y[%d] = %v, want %v", fix, i, v, want)
			}
		}
	}
}

// A branch whose condition is not known stays.
func TestBranchesOfOtherInputsStay(t *testing.T) {
	t.Parallel()
	fixed, err := head.Fix(switched(t), "rate=16000,state=1")
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	onnxpb.EachNode(fixed.Proto().GetGraph().GetNode(), func(n *onnxpb.Node) {
		if n.Op() == "If" {
			left++
		}
	})
	if left != 2 || len(fixed.Inputs()) != 2 {
		t.Errorf("%d branches and %d inputs are left, want those of training", left, len(fixed.Inputs()))
	}
}

// Inputs of all numeric types can be fixed.
func TestInputsOfAnyTypeAreFixed(t *testing.T) {
	t.Parallel()
	for typ, c := range map[tensor.Type]struct {
		value string
		want  float32
		wrong string
	}{
		tensor.Bool: {"true", 1, "2"}, tensor.Int8: {"-3", -3, "128"}, tensor.Int16: {"-300", -300, "40000"},
		tensor.Int32: {"-70000", -70000, "3000000000"}, tensor.Int64: {"5000000", 5000000, "1.5"},
		tensor.Uint8: {"200", 200, "-1"}, tensor.Uint16: {"40000", 40000, "65536"}, tensor.Uint32: {"70000", 70000, "x"},
		tensor.Uint64: {"70000", 70000, "-1"}, tensor.Float16: {"0.5", 0.5, "1e6"},
		tensor.Float32: {"-0.25", -0.25, "1e39"}, tensor.Float64: {"1e-3", 1e-3, "inf"},
	} {
		m := small(t, &onnxpb.Graph{
			Node: []*onnxpb.Node{onnxtest.Node("Cast", "s", "number", onnxpb.IntAttribute("to", int64(tensor.Float32))),
				onnxtest.Node("Add", "x number", "y")},
			Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("s", typ, -1, 2)},
		})
		_, err := head.Fix(m, "s="+c.wrong)
		if err == nil || !strings.Contains(err.Error(), "is no value of type "+typ.String()) {
			t.Errorf("%v: %s is accepted: %v", typ, c.wrong, err)
		}
		fixed, err := head.Fix(m, "s="+c.value)
		if err != nil {
			t.Error(err)
			continue
		}
		net, err := featurize.New(featurize.Config{Model: fixed})
		if err != nil {
			t.Errorf("%v: %v", typ, err)
			continue
		}
		x := tensor.Tensor{Name: "x", Shape: []int64{3, 2}, Data: make([]float32, 6)}
		got, err := net.Run(t.Context(), []tensor.Tensor{x})
		net.Close()
		if err != nil || !approx.Equal(float64(got.Columns[0][5]), float64(c.want), 1e-6) {
			t.Errorf("%v: %v, %v, want %v", typ, got.Columns, err, c.want)
		}
	}
}

// Conditions are computed in float64 here: a branch stays if its condition may be another in ONNX Runtime.
func TestConditionsThatRoundingChangesStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ     tensor.Type
		op      string
		number  float64
		fix     string
		spliced bool
	}{
		{tensor.Float32, "Add", 1e-9, "s=1", false}, // s in float32
		{tensor.Float32, "Add", 0.5, "s=1", true},
		{tensor.Float64, "Add", 1e-9, "s=1", true},
		{tensor.Int64, "Add", 1 << 53, "s=0", false}, // as is 1<<53 + 1 in float64
		{tensor.Int64, "Add", 1 << 52, "s=0", true},
		{tensor.Int32, "Div", 2, "s=3", true}, // 1
	} {
		number := &onnxpb.Tensor{Name: to("number"), DataType: to(int32(c.typ))}
		switch c.typ {
		case tensor.Float32:
			number.FloatData = []float32{float32(c.number)}
		case tensor.Float64:
			number.DoubleData = []float64{c.number}
		case tensor.Int64:
			number.Int64Data = []int64{int64(c.number)}
		case tensor.Int32:
			number.Int32Data = []int32{int32(c.number)}
		}
		m := small(t, &onnxpb.Graph{
			Initializer: []*onnxpb.Tensor{number},
			Node: []*onnxpb.Node{onnxtest.Node(c.op, "s number", "q"), onnxtest.Node("Equal", "q s", "is"),
				chosen("is", "x")},
			Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("s", c.typ)},
		})
		if got := spliced(t, m, c.fix); got != c.spliced {
			t.Errorf("%v %s %v at %s: spliced is %t, want %t", c.typ, c.op, c.number, c.fix, got, c.spliced)
		}
	}
}

// A condition on a size that is known is taken, whatever the other sizes are.
func TestConditionsOnKnownSizesAreTaken(t *testing.T) {
	t.Parallel()
	for axis, taken := range map[int64]bool{0: false, 1: true} {
		index := &onnxpb.Tensor{Name: to("index"), DataType: to(int32(tensor.Int64)), Int64Data: []int64{axis}}
		two := &onnxpb.Tensor{Name: to("two"), DataType: to(int32(tensor.Int64)), Int64Data: []int64{2}}
		m := small(t, &onnxpb.Graph{
			Initializer: []*onnxpb.Tensor{index, two},
			Node: []*onnxpb.Node{onnxtest.Node("Add", "x s", "sum"), onnxtest.Node("Shape", "sum", "sizes"),
				onnxtest.Node("Gather", "sizes index", "size"), onnxtest.Node("Equal", "size two", "is"),
				chosen("is", "sum")},
			Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("s", tensor.Float32)},
		})
		if got := spliced(t, m, "s=1"); got != taken {
			t.Errorf("the size of axis %d: taken is %t, want %t", axis, got, taken)
		}
	}
}

// A node of a branch may have the name of a tensor around it.
func TestNodesMayHaveTheNamesOfTensors(t *testing.T) {
	t.Parallel()
	neg := onnxtest.Node("Neg", "x", "h")
	neg.Name = to("x")
	m := small(t, &onnxpb.Graph{
		Node:  []*onnxpb.Node{branches("training", "y", branch("h", neg), branch("h", onnxtest.Node("Identity", "x", "h")))},
		Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("training", tensor.Bool)},
	})
	fixed, err := head.Fix(m, "training=1")
	if err != nil {
		t.Fatal(err)
	}
	net, err := featurize.New(featurize.Config{Model: fixed})
	if err != nil {
		t.Fatal(err)
	}
	net.Close()
}

func TestInputsThatCannotBeFixedAreNamed(t *testing.T) {
	t.Parallel()
	for fix, want := range map[string]string{
		"speed=1":                       `"speed": the model has no input of that name, only rate, x, state, training`,
		"rate=1.5":                      `"rate": "1.5" is no value of type int64`,
		"rate=99999999999999999999":     "no value of type int64",
		"training=maybe":                `"training": "maybe" is no value of type bool`,
		"state=NaN":                     "no value of type float32",
		"state=1e300":                   "no value of type float32",
		"rate":                          "want NAME=VALUE",
		"rate=":                         "want NAME=VALUE",
		"rate=1,rate=2":                 "named twice",
		"rate=1,x=0,state=0,training=0": "no input is left",
	} {
		if _, err := head.Fix(switched(t), fix); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", fix, err, want)
		}
	}
}
