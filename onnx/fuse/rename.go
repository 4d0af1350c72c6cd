package fuse

import (
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// A renaming maps tensors to new names, also in subgraphs, which must not shadow names of the outer graph. The new
// names are unused, or those of other renamed tensors.
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
		return onnxpb.MapNodes(nodes, r.graph, func(n *onnxpb.Node) {
			n.Input, n.Output = r.names(n.GetInput()), r.names(n.GetOutput())
		})
	})
}
