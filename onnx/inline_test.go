package onnx

import (
	"crypto/sha256"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
)

// functionModel opens one of the models with functions.
func functionModel(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Open(filepath.Join(onnxtest.FunctionFixtures, name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The flat graph is the one that ONNX Runtime makes of the same model, up to names.
func TestInlinedFunctionsAreThoseOfONNXRuntime(t *testing.T) {
	t.Parallel()
	flats, err := filepath.Glob(filepath.Join(onnxtest.FunctionFixtures, "*.flat.onnx"))
	if err != nil || len(flats) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, flat := range flats {
		name := strings.TrimSuffix(filepath.Base(flat), ".flat.onnx")
		t.Run(name, func(t *testing.T) {
			got, want := functionModel(t, name), functionModel(t, name+".flat")
			if len(got.Proto().Functions) != 0 {
				t.Fatalf("%d functions are left", len(got.Proto().Functions))
			}
			if g, w := graphForms(got.Proto().Graph), graphForms(want.Proto().Graph); !slices.Equal(g, w) {
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
			for _, name := range onnxpb.Dependencies(n) {
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
	return fmt.Sprintf("%s%v(%s)", n.Op(), attributes, strings.Join(in, ", "))
}

// The names inside a call say where it stands, so that --features can name them.
func TestInlinedNamesAreReadable(t *testing.T) {
	t.Parallel()
	var got []string
	for _, n := range functionModel(t, "modules").Proto().Graph.Node {
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
	// Names are unique, for any names in the model.
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
					for _, sub := range onnxpb.Subgraphs(a) {
						tensors(sub)
					}
				}
			}
		}
		tensors(functionModel(t, name).pb.Graph)
	}
}
