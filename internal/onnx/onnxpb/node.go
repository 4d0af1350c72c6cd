package onnxpb

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Dependencies returns the tensors that a node reads, each once: its inputs and what its subgraphs
// capture.
func Dependencies(n *Node) []string {
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
		for _, g := range Subgraphs(a) {
			captures(g, add)
		}
	}
	return deps
}

func Subgraphs(a *Attribute) []*Graph {
	if a.GetG() == nil {
		return a.GetGraphs()
	}
	return append([]*Graph{a.GetG()}, a.GetGraphs()...)
}

// captures calls add for the tensors that g captures from the outer graph.
func captures(g *Graph, add func(string)) {
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
		for _, name := range Dependencies(n) {
			outer(name)
		}
	}
	for _, v := range g.GetOutput() {
		outer(v.GetName())
	}
}

func IsDefault(domain string) bool { return domain == "" || domain == "ai.onnx" }

// Describe names a node for messages: its operator and its name or, if it has none, its first output.
func (n *Node) Describe() string {
	return fmt.Sprintf(`%s "%s"`, Printable(n.Op()), Printable(n.Label()))
}

// Printable escapes line breaks and the like, and shortens long names.
func Printable(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Trim(strconv.Quote(s), `"`)
}

// Op returns the operator with its domain, if that is not the default one.
func (n *Node) Op() string {
	if IsDefault(n.GetDomain()) {
		return n.GetOpType()
	}
	return n.GetDomain() + "." + n.GetOpType()
}

func (n *Node) Label() string {
	if n.GetName() != "" || len(n.GetOutput()) == 0 {
		return n.GetName()
	}
	return n.GetOutput()[0]
}

