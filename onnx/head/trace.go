package head

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/option"
)

// reach walks back from a tensor to linear layers, and forward again to it.
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
		from, err := f.sum(n)
		if err != nil {
			return nil, err
		}
		if from == nil {
			from, err = f.beside(n)
		}
		if err != nil {
			return nil, err
		}
		if from != nil {
			return f.follow(from, path)
		}
		h := f.back(n, t)
		if h == nil {
			return nil, f.obstacle(n, start)
		}
		t = h.from
		path = append(path, *h)
	}
}

// back returns the hop from t, an output of n, to the input that carries the logits; nil if n cannot
// be passed.
func (f *finder) back(n *onnxpb.Node, t string) *hop {
	if h := f.mean(n); h != nil {
		return h
	}
	s := f.step(n)
	if s == nil || s.keeps == approximable && !f.approximate || n.GetOutput()[0] != t {
		return nil
	}
	h := &hop{node: n, step: s}
	for i, name := range n.GetInput() {
		if name == "" || f.constant(name) {
			continue
		}
		// Only sums and products accept the logits as any operand; shapes and indices may be computed.
		if i > 0 && s.indexed {
			continue
		}
		if h.from != "" {
			return f.scaled(n)
		}
		if i > 0 && s.constants == nil {
			return nil
		}
		h.from = name
	}
	if h.from == "" {
		return nil
	}
	return h
}

// scaled recognises a product or quotient of the logits with a tensor that depends on the input but
// is the same for all classes.
func (f *finder) scaled(n *onnxpb.Node) *hop {
	op := n.GetOpType()
	if !onnxpb.IsDefault(n.GetDomain()) || op != "Mul" && op != "Div" || len(n.GetInput()) != 2 {
		return nil
	}
	for i := 1; i >= 0; i-- {
		by := f.factor(n.In(i))
		if by == nil || f.factor(n.In(1-i)) != nil || by.each && op == "Div" {
			continue
		}
		if op == "Div" && i == 0 {
			return nil
		}
		return &hop{node: n, from: n.In(1 - i), step: scaling, factor: by}
	}
	return nil
}

// factor returns a tensor as a single number times a constant, nil if it is not known to be that.
func (f *finder) factor(name string) *factor {
	if n := f.in.Producer(name); n != nil && n.Op() == "Mul" {
		for i := range 2 {
			if f.constant(n.In(i)) && f.single(n.In(1-i)) {
				return &factor{varying: n.In(1 - i), constant: n.In(i)}
			}
		}
	}
	switch v := f.in.Get(name); {
	case f.single(name):
		return &factor{varying: name}
	case !v.Constant && len(v.Dims) == 2 && v.Dims[1] == 1:
		return &factor{varying: name, each: true}
	}
	return nil
}

// obstacle refuses a node that is not a step, and names the linear layer below it if one is near.
func (f *finder) obstacle(n *onnxpb.Node, start string) *graph.Refusal {
	r := &graph.Refusal{At: n}
	switch back := f.nearest(n); {
	case n.GetDomain() == "com.microsoft.nchwc":
		r.Reason = fmt.Sprintf("%s is laid out for one kind of processor; save the model from ONNX Runtime with optimisation level \"extended\" or lower",
			f.describe(n))
	case back != nil:
		r.Reason = fmt.Sprintf("%s stands between the linear layer %s and %q", f.describe(n), f.describe(back), start)
		if s := f.step(n); s != nil && s.keeps == approximable {
			r.Reason += fmt.Sprintf(", which %s %s would skip", option.Approximate, IgnoreRelu)
		}
	default:
		r.Reason = fmt.Sprintf("%q comes from %s and not from a linear layer", start, f.describe(n))
	}
	return r
}

// nearest returns the linear layer that n's first input comes from, past operators with one input,
// or nil.
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

