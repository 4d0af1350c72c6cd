package fuse

import (
	"slices"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A renaming gives tensors new names, in subgraphs too, which may not use a name of the graph around them for tensors of their
// own. The new names are nobody's, or those of other tensors that get new ones.
type renaming map[string]string

func (r renaming) name(name string) string {
	if to, ok := r[name]; ok {
		return to
	}
	return name
}

func (r renaming) names(list []string) []string {
	list = slices.Clone(list)
	for i, name := range list {
		list[i] = r.name(name)
	}
	return list
}

func (r renaming) graph(g *onnxpb.Graph) *onnxpb.Graph {
	return onnxpb.Renamed(g, r.name, r.name, func(nodes []*onnxpb.Node) []*onnxpb.Node {
		nodes = slices.Clone(nodes)
		for i, n := range nodes {
			n = onnxpb.Shallow(n)
			n.Input, n.Output = r.names(n.GetInput()), r.names(n.GetOutput())
			n.Attribute = slices.Clone(n.GetAttribute())
			for j, a := range n.Attribute {
				n.Attribute[j] = onnxpb.WithSubgraphs(a, r.graph)
			}
			nodes[i] = n
		}
		return nodes
	})
}
