package graph

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// Bounds on the expansion of function calls. Functions that each call the next one twice could expand a
// few hundred bytes to any number of nodes; useful functions are called some dozen times.
const (
	maxInlined      = 1 << 19 // messages created: nodes, attributes, subgraphs and their contents
	minInlined      = 1 << 14 // the bound for a small model,
	maxInlinedRatio = 64      // and for a larger one, as a multiple of its own nodes and attributes
	maxInlinedBytes = 1 << 28 // size of the messages and their names
	maxCallDepth    = 100     // calls within calls
	maxPrefix       = 200     // bytes of the prefix of names inside a call
)

// Inline returns the model with the calls of its own functions expanded, in the main graph and the
// subgraphs of its nodes. A model without such calls is returned as it is; m is never changed.
//
// Inside a call, tensors and nodes are named CALL/NAME, after the calling node or, if it has no name, its
// first output, with a number if that is taken. Types and shapes that the model declares for tensors of a
// function are dropped.
//
// Some calls are not expanded: of functions in the default domain, where ONNX does not say whether the
// function or the standard operator is meant; of functions that use an operator in another version than
// the model imports; and of malformed functions. Recursive functions, and calls that expand beyond the
// bounds above, are errors.
func Inline(m *onnxpb.Model) (*onnxpb.Model, error) {
	return newInliner(m).inline(m)
}

func (x *inliner) inline(m *onnxpb.Model) (*onnxpb.Model, error) {
	if len(x.functions) == 0 {
		return m, nil
	}
	// Count before creating anything.
	if x.expanded(m.GetGraph().GetNode(), map[*onnxpb.Function]int64{}, 0) > x.limit {
		return nil, x.expandsTooFar()
	}
	x.messages = x.limit
	x.tensors.Take(m.GetGraph())
	x.nodes.Take(m.GetGraph())
	nodes := x.expand(m.GetGraph().GetNode())
	if x.err != nil {
		return nil, x.err
	}
	if !x.changed {
		return m, nil
	}
	m = onnxpb.Shallow(m)
	m.Graph = onnxpb.Shallow(m.GetGraph())
	m.Graph.Node = nodes
	m.OpsetImport = append(slices.Clip(m.OpsetImport), x.imports...)
	m.Functions = onnxpb.UsedFunctions(nodes, m.GetFunctions())
	return m, nil
}

// functionID is how a node names the function that it calls.
type functionID struct{ domain, name, overload string }

type inliner struct {
	functions              map[functionID]*onnxpb.Function // the functions whose calls can be expanded
	versions               map[string]int64                // what the model imports, by domain
	imports                []*onnxpb.OperatorSet           // additional imports that it needs
	tensors, nodes, groups onnxpb.Namer
	calls                  []*onnxpb.Function // being expanded
	limit, messages, bytes int64              // the bound on messages; messages and bytes that may still be created
	changed                bool
	err                    error
}

func newInliner(m *onnxpb.Model) *inliner {
	x := &inliner{functions: map[functionID]*onnxpb.Function{}, versions: map[string]int64{}, bytes: maxInlinedBytes}
	x.limit = min(maxInlined, minInlined+maxInlinedRatio*own(m))
	for _, o := range m.GetOpsetImport() {
		x.versions[canonical(o.GetDomain())] = o.GetVersion()
	}
	all := map[functionID]int{}
	for _, f := range m.GetFunctions() {
		all[idOf(f)]++
	}
	for _, f := range m.GetFunctions() {
		// Two functions with the same name are ambiguous.
		if all[idOf(f)] > 1 || onnxpb.IsDefault(f.GetDomain()) || !wellFormed(f) || !x.compatible(f, all) {
			continue
		}
		x.functions[idOf(f)] = f
		for _, o := range f.GetOpsetImport() { // a model need not import domains that only its functions use
			if _, ok := x.versions[canonical(o.GetDomain())]; !ok {
				x.versions[canonical(o.GetDomain())] = o.GetVersion()
				x.imports = append(x.imports, o)
			}
		}
	}
	return x
}

func idOf(f *onnxpb.Function) functionID {
	return functionID{f.GetDomain(), f.GetName(), f.GetOverload()}
}

// canonical returns the one name of a domain.
func canonical(domain string) string {
	if onnxpb.IsDefault(domain) {
		return ""
	}
	return domain
}

// wellFormed reports whether each tensor of a function is produced once, and every tensor that is read is
// produced.
func wellFormed(f *onnxpb.Function) bool {
	made := map[string]bool{"": true}
	add := func(name string) bool {
		twice := made[name]
		made[name] = true
		return !twice
	}
	for _, name := range f.GetInput() {
		if !add(name) {
			return false
		}
	}
	for _, n := range f.GetNode() {
		for _, out := range n.GetOutput() {
			if out != "" && !add(out) {
				return false
			}
		}
	}
	for _, n := range f.GetNode() {
		for _, name := range onnxpb.Dependencies(n) {
			if !made[name] {
				return false
			}
		}
	}
	for _, name := range f.GetOutput() {
		if name == "" || !made[name] {
			return false
		}
	}
	return true
}

