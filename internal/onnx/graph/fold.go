package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// BothClasses is an operator of the view alone: [1−p, p].
const BothClasses = "mfgs.BothClasses"

// foldings recognise groups of operators that exporters write for one, by the last of the group, and
// replace them by that one. Unlike lowerings they see shapes, constants and earlier foldings. One that
// returns false leaves the node alone.
var foldings map[string]func(*folding) bool

func init() {
	foldings = map[string]func(*folding) bool{
		"Div":        func(f *folding) bool { return foldSigmoid(f) || foldGuarded(f) || foldQuotient(f) },
		"Sub":        foldLogSoftmax,
		"Reciprocal": foldSigmoid,
		"Concat":     func(f *folding) bool { return foldBothClasses(f) || foldSigmoids(f) },
		"Slice":      foldSecondClass,
	}
}

// A folding is one node of the view being folded.
type folding struct {
	*lowering
	in   *Interpreter
	fuel *int // nodes that may still be examined
}

// fold returns the view with all foldings applied: the view itself if there are none.
func (v *View) fold() *Graph {
	wanted := func(n *onnxpb.Node) bool {
		switch n.Op() {
		case "ReduceSum", "ReduceL1", "ReduceLogSumExp", "Exp":
			return true
		case "Concat":
			return slices.ContainsFunc(n.GetInput(), func(name string) bool {
				p := v.Producer[name]
				return p != nil && slices.Contains([]string{"Sub", "Unsqueeze", "Reshape", "Sigmoid"}, p.Op())
			})
		}
		return false
	}
	if !slices.ContainsFunc(v.Order, wanted) {
		return v.Graph
	}
	names := v.Names()
	view := v.emptied()
	in := v.Interpreter(false)
	in.G = view
	in.declareAll(v.model)
	fuel := 100*len(v.Order) + 1<<12
	for _, n := range v.Order {
		f := &folding{lowering: &lowering{Node: n, g: view, names: names}, in: in, fuel: &fuel}
		rule := foldings[n.Op()]
		if rule == nil || in.Functions[n.Op()] || !f.wellFormed() || !rule(f) {
			f.nodes, f.consts = []*onnxpb.Node{n}, nil
		}
		view.extend(v.Graph, n, f.nodes, f.consts)
		for _, p := range f.nodes {
			in.run(p)
		}
	}
	return view
}

// get returns the value of a tensor.
func (f *folding) get(name string) *Value { return f.in.Get(name) }

// root returns the tensor that name is a reshaped or repeated form of.
func (f *folding) root(name string) string {
	const far = 8
	for range far {
		n := f.in.Producer(name)
		if n == nil || !f.carries(n) {
			break
		}
		name = f.carried(n)
	}
	return name
}

// carries reports whether a node outputs the numbers of one input, reshaped or repeated.
func (f *folding) carries(n *onnxpb.Node) bool {
	switch n.Op() {
	case "Identity", "Reshape", "Squeeze", "Unsqueeze", "Expand":
		return true
	case "Cast":
		return f.get(n.GetOutput()[0]).Type.IsFloat()
	case "Max": // jax2tf's maximum with the neutral element
		_, ok := f.maximum(n)
		return ok
	}
	return false
}

func (f *folding) carried(n *onnxpb.Node) string {
	if x, ok := f.maximum(n); ok {
		return x
	}
	return n.In(0)
}

// maximum returns x for a maximum of x and −∞.
func (f *folding) maximum(n *onnxpb.Node) (x string, ok bool) {
	if n.Op() != "Max" {
		return "", false
	}
	c, x := f.in.Besides(n)
	return x, x != "" && c <= -math.MaxFloat32
}

// made returns the node that computes a tensor's root if it is the given operator, else nil.
func (f *folding) made(name, op string) *onnxpb.Node {
	if n := f.in.Producer(f.root(name)); n != nil && n.Op() == op {
		return n
	}
	return nil
}

