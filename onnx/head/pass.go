package head

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A step describes an operator that may lie between the linear layer and the output.
type step struct {
	// class returns the axis of the classes after the operator, from the flow before it and the shape
	// after it, or a reason to refuse.
	class func(c *graph.Call, before *flow, after *graph.Value) (axis int, reason string)
	// logits and probs update the trail when the operator is applied to logits or probabilities; nil
	// refuses it there.
	logits, probs func(*passage) error

	keeps     fidelity
	takes     scale                                              // which form of probabilities it accepts
	constants func(*passage) (scale, shift []float64, err error) // what it multiplies by and adds
	along     func(*graph.Call) []int64                          // the axes along which it selects
	link      layer.Link                                         // turns logits into probabilities
	picks     bool                                               // picks the best class

	selects    bool // selects positions or classes
	normalises bool // makes the probabilities sum to 1
	turns      bool // may move the classes in front of the examples
	indexed    bool // inputs after the first are shapes or indices, which may be computed
}

// fidelity is how well an operator preserves the numbers.
type fidelity int

const (
	changed      fidelity = iota // it computes other numbers
	approximable                 // treated as the identity if Options.Approximate asks for it
	inRange                      // clips to a range that makes no difference
	all                          // same numbers up to rounding, perhaps in another place
)

// A scale is the form in which probabilities come.
type scale int

const (
	either scale = iota
	plain
	logarithms
)

// A hop is one operator passed on the way back from the output, or several that count as one.
type hop struct {
	node   *onnxpb.Node // the last of them
	from   string       // its input that carries the logits
	step   *step
	factor *factor // set if the logits are multiplied by a tensor that depends on the input
	mean   *mean   // set if they are averaged with weights
}

// A factor is what logits are multiplied or divided by: a number per example, or one for all, that
// depends on the input, times a constant.
type factor struct {
	varying, constant string // constant may be ""
	each              bool   // [N,1]: a number per example
}

// A mean is the group of operators of a weighted mean: the product [N,T,K] with the weights [N,T,1], and what follows,
// a sum over T and perhaps a quotient.
type mean struct {
	product *onnxpb.Node
	weights string
	rest    []*onnxpb.Node
}

// A passage is one step of the forward pass.
type passage struct {
	*finder
	*trail
	*hop
	call *graph.Call
	now  flow // the operator's output; trail.at is its input
	bias bool // the operator adds the layer's bias, so it is not part of the tail
}

