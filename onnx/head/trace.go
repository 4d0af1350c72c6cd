package head

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/tensor"
	"github.com/mfgs/mfgs/onnx/internal/graph"
	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A flow is what is known of the tensor that carries the logits, at one point between the linear layer and the output.
type flow struct {
	graph.Value
	class  int  // the axis along which the classes lie, or noClass
	merged bool // axis 0 is that of all positions of all examples
	flat   bool // axis 2 is that of all positions of a map
}

// timeFirst reports whether the flow holds rows of K numbers behind two axes, of which the first may be that of positions and
// the second that of examples. Whether it is shows when the model is run: there are as many rows as examples, or not.
func (f *flow) timeFirst() bool {
	return f.class == 2 && len(f.Dims) == 3 && f.Dims[0] != 1 && !f.merged && !f.flat
}

// noClass is the class axis of a flow in which the classes have no axis of their own any more, or it is not known.
const noClass = -1

// rows reports whether the flow holds one row of K numbers per example, whatever axes of length 1 lie between.
func (f *flow) rows() bool {
	if f.class < 1 || f.merged || f.flat {
		return false
	}
	for i, d := range f.Dims[1:] {
		if i+1 != f.class && d != 1 {
			return false
		}
	}
	return true
}

// A hop is one operator passed on the way back from the output, or several that are known together as one.
type hop struct {
	node   *onnxpb.Node // the last of them
	from   string       // the tensor the logits come by
	step   *step
	factor *factor // where the logits are multiplied by something that varies
	common string  // where something that is the same for all classes is added to them,
	minus  bool    // or they are subtracted from it
	out    string  // what has been followed of the node's outputs
}

// A factor is what logits are multiplied or divided by: a number for each example or all, that depends on the input, and
// a constant.
type factor struct {
	varying, constant string // constant may be ""
}

// describe names a node for people, and the one of the file that it is part of.
func (f *finder) describe(n *onnxpb.Node) string {
	if s := f.g.Source(n); s != n {
		return onnxpb.OpName(n) + " of " + onnxpb.Describe(s)
	}
	return onnxpb.Describe(n)
}

// trace goes back from a tensor to the linear layer it comes from, and forward again to see what happens to the logits.
func (f *finder) trace(start string) (*Head, error) {
	t, err := f.reach(start)
	if err != nil {
		return nil, err
	}
	return f.finish(t, start)
}

// reach goes back from a tensor to linear layers and forward again to it.
func (f *finder) reach(start string) (*trail, error) {
	const far = 1 << 12
	var path []hop // from the output back
	for t := start; ; {
		if len(path) == far {
			return nil, graph.Refuse("more than %d operators lead to %q, and none is a linear layer", far, start)
		}
		n := f.g.Producer[t]
		switch {
		case f.constant(t):
			return nil, graph.Refuse("%q is a constant", t)
		case n == nil:
			return nil, graph.Refuse("no linear layer stands between the input %q and %q", t, start)
		}
		if n.GetOutput()[0] == t {
			l, err := f.linear(n)
			if err != nil {
				return nil, err
			}
			if l != nil {
				from, err := f.beginning(l)
				if err != nil {
					return nil, err
				}
				return f.follow(from, path)
			}
		}
		h := f.shifted(n)
		if h == nil {
			from, err := f.sum(n)
			if err != nil {
				return nil, err
			}
			if from == nil {
				from, err = f.joined(n)
				if err != nil {
					return nil, err
				}
			}
			if from != nil {
				return f.follow(from, path)
			}
			h = f.back(n, t)
		}
		if h == nil {
			return nil, f.obstacle(n, start)
		}
		t = h.from
		path = append(path, *h)
	}
}

// step returns how a node may be passed, nil if it may not.
func (f *finder) step(n *onnxpb.Node) *step {
	if n == nil || f.In.Functions[onnxpb.OpName(n)] {
		return nil
	}
	return steps[onnxpb.OpName(n)]
}

// back returns how the tensor t, an output of n, comes from the logits; nil if n is no step that can be passed.
func (f *finder) back(n *onnxpb.Node, t string) *hop {
	s := f.step(n)
	if s == nil || s.asked && !f.approximate || n.GetOutput()[0] != t && !s.anyOutput {
		return nil
	}
	h := &hop{node: n, step: s, out: t}
	for i, name := range n.GetInput() {
		if name == "" || f.constant(name) {
			continue
		}
		// Only an addition or a product takes the logits on any side; a shape or an index may be computed.
		if i > 0 && s.chooses {
			continue
		}
		if h.from != "" {
			return f.scaled(n)
		}
		if i > 0 && !s.affine && !s.anySide {
			return nil
		}
		h.from = name
	}
	if h.from == "" {
		return nil
	}
	return h
}