// foldSigmoid: 1/(1 + exp(−x)), as skl2onnx writes it, or as a quotient in activations of dense layers.
func foldSigmoid(f *folding) bool {
	sum := f.Node.In(0)
	if f.Op() == "Div" {
		if !f.in.Is(sum, 1) {
			return false
		}
		sum = f.Node.In(1)
	}
	add := f.made(sum, "Add")
	if add == nil {
		return false
	}
	one, e := f.in.Besides(add)
	exp := f.in.Producer(e)
	if one != 1 || exp == nil || exp.Op() != "Exp" {
		return false
	}
	x := ""
	switch n := f.in.Producer(exp.In(0)); {
	case n == nil:
	case n.Op() == "Neg":
		x = n.In(0)
	case n.Op() == "Mul":
		if minus, of := f.in.Besides(n); minus == -1 {
			x = of
		}
	}
	if x == "" || f.get(x).Constant {
		return false
	}
	f.add("Sigmoid", f.out(), []string{x})
	return true
}

// foldGuarded: (p + g) / (Σp + g·K), where g is 1 where the sum is 0 and else 0, as skl2onnx writes it.
func foldGuarded(f *folding) bool {
	above, below := f.made(f.Node.In(0), "Add"), f.made(f.Node.In(1), "Add")
	if above == nil || below == nil {
		return false
	}
	p := above.In(0)
	sum, spread, not := f.made(below.In(0), "ReduceSum"), f.made(below.In(1), "Mul"), f.made(above.In(1), "Not")
	if sum == nil || spread == nil || not == nil || f.made(spread.In(0), "Not") != not ||
		!f.get(spread.In(1)).Constant || sum.In(0) != p {
		return false
	}
	some := f.in.Producer(not.In(0)) // the sum as a truth value
	if some == nil || some.Op() != "Cast" || f.made(some.In(0), "ReduceSum") != sum {
		return false
	}
	axis, ok := f.in.ReducedAxis(sum)
	if ok {
		f.normalise(p, axis)
	}
	return ok
}

// normalise appends p/Σp.
func (f *folding) normalise(p string, axis int64) {
	f.add("LpNormalization", f.out(), []string{p}, onnxpb.IntAttribute("axis", axis), onnxpb.IntAttribute("p", 1))
}

// floored returns the tensor that a lower bound of nearly 0 guards, as PyTorch's normalize writes it: name if there is
// none.
func (f *folding) floored(name string) string {
	const tiny = 1e-6
	n := f.in.Producer(f.root(name))
	if n == nil || n.Op() != "Clip" {
		return name
	}
	if low, high, known := f.in.Call(n).ClipBounds(); !known || low > tiny || !math.IsInf(high, 1) {
		return name
	}
	return n.In(0)
}

// foldQuotient: p/Σp or p/Σ|p|, a Softmax if p = exp(x) or exp(x − max x), as jax2tf and Hummingbird write it.
func foldQuotient(f *folding) bool {
	p := f.Node.In(0)
	by := f.floored(f.Node.In(1))
	sum := cmp.Or(f.made(by, "ReduceSum"), f.made(by, "ReduceL1"))
	if sum == nil {
		return false
	}
	if abs := f.in.Producer(sum.In(0)); sum.In(0) != p && (abs == nil || abs.Op() != "Abs" || abs.In(0) != p) {
		return false
	}
	axis, ok := f.alongClasses(sum, by)
	if !ok {
		return false
	}
	e := f.in.Producer(p)
	if e == nil || e.Op() != "Exp" || by != f.Node.In(1) {
		f.normalise(p, axis)
		return true
	}
	f.add("Softmax", f.out(), []string{f.unshifted(e.In(0))}, onnxpb.IntAttribute("axis", axis))
	return true
}

// unshifted returns x for x − max x, and other tensors as they are.
func (f *folding) unshifted(name string) string {
	if sub := f.in.Producer(name); sub != nil && sub.Op() == "Sub" {
		if top := f.made(sub.In(1), "ReduceMax"); top != nil && top.In(0) == sub.In(0) {
			if _, ok := f.alongClasses(top, sub.In(1)); ok {
				return sub.In(0)
			}
		}
	}
	return name
}