// beginning returns a trail at the output of a linear operator.
func (f *finder) beginning(l *linear) (*trail, error) {
	t := &trail{nodes: []*onnxpb.Node{l.node}, at: l.out, low: math.Inf(-1), high: math.Inf(1)}
	t.k = int(l.k)
	p := &share{features: l.features, d: int(l.d), transposed: l.transposed, assumed: l.assumed,
		terms: []term{{weight: l.weight}}, known: *f.in.Get(l.features)}
	t.shares = []*share{p}
	t.spread.rank, t.spread.features = len(l.out.Dims), l.out.class
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
	t.arrive(l.node.GetOutput()[0])
	return t, nil
}

// enter reports whether another sum of layers may be examined; leave ends it. Residual connections
// are such sums, and without a bound the time would double with each.
func (f *finder) enter() bool {
	const most, deepest = 64, 8
	if f.sums >= most || f.depth >= deepest {
		return false
	}
	f.sums++
	f.depth++
	return true
}

func (f *finder) leave() { f.depth-- }

// part returns the trail to one input of a node that combines several; verb is for the message.
func (f *finder) part(n *onnxpb.Node, verb, name string) (*trail, error) {
	t, err := f.reach(name)
	var r *graph.Refusal
	if errors.As(err, &r) {
		err = graph.RefuseAt(n, "%s %s %q, which is not linear in any features", f.describe(n), verb, name)
	}
	return t, err
}

