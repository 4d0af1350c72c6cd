package graph

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// A Graph is the main graph of a model with its connections: producers and consumers of tensors, and a
// topological order of the nodes.
type Graph struct {
	Proto     *onnxpb.Graph
	Opset     int64 // of the default domain
	Consts    map[string]*onnxpb.Tensor
	sparse    map[string]*onnxpb.SparseTensor
	inputs    map[string]bool // graph inputs, initialized or not
	Producer  map[string]*onnxpb.Node
	Consumers map[string][]*onnxpb.Node
	Order     []*onnxpb.Node
	origin    map[*onnxpb.Node]*onnxpb.Node // the node of the file that a lowered node comes from
}

func New(m *onnxpb.Model) (*Graph, error) {
	pb := m.GetGraph()
	g := &Graph{
		Proto:     pb,
		Consts:    map[string]*onnxpb.Tensor{},
		sparse:    map[string]*onnxpb.SparseTensor{},
		inputs:    map[string]bool{},
		Producer:  map[string]*onnxpb.Node{},
		Consumers: map[string][]*onnxpb.Node{},
	}
	for _, o := range m.GetOpsetImport() {
		if onnxpb.IsDefault(o.GetDomain()) {
			g.Opset = o.GetVersion()
		}
	}
	for _, v := range pb.GetInput() {
		if g.inputs[v.GetName()] {
			return nil, fmt.Errorf("two graph inputs are named %q", v.GetName())
		}
		g.inputs[v.GetName()] = true
	}
	for _, t := range pb.GetInitializer() {
		if g.Consts[t.GetName()] != nil {
			return nil, fmt.Errorf("two initializers are named %q", t.GetName())
		}
		g.Consts[t.GetName()] = t
	}
	for _, s := range pb.GetSparseInitializer() {
		g.sparse[s.GetValues().GetName()] = s
	}
	for _, n := range pb.GetNode() {
		for _, out := range n.GetOutput() {
			if out == "" {
				continue
			}
			if g.Producer[out] != nil || g.inputs[out] || g.Initialized(out) {
				return nil, fmt.Errorf("tensor %q is computed twice", out)
			}
			g.Producer[out] = n
		}
	}
	if err := g.sort(); err != nil {
		return nil, err
	}
	for _, v := range pb.GetOutput() {
		if !g.Has(v.GetName()) {
			return nil, fmt.Errorf("no node computes the output %q", v.GetName())
		}
	}
	return g, nil
}

// sort fills order: the file's order if that is topological. ONNX requires it, but converters that append
// nodes do not always keep it.
func (g *Graph) sort() error {
	const (
		unseen = iota
		open
		done
	)
	state := make(map[*onnxpb.Node]int, len(g.Proto.GetNode()))
	type frame struct {
		node *onnxpb.Node
		deps []string
	}
	for _, root := range g.Proto.GetNode() {
		if state[root] != unseen {
			continue
		}
		state[root] = open
		stack := []frame{{root, onnxpb.Dependencies(root)}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.deps) == 0 {
				state[top.node] = done
				g.Order = append(g.Order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			name := top.deps[0]
			top.deps = top.deps[1:]
			g.Consumers[name] = append(g.Consumers[name], top.node)
			p := g.Producer[name]
			switch {
			case p == nil && !g.Has(name):
				return fmt.Errorf("%s reads %q, which no node computes", top.node.Describe(), name)
			case p == nil || state[p] == done:
			case state[p] == open:
				return fmt.Errorf("the graph has a cycle through %s", p.Describe())
			default:
				state[p] = open
				stack = append(stack, frame{p, onnxpb.Dependencies(p)})
			}
		}
	}
	return nil
}

// emptied returns a graph like g without its nodes, to be extended.
func (g *Graph) emptied() *Graph {
	view := *g
	view.Order = nil
	view.Consts, view.Producer = map[string]*onnxpb.Tensor{}, map[string]*onnxpb.Node{}
	view.Consumers, view.origin = map[string][]*onnxpb.Node{}, map[*onnxpb.Node]*onnxpb.Node{}
	for name, t := range g.Consts {
		view.Consts[name] = t
	}
	return &view
}

// extend appends the replacement of a node of old.
func (g *Graph) extend(old *Graph, n *onnxpb.Node, nodes []*onnxpb.Node, consts []*onnxpb.Tensor) {
	for _, t := range consts {
		g.Consts[t.GetName()] = t
	}
	for _, p := range nodes {
		if o := old.Source(n); p != o {
			g.origin[p] = o
		}
		g.Order = append(g.Order, p)
		for _, name := range onnxpb.Dependencies(p) {
			g.Consumers[name] = append(g.Consumers[name], p)
		}
		for _, out := range p.GetOutput() {
			if out != "" {
				g.Producer[out] = p
			}
		}
	}
}

// Source returns the node of the file that n is or was lowered from.
func (g *Graph) Source(n *onnxpb.Node) *onnxpb.Node {
	if o := g.origin[n]; o != nil {
		return o
	}
	return n
}

// Has reports whether name is a tensor of the graph.
func (g *Graph) Has(name string) bool {
	return g.Producer[name] != nil || g.inputs[name] || g.Initialized(name)
}

// Initialized reports whether name is an initializer, which makes it a constant even if it is also a
// graph input.
func (g *Graph) Initialized(name string) bool {
	return g.Consts[name] != nil || g.sparse[name] != nil
}

// Ancestors returns the nodes that a tensor depends on.
func (g *Graph) Ancestors(names ...string) map[*onnxpb.Node]bool {
	needed := map[*onnxpb.Node]bool{}
	for stack := slices.Clone(names); len(stack) > 0; {
		name := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n := g.Producer[name]; n != nil && !needed[n] {
			needed[n] = true
			stack = append(stack, onnxpb.Dependencies(n)...)
		}
	}
	return needed
}

// Descendants returns the nodes that depend on a tensor.
func (g *Graph) Descendants(name string) map[*onnxpb.Node]bool {
	found := map[*onnxpb.Node]bool{}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, n := range g.Consumers[queue[0]] {
			if !found[n] {
				found[n] = true
				queue = append(queue, n.GetOutput()...)
			}
		}
	}
	return found
}