// foldLogSoftmax: x − log Σ exp x, as skl2onnx writes it, where x may be x − max x, as JAX writes it.
func foldLogSoftmax(f *folding) bool {
	x := f.Node.In(0)
	sum := f.made(f.Node.In(1), "ReduceLogSumExp")
	if log := f.made(f.Node.In(1), "Log"); log != nil {
		if sum = f.made(log.In(0), "ReduceSum"); sum == nil {
			return false
		}
		if e := f.in.Producer(sum.In(0)); e == nil || e.Op() != "Exp" || e.In(0) != x {
			return false
		}
	} else if sum == nil || sum.In(0) != x {
		return false
	}
	axis, ok := f.alongClasses(sum, f.Node.In(1))
	if ok {
		f.add("LogSoftmax", f.out(), []string{f.unshifted(x)}, onnxpb.IntAttribute("axis", axis))
	}
	return ok
}

// alongClasses returns the axis of a reduction, whose result spread is reshaped or repeated, if the axis
// is not that of the examples and spread does not vary along it.
func (f *folding) alongClasses(n *onnxpb.Node, spread string) (axis int64, ok bool) {
	axis, ok = f.in.ReducedAxis(n)
	rank := len(f.get(n.In(0)).Dims)
	at, fits := Axis(axis, rank)
	if !ok || !fits || at == 0 {
		return 0, false
	}
	// Counted from the end, so that leading axes of length 1 do not matter.
	return axis, f.repeats(spread, int64(at-rank))
}

// repeats reports whether a tensor is known not to vary along an axis, which is counted from the end.
func (f *folding) repeats(name string, axis int64) bool {
	for *f.fuel > 0 {
		*f.fuel--
		dims := f.get(name).Dims
		if at := axis + int64(len(dims)); dims != nil && (at < 0 || dims[at] == 1) {
			return true
		}
		switch n := f.in.Producer(name); {
		case n == nil:
			return false
		case n.Op() == "Expand" || n.Op() == "Identity" || n.Op() == "Cast" || n.Op() == "Log":
			name = n.In(0)
		case n.Op() == "ReduceSum" || n.Op() == "ReduceL1" || n.Op() == "ReduceMax" || n.Op() == "ReduceLogSumExp": // of unknown shape
			return n.Int("keepdims", 1) != 0
		default:
			return false
		}
	}
	return false
}

// ReducedAxis returns the one axis that a reduction runs over.
func (in *Interpreter) ReducedAxis(n *onnxpb.Node) (int64, bool) {
	list, ok := in.Call(n).List("axes", 1)
	if !ok || len(list) != 1 {
		return 0, false
	}
	return list[0], true
}

// foldBothClasses: [1−p, p].
func foldBothClasses(f *folding) bool {
	if len(f.GetInput()) != 2 {
		return false
	}
	q, p := f.Node.In(0), f.Node.In(1)
	sub := f.made(q, "Sub")
	if sub == nil || !f.in.Is(sub.In(0), 1) || f.root(sub.In(1)) != f.root(p) {
		return false
	}
	f.add(BothClasses, f.out(), []string{p}, f.Node.Attr("axis"))
	return true
}

// foldSecondClass: the second column of [1−p, p], which is p.
func foldSecondClass(f *folding) bool {
	both := f.in.Producer(f.Node.In(0))
	if both == nil || both.Op() != BothClasses {
		return false
	}
	p := both.In(0)
	a, fits := Axis(both.Int("axis", 0), len(f.get(p).Dims))
	start, end, along := f.get(f.Node.In(1)).Data, f.get(f.Node.In(2)).Data, f.get(f.Node.In(3)).Data
	if !fits || f.get(p).Dims[a] != 1 || len(start) != 1 || len(end) != 1 || len(along) != 1 || f.Node.In(4) != "" {
		return false
	}
	if b, ok := Axis(int64(along[0]), len(f.get(p).Dims)); !ok || b != a || start[0] != 1 || end[0] < 2 {
		return false
	}
	f.add("Identity", f.out(), []string{p})
	return true
}

// foldSigmoids: sigmoids side by side are the sigmoid of their logits side by side.
func foldSigmoids(f *folding) bool {
	var logits []string
	for _, name := range f.GetInput() {
		p := f.in.Producer(name)
		for p != nil && p.Op() == "Identity" {
			p = f.in.Producer(p.In(0))
		}
		if p == nil || p.Op() != "Sigmoid" {
			return false
		}
		logits = append(logits, p.In(0))
	}
	z := f.add("Concat", f.fresh("logits"), logits, f.Node.Attr("axis"))
	f.add("Sigmoid", f.out(), []string{z})
	return true
}