// shifted recognises a sum or difference of logits and something that varies but is the same for all classes, along whatever
// axis those lie; nil if n is no such.
func (f *finder) shifted(n *onnxpb.Node) *hop {
	op := onnxpb.OpName(n)
	if op != "Add" && op != "Sub" || f.In.Functions[op] || len(n.GetInput()) != 2 {
		return nil
	}
	for i := 1; i >= 0; i-- {
		r, x := onnxpb.Input(n, i), onnxpb.Input(n, 1-i)
		if f.constant(r) || f.constant(x) || r == x {
			continue
		}
		for _, axis := range f.axesOf(n) {
			if f.common(r, axis) && !f.common(x, axis) {
				return &hop{node: n, from: x, out: n.GetOutput()[0], step: shift, common: r, minus: op == "Sub" && i == 0}
			}
		}
	}
	return nil
}

// axesOf returns the axes along which the classes may lie in what a node gives, as interpreter.common takes them.
func (f *finder) axesOf(n *onnxpb.Node) []int64 {
	if rank := len(f.In.Get(n.GetOutput()[0]).Dims); rank > 2 {
		return []int64{-1, int64(1 - rank)}
	}
	return []int64{-1, 1}
}

// common reports whether a tensor is known not to vary along an axis.
func (f *finder) common(name string, axis int64) bool {
	fuel := 200
	return f.In.Common(name, axis, &fuel)
}

// scaled recognises a product or quotient of logits with something else that varies but is the same for all classes.
func (f *finder) scaled(n *onnxpb.Node) *hop {
	op := n.GetOpType()
	if !onnxpb.IsDefault(n.GetDomain()) || op != "Mul" && op != "Div" || len(n.GetInput()) != 2 {
		return nil
	}
	for i := 1; i >= 0; i-- {
		by := f.factor(onnxpb.Input(n, i))
		if by == nil || f.factor(onnxpb.Input(n, 1-i)) != nil {
			continue
		}
		if op == "Div" && i == 0 {
			return nil
		}
		return &hop{node: n, from: onnxpb.Input(n, 1-i), step: steps["Mul"], factor: by}
	}
	return nil
}

// factor returns a tensor as something that is the same for all classes times a constant, nil if it is not known to be.
func (f *finder) factor(name string) *factor {
	if n := f.g.Producer[name]; n != nil && onnxpb.OpName(n) == "Mul" && !f.In.Functions["Mul"] {
		for i := range 2 {
			if f.constant(onnxpb.Input(n, i)) && f.single(onnxpb.Input(n, 1-i)) {
				return &factor{varying: onnxpb.Input(n, 1-i), constant: onnxpb.Input(n, i)}
			}
		}
	}
	if f.single(name) {
		return &factor{varying: name}
	}
	return nil
}

// single reports whether a tensor is known to hold a single number.
func (f *finder) single(name string) bool {
	v := f.In.Get(name)
	n, ok := onnxpb.Elements(v.Dims)
	return !v.Constant && v.Dims != nil && ok && n == 1
}

func (f *finder) constant(name string) bool {
	return f.In.Get(name).Constant
}

// obstacle refuses a node that is no step, and names the linear layer behind it if one is near.
func (f *finder) obstacle(n *onnxpb.Node, start string) *graph.Refusal {
	r := &graph.Refusal{At: n}
	switch back := f.nearest(n); {
	case f.isDistance(n):
		r.Reason = fmt.Sprintf("%s takes the root of a squared distance, which is not linear in the features as the square is: end the model in the squared distance, with the sign that makes the nearest class the largest", f.describe(n))
	case n.GetDomain() == "com.microsoft.nchwc":
		r.Reason = fmt.Sprintf("%s is laid out for one kind of processor; save the model from ONNX Runtime with optimisation level \"extended\" or lower", f.describe(n))
	case back != nil:
		r.Reason = fmt.Sprintf("%s stands between the linear layer %s and %q", f.describe(n), f.describe(back), start)
		if s := f.step(n); s != nil && s.asked {
			r.Reason += fmt.Sprintf(", which --approximate %s would pass over", IgnoreRelu)
		}
	default:
		r.Reason = fmt.Sprintf("%q comes from %s and not from a linear layer", start, f.describe(n))
	}
	return r
}