// sum returns the trail after a sum of several linear layers, such as the two heads of a distilled
// network: they are one layer on the features of both. It returns nil if n is not such a sum.
func (f *finder) sum(n *onnxpb.Node) (*trail, error) {
	names, weights := f.addends(n)
	varying := 0
	for _, name := range names {
		if name != "" && !f.constant(name) {
			varying++
		}
	}
	if varying < 2 || slices.Contains(names, "") || !f.enter() {
		return nil, nil
	}
	defer f.leave()
	var all *trail
	for i, name := range names {
		if f.constant(name) {
			continue
		}
		t, err := f.part(n, "adds", name)
		if err != nil {
			return nil, err
		}
		if t.pastLogits {
			return nil, graph.RefuseAt(n, "%s adds the output of %s: %s", f.describe(n), strings.Join(t.tail, ", "),
				noAverage)
		}
		if !t.at.rows() && !t.spread.asLaid() {
			return nil, graph.RefuseAt(n, "%s adds %q of shape %v", f.describe(n), name, &t.at)
		}
		if weights[i] != 1 {
			t.transform([]float64{weights[i]}, nil)
		}
		if all == nil {
			all = t
			continue
		}
		if t.k != all.k || t.at.class != all.at.class || len(t.at.Dims) != len(all.at.Dims) ||
			t.at.rows() != all.at.rows() {
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
	all.forget()
	all.arrive(n.GetOutput()[0])
	return all, nil
}

// beside returns the trail after layers of one logit each that read the same features and stand side by side, as
// where scikit-learn has a model for each class: they are one layer. It returns nil if n is not such a group.
func (f *finder) beside(n *onnxpb.Node) (*trail, error) {
	const most = 256
	names := n.GetInput()
	k := len(names)
	if n.Op() != "Concat" || f.in.Functions[n.Op()] || k < 2 || k > most || slices.Contains(names, "") || !f.enter() {
		return nil, nil
	}
	defer f.leave()
	var all *trail
	for i, name := range names {
		t, err := f.reach(name)
		var r *graph.Refusal
		switch {
		case errors.As(err, &r):
			return nil, nil
		case err != nil:
			return nil, err
		}
		axis, ok := graph.Axis(n.Int("axis", 0), len(t.at.Dims))
		// The axis of a single class may have been dropped and made again.
		column := len(t.at.Dims) == 2 && t.at.Dims[1] == 1 && !t.at.merged && t.k == 1 && ok && axis == 1 &&
			(t.at.class == 1 || t.at.class == noClass)
		if t.pastLogits || !column || t.approximated || t.rounding != 0 || len(t.shares) != 1 {
			return nil, nil
		}
		own := make([]float64, k)
		own[i] = 1
		t.pick(make([]int, k))
		t.apply(own, nil)
		if all == nil {
			all = t
			continue
		}
		if all.join(t); len(all.shares) != 1 {
			return nil, nil
		}
	}
	all.shares[0].beside = true
	all.at.class = 1
	all.at.Value = graph.Value{Type: all.at.Type, Dims: []int64{all.at.Dims[0], int64(k)}}
	all.forget()
	all.arrive(n.GetOutput()[0])
	return all, nil
}

// addends returns the tensors that a node adds up and their factors; nil if it is not a sum.
func (f *finder) addends(n *onnxpb.Node) (names []string, weights []float64) {
	if f.in.Functions[n.Op()] {
		return nil, nil
	}
	names = n.GetInput()
	weights = slices.Repeat([]float64{1}, len(names))
	switch n.Op() {
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

// stacked is addends for a mean or sum over the axis along which tensors were stacked, as in CrossViT
// and EfficientViM.
func (f *finder) stacked(n *onnxpb.Node) (names []string, weights []float64) {
	stack := f.in.Producer(n.In(0))
	if stack == nil || stack.Op() != "Concat" || n.Int("keepdims", 1) != 0 {
		return nil, nil
	}
	axis := stack.Int("axis", 0)
	along := func(n *onnxpb.Node) bool {
		a, ok := f.in.ReducedAxis(n)
		return ok && a == axis
	}
	if axis < 0 || !along(n) {
		return nil, nil
	}
	for _, name := range stack.GetInput() {
		u := f.in.Producer(name)
		if u == nil || u.Op() != "Unsqueeze" || !along(u) {
			return nil, nil
		}
		names = append(names, u.In(0))
	}
	weight := 1.0
	if n.GetOpType() == "ReduceMean" {
		weight /= float64(len(names))
	}
	return names, slices.Repeat([]float64{weight}, len(names))
}

// ungated returns the tensors that a node reads. Of a product of two that depend on the input it
// leaves out the gate: the smaller one, or the output of a function such as Sigmoid.
func (f *finder) ungated(n *onnxpb.Node) []string {
	names := onnxpb.Dependencies(n)
	if !f.multiplies(n) {
		return names
	}
	a, okA := f.numbersOf(names[0])
	b, okB := f.numbersOf(names[1])
	switch {
	case okA && okB && a > b:
		return names[:1]
	case okA && okB && b > a:
		return names[1:]
	}
	return slices.DeleteFunc(names, func(name string) bool {
		p := f.g.Producer[name]
		return p != nil && slices.Contains([]string{"Sigmoid", "HardSigmoid", "Tanh", "Softmax", "Softplus"}, p.Op())
	})
}

// multiplies reports whether a node is a product of two tensors that depend on the input.
func (f *finder) multiplies(n *onnxpb.Node) bool {
	names := onnxpb.Dependencies(n)
	return n.Op() == "Mul" && len(names) == 2 && !f.constant(names[0]) && !f.constant(names[1])
}

// gates reports whether a node is a product of two tensors, neither of which is a single number per
// example.
func (f *finder) gates(n *onnxpb.Node) bool {
	return f.multiplies(n) && !slices.ContainsFunc(n.GetInput(), func(name string) bool {
		size, ok := f.numbersOf(name)
		return ok && size == 1
	})
}

// numbersOf returns how many numbers a tensor holds per example, counting 2 for an axis of unknown
// length.
func (f *finder) numbersOf(name string) (n int64, known bool) {
	v := f.in.Get(name)
	n = 1
	for _, d := range v.Dims[min(1, len(v.Dims)):] {
		if d < 0 {
			d = 2
		}
		n = min(n*d, math.MaxInt32)
	}
	return n, v.Dims != nil
}
