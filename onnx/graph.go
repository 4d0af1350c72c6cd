package onnx

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A graph is the main graph of a model with its connections: who makes a tensor, who reads it, and an order in which
// every node stands behind those it depends on.
type graph struct {
	pb        *onnxpb.Graph
	opset     int64 // of the default domain
	consts    map[string]*onnxpb.Tensor
	sparse    map[string]*onnxpb.SparseTensor
	inputs    map[string]bool // graph inputs, initialized or not
	producer  map[string]*onnxpb.Node
	consumers map[string][]*onnxpb.Node
	order     []*onnxpb.Node
	origin    map[*onnxpb.Node]*onnxpb.Node // of lowered nodes: the one of the file
}

func newGraph(m *onnxpb.Model) (*graph, error) {
	pb := m.GetGraph()
	g := &graph{
		pb:        pb,
		consts:    map[string]*onnxpb.Tensor{},
		sparse:    map[string]*onnxpb.SparseTensor{},
		inputs:    map[string]bool{},
		producer:  map[string]*onnxpb.Node{},
		consumers: map[string][]*onnxpb.Node{},
	}
	for _, o := range m.GetOpsetImport() {
		if isDefault(o.GetDomain()) {
			g.opset = o.GetVersion()
		}
	}
	for _, v := range pb.GetInput() {
		if g.inputs[v.GetName()] {
			return nil, fmt.Errorf("two graph inputs are named %q", v.GetName())
		}
		g.inputs[v.GetName()] = true
	}
	for _, t := range pb.GetInitializer() {
		if g.consts[t.GetName()] != nil {
			return nil, fmt.Errorf("two initializers are named %q", t.GetName())
		}
		g.consts[t.GetName()] = t
	}
	for _, s := range pb.GetSparseInitializer() {
		if err := checkSparse(s); err != nil {
			return nil, err
		}
		g.sparse[s.GetValues().GetName()] = s
	}
	for _, n := range pb.GetNode() {
		for _, out := range n.GetOutput() {
			if out == "" {
				continue
			}
			if g.producer[out] != nil || g.inputs[out] || g.initialized(out) {
				return nil, fmt.Errorf("tensor %q is made twice", out)
			}
			g.producer[out] = n
		}
	}
	if err := g.sort(); err != nil {
		return nil, err
	}
	for _, v := range pb.GetOutput() {
		if !g.has(v.GetName()) {
			return nil, fmt.Errorf("nothing makes the output %q", v.GetName())
		}
	}
	return g, nil
}

// sort fills order: the file's own order where that is already a topological one. ONNX asks for that, but converters
// that append nodes do not always keep it.
func (g *graph) sort() error {
	const (
		unseen = iota
		open
		done
	)
	state := make(map[*onnxpb.Node]int, len(g.pb.GetNode()))
	type frame struct {
		node *onnxpb.Node
		deps []string
	}
	for _, root := range g.pb.GetNode() {
		if state[root] != unseen {
			continue
		}
		state[root] = open
		stack := []frame{{root, dependencies(root)}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.deps) == 0 {
				state[top.node] = done
				g.order = append(g.order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			name := top.deps[0]
			top.deps = top.deps[1:]
			g.consumers[name] = append(g.consumers[name], top.node)
			p := g.producer[name]
			switch {
			case p == nil && !g.has(name):
				return fmt.Errorf("%s reads %q, which nothing makes", describe(top.node), name)
			case p == nil || state[p] == done:
			case state[p] == open:
				return fmt.Errorf("the graph has a cycle through %s", describe(p))
			default:
				state[p] = open
				stack = append(stack, frame{p, dependencies(p)})
			}
		}
	}
	return nil
}

// emptied returns a graph like g without its nodes, to be extended.
func (g *graph) emptied() *graph {
	view := *g
	view.order = nil
	view.consts, view.producer = map[string]*onnxpb.Tensor{}, map[string]*onnxpb.Node{}
	view.consumers, view.origin = map[string][]*onnxpb.Node{}, map[*onnxpb.Node]*onnxpb.Node{}
	for name, t := range g.consts {
		view.consts[name] = t
	}
	return &view
}

// extend appends what stands in the place of a node of old.
func (g *graph) extend(old *graph, n *onnxpb.Node, nodes []*onnxpb.Node, consts []*onnxpb.Tensor) {
	for _, t := range consts {
		g.consts[t.GetName()] = t
	}
	for _, p := range nodes {
		if o := old.source(n); p != o {
			g.origin[p] = o
		}
		g.order = append(g.order, p)
		for _, name := range dependencies(p) {
			g.consumers[name] = append(g.consumers[name], p)
		}
		for _, out := range p.GetOutput() {
			if out != "" {
				g.producer[out] = p
			}
		}
	}
}

// source returns the node of the file that n is, or stands for.
func (g *graph) source(n *onnxpb.Node) *onnxpb.Node {
	if o := g.origin[n]; o != nil {
		return o
	}
	return n
}

// has reports whether name is a tensor of the graph.
func (g *graph) has(name string) bool {
	return g.producer[name] != nil || g.inputs[name] || g.initialized(name)
}

// initialized reports whether name is an initializer, which makes it a constant even where it is a graph input too.
func (g *graph) initialized(name string) bool {
	return g.consts[name] != nil || g.sparse[name] != nil
}

// dependencies returns the tensors a node reads, each once: its inputs and what its subgraphs capture from outside.
func dependencies(n *onnxpb.Node) []string {
	seen := map[string]bool{"": true}
	var deps []string
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			deps = append(deps, name)
		}
	}
	for _, in := range n.GetInput() {
		add(in)
	}
	for _, a := range n.GetAttribute() {
		for _, g := range subgraphs(a) {
			captures(g, add)
		}
	}
	return deps
}