// isDistance reports whether a node takes the root of a squared distance from prototypes.
func (f *finder) isDistance(n *onnxpb.Node) bool {
	if op := onnxpb.OpName(n); op != "Sqrt" && op != "Pow" || f.constant(n.GetOutput()[0]) {
		return false
	}
	t, err := f.reach(onnxpb.Input(n, 0))
	return err == nil && t.shifted && !t.decided
}

// nearest returns the linear layer from which n gets its first input, past operators with one input, or nil.
func (f *finder) nearest(n *onnxpb.Node) *onnxpb.Node {
	const far = 8
	for range far {
		names := f.ungated(n)
		if len(names) == 0 || f.gates(n) {
			return nil
		}
		if n = f.g.Producer[names[0]]; n == nil {
			return nil
		}
		if l, _ := f.linear(n); l != nil {
			return n
		}
	}
	return nil
}

// A trail is what is known on the way from linear layers to the output.
type trail struct {
	affine
	nodes []*onnxpb.Node // the linear operators, for people
	at    flow           // where the trail stands

	logits  string         // the last tensor that held the logits as rows
	found   graph.Value    // what is known of it
	moved   []*onnxpb.Node // steps since the layer that features would have to go through too
	decided bool           // behind the logits
	picked  bool           // the best class has been picked
	link    Link
	tail    []string
	after   []after // what becomes of the probabilities
	columns []int   // the classes whose probabilities are left, nil for all

	rounding     float64 // the logits are rounded to multiples of this,
	low, high    float64 // and kept in this range
	approximated bool    // a Relu was ignored
	shifted      bool    // all logits of an example have been shifted alike,
	common       bool    // before they were noted
	logarithms   bool    // of the probabilities
	negated      bool    // and with the other sign
	thresholds   bool    // one logit has been made several, by adding a constant for each
}

// beginning returns the trail at the output of a linear operator.
func (f *finder) beginning(l *linear) (*trail, error) {
	t := &trail{nodes: []*onnxpb.Node{l.node}, at: l.out, low: math.Inf(-1), high: math.Inf(1)}
	t.k = int(l.k)
	p := &share{features: l.features, d: int(l.d), transposed: l.transposed, assumed: l.assumed, terms: []term{{weight: l.weight}}, known: *f.In.Get(l.features)}
	t.shares = []*share{p}
	if l.alpha != 1 {
		t.apply([]float64{l.alpha}, nil)
	}
	if l.bias != "" {
		b, err := f.bias(l)
		if err != nil {
			return nil, err
		}
		for i := range b {
			b[i] *= l.beta
		}
		t.apply(nil, b)
	}
	t.stand(l.node.GetOutput()[0])
	return t, nil
}

// sum returns the trail behind an addition of several linear layers, such as the two heads of a distilled network: they are
// one layer on the features of both. It returns nil if n is no such addition.
func (f *finder) sum(n *onnxpb.Node) (*trail, error) {
	names, weights := f.addends(n)
	varying := 0
	for _, name := range names {
		if name != "" && !f.constant(name) {
			varying++
		}
	}
	// A residual connection has this form too; going on would take time that doubles with each.
	const most, deepest = 64, 8
	if varying < 2 || slices.Contains(names, "") || f.sums >= most || f.depth >= deepest {
		return nil, nil
	}
	f.sums++
	f.depth++
	defer func() { f.depth-- }()
	var all *trail
	for i, name := range names {
		if f.constant(name) {
			continue
		}
		t, err := f.reach(name)
		var r *graph.Refusal
		if err != nil && !errors.As(err, &r) {
			return nil, err
		}
		if err != nil {
			return nil, graph.RefuseAt(n, "%s adds %q, which is not linear in any features", f.describe(n), name)
		}
		if t.decided {
			return nil, graph.RefuseAt(n, "%s adds what is behind %s: %s", f.describe(n), strings.Join(t.tail, ", "), noAverage)
		}
		if !t.at.rows() {
			return nil, graph.RefuseAt(n, "%s adds %q of shape %v", f.describe(n), name, &t.at)
		}
		if weights[i] != 1 {
			t.transform([]float64{weights[i]}, nil)
		}
		if all == nil {
			all = t
			continue
		}
		if t.k != all.k || t.at.class != all.at.class || len(t.at.Dims) != len(all.at.Dims) {
			return nil, graph.RefuseAt(n, "%s adds logits of shapes %v and %v", f.describe(n), &all.at, &t.at)
		}
		all.join(t)
	}
	for i, name := range names {
		if !f.constant(name) {
			continue
		}
		v, err := f.vector(name, &all.at, all.k)
		if err != nil {
			return nil, err
		}
		for j := range v {
			v[j] *= weights[i]
		}
		all.transform(nil, v)
	}
	all.logits = ""
	all.stand(n.GetOutput()[0])
	return all, nil
}

