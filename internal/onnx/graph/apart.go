package graph

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// Apart returns a subgraph whose names can stand beside those taken, which it adds its own to. A name that is taken
// gets the prefix of a scope. Names of the graph around it stay.
func Apart(g *onnxpb.Graph, scope string, taken *onnxpb.Namer) *onnxpb.Graph {
	own, renamed := map[string]bool{}, map[string]string{}
	define(g, own)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if name != "" && taken.Taken[name] {
			renamed[name] = taken.Fresh(scope + "/" + name)
		}
		taken.Taken[name] = true
	}
	if len(renamed) == 0 {
		return g
	}
	name := func(s string) string {
		if to, ok := renamed[s]; ok {
			return to
		}
		return s
	}
	var nodes func([]*onnxpb.Node) []*onnxpb.Node
	inner := func(g *onnxpb.Graph) *onnxpb.Graph { return onnxpb.Renamed(g, name, name, nodes) }
	nodes = func(list []*onnxpb.Node) []*onnxpb.Node {
		return onnxpb.MapNodes(list, inner, func(n *onnxpb.Node) {
			n.Name = proto.String(name(n.GetName()))
			n.Input, n.Output = mapped(n.Input, name), mapped(n.Output, name)
		})
	}
	return inner(g)
}

func mapped(list []string, name func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = name(s)
	}
	return out
}

// define collects the names of the tensors that a graph and its subgraphs make. Their outputs and value infos may also
// name tensors of the graph around them.
func define(g *onnxpb.Graph, names map[string]bool) {
	for _, t := range g.GetInitializer() {
		names[t.GetName()] = true
	}
	for _, t := range g.GetSparseInitializer() {
		names[t.GetValues().GetName()] = true
	}
	for _, v := range g.GetInput() {
		names[v.GetName()] = true
	}
	for _, n := range g.GetNode() {
		names[n.GetName()] = true
		for _, out := range n.GetOutput() {
			names[out] = true
		}
		for _, a := range n.GetAttribute() {
			for _, sub := range onnxpb.Subgraphs(a) {
				define(sub, names)
			}
		}
	}
}
