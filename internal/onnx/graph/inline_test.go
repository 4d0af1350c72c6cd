package graph

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
)

// function makes a function of the domain "f" over the default operator set of network.
// listing shows a graph's nodes as "Op out1,out2 = in1,in2" with subgraphs in braces.
func listing(g *onnxpb.Graph) string {
	var lines []string
	for _, n := range g.Node {
		line := fmt.Sprintf("%s %s = %s", n.Op(), strings.Join(n.Output, ","), strings.Join(n.Input, ","))
		for _, a := range n.Attribute {
			for _, sub := range onnxpb.Subgraphs(a) {
				var out []string
				for _, v := range sub.Output {
					out = append(out, v.GetName())
				}
				line += " " + a.GetName() + "{" + listing(sub) + " → " + strings.Join(out, ",") + "}"
			}
			if len(onnxpb.Subgraphs(a)) == 0 {
				line += fmt.Sprintf(" %s=%d", a.GetName(), a.GetI())
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestInline(t *testing.T) {
	t.Parallel()
	relu := onnxtest.Function("Relu2", "a", "b", onnxtest.Node("Relu", "a", "m"), onnxtest.Node("Relu", "m", "b"))
	pass := onnxtest.Function("Pass", "a", "a same kept", onnxtest.Node("Relu", "a", "r"))
	pass.Output = []string{"a", "r", "r"}
	bodied := onnxtest.Function("Bodied", "a", "b",
		onnxtest.Node("If", "a", "b", &onnxpb.Attribute{Name: proto.String("then_branch"),
			RefAttrName: proto.String("body")}))
	body := func(nodes ...*onnxpb.Node) *onnxpb.Attribute {
		return &onnxpb.Attribute{Name: proto.String("body"),
			G: &onnxpb.Graph{Node: nodes, Output: []*onnxpb.ValueInfo{{Name: proto.String("q")}}}}
	}
	old := onnxtest.Function("Old", "a", "b", onnxtest.Node("Relu", "a", "b"))
	old.OpsetImport[0].Version = proto.Int64(12)
	foreign := onnxtest.Function("Foreign", "a", "b", &onnxpb.Node{OpType: proto.String("Gelu"),
		Domain: proto.String("com.microsoft"), Input: []string{"a"}, Output: []string{"b"}})
	foreign.OpsetImport = append(foreign.OpsetImport, &onnxpb.OperatorSet{Domain: proto.String("com.microsoft"),
		Version: proto.Int64(1)})
	standard := onnxtest.Function("Relu", "a", "b", onnxtest.Node("Neg", "a", "b"))
	standard.Domain = nil
	loose := onnxtest.Function("Loose", "a", "b", onnxtest.Node("Add", "a w", "b"))
	with := onnxtest.Function("With", "a", "b",
		onnxtest.Node("Softmax", "a", "b", &onnxpb.Attribute{Name: proto.String("axis"),
			RefAttrName: proto.String("dim")}))
	with.AttributeProto = []*onnxpb.Attribute{onnxpb.IntAttribute("dim", 7)}
	for _, tt := range []struct {
		name      string
		nodes     []*onnxpb.Node
		functions []*onnxpb.Function
		want      string
	}{
		{"a call", []*onnxpb.Node{onnxtest.Calls("Relu2", "x", "y")}, []*onnxpb.Function{relu},
			"Relu y/m = x; Relu y = y/m"},
		{"an output that is an input, and one twice", []*onnxpb.Node{onnxtest.Calls("Pass", "x", "p q r"),
			onnxtest.Node("Sum", "p q r", "y")}, []*onnxpb.Function{pass},
			"Relu q = x; Identity p = x; Identity r = q; Sum y = p,q,r"},
		{"the same where they are left out", []*onnxpb.Node{onnxtest.Calls("Pass", "x", "_ _ y")},
			[]*onnxpb.Function{pass}, "Relu y = x"},
		{"an output that is an input left out", []*onnxpb.Node{onnxtest.Calls("Pass", "_", "p"),
			onnxtest.Node("Relu", "x", "y")}, []*onnxpb.Function{pass}, "f.Pass p = ; Relu y = x"},
		{"a subgraph as an attribute", []*onnxpb.Node{onnxtest.Calls("Bodied", "x", "y",
			body(onnxtest.Node("Relu", "x", "q")))}, []*onnxpb.Function{bodied},
			"If y = x then_branch{Relu q = x → q}"},
		{"a call in it", []*onnxpb.Node{onnxtest.Calls("Bodied", "x", "y", body(onnxtest.Calls("Relu2", "x", "q")))},
			[]*onnxpb.Function{bodied, relu},
			"If y = x then_branch{Relu q/m = x; Relu q = q/m → q}"},
		{"a call of the same function in it",
			[]*onnxpb.Node{onnxtest.Calls("Bodied", "x", "y",
				body(onnxtest.Calls("Bodied", "x", "q",
					body(onnxtest.Node("Relu", "x", "q")))))}, []*onnxpb.Function{bodied},
			"If y = x then_branch{If q = x then_branch{Relu q = x → q} → q}"},
		{"a default", []*onnxpb.Node{onnxtest.Calls("With", "x", "y")}, []*onnxpb.Function{with},
			"Softmax y = x axis=7"},
		{"an attribute", []*onnxpb.Node{onnxtest.Calls("With", "x", "y", onnxpb.IntAttribute("dim", 1),
			onnxpb.IntAttribute("axis", 2))}, []*onnxpb.Function{with}, "Softmax y = x axis=1"},
		{"too many inputs", []*onnxpb.Node{onnxtest.Calls("Relu2", "x x", "y")}, []*onnxpb.Function{relu},
			"f.Relu2 y = x,x"},
		{"too many outputs", []*onnxpb.Node{onnxtest.Calls("Relu2", "x", "y z")}, []*onnxpb.Function{relu},
			"f.Relu2 y,z = x"},
		{"another operator set", []*onnxpb.Node{onnxtest.Calls("Old", "x", "y")}, []*onnxpb.Function{old},
			"f.Old y = x"},
		{"a domain that the model does not import", []*onnxpb.Node{onnxtest.Calls("Foreign", "x", "y")},
			[]*onnxpb.Function{foreign}, "com.microsoft.Gelu y = x"},
		{"a standard operator", []*onnxpb.Node{onnxtest.Node("Relu", "x", "y")}, []*onnxpb.Function{standard},
			"Relu y = x"},
		{"a function that reads outside", []*onnxpb.Node{onnxtest.Calls("Loose", "x", "y")}, []*onnxpb.Function{loose},
			"f.Loose y = x"},
		{"two functions of one name", []*onnxpb.Node{onnxtest.Calls("Relu2", "x", "y")}, []*onnxpb.Function{relu, relu},
			"f.Relu2 y = x"},
		{"no function of the name", []*onnxpb.Node{onnxtest.Calls("Relu3", "x", "y")}, []*onnxpb.Function{relu},
			"f.Relu3 y = x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			given := onnxtest.Functional(tt.nodes, tt.functions...)
			before := proto.Clone(given)
			got, err := Inline(given)
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
	got, err := Inline(onnxtest.Functional([]*onnxpb.Node{onnxtest.Calls("Foreign", "x", "y")}, foreign))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.OpsetImport); n != 3 || got.OpsetImport[2].GetDomain() != "com.microsoft" {
		t.Errorf("operator sets %v, want that of the function's operator too", got.OpsetImport)
	}
}

// Functions of a few hundred bytes that expand without end are refused at the bounds, which are smaller here.
func TestInlineRefuses(t *testing.T) {
	// chain is functions f0 … fn that each call the next one some times, and the last one the
	// operator.
	chain := func(n, times int, last *onnxpb.Node) []*onnxpb.Function {
		var list []*onnxpb.Function
		for i := range n {
			var nodes []*onnxpb.Node
			from := "a"
			for j := range times {
				to := fmt.Sprint("b", j)
				nodes = append(nodes, onnxtest.Calls(fmt.Sprint("f", i+1), from, to))
				from = to
			}
			list = append(list, onnxtest.Function(fmt.Sprint("f", i), "a", from, nodes...))
		}
		return append(list, onnxtest.Function(fmt.Sprint("f", n), "a", "b", last))
	}
	start := []*onnxpb.Node{onnxtest.Calls("f0", "x", "y")}
	many := onnxtest.Node("Relu", "a", "b")
	for i := range 1000 {
		many.Output = append(many.Output, fmt.Sprintf("%050d", i))
	}
	long := onnxtest.Node("Relu", "a", "b")
	long.Name = proto.String(strings.Repeat("n", 1<<20))
	crowd := make([]*onnxpb.Node, 1<<13)
	for i := range crowd {
		crowd[i] = onnxtest.Node("Relu", "a", fmt.Sprint(i))
		crowd[i].Name = proto.String("one name")
	}
	crowded := onnxtest.Function("f1", "a", "0", crowd...)
	for _, tt := range []struct {
		name      string
		nodes     []*onnxpb.Node
		functions []*onnxpb.Function
		want      string
	}{
		{"a function that calls itself", start,
			[]*onnxpb.Function{onnxtest.Function("f0", "a", "b",
				onnxtest.Calls("f0", "a", "b"))}, "the function f.f0 calls itself"},
		{"two that call each other", start,
			[]*onnxpb.Function{onnxtest.Function("f0", "a", "b", onnxtest.Calls("f1", "a", "b")),
				onnxtest.Function("f1", "a", "b", onnxtest.Calls("f0", "a", "b"))}, "the function f.f0 calls itself"},
		{"2⁶⁰ operators", start, chain(60, 2, onnxtest.Node("Relu", "a", "b")), "expand to more than"},
		{"2⁶⁰ calls of nothing", start,
			append(chain(60, 2, nil)[:60], &onnxpb.Function{Name: proto.String("f60"), Domain: proto.String("f"),
				Input: []string{"b"}, Output: []string{"b"}}), "expand to more than"},
		{"2²⁰ long lists of names", start, chain(20, 2, many), "expand to more than"},
		{"2²⁰ long names", start, chain(20, 2, long), "expand to more than"},
		{"2¹³ nodes of one name", []*onnxpb.Node{onnxtest.Calls("f1", "x", "y")}, []*onnxpb.Function{crowded},
			"expand to more than"},
		{"a long way down", start, chain(1000, 1, onnxtest.Node("Relu", "a", "b")),
			"call one another more than 100 deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := onnxtest.Functional(tt.nodes, tt.functions...)
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
				t.Errorf("went on for %d messages and %d bytes beyond the bounds", -x.messages, -x.bytes)
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
		list = append(list, onnxtest.Function(fmt.Sprint("f", i), "a", "c", onnxtest.Calls(next, "a", "b"),
			onnxtest.Calls(next, "b", "c")))
	}
	list = append(list, onnxtest.Function("f18", "a", "b", onnxtest.Node("Relu", "a", "b")))
	m := onnxtest.Functional([]*onnxpb.Node{onnxtest.Calls("f0", "x", "y")}, list...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Inline(m)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "expand to more than") {
		t.Errorf("error %v, want the functions to expand to more than is allowed", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("allocated %d KiB to refuse it", allocated>>10)
	}
	if _, err := Inline(onnxtest.Functional([]*onnxpb.Node{onnxtest.Calls("f8", "x", "y")}, list...)); err != nil {
		t.Errorf("2¹⁰ operators: %v", err)
	}
}

// Whatever the functions, a model is refused or flat: what is left of calls is left when it is read
// again. Changed bytes seldom give a model that can be read, so the fixtures are changed by edits
// of four bytes: what to change, where, and how.
func FuzzInline(f *testing.F) {
	models := onnxtest.SeedFunctions(f)
	f.Fuzz(func(t *testing.T, which uint16, edits []byte) {
		pb := new(onnxpb.Model)
		if err := proto.Unmarshal(models[int(which)%len(models)], pb); err != nil {
			t.Fatal(err)
		}
		onnxtest.EditFunctions(pb, edits)
		x := newInliner(pb)
		x.limit, x.bytes = 1<<12, 1<<22
		flat, err := x.inline(pb)
		if err != nil {
			return
		}
		again, err := Inline(flat)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(again, flat) {
			t.Errorf("expanded once more\n%s\nbecame\n%s", listing(flat.Graph), listing(again.Graph))
		}
	})
}