// compatible reports whether the operators a function uses are of the versions that the model
// imports, or of domains that the model does not import. Functions have no versions.
func (x *inliner) compatible(f *onnxpb.Function, functions map[functionID]int) bool {
	versions := map[string]int64{}
	for _, o := range f.GetOpsetImport() {
		versions[canonical(o.GetDomain())] = o.GetVersion()
	}
	ok := true
	onnxpb.EachNode(f.GetNode(), func(n *onnxpb.Node) {
		if functions[calledBy(n)] > 0 {
			return
		}
		own, imported := versions[canonical(n.GetDomain())]
		model, known := x.versions[canonical(n.GetDomain())]
		ok = ok && imported && (own == model || !known)
	})
	return ok
}

func calledBy(n *onnxpb.Node) functionID {
	return functionID{n.GetDomain(), n.GetOpType(), n.GetOverload()}
}

// expand returns nodes with the calls among them, and in their subgraphs, expanded.
func (x *inliner) expand(nodes []*onnxpb.Node) []*onnxpb.Node {
	var out []*onnxpb.Node
	for _, n := range nodes {
		if x.err != nil {
			return nil
		}
		n = x.expandSubgraphs(n)
		f := x.functions[calledBy(n)]
		if f == nil {
			out = append(out, n)
			continue
		}
		body, ok := x.body(n, f)
		if !ok {
			out = append(out, n)
			continue
		}
		x.changed = true
		out = append(out, body...)
	}
	return out
}

// expandSubgraphs returns n itself if nothing in its subgraphs is a call.
func (x *inliner) expandSubgraphs(n *onnxpb.Node) *onnxpb.Node {
	found := false
	for _, a := range n.GetAttribute() {
		for _, g := range onnxpb.Subgraphs(a) {
			onnxpb.EachNode(g.GetNode(), func(n *onnxpb.Node) { found = found || x.functions[calledBy(n)] != nil })
		}
	}
	if !found {
		return n
	}
	n = onnxpb.Shallow(n)
	n.Attribute = slices.Clone(n.Attribute)
	for i, a := range n.Attribute {
		n.Attribute[i] = onnxpb.WithSubgraphs(a, func(g *onnxpb.Graph) *onnxpb.Graph {
			g = onnxpb.Shallow(g)
			g.Node = x.expand(g.Node)
			return g
		})
	}
	return n
}

// body returns the expansion of the node call, and false if it does not fit the function.
func (x *inliner) body(call *onnxpb.Node, f *onnxpb.Function) ([]*onnxpb.Node, bool) {
	if len(call.GetInput()) > len(f.GetInput()) || len(call.GetOutput()) > len(f.GetOutput()) {
		return nil, false
	}
	if slices.Contains(x.calls, f) {
		x.err = fmt.Errorf("the function %s calls itself", describeFunction(f))
		return nil, false
	}
	if len(x.calls) == maxCallDepth {
		x.err = fmt.Errorf("functions call one another more than %d deep, the last %s", maxCallDepth,
			describeFunction(f))
		return nil, false
	}
	c := &expansion{x: x, prefix: x.prefix(call, f), attributes: map[string]*onnxpb.Attribute{}}
	for _, a := range slices.Concat(f.GetAttributeProto(), call.GetAttribute()) {
		c.attributes[a.GetName()] = a // the call overrides the default
	}
	s := &scope{names: map[string]string{}}
	for i, name := range f.GetInput() {
		s.names[name] = call.In(i)
	}
	var copies []*onnxpb.Node
	for i, out := range call.GetOutput() {
		if out == "" {
			continue
		}
		name := f.GetOutput()[i]
		if from, ok := s.names[name]; ok { // an input, or the same as another output
			if from == "" {
				return nil, false
			}
			identity := "Identity"
			copies = append(copies, &onnxpb.Node{OpType: &identity, Input: []string{from}, Output: []string{out}})
			continue
		}
		s.names[name] = out
	}
	x.charge(int64(1+len(copies)), 0)
	nodes := append(c.nodes(f.GetNode(), s), copies...)
	for _, n := range nodes {
		x.charge(0, int64(proto.Size(n)))
	}
	x.calls = append(x.calls, f)
	nodes = x.expand(nodes)
	x.calls = x.calls[:len(x.calls)-1]
	return nodes, true
}

func describeFunction(f *onnxpb.Function) string {
	return onnxpb.Printable(f.GetDomain() + "." + f.GetName())
}

// prefix returns the prefix of names inside a call.
func (x *inliner) prefix(call *onnxpb.Node, f *onnxpb.Function) string {
	name := call.Label()
	if name == "" || len(name) > maxPrefix {
		name = f.GetName()
	}
	if len(name) > maxPrefix {
		name = "call"
	}
	return x.groups.Fresh(name) + "/"
}

// charge counts what has been created.
func (x *inliner) charge(messages, bytes int64) {
	x.messages -= messages
	x.bytes -= bytes
	if x.err == nil && (x.messages < 0 || x.bytes < 0) {
		x.err = x.expandsTooFar()
	}
}

