package fuse

import (
	"slices"

	"google.golang.org/protobuf/proto"

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
	if !slices.ContainsFunc(list, func(name string) bool { return r[name] != "" }) {
		return list
	}
	list = slices.Clone(list)
	for i, name := range list {
		list[i] = r.name(name)
	}
	return list
}

func (r renaming) values(list []*onnxpb.ValueInfo) []*onnxpb.ValueInfo {
	list = slices.Clone(list)
	for i, v := range list {
		if to := r[v.GetName()]; to != "" {
			list[i] = onnxpb.Shallow(v)
			list[i].Name = proto.String(to)
		}
	}
	return list
}

func (r renaming) graph(g *onnxpb.Graph) *onnxpb.Graph {
	g = onnxpb.Shallow(g)
	g.Input, g.Output, g.ValueInfo = r.values(g.Input), r.values(g.Output), r.values(g.ValueInfo)
	g.Initializer = slices.Clone(g.Initializer)
	for i, t := range g.Initializer {
		if to := r[t.GetName()]; to != "" {
			g.Initializer[i] = onnxpb.Shallow(t)
			g.Initializer[i].Name = proto.String(to)
		}
	}
	g.SparseInitializer = slices.Clone(g.SparseInitializer)
	for i, s := range g.SparseInitializer {
		if to := r[s.GetValues().GetName()]; to != "" {
			s = onnxpb.Shallow(s)
			s.Values = onnxpb.Shallow(s.Values)
			s.Values.Name = proto.String(to)
			g.SparseInitializer[i] = s
		}
	}
	g.Node = slices.Clone(g.Node)
	for i, n := range g.Node {
		c := onnxpb.Shallow(n)
		c.Input, c.Output = r.names(n.GetInput()), r.names(n.GetOutput())
		c.Attribute = slices.Clone(n.GetAttribute())
		for j, a := range c.Attribute {
			c.Attribute[j] = onnxpb.WithSubgraphs(a, r.graph)
		}
		g.Node[i] = c
	}
	return g
}