// joined returns the trail behind a Concat of classes that several layers give, or one and a constant: they are one layer on
// the features of all, in blocks. It returns nil if n is no such.
func (f *finder) joined(n *onnxpb.Node) (*trail, error) {
	const most, deepest = 64, 8
	if onnxpb.OpName(n) != "Concat" || f.In.Functions["Concat"] || len(n.GetInput()) < 2 || f.sums >= most || f.depth >= deepest {
		return nil, nil
	}
	f.sums++
	f.depth++
	defer func() { f.depth-- }()
	parts := make([]*trail, len(n.GetInput()))
	var first *trail
	for i, name := range n.GetInput() {
		if _, ok := f.uniform(name); ok {
			continue
		}
		t, err := f.reach(name)
		var r *graph.Refusal
		if err != nil && !errors.As(err, &r) {
			return nil, err
		}
		if err != nil {
			return nil, graph.RefuseAt(n, "%s joins %q, which is not linear in any features", f.describe(n), name)
		}
		a, ok := graph.Axis(onnxpb.AttrInt(n, "axis", 0), len(t.at.Dims))
		if !t.at.rows() || t.decided || t.shifted || !ok || a != t.at.class || first != nil && len(t.at.Dims) != len(first.at.Dims) {
			return nil, graph.RefuseAt(n, "%s joins %q of shape %v, which is no row of logits beside others", f.describe(n), name, &t.at)
		}
		parts[i] = t
		if first == nil {
			first = t
		}
	}
	if first == nil {
		return nil, nil
	}
	all := &trail{at: first.at, low: math.Inf(-1), high: math.Inf(1)}
	widths := make([]int, len(parts))
	for i, t := range parts {
		if t != nil {
			widths[i] = t.k
		} else if v := f.In.Get(n.GetInput()[i]); len(v.Dims) == len(all.at.Dims) && v.Dims[all.at.class] > 0 && v.Dims[all.at.class] <= graph.MaxShapeElements {
			widths[i] = int(v.Dims[all.at.class])
		} else {
			return nil, graph.RefuseAt(n, "%s joins %q, of which it is not known how many classes it is", f.describe(n), n.GetInput()[i])
		}
		all.k += widths[i]
	}
	at := 0 // the first class of a part
	for i, t := range parts {
		if t == nil {
			if x, _ := f.uniform(n.GetInput()[i]); x != 0 {
				v := make([]float64, all.k)
				for j := range widths[i] {
					v[at+j] = x
				}
				all.apply(nil, v)
			}
		} else {
			t.place(at, all.k)
			all.join(t)
		}
		at += widths[i]
	}
	all.at.Dims = slices.Clone(all.at.Dims)
	all.at.Dims[all.at.class] = int64(all.k)
	all.stand(n.GetOutput()[0])
	return all, nil
}

// uniform returns the number that all of a tensor is, however it is spread out.
func (f *finder) uniform(name string) (float64, bool) {
	const far = 8
	for range far {
		if v := f.In.Get(name); v.Constant && len(v.Data) > 0 && slices.Min(v.Data) == slices.Max(v.Data) {
			return v.Data[0], true
		}
		n := f.g.Producer[name]
		if n == nil || f.In.Functions[onnxpb.OpName(n)] {
			return 0, false
		}
		switch onnxpb.OpName(n) {
		case "ConstantOfShape":
			c := graph.Call{Node: n, Interpreter: f.In, In: []*graph.Value{{Dims: []int64{0}, Data: []float64{}}}}
			if v := graph.ConstantOfShape(&c); v != nil && len(v.Data) == 1 {
				return v.Data[0], true
			}
			return 0, false
		case "Mul":
			zero := func(name string) bool { x, ok := f.In.Scalar(name); return ok && x == 0 }
			_, ok := graph.With(n, zero)
			return 0, ok
		case "Sub":
			return 0, onnxpb.Input(n, 0) == onnxpb.Input(n, 1)
		case "Identity", "Cast", "Expand", "Reshape", "Unsqueeze", "Squeeze":
			name = onnxpb.Input(n, 0)
		default:
			return 0, false
		}
	}
	return 0, false
}