func (x *inliner) expandsTooFar() error {
	return fmt.Errorf("the model's functions expand to more than %d nodes and attributes or %d MiB, too many for a file of this size",
		x.limit, maxInlinedBytes>>20)
}

// own counts the nodes and attributes in a model's file.
func own(m *onnxpb.Model) (n int64) {
	count := func(node *onnxpb.Node) { n += int64(1 + len(node.GetAttribute())) }
	onnxpb.EachNode(m.GetGraph().GetNode(), count)
	for _, f := range m.GetFunctions() {
		onnxpb.EachNode(f.GetNode(), count)
	}
	return n
}

// expanded counts the nodes and attributes that nodes expand to, up to one more than the bound. known
// has the counts of functions, 0 while counting: recursion is found when functions are expanded.
func (x *inliner) expanded(nodes []*onnxpb.Node, known map[*onnxpb.Function]int64, depth int) (n int64) {
	onnxpb.EachNode(nodes, func(node *onnxpb.Node) {
		n += int64(1 + len(node.GetAttribute()))
		if f := x.functions[calledBy(node)]; f != nil && depth <= maxCallDepth {
			if _, ok := known[f]; !ok {
				known[f] = 0
				known[f] = x.expanded(f.GetNode(), known, depth+1)
			}
			n += known[f]
		}
		n = min(n, maxInlined+1)
	})
	return n
}

// An expansion is one call being expanded.
type expansion struct {
	x          *inliner
	prefix     string
	attributes map[string]*onnxpb.Attribute // of the call, by the function's names
}

// A scope maps the names that a function, or a subgraph in it, defines to new names.
type scope struct {
	names map[string]string
	outer *scope
}

// get returns the new name, "" for an input that the call omits.
func (s *scope) get(name string) string {
	for ; s != nil; s = s.outer {
		if to, ok := s.names[name]; ok {
			return to
		}
	}
	return ""
}

func (s *scope) all(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = s.get(name)
	}
	return out
}

// define gives a name a new one, unless it has one in this scope.
func (c *expansion) define(s *scope, name string) string {
	if name == "" || c.x.err != nil {
		return ""
	}
	if to, ok := s.names[name]; ok {
		return to
	}
	to := c.x.tensors.Fresh(c.prefix + strings.TrimPrefix(name, "/"))
	s.names[name] = to
	c.x.charge(0, int64(len(to)))
	return to
}

// nodes returns copies of nodes with new names.
func (c *expansion) nodes(list []*onnxpb.Node, s *scope) []*onnxpb.Node {
	for _, n := range list {
		for _, out := range n.GetOutput() {
			c.define(s, out)
		}
	}
	var out []*onnxpb.Node
	for _, n := range list {
		c.x.charge(int64(1+len(n.GetAttribute())), 0)
		if c.x.err != nil {
			return nil
		}
		to := &onnxpb.Node{OpType: n.OpType, Domain: n.Domain, Overload: n.Overload, Input: s.all(n.GetInput()),
			Output: s.all(n.GetOutput())}
		if unknown := n.ProtoReflect().GetUnknown(); len(unknown) > 0 {
			to.ProtoReflect().SetUnknown(unknown)
		}
		if n.GetName() != "" {
			to.Name = proto.String(c.x.nodes.Fresh(c.prefix + strings.TrimPrefix(n.GetName(), "/")))
			c.x.charge(0, int64(len(to.GetName())))
		}
		for _, a := range n.GetAttribute() {
			if a = c.attribute(a, s); a != nil {
				to.Attribute = append(to.Attribute, a)
			}
		}
		out = append(out, to)
	}
	return out
}

// attribute returns an attribute with its reference resolved or its subgraphs renamed; nil if it refers
// to an attribute that neither the call nor the function has.
func (c *expansion) attribute(a *onnxpb.Attribute, s *scope) *onnxpb.Attribute {
	if a.GetRefAttrName() == "" {
		return onnxpb.WithSubgraphs(a, func(g *onnxpb.Graph) *onnxpb.Graph { return c.graph(g, s) })
	}
	given := c.attributes[a.GetRefAttrName()]
	if given == nil {
		return nil
	}
	given = onnxpb.Shallow(given)
	given.Name = a.Name
	return given
}

// graph returns a renamed subgraph.
func (c *expansion) graph(g *onnxpb.Graph, outer *scope) *onnxpb.Graph {
	c.x.charge(int64(1+len(g.GetInput())+len(g.GetOutput())+len(g.GetInitializer())+len(g.GetSparseInitializer())), 0)
	if c.x.err != nil {
		return nil
	}
	s := &scope{map[string]string{}, outer}
	g = onnxpb.Shallow(g)
	g.ValueInfo = nil
	return onnxpb.Renamed(g, func(name string) string { return c.define(s, name) }, s.get,
		func(nodes []*onnxpb.Node) []*onnxpb.Node { return c.nodes(nodes, s) })
}