// follow passes the hops of path, which is ordered from the output back.
func (f *finder) follow(t *trail, path []hop) (*trail, error) {
	for _, h := range slices.Backward(path) {
		if err := f.pass(t, &h); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// pass moves the trail across one operator.
func (f *finder) pass(t *trail, h *hop) error {
	n, s := h.node, h.step
	p := &passage{finder: f, trail: t, hop: h}
	follow := s.logits
	if t.pastLogits {
		if err := p.follows(); err != nil {
			return err
		}
		follow = s.probs
	} else if follow == nil {
		return graph.RefuseAt(n, "%s stands between the linear layer %s and the probabilities", f.describe(n),
			f.describe(t.nodes[0]))
	}
	p.call = f.call(n, h.from, &t.at)
	after := p.call.Result()
	class, reason := s.class(p.call, &t.at, after)
	// For probabilities only the position of the classes matters.
	if reason != "" && (!t.pastLogits || s.logits == nil || s.picks) {
		return graph.RefuseAt(n, "%s", reason)
	}
	p.now = flow{Value: *after, class: class, merged: t.at.merged}
	if err := follow(p); err != nil {
		return err
	}
	if t.at = p.now; t.at.class >= len(t.at.Dims) {
		t.at.class = noClass
	}
	t.arrive(n.GetOutput()[0])
	if !p.bias {
		t.tail = append(t.tail, stepName(n))
	}
	return nil
}

// follows checks that the operator accepts the probabilities in their current form.
func (p *passage) follows() error {
	s, t := p.hop.step, p.trail
	wrong := s.takes == logarithms && !t.logarithms || s.takes == plain && t.logarithms
	if s.probs == nil || wrong {
		return graph.RefuseAt(p.node, "%s follows %s", p.describe(p.node), strings.Join(t.tail, ", "))
	}
	return nil
}

// stepName names a step's operator in Head.Tail.
func stepName(n *onnxpb.Node) string {
	if n.GetOpType() == graph.BothClasses {
		return "Concat"
	}
	return n.GetOpType()
}

// The functions below are the logits functions of the table steps.

// keep is for operators that change nothing.
func keep(*passage) error { return nil }

// move is for operators that change the shape.
func move(p *passage) error {
	switch {
	case !p.pastLogits && merges(&p.at, &p.now.Value, p.now.class):
		if err := p.merge(p.node); err != nil {
			return err
		}
		p.now.merged = true
	default:
		p.moved = append(p.moved, p.node)
		p.now.merged = p.now.merged && len(p.now.Dims) < 3 // else the axes have been made again
		p.spread.move(p)
	}
	rows := p.now.rows() || p.now.class == noClass || len(p.now.Dims) < 2 || p.hop.step.turns
	if !p.pastLogits && p.at.rows() && !rows {
		p.logits = "" // axis 0 is not that of examples
	}
	return nil
}

// squeeze is move, except for [1,N,K], where the features lose the first axis too.
func squeeze(p *passage) error {
	if p.at.class == 2 && p.now.class == 1 && len(p.at.Dims) == 3 && p.at.Dims[0] == 1 && !p.at.rows() {
		return p.selectBy(p.node)
	}
	return move(p)
}

// bound clips the logits to a range.
func bound(p *passage) error {
	low, high, _ := p.call.ClipBounds()
	p.low, p.high = max(p.low, low), min(p.high, high)
	p.forget()
	return nil
}

// approximate treats the operator as the identity.
func approximate(p *passage) error {
	p.approximated = true
	p.forget()
	return nil
}

// round records that QuantizeLinear rounds the logits, and clips them to the range of its type.
func round(p *passage) error {
	f, t, n := p.finder, p.trail, p.node
	t.forget()
	scale, err := f.numbers(n.In(1))
	if err != nil || len(scale.Data) == 0 {
		return nil
	}
	t.rounding += slices.Max(scale.Data)
	typ, zero := f.in.Get(n.In(2)).Type, 0.0
	if n.In(2) == "" {
		typ = cmp.Or(tensor.Type(n.Int("output_dtype", 0)), tensor.Uint8)
	} else if z, err := f.numbers(n.In(2)); err == nil && len(z.Data) == 1 {
		zero = z.Data[0]
	}
	if r, ok := graph.IntegerRange[typ]; ok && len(scale.Data) == 1 {
		t.low = max(t.low, (r[0]-zero)*scale.Data[0])
		t.high = min(t.high, (r[1]-zero)*scale.Data[0])
	}
	return nil
}

// pool is for operators that average or select; they are moved to the features.
func pool(p *passage) error {
	switch {
	case p.now.class == noClass && p.at.class != noClass && p.selectsClasses(): // the only one
		return move(p)
	case p.now.class == p.at.class && p.selectsClasses():
		rows, err := p.chosen(p.trail, p.call, p.k)
		if err != nil {
			return err
		}
		p.trail.pick(rows)
		p.forget()
	case !p.at.rows(): // else there is nothing to pool or select from
		p.now.merged = false
		return p.selectBy(p.node)
	}
	return nil
}

// selectsClasses reports whether a selection runs along the classes.
func (p *passage) selectsClasses() bool {
	if p.hop.step.along == nil || p.at.class == noClass {
		return false
	}
	marked, ok := graph.Axes(p.hop.step.along(p.call), len(p.at.Dims))
	return ok && marked[p.at.class]
}

// The functions below return the axes along which operators select.
func axisOf(c *graph.Call) []int64 { return []int64{c.Node.Int("axis", 0)} }

func noAxes(*graph.Call) []int64 { return nil }

func slicedAxes(c *graph.Call) []int64 {
	along, _ := c.SliceAxes()
	return along
}

// chosen returns which of k classes a selection keeps, by applying it to 0, …, k−1.
func (f *finder) chosen(t *trail, c *graph.Call, k int) ([]int, error) {
	numbers := &graph.Value{Type: tensor.Int64, Dims: slices.Repeat([]int64{1}, len(t.at.Dims)),
		Data: make([]float64, k)}
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
		v, err := f.numbers(name) // a long list has not been read yet
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

// scaleAndShift multiplies the logits by constants and adds constants to them.
func scaleAndShift(p *passage) error {
	scale, shift, err := p.hop.step.constants(p)
	if err != nil {
		return err
	}
	p.bias = scale == nil && p.shift == nil
	p.transform(scale, shift)
	p.forget()
	return nil
}

// makeProbs turns logits into probabilities.
func makeProbs(p *passage) error {
	p.pastLogits, p.trail.link = true, p.hop.step.link
	return nil
}

// pick picks the best class.
func pick(p *passage) error {
	p.pastLogits, p.picked = true, true
	return nil
}

const noAverage = "an average of probabilities is not a softmax of one layer's logits; export the model without it, or let it average the logits"