// addends returns what a node adds up, and by what each is multiplied; nil if the node does something else.
func (f *finder) addends(n *onnxpb.Node) (names []string, weights []float64) {
	if f.In.Functions[onnxpb.OpName(n)] {
		return nil, nil
	}
	names = n.GetInput()
	weights = slices.Repeat([]float64{1}, len(names))
	switch onnxpb.OpName(n) {
	case "Add", "Sum":
	case "Sub":
		weights[len(weights)-1] = -1
	case "Mean":
		for i := range weights {
			weights[i] /= float64(len(weights))
		}
	case "ReduceMean", "ReduceSum":
		return f.stacked(n)
	default:
		return nil, nil
	}
	return names, weights
}

// stacked is addends for a reduction over the axis along which tensors have been stacked.
func (f *finder) stacked(n *onnxpb.Node) (names []string, weights []float64) {
	stack := f.g.Producer[onnxpb.Input(n, 0)]
	if stack == nil || onnxpb.OpName(stack) != "Concat" || f.In.Functions["Concat"] || onnxpb.AttrInt(n, "keepdims", 1) != 0 {
		return nil, nil
	}
	axis := onnxpb.AttrInt(stack, "axis", 0)
	along := func(n *onnxpb.Node) bool {
		c := graph.Call{Node: n, Interpreter: f.In, In: []*graph.Value{nil, f.In.Get(onnxpb.Input(n, 1))}}
		list, ok := c.List("axes", 1)
		return ok && len(list) == 1 && list[0] == axis
	}
	if axis < 0 || !along(n) {
		return nil, nil
	}
	for _, name := range stack.GetInput() {
		u := f.g.Producer[name]
		if u == nil || onnxpb.OpName(u) != "Unsqueeze" || f.In.Functions["Unsqueeze"] || !along(u) {
			return nil, nil
		}
		names = append(names, onnxpb.Input(u, 0))
	}
	weight := 1.0
	if n.GetOpType() == "ReduceMean" {
		weight /= float64(len(names))
	}
	return names, slices.Repeat([]float64{weight}, len(names))
}

// join adds the logits of another trail.
func (t *trail) join(o *trail) {
	t.apply(nil, o.shift)
	for _, n := range o.nodes {
		if !slices.Contains(t.nodes, n) {
			t.nodes = append(t.nodes, n)
		}
	}
	t.tail = append(t.tail, o.tail...)
	t.moved = nil
	t.shifted = t.shifted || o.shifted
	t.rounding += o.rounding
	t.low, t.high = math.Inf(-1), math.Inf(1)
	t.approximated = t.approximated || o.approximated
	for _, p := range o.shares {
		same := slices.IndexFunc(t.shares, func(q *share) bool {
			return q.features == p.features && q.transposed == p.transposed && slices.Equal(q.selection, p.selection)
		})
		if same >= 0 {
			t.shares[same].terms = append(t.shares[same].terms, p.terms...)
		} else {
			t.shares = append(t.shares, p)
		}
	}
}

// transform follows the logits by x → scale ⊙ x + shift, each nil or of length 1 or k, and what is known of their rounding.
func (t *trail) transform(scale, shift []float64) {
	t.apply(scale, shift)
	if math.IsInf(t.low, -1) && math.IsInf(t.high, 1) && t.rounding == 0 {
		return
	}
	one := func(v []float64, i int, otherwise float64) float64 {
		if len(v) == 0 {
			return otherwise
		}
		return v[min(i, len(v)-1)]
	}
	largest, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for i := range t.k {
		s, b := one(scale, i, 1), one(shift, i, 0)
		largest = max(largest, math.Abs(s))
		low, high = min(low, s*t.low+b, s*t.high+b), max(high, s*t.low+b, s*t.high+b)
	}
	t.rounding, t.low, t.high = t.rounding*largest, low, high
}