func subgraphs(a *onnxpb.Attribute) []*onnxpb.Graph {
	if a.GetG() == nil {
		return a.GetGraphs()
	}
	return append([]*onnxpb.Graph{a.GetG()}, a.GetGraphs()...)
}

// captures calls add for the tensors that g takes from the graph around it.
func captures(g *onnxpb.Graph, add func(string)) {
	own := map[string]bool{"": true}
	for _, v := range g.GetInput() {
		own[v.GetName()] = true
	}
	for _, t := range g.GetInitializer() {
		own[t.GetName()] = true
	}
	for _, s := range g.GetSparseInitializer() {
		own[s.GetValues().GetName()] = true
	}
	for _, n := range g.GetNode() {
		for _, out := range n.GetOutput() {
			own[out] = true
		}
	}
	outer := func(name string) {
		if !own[name] {
			add(name)
		}
	}
	for _, n := range g.GetNode() {
		for _, name := range dependencies(n) {
			outer(name)
		}
	}
	for _, v := range g.GetOutput() {
		outer(v.GetName())
	}
}

func isDefault(domain string) bool { return domain == "" || domain == "ai.onnx" }

// describe names a node for people: its operator with the name or, where it has none, the first output.
func describe(n *onnxpb.Node) string {
	return fmt.Sprintf(`%s "%s"`, printable(opName(n)), printable(nodeName(n)))
}

// printable escapes what would break a line, and cuts what would fill a page.
func printable(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Trim(strconv.Quote(s), `"`)
}

// opName returns the operator with its domain, if that is not the default one.
func opName(n *onnxpb.Node) string {
	if isDefault(n.GetDomain()) {
		return n.GetOpType()
	}
	return n.GetDomain() + "." + n.GetOpType()
}

func nodeName(n *onnxpb.Node) string {
	if n.GetName() != "" || len(n.GetOutput()) == 0 {
		return n.GetName()
	}
	return n.GetOutput()[0]
}

// attribute returns the named attribute, nil if the node has none.
func attribute(n *onnxpb.Node, name string) *onnxpb.Attribute {
	for _, a := range n.GetAttribute() {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

func attrInt(n *onnxpb.Node, name string, otherwise int64) int64 {
	if a := attribute(n, name); a != nil {
		return a.GetI()
	}
	return otherwise
}

func attrFloat(n *onnxpb.Node, name string, otherwise float64) float64 {
	if a := attribute(n, name); a != nil {
		return float64(a.GetF())
	}
	return otherwise
}

// input returns the name of a node's i-th input, "" where it is left out.
func input(n *onnxpb.Node, i int) string {
	if i < len(n.GetInput()) {
		return n.GetInput()[i]
	}
	return ""
}
