package graph

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// Apart returns a subgraph whose names can stand beside those taken, which it adds its own to. A name that is taken
// gets the prefix of a scope. Names of the graph around it stay.
func Apart(g *onnxpb.Graph, scope string, taken *onnxpb.Namer) *onnxpb.Graph {
	tensors, labels := map[string]bool{}, map[string]bool{}
	define(g, tensors, labels)
	free := func(own map[string]bool) (renamed map[string]string) {
		renamed = map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if name != "" && taken.Taken[name] {
				renamed[name] = taken.Fresh(scope + "/" + name)
			}
		}
		return renamed
	}
	// Tensors and nodes have names of their own kind: a node may have the name of another's tensor.
	renamed, relabelled := free(tensors), free(labels)
	for _, own := range []map[string]bool{tensors, labels} {
		for name := range own {
			taken.Taken[name] = true
		}
	}
	if len(renamed)+len(relabelled) == 0 {
		return g
	}
	name := func(s string) string { return cmp.Or(renamed[s], s) }
	var nodes func([]*onnxpb.Node) []*onnxpb.Node
	inner := func(g *onnxpb.Graph) *onnxpb.Graph { return onnxpb.Renamed(g, name, name, nodes) }
	nodes = func(list []*onnxpb.Node) []*onnxpb.Node {
		return onnxpb.MapNodes(list, inner, func(n *onnxpb.Node) {
			n.Name = proto.String(cmp.Or(relabelled[n.GetName()], n.GetName()))
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

// define collects the names of the tensors that a graph and its subgraphs make, and those of their nodes. Their outputs
// and value infos may also name tensors of the graph around them.
func define(g *onnxpb.Graph, names, labels map[string]bool) {
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
		labels[n.GetName()] = true
		for _, out := range n.GetOutput() {
			names[out] = true
		}
		for _, a := range n.GetAttribute() {
			for _, sub := range onnxpb.Subgraphs(a) {
				define(sub, names, labels)
			}
		}
	}
}