// stand notes that the trail has come to a tensor.
func (t *trail) stand(name string) {
	number := t.at.Type.IsFloat() || t.at.Type == tensor.Undefined || t.at.Type == tensor.Int32
	if !t.decided && number && t.at.rows() && (t.logits == "" || len(t.at.Dims) == 2 && t.shifted == t.common) {
		t.logits, t.found, t.common = name, t.at.Value, t.shifted
	}
}

// follow goes with the logits along path, which lies from the output back.
func (f *finder) follow(t *trail, path []hop) (*trail, error) {
	for _, h := range slices.Backward(path) {
		if err := f.pass(t, &h); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// pass goes with the logits through one operator.
func (f *finder) pass(t *trail, h *hop) error {
	n, s := h.node, h.step
	if t.decided && s.affine && h.factor == nil {
		return f.smooth(t, h)
	}
	if t.decided && s.pools {
		return f.column(t, h)
	}
	if t.decided && !s.layout && !s.late && !(s.ends && s.link == "") {
		return graph.RefuseAt(n, "%s follows %s", f.describe(n), strings.Join(t.tail, ", "))
	}
	if (s.exps || s.normalises) && t.decided && t.logarithms != s.exps || s.logs && t.decided && t.logarithms || t.negated && s.exps {
		return graph.RefuseAt(n, "%s follows %s", f.describe(n), strings.Join(t.tail, ", "))
	}
	if t.negated && s.ends {
		return graph.RefuseAt(n, "%s follows %s and picks the least probable", f.describe(n), strings.Join(t.tail, ", "))
	}
	if s.late && !t.decided && !s.layout {
		return graph.RefuseAt(n, "%s stands between the linear layer %s and what makes probabilities", f.describe(n), f.describe(t.nodes[0]))
	}
	c, after := f.call(n, h.from, &t.at), new(graph.Value)
	if op := graph.Ops[onnxpb.OpName(n)]; op != nil {
		if v := op(c, 0); v != nil {
			after = v
		}
	}
	class, reason := noClass, ""
	class, reason = s.class(c, &t.at, after)
	if t.decided && !s.ends && !s.late {
		reason = "" // only where the classes lie
	}
	if reason != "" {
		return graph.RefuseAt(n, "%s", reason)
	}
	if t.at.flat && n.GetOpType() != "ReduceMean" {
		return graph.RefuseAt(n, "%s follows a change of shape of the map %v", f.describe(n), &t.at)
	}
	merged, flat := t.at.merged, false
	isBias := false // the first constant added belongs to the layer
	switch {
	case h.common != "":
		if at := int64(t.at.class); t.at.class == noClass || !f.common(h.common, at-int64(len(t.at.Dims))) && !f.common(h.common, at) {
			return graph.RefuseAt(n, "%s adds %q, which is not the same for all classes of %v", f.describe(n), h.common, &t.at)
		}
		if h.minus {
			t.transform([]float64{-1}, nil)
			t.logits = ""
		}
		t.shifted = true
	case h.factor != nil:
		if err := f.multiply(t, h); err != nil {
			return err
		}
	case s.affine:
		if err := f.repeat(t, n, h.from); err != nil {
			return err
		}
		after.Dims = slices.Clone(after.Dims)
		scale, shift, err := f.constants(n, h.from, &t.at, t.k)
		if err != nil {
			return err
		}
		isBias = scale == nil && t.shift == nil
		if t.shifted && len(scale) > 1 && slices.Min(scale) != slices.Max(scale) {
			return graph.RefuseAt(n, "%s scales classes differently after something that varies has been added to all", f.describe(n))
		}
		t.transform(scale, shift)
		t.logits = "" // what came before has other numbers
	case s.rounds:
		f.round(t, n)
	case s.normalises:
		if t.link == Sigmoid && t.k > 1 {
			t.link = OneVsRest
		}
	case s.pools && t.at.class != noClass && class == t.at.class && choosesClasses(c, &t.at):
		if err := f.chooseClasses(t, c); err != nil {
			return err
		}
	case t.at.flat: // the mean of all positions, whatever order they are in
		if err := t.selectBy(globalAverage(n)); err != nil {
			return err
		}
	case s.pools && !t.at.rows(): // otherwise there is nothing to pool or to choose from
		if err := t.selectBy(n); err != nil {
			return err
		}
		merged = false
	case n.GetOpType() == "Clip" && !t.decided:
		lo, hi, _ := c.ClipBounds()
		t.low, t.high, t.logits = max(t.low, lo), min(t.high, hi), ""
	case s.layout && s.asked:
		t.approximated, t.logits = true, ""
	case n.GetOpType() == "Squeeze" && !t.decided && t.at.class == 2 && class == 1 && len(t.at.Dims) == 3 && t.at.Dims[0] == 1 && !t.at.rows():
		if err := t.selectBy(n); err != nil { // [1,N,K]: the features lose the axis too
			return err
		}
	case s.layout && flattens(&t.at, after, class):
		t.logits, flat = "", true
	case s.layout && merges(&t.at, after, class):
		if err := t.merge(n); err != nil {
			return err
		}
		merged = true
	case n.GetOpType() == "Identity" || n.GetOpType() == "Dropout":
	case s.layout:
		t.moved = append(t.moved, n)
	case s.ends:
		t.decided = true
		t.picked = t.picked || s.link == ""
		if s.link != "" {
			t.link = s.link
		}
	}
	if now := (flow{*after, class, merged, flat}); s.layout && !t.decided && class != noClass && len(after.Dims) > 1 && t.at.rows() && !now.rows() && n.GetOpType() != "Transpose" {
		t.logits = "" // rows of something else than examples
	}
	t.logarithms = (t.logarithms || s.logs) && !s.exps
	f.becomes(t, n, s)
	if class >= len(after.Dims) {
		class = noClass
	}
	t.at = flow{*after, class, merged, flat}
	t.stand(n.GetOutput()[0])
	if !isBias {
		t.tail = append(t.tail, stepName(n))
	}
	return nil
}

// repeat makes one logit several where a constant of several is added to it, or multiplied with it.
func (f *finder) repeat(t *trail, n *onnxpb.Node, from string) error {
	if t.k != 1 || len(n.GetInput()) != 2 || !t.at.rows() || t.at.class != len(t.at.Dims)-1 {
		return nil
	}
	other, _ := graph.With(n, func(name string) bool { return name == from })
	dims := f.In.Get(other).Dims
	if len(dims) == 0 || len(dims) > len(t.at.Dims) || dims[len(dims)-1] <= 1 || dims[len(dims)-1] > graph.MaxShapeElements {
		return nil
	}
	k := int(dims[len(dims)-1])
	t.pick(make([]int, k))
	t.at.Dims = slices.Clone(t.at.Dims)
	t.at.Dims[t.at.class] = int64(k)
	t.thresholds = onnxpb.OpName(n) == "Add" || onnxpb.OpName(n) == "Sub"
	return nil
}

// selectBy makes a pooling or selecting operator one of the features.
func (t *trail) selectBy(n *onnxpb.Node) error {
	if len(t.shares) > 1 {
		return graph.RefuseAt(n, "%s follows the sum of %s and %s", onnxpb.Describe(n), onnxpb.Describe(t.nodes[0]), onnxpb.Describe(t.nodes[1]))
	}
	p := t.shares[0]
	if p.assumed {
		return graph.RefuseAt(n, "%s follows %s, whose features %q have an unknown rank", onnxpb.Describe(n), onnxpb.Describe(t.nodes[0]), p.features)
	}
	for _, m := range t.moved { // these name the number of classes, so features cannot go through them
		if op := m.GetOpType(); op == "Reshape" || op == "Flatten" {
			return graph.RefuseAt(n, "%s stands between %s and %s", onnxpb.Describe(m), onnxpb.Describe(t.nodes[0]), onnxpb.Describe(n))
		}
	}
	p.selection = append(append(p.selection, t.moved...), n)
	t.moved = nil
	t.logits = ""
	return nil
}

// merges reports whether a change of shape joins the axes in front of the classes, which stay the last.
func merges(before *flow, after *graph.Value, class int) bool {
	return !before.rows() && before.class == len(before.Dims)-1 && before.class > 1 && len(after.Dims) == 2 && class == 1
}

// flattens reports whether a change of shape joins the axes behind the classes.
func flattens(before *flow, after *graph.Value, class int) bool {
	return !before.rows() && before.class == 1 && len(before.Dims) > 3 && len(after.Dims) == 3 && class == 1
}

// globalAverage is the mean over all positions of a map.
func globalAverage(n *onnxpb.Node) *onnxpb.Node {
	op := "GlobalAveragePool"
	return &onnxpb.Node{OpType: &op, Name: n.Name, Input: n.GetInput()[:1], Output: n.GetOutput()}
}

// merge makes such a change that of the features.
func (t *trail) merge(n *onnxpb.Node) error {
	op := "Flatten"
	return t.selectBy(&onnxpb.Node{OpType: &op, Name: n.Name, Input: n.GetInput()[:1], Output: n.GetOutput(),
		Attribute: []*onnxpb.Attribute{onnxpb.IntAttribute("axis", int64(t.at.class))}})
}

// multiply takes a factor that varies to the features.
func (f *finder) multiply(t *trail, h *hop) error {
	n := h.node
	if t.shift != nil {
		return graph.RefuseAt(n, "%s scales what the bias has been added to, by a number that depends on the input", f.describe(n))
	}
	if h.factor.constant != "" {
		v, err := f.vector(h.factor.constant, &t.at, t.k)
		if err != nil {
			return err
		}
		if n.GetOpType() == "Div" {
			for i := range v {
				v[i] = 1 / v[i]
			}
		}
		if err := checkScale(n, v); err != nil {
			return err
		}
		t.transform(v, nil)
	}
	op := n.GetOpType()
	for _, p := range t.shares {
		p.selection = append(p.selection, &onnxpb.Node{OpType: &op, Name: n.Name, Input: []string{"", h.factor.varying}, Output: []string{"scaled"}})
	}
	t.logits = ""
	return nil
}

// round notes that a QuantizeLinear rounds the logits, and keeps them in the range of its type.
func (f *finder) round(t *trail, n *onnxpb.Node) {
	if t.decided || n.GetOpType() != "QuantizeLinear" {
		return
	}
	t.logits = ""
	scale, err := f.numbers(onnxpb.Input(n, 1))
	if err != nil || len(scale.Data) == 0 {
		return
	}
	t.rounding += slices.Max(scale.Data)
	typ, zero := f.In.Get(onnxpb.Input(n, 2)).Type, 0.0
	if onnxpb.Input(n, 2) == "" {
		typ = cmp.Or(tensor.Type(onnxpb.AttrInt(n, "output_dtype", 0)), tensor.Uint8)
	} else if z, err := f.numbers(onnxpb.Input(n, 2)); err == nil && len(z.Data) == 1 {
		zero = z.Data[0]
	}
	if r, ok := graph.IntegerRange[typ]; ok && len(scale.Data) == 1 {
		t.low = max(t.low, (r[0]-zero)*scale.Data[0])
		t.high = min(t.high, (r[1]-zero)*scale.Data[0])
	}
}

// chooseClasses follows a selection of classes.
func (f *finder) chooseClasses(t *trail, c *graph.Call) error {
	rows, err := f.chosen(t, c, t.k)
	if err != nil {
		return err
	}
	t.pick(rows)
	t.logits = ""
	return nil
}

// chosen returns which of k classes a selection leaves.
func (f *finder) chosen(t *trail, c *graph.Call, k int) ([]int, error) {
	numbers := &graph.Value{Type: tensor.Int64, Dims: slices.Repeat([]int64{1}, len(t.at.Dims)), Data: make([]float64, k)}
	numbers.Dims[t.at.class] = int64(k)
	for i := range numbers.Data {
		numbers.Data[i] = float64(i)
	}
	in := *c
	in.Interpreter = f.v.Interpreter(true)
	in.In = slices.Clone(c.In)
	in.In[0] = numbers
	for i, name := range c.GetInput() {
		if i == 0 || name == "" || !f.constant(name) {
			continue
		}
		v, err := f.numbers(name) // a long list has stayed in the file so far
		if err != nil {
			return nil, err
		}
		in.In[i] = v
	}
	v := graph.Ops[c.GetOpType()](&in, 0)
	if v == nil || len(v.Data) == 0 {
		return nil, graph.RefuseAt(c.Node, "%s selects classes by what is not constant", f.describe(c.Node))
	}
	rows := make([]int, len(v.Data))
	for i, x := range v.Data {
		rows[i] = int(x)
	}
	return rows, nil
}

// call prepares a step with the flow as the input that carries the logits.
func (f *finder) call(n *onnxpb.Node, from string, cur *flow) *graph.Call {
	c := &graph.Call{Node: n, Interpreter: f.In}
	for _, name := range n.GetInput() {
		var v *graph.Value
		switch name {
		case "":
		case from:
			v = &cur.Value
		default:
			v = f.In.Get(name)
		}
		c.In = append(c.In, v)
	}
	return c
}