// Attr returns the named attribute, nil if the node has none.
func (n *Node) Attr(name string) *Attribute {
	for _, a := range n.GetAttribute() {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

func (n *Node) Int(name string, otherwise int64) int64 {
	if a := n.Attr(name); a != nil {
		return a.GetI()
	}
	return otherwise
}

func (n *Node) Float(name string, otherwise float64) float64 {
	if a := n.Attr(name); a != nil {
		return float64(a.GetF())
	}
	return otherwise
}

// In returns the name of a node's i-th input, "" if it is omitted.
func (n *Node) In(i int) string {
	if i < len(n.GetInput()) {
		return n.GetInput()[i]
	}
	return ""
}

// EachNode calls do for nodes and the nodes of their subgraphs.
func EachNode(nodes []*Node, do func(*Node)) {
	for _, n := range nodes {
		do(n)
		for _, a := range n.GetAttribute() {
			for _, g := range Subgraphs(a) {
				EachNode(g.GetNode(), do)
			}
		}
	}
}

// WithSubgraphs returns an attribute with changed subgraphs.
func WithSubgraphs(a *Attribute, change func(*Graph) *Graph) *Attribute {
	if len(Subgraphs(a)) == 0 {
		return a
	}
	a = Shallow(a)
	if a.G != nil {
		a.G = change(a.G)
	}
	a.Graphs = slices.Clone(a.Graphs)
	for i, g := range a.Graphs {
		a.Graphs[i] = change(g)
	}
	return a
}

// UsedFunctions returns the model-local functions that nodes call, directly or through others.
func UsedFunctions(nodes []*Node, functions []*Function) []*Function {
	type id struct{ domain, name string }
	byName := map[id][]*Function{}
	for _, f := range functions {
		key := id{f.GetDomain(), f.GetName()}
		byName[key] = append(byName[key], f)
	}
	used := map[*Function]bool{}
	var visit func([]*Node)
	visit = func(nodes []*Node) {
		for _, n := range nodes {
			for _, f := range byName[id{n.GetDomain(), n.GetOpType()}] {
				if !used[f] {
					used[f] = true
					visit(f.GetNode())
				}
			}
			for _, a := range n.GetAttribute() {
				for _, g := range Subgraphs(a) {
					visit(g.GetNode())
				}
			}
		}
	}
	visit(nodes)
	return slices.DeleteFunc(slices.Clone(functions), func(f *Function) bool { return !used[f] })
}

// Shallow returns a shallow copy of a message.
func Shallow[M interface {
	*T
	proto.Message
}, T any](m M) M {
	c := M(new(T))
	src, dst := m.ProtoReflect(), c.ProtoReflect()
	for fd, v := range src.Range {
		dst.Set(fd, v)
	}
	dst.SetUnknown(src.GetUnknown())
	return c
}

// TensorInfo describes a tensor; a negative dimension is open.
func TensorInfo(name string, typ tensor.Type, dims ...int64) *ValueInfo {
	shape := new(Shape)
	for _, d := range dims {
		dim := new(Dimension)
		if d >= 0 {
			dim.Value = &Dimension_DimValue{DimValue: d}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &ValueInfo{Name: &name, Type: &Type{
		TensorType: &TensorType{ElemType: proto.Int32(int32(typ)), Shape: shape}}}
}

// The values of Attribute.type in use.
const (
	TypeFloat  = 1
	TypeInt    = 2
	TypeTensor = 4
	TypeGraph  = 5
	typeInts   = 7
)

func IntAttribute(name string, x int64) *Attribute {
	return &Attribute{Name: &name, Type: proto.Int32(TypeInt), I: &x}
}

func IntsAttribute(name string, list ...int64) *Attribute {
	return &Attribute{Name: &name, Type: proto.Int32(typeInts), Ints: list}
}

func FloatAttribute(name string, x float32) *Attribute {
	return &Attribute{Name: &name, Type: proto.Int32(TypeFloat), F: &x}
}

func GraphAttribute(name string, g *Graph) *Attribute {
	return &Attribute{Name: &name, Type: proto.Int32(TypeGraph), G: g}
}

// A Namer returns unused names.
type Namer struct {
	Taken map[string]bool
	next  map[string]int // the next number to try
}

// Take marks every name of a graph as used.
func (n *Namer) Take(g *Graph) {
	n.Taken = map[string]bool{}
	allNames(g, n.Taken)
}

// Fresh returns want, with a number if it is used.
func (n *Namer) Fresh(want string) string {
	if n.Taken == nil {
		n.Taken = map[string]bool{}
	}
	if n.next == nil {
		n.next = map[string]int{}
	}
	name := want
	for n.Taken[name] {
		n.next[want]++
		name = fmt.Sprintf("%s_%d", want, n.next[want])
	}
	n.Taken[name] = true
	return name
}

// allNames collects the names of all tensors and nodes, including those of subgraphs, which must not
// shadow outer ones.
func allNames(g *Graph, names map[string]bool) {
	for _, list := range [][]*ValueInfo{g.GetInput(), g.GetOutput(), g.GetValueInfo()} {
		for _, v := range list {
			names[v.GetName()] = true
		}
	}
	for _, t := range g.GetInitializer() {
		names[t.GetName()] = true
	}
	for _, s := range g.GetSparseInitializer() {
		names[s.GetValues().GetName()] = true
	}
	for _, n := range g.GetNode() {
		names[n.GetName()] = true
		for _, out := range n.GetOutput() {
			names[out] = true
		}
		for _, a := range n.GetAttribute() {
			for _, sub := range Subgraphs(a) {
				allNames(sub, names)
			}
		}
	}
}

// Elements returns the product of dims and whether all are known, non-negative and their product
// fits an int64 with room for any element size.
func Elements(dims []int64) (int64, bool) {
	n := int64(1)
	for _, d := range dims {
		if d < 0 || d > math.MaxInt64/128/max(n, 1) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// MapNodes returns copies of nodes with changed subgraphs, for do to change further.
func MapNodes(nodes []*Node, subgraph func(*Graph) *Graph, do func(*Node)) []*Node {
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		n = Shallow(n)
		n.Attribute = slices.Clone(n.Attribute)
		for j, a := range n.Attribute {
			n.Attribute[j] = WithSubgraphs(a, subgraph)
		}
		do(n)
		nodes[i] = n
	}
	return nodes
}

// Renamed returns a renamed graph: define names its inputs and constants, then nodes makes its nodes, and
// use names its outputs and value infos.
func Renamed(g *Graph, define, use func(string) string, nodes func([]*Node) []*Node) *Graph {
	values := func(list []*ValueInfo, name func(string) string) []*ValueInfo {
		list = slices.Clone(list)
		for i, v := range list {
			list[i] = Shallow(v)
			list[i].Name = proto.String(name(v.GetName()))
		}
		return list
	}
	g = Shallow(g)
	g.Input = values(g.Input, define)
	g.Initializer = slices.Clone(g.Initializer)
	for i, t := range g.Initializer {
		g.Initializer[i] = Shallow(t)
		g.Initializer[i].Name = proto.String(define(t.GetName()))
	}
	g.SparseInitializer = slices.Clone(g.SparseInitializer)
	for i, t := range g.SparseInitializer {
		if t.Values != nil {
			t = Shallow(t)
			t.Values = Shallow(t.Values)
			t.Values.Name = proto.String(define(t.Values.GetName()))
			g.SparseInitializer[i] = t
		}
	}
	g.Node = nodes(g.Node)
	g.ValueInfo, g.Output = values(g.ValueInfo, use), values(g.Output, use)
	return g
}
