package onnx

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/approx"
	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

const functionFixtures = fixtures + "/functions"

// functionModel opens one of the models with functions.
func functionModel(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Open(filepath.Join(functionFixtures, name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The flat graph is the one that ONNX Runtime makes of the same model, up to names.
func TestInlinedFunctionsAreThoseOfONNXRuntime(t *testing.T) {
	flats, err := filepath.Glob(filepath.Join(functionFixtures, "*.flat.onnx"))
	if err != nil || len(flats) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, flat := range flats {
		name := strings.TrimSuffix(filepath.Base(flat), ".flat.onnx")
		t.Run(name, func(t *testing.T) {
			got, want := functionModel(t, name), functionModel(t, name+".flat")
			if len(got.pb.Functions) != 0 {
				t.Fatalf("%d functions are left", len(got.pb.Functions))
			}
			if g, w := graphForms(got.pb.Graph), graphForms(want.pb.Graph); !slices.Equal(g, w) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(g, "\n"), strings.Join(w, "\n"))
			}
		})
	}
}

// graphForms returns, for each output of a main graph, how it is computed, in a form without names.
func graphForms(g *onnxpb.Graph) []string {
	known := map[string]string{}
	for _, v := range g.Input {
		known[v.GetName()] = "input " + v.GetName()
	}
	return subgraphForms(g, known)
}

func subgraphForms(g *onnxpb.Graph, outer map[string]string) []string {
	known := map[string]string{"": "nothing"}
	for k, v := range outer {
		known[k] = v
	}
	for _, t := range g.Initializer {
		known[t.GetName()] = tensorForm(t)
	}
	left := slices.Clone(g.Node)
	for len(left) > 0 { // in any order that works
		before := len(left)
		left = slices.DeleteFunc(left, func(n *onnxpb.Node) bool {
			for _, name := range dependencies(n) {
				if _, ok := known[name]; !ok {
					return false
				}
			}
			form := nodeForm(n, known)
			for i, out := range n.Output {
				known[out] = fmt.Sprintf("%s[%d]", form, i)
				switch {
				case n.GetOpType() == "Identity":
					known[out] = known[n.Input[0]]
				case n.GetOpType() == "Constant" && n.Attribute[0].T != nil:
					known[out] = tensorForm(n.Attribute[0].T)
				}
				if len(known[out]) > 2000 {
					known[out] = fmt.Sprintf("%x", sha256.Sum256([]byte(known[out])))
				}
			}
			return true
		})
		if len(left) == before {
			return []string{"a graph with a cycle or an input from nowhere"}
		}
	}
	var forms []string
	for _, v := range g.Output {
		forms = append(forms, known[v.GetName()])
	}
	return forms
}

func tensorForm(t *onnxpb.Tensor) string {
	t = proto.Clone(t).(*onnxpb.Tensor)
	t.Name = nil
	if len(t.FloatData) > 0 {
		for _, x := range t.FloatData {
			t.RawData = protowire.AppendFixed32(t.RawData, math.Float32bits(x))
		}
		t.FloatData = nil
	}
	return fmt.Sprintf("%v %d %x", t.Dims, t.GetDataType(), t.RawData)
}

// defaults are values that ONNX Runtime writes out where a model leaves them out.
var defaults = map[string]string{
	"Gemm alpha": "1", "Gemm beta": "1", "Gemm transA": "0", "Gemm transB": "0", "ReduceSum keepdims": "1",
	"ReduceSum noop_with_empty_axes": "0", "Cast saturate": "1", "Softmax axis": "-1",
}

func nodeForm(n *onnxpb.Node, known map[string]string) string {
	var in, attributes []string
	for _, name := range n.Input {
		in = append(in, known[name])
	}
	for len(in) > 0 && in[len(in)-1] == "nothing" {
		in = in[:len(in)-1]
	}
	for _, a := range n.Attribute {
		value := "?"
		switch {
		case a.RefAttrName != nil:
			value = "an unresolved reference"
		case a.G != nil:
			value = fmt.Sprint(subgraphForms(a.G, known))
		case a.F != nil:
			value = fmt.Sprint(a.GetF())
		case a.I != nil:
			value = fmt.Sprint(a.GetI())
		case a.Ints != nil:
			value = fmt.Sprint(a.Ints)
		case a.T != nil:
			value = tensorForm(a.T)
		}
		if defaults[n.GetOpType()+" "+a.GetName()] != value {
			attributes = append(attributes, a.GetName()+"="+value)
		}
	}
	slices.Sort(attributes)
	return fmt.Sprintf("%s%v(%s)", opName(n), attributes, strings.Join(in, ", "))
}

// Heads in functions are found, at the tensors and with the weights that ONNX Runtime computes with.
func TestHeadsInFunctions(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(functionFixtures, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		File, Refused string
		Head          struct {
			Op, Features, Logits, Link string
			FeatureDim                 int `json:"feature_dim"`
			Classes                    int
			Bias                       bool
			Tail                       []string
		}
		Examples    int
		Phi, Logits []float64
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list) == 0 {
		t.Fatalf("no golden values: %v", err)
	}
	for _, g := range list {
		t.Run(strings.TrimSuffix(g.File, ".onnx"), func(t *testing.T) {
			m := functionModel(t, strings.TrimSuffix(g.File, ".onnx"))
			h, err := FindHead(m, HeadOptions{})
			if g.Refused != "" {
				var u *UnsupportedError
				if !errors.As(err, &u) || !strings.Contains(err.Error(), g.Refused) {
					t.Fatalf("got %+v and %v, want it refused: %s", h, err, g.Refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := g.Head
			got.Op, got.Features, got.Logits, got.Link = h.Op, h.Features, h.Logits, string(h.Link)
			got.FeatureDim, got.Classes, got.Bias, got.Tail = h.FeatureDim, h.Classes, h.Bias, h.Tail
			if !reflect.DeepEqual(got, g.Head) {
				t.Errorf("got  %+v\nwant %+v", got, g.Head)
			}
			w, b, err := h.Weights()
			if err != nil {
				t.Fatal(err)
			}
			for n := range g.Examples {
				for k := range h.Classes {
					sum, size := float64(b[k]), 1.0
					for d := range h.FeatureDim {
						x := g.Phi[n*h.FeatureDim+d] * float64(w[k*h.FeatureDim+d])
						sum += x
						size += math.Abs(x)
					}
					// Float32 sums of the runtime: about 1e-5 of what is added.
					if want := g.Logits[n*h.Classes+k]; !approx.Equal(sum, want, 1e-5*size) {
						t.Errorf("example %d class %d: %v, want %v", n, k, sum, want)
					}
				}
			}
			c, err := Cut(m, h)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse("again", bytesOf(t, c))
			if err != nil {
				t.Fatal(err)
			}
			if h2, err := FindHead(again, HeadOptions{Output: c.Outputs()[1].Name}); err != nil || h2.Node != h.Node || h2.Features != h.Features {
				t.Errorf("the cut model has head %+v (%v), want %+v", h2, err, h)
			}
		})
	}
}

func bytesOf(t testing.TB, m *Model) []byte {
	t.Helper()
	b, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The names inside a call say where it stands, so that --features can name them.
func TestInlinedNamesAreReadable(t *testing.T) {
	var got []string
	for _, n := range functionModel(t, "modules").pb.Graph.Node {
		got = append(got, n.GetName()+" "+n.GetOutput()[0])
	}
	want := []string{
		"Net_0/block/lin1/aten_t_0/n0 Net_0/block/lin1/t",
		"Net_0/block/lin1/aten_addmm_1/n0 Net_0/block/a",
		"Net_0/block/relu_0/n0 Net_0/block/relu",
		"Net_0/block/lin2/aten_t_0/n0 Net_0/block/lin2/t",
		"Net_0/block/lin2/aten_addmm_1/n0 Net_0/block/b",
		"Net_0/block/relu_1/n0 Net_0/h",
		"Net_0/fc/aten_t_0/n0 Net_0/fc/t",
		"Net_0/fc/aten_addmm_1/n0 Net_0/scores",
		"Net_0/softmax y",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// No name is given twice, whatever the model has.
	for _, name := range []string{"names", "subgraphs", "modules"} {
		seen := map[string]bool{}
		var tensors func(g *onnxpb.Graph)
		tensors = func(g *onnxpb.Graph) {
			for _, n := range g.Node {
				for _, name := range append(slices.Clone(n.Output), "node "+n.GetName()) {
					if name != "" && name != "node " && seen[name] {
						t.Errorf("%s: %q is there twice", name, name)
					}
					seen[name] = true
				}
				for _, a := range n.Attribute {
					for _, sub := range subgraphs(a) {
						tensors(sub)
					}
				}
			}
		}
		tensors(functionModel(t, name).pb.Graph)
	}
}

// function makes a function of the domain "f" over the default operator set of network.
func function(name, in, out string, nodes ...*onnxpb.Node) *onnxpb.Function {
	return &onnxpb.Function{Name: &name, Domain: proto.String("f"), Input: strings.Fields(in), Output: strings.Fields(out), Node: nodes,
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}, {Domain: proto.String("f"), Version: proto.Int64(1)}}}
}

// calls makes a node that calls a function; "_" stands for a name left out.
func calls(name, in, out string, attributes ...*onnxpb.Attribute) *onnxpb.Node {
	n := node(name, in, out, attributes...)
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

// functional is network with these nodes instead of its own, which make y of x and w, and these functions.
func functional(nodes []*onnxpb.Node, functions ...*onnxpb.Function) *onnxpb.Model {
	m := network()
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSet{Domain: proto.String("f"), Version: proto.Int64(1)})
	m.Graph.Node, m.Functions = nodes, functions
	return m
}

// listing shows a graph's nodes as "Op out1,out2 = in1,in2" with subgraphs in braces.
func listing(g *onnxpb.Graph) string {
	var lines []string
	for _, n := range g.Node {
		line := fmt.Sprintf("%s %s = %s", opName(n), strings.Join(n.Output, ","), strings.Join(n.Input, ","))
		for _, a := range n.Attribute {
			for _, sub := range subgraphs(a) {
				var out []string
				for _, v := range sub.Output {
					out = append(out, v.GetName())
				}
				line += " " + a.GetName() + "{" + listing(sub) + " → " + strings.Join(out, ",") + "}"
			}
			if len(subgraphs(a)) == 0 {
				line += fmt.Sprintf(" %s=%d", a.GetName(), a.GetI())
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestInline(t *testing.T) {
	relu := function("Relu2", "a", "b", node("Relu", "a", "m"), node("Relu", "m", "b"))
	pass := function("Pass", "a", "a same kept", node("Relu", "a", "r"))
	pass.Output = []string{"a", "r", "r"}
	bodied := function("Bodied", "a", "b", node("If", "a", "b", &onnxpb.Attribute{Name: proto.String("then_branch"), RefAttrName: proto.String("body")}))
	body := func(nodes ...*onnxpb.Node) *onnxpb.Attribute {
		return &onnxpb.Attribute{Name: proto.String("body"), G: &onnxpb.Graph{Node: nodes, Output: []*onnxpb.ValueInfo{{Name: proto.String("q")}}}}
	}
	old := function("Old", "a", "b", node("Relu", "a", "b"))
	old.OpsetImport[0].Version = proto.Int64(12)
	foreign := function("Foreign", "a", "b", &onnxpb.Node{OpType: proto.String("Gelu"), Domain: proto.String("com.microsoft"), Input: []string{"a"}, Output: []string{"b"}})
	foreign.OpsetImport = append(foreign.OpsetImport, &onnxpb.OperatorSet{Domain: proto.String("com.microsoft"), Version: proto.Int64(1)})
	standard := function("Relu", "a", "b", node("Neg", "a", "b"))
	standard.Domain = nil
	loose := function("Loose", "a", "b", node("Add", "a w", "b"))
	with := function("With", "a", "b", node("Softmax", "a", "b", &onnxpb.Attribute{Name: proto.String("axis"), RefAttrName: proto.String("dim")}))
	with.AttributeProto = []*onnxpb.Attribute{intAttribute("dim", 7)}
	for _, tt := range []struct {
		name      string
		nodes     []*onnxpb.Node
		functions []*onnxpb.Function
		want      string
	}{
		{"a call", []*onnxpb.Node{calls("Relu2", "x", "y")}, []*onnxpb.Function{relu}, "Relu y/m = x; Relu y = y/m"},
		{"an output that is an input, and one twice", []*onnxpb.Node{calls("Pass", "x", "p q r"), node("Sum", "p q r", "y")}, []*onnxpb.Function{pass},
			"Relu q = x; Identity p = x; Identity r = q; Sum y = p,q,r"},
		{"the same where they are left out", []*onnxpb.Node{calls("Pass", "x", "_ _ y")}, []*onnxpb.Function{pass}, "Relu y = x"},
		{"an output that is an input left out", []*onnxpb.Node{calls("Pass", "_", "p"), node("Relu", "x", "y")}, []*onnxpb.Function{pass}, "f.Pass p = ; Relu y = x"},
		{"a subgraph as an attribute", []*onnxpb.Node{calls("Bodied", "x", "y", body(node("Relu", "x", "q")))}, []*onnxpb.Function{bodied},
			"If y = x then_branch{Relu q = x → q}"},
		{"a call in it", []*onnxpb.Node{calls("Bodied", "x", "y", body(calls("Relu2", "x", "q")))}, []*onnxpb.Function{bodied, relu},
			"If y = x then_branch{Relu q/m = x; Relu q = q/m → q}"},
		{"a call of the same function in it", []*onnxpb.Node{calls("Bodied", "x", "y", body(calls("Bodied", "x", "q", body(node("Relu", "x", "q")))))}, []*onnxpb.Function{bodied},
			"If y = x then_branch{If q = x then_branch{Relu q = x → q} → q}"},
		{"a default", []*onnxpb.Node{calls("With", "x", "y")}, []*onnxpb.Function{with}, "Softmax y = x axis=7"},
		{"an attribute", []*onnxpb.Node{calls("With", "x", "y", intAttribute("dim", 1), intAttribute("axis", 2))}, []*onnxpb.Function{with}, "Softmax y = x axis=1"},
		{"too many inputs", []*onnxpb.Node{calls("Relu2", "x x", "y")}, []*onnxpb.Function{relu}, "f.Relu2 y = x,x"},
		{"too many outputs", []*onnxpb.Node{calls("Relu2", "x", "y z")}, []*onnxpb.Function{relu}, "f.Relu2 y,z = x"},
		{"another operator set", []*onnxpb.Node{calls("Old", "x", "y")}, []*onnxpb.Function{old}, "f.Old y = x"},
		{"a domain that the model does not import", []*onnxpb.Node{calls("Foreign", "x", "y")}, []*onnxpb.Function{foreign}, "com.microsoft.Gelu y = x"},
		{"a standard operator", []*onnxpb.Node{node("Relu", "x", "y")}, []*onnxpb.Function{standard}, "Relu y = x"},
		{"a function that reads outside", []*onnxpb.Node{calls("Loose", "x", "y")}, []*onnxpb.Function{loose}, "f.Loose y = x"},
		{"two functions of one name", []*onnxpb.Node{calls("Relu2", "x", "y")}, []*onnxpb.Function{relu, relu}, "f.Relu2 y = x"},
		{"no function of the name", []*onnxpb.Node{calls("Relu3", "x", "y")}, []*onnxpb.Function{relu}, "f.Relu3 y = x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			given := functional(tt.nodes, tt.functions...)
			before := proto.Clone(given)
			got, err := inlineFunctions(given)
			if err != nil {
				t.Fatal(err)
			}
			if list := listing(got.Graph); list != tt.want {
				t.Errorf("got  %s\nwant %s", list, tt.want)
			}
			if !proto.Equal(given, before) {
				t.Error("the model given has changed")
			}
		})
	}
	got, err := inlineFunctions(functional([]*onnxpb.Node{calls("Foreign", "x", "y")}, foreign))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.OpsetImport); n != 3 || got.OpsetImport[2].GetDomain() != "com.microsoft" {
		t.Errorf("operator sets %v, want that of the function's operator too", got.OpsetImport)
	}
}

// What a few hundred bytes can ask for is refused as soon as the bounds are reached, here smaller ones than those in force.
func TestInlineRefuses(t *testing.T) {
	// chain is functions f0 … fn that each call the next one some times, and the last one the operator.
	chain := func(n, times int, last *onnxpb.Node) []*onnxpb.Function {
		var list []*onnxpb.Function
		for i := range n {
			var nodes []*onnxpb.Node
			from := "a"
			for j := range times {
				to := fmt.Sprint("b", j)
				nodes = append(nodes, calls(fmt.Sprint("f", i+1), from, to))
				from = to
			}
			list = append(list, function(fmt.Sprint("f", i), "a", from, nodes...))
		}
		return append(list, function(fmt.Sprint("f", n), "a", "b", last))
	}
	start := []*onnxpb.Node{calls("f0", "x", "y")}
	many := node("Relu", "a", "b")
	for i := range 1000 {
		many.Output = append(many.Output, fmt.Sprintf("%050d", i))
	}
	long := node("Relu", "a", "b")
	long.Name = proto.String(strings.Repeat("n", 1<<20))
	crowd := make([]*onnxpb.Node, 1<<13)
	for i := range crowd {
		crowd[i] = node("Relu", "a", fmt.Sprint(i))
		crowd[i].Name = proto.String("one name")
	}
	crowded := function("f1", "a", "0", crowd...)
	for _, tt := range []struct {
		name      string
		nodes     []*onnxpb.Node
		functions []*onnxpb.Function
		want      string
	}{
		{"a function that calls itself", start, []*onnxpb.Function{function("f0", "a", "b", calls("f0", "a", "b"))}, "the function f.f0 calls itself"},
		{"two that call each other", start, []*onnxpb.Function{function("f0", "a", "b", calls("f1", "a", "b")), function("f1", "a", "b", calls("f0", "a", "b"))}, "the function f.f0 calls itself"},
		{"2⁶⁰ operators", start, chain(60, 2, node("Relu", "a", "b")), "expand to more than"},
		{"2⁶⁰ calls of nothing", start, append(chain(60, 2, nil)[:60], &onnxpb.Function{Name: proto.String("f60"), Domain: proto.String("f"), Input: []string{"b"}, Output: []string{"b"}}), "expand to more than"},
		{"2²⁰ long lists of names", start, chain(20, 2, many), "expand to more than"},
		{"2²⁰ long names", start, chain(20, 2, long), "expand to more than"},
		{"2¹³ nodes of one name", []*onnxpb.Node{calls("f1", "x", "y")}, []*onnxpb.Function{crowded}, "expand to more than"},
		{"a long way down", start, chain(1000, 1, node("Relu", "a", "b")), "call one another more than 100 deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := functional(tt.nodes, tt.functions...)
			x := newInliner(m)
			x.limit, x.bytes = 1<<12, 1<<20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := x.inline(m)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if x.messages < -100 || x.bytes < -1<<21 { // one node more, with the longest name here twice
				t.Errorf("went on for %d messages and %d bytes behind the bounds", -x.messages, -x.bytes)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
				t.Errorf("allocated %d MiB", allocated>>20)
			}
		})
	}
}

// A file of a kilobyte that asks for 2¹⁸ operators is refused before any is made.
func TestInlineCountsFirst(t *testing.T) {
	var list []*onnxpb.Function
	for i := range 18 {
		next := fmt.Sprint("f", i+1)
		list = append(list, function(fmt.Sprint("f", i), "a", "c", calls(next, "a", "b"), calls(next, "b", "c")))
	}
	list = append(list, function("f18", "a", "b", node("Relu", "a", "b")))
	m := functional([]*onnxpb.Node{calls("f0", "x", "y")}, list...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := inlineFunctions(m)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "expand to more than") {
		t.Errorf("error %v, want the functions to expand to more than is allowed", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("allocated %d KiB to refuse it", allocated>>10)
	}
	if _, err := inlineFunctions(functional([]*onnxpb.Node{calls("f8", "x", "y")}, list...)); err != nil {
		t.Errorf("2¹⁰ operators: %v", err)
	}
}

// Counting on from the last number keeps many names of one stem from taking time with their square.
func TestNamer(t *testing.T) {
	n := namer{taken: map[string]bool{"a_1": true, "b": true}}
	var got []string
	for _, want := range []string{"a", "a", "a", "b", "a_1", "b_1"} {
		got = append(got, n.fresh(want))
	}
	if want := []string{"a", "a_2", "a_3", "b_1", "a_1_1", "b_1_1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range 1 << 17 {
		n.fresh("a")
	}
	if name := n.fresh("a"); name != fmt.Sprint("a_", 1<<17+4) {
		t.Errorf("got %s", name)
	}
}

// Whatever the functions, a model is refused or flat: what is left of calls is left when it is read again. Changed bytes seldom
// give a model that can be read, so the fixtures are changed by edits of four bytes: what to change, where, and how.
func FuzzInline(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(functionFixtures, "*.onnx"))
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
	f.Fuzz(func(t *testing.T, which uint16, edits []byte) {
		pb := new(onnxpb.Model)
		if err := proto.Unmarshal(models[int(which)%len(models)], pb); err != nil {
			t.Fatal(err)
		}
		for ; len(edits) >= 4 && len(pb.Functions) > 0; edits = edits[4:] {
			editFunction(pb, edits[0], int(edits[1]), int(edits[2]), int(edits[3]))
		}
		x := newInliner(pb)
		x.limit, x.bytes = 1<<12, 1<<22
		flat, err := x.inline(pb)
		if err != nil {
			return
		}
		again, err := inlineFunctions(flat)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(again, flat) {
			t.Errorf("expanded once more\n%s\nbecame\n%s", listing(flat.Graph), listing(again.Graph))
		}
		if m, err := Parse("model", marshal(t, pb)); err == nil {
			if _, err := Parse("again", bytesOf(t, m)); err != nil {
				t.Error(err)
			}
		}
	})
}

// editFunction changes one thing of a function or of a call.
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
