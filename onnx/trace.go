package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A flow is what is known of the tensor that carries the logits, at one point between the linear layer and the output.
type flow struct {
	value
	class int // the axis along which the classes lie, or noClass
}

// noClass is the class axis of a flow in which the classes have no axis of their own any more, or it is not known.
const noClass = -1

// rows reports whether the flow holds one row of K numbers per example, whatever axes of length 1 lie between.
func (f *flow) rows() bool {
	if f.class < 1 {
		return false
	}
	for i, d := range f.dims[1:] {
		if i+1 != f.class && d != 1 {
			return false
		}
	}
	return true
}

// String returns the shape for people.
func (f *flow) String() string {
	if f.dims == nil {
		return "[…]"
	}
	s := make([]string, len(f.dims))
	for i, d := range f.dims {
		s[i] = Dim{Value: d}.String()
	}
	return "[" + strings.Join(s, ",") + "]"
}

// A step is an operator that may stand between the linear layer and the output.
type step struct {
	layout bool // moves numbers about and changes none
	pools  bool // averages or selects: the same for features and logits
	affine bool // adds and multiplies by constants
	ends   bool // the logits end here: makes probabilities or a decision of them
	link   Link
	// class returns the class axis behind the operator, given the flow before and the shape behind. A reason refuses.
	class func(c *call, before *flow, after *value) (axis int, reason string)
}

// steps says what may follow a linear layer. The shape behind each comes from ops.
var steps map[string]*step

func init() {
	steps = map[string]*step{
		"Identity":           {layout: true, class: keepClass},
		"Cast":               {layout: true, class: castClass},
		"Dropout":            {layout: true, class: dropoutClass},
		"Flatten":            {layout: true, class: reshapeClass},
		"Reshape":            {layout: true, class: reshapeClass},
		"Squeeze":            {layout: true, class: squeezeClass},
		"Unsqueeze":          {layout: true, class: unsqueezeClass},
		"Transpose":          {layout: true, class: transposeClass},
		"GlobalAveragePool":  {pools: true, class: globalPoolClass},
		"AveragePool":        {pools: true, class: averagePoolClass},
		"ReduceMean":         {pools: true, class: reduceClass},
		"Gather":             {pools: true, class: gatherClass},
		"Slice":              {pools: true, class: sliceClass},
		"Add":                {affine: true, class: keepClass},
		"Sub":                {affine: true, class: keepClass},
		"Mul":                {affine: true, class: keepClass},
		"Div":                {affine: true, class: keepClass},
		"BatchNormalization": {affine: true, class: keepClass},
		"Softmax":            {ends: true, link: Softmax, class: softmaxClass},
		"LogSoftmax":         {ends: true, link: Softmax, class: softmaxClass},
		"Sigmoid":            {ends: true, link: Sigmoid, class: keepClass},
		"ArgMax":             {ends: true, class: argMaxClass},
	}
}

// trace goes back from a tensor to the linear layer it comes from, and forward again to see what happens to the logits.
func (f *finder) trace(start string) (*Head, error) {
	var path []*onnxpb.Node // from the output back
	for t := start; ; {
		n := f.g.producer[t]
		switch {
		case f.constant(t):
			return nil, refuse("%q is a constant", t)
		case n == nil:
			return nil, refuse("no linear layer stands between the input %q and %q", t, start)
		case n.GetOutput()[0] != t:
			return nil, f.obstacle(n, start)
		}
		l, err := f.linear(n)
		if err != nil {
			return nil, err
		}
		if l != nil {
			slices.Reverse(path)
			return f.follow(l, path, start)
		}
		if t = f.back(n); t == "" {
			return nil, f.obstacle(n, start)
		}
		path = append(path, n)
	}
}

// back returns the tensor that a step gets the logits from, "" if the node is no step that can be passed.
func (f *finder) back(n *onnxpb.Node) string {
	s := steps[n.GetOpType()]
	if s == nil || !isDefault(n.GetDomain()) || f.in.functions[opName(n)] {
		return ""
	}
	var from string
	for i, name := range n.GetInput() {
		if name == "" || f.constant(name) {
			continue
		}
		// Only an addition or a product takes the logits on any side, and the shape of a Reshape may be computed.
		if i > 0 && n.GetOpType() == "Reshape" {
			continue
		}
		if from != "" || i > 0 && !s.affine {
			return ""
		}
		from = name
	}
	return from
}

func (f *finder) constant(name string) bool {
	return f.in.get(name).constant
}

// obstacle refuses a node that is no step, and names the linear layer behind it if one is near.
func (f *finder) obstacle(n *onnxpb.Node, start string) *refusal {
	r := &refusal{at: n}
	if back := f.nearest(n); back != nil {
		r.reason = fmt.Sprintf("%s stands between the linear layer %s and %q", describe(n), describe(back), start)
	} else {
		r.reason = fmt.Sprintf("%q comes from %s and not from a linear layer", start, describe(n))
	}
	return r
}

// nearest returns the linear layer from which n gets its first input, past operators with one input, or nil.
func (f *finder) nearest(n *onnxpb.Node) *onnxpb.Node {
	const far = 8
	for range far {
		if n = f.g.producer[input(n, 0)]; n == nil {
			return nil
		}
		if l, _ := f.linear(n); l != nil {
			return n
		}
	}
	return nil
}

// follow goes with the logits from the layer to the output along path and makes the head.
func (f *finder) follow(l *linear, path []*onnxpb.Node, start string) (*Head, error) {
	h := &Head{
		Op: opName(l.node), Node: nodeName(l.node), Features: l.features, FeatureDim: int(l.d), Classes: int(l.k),
		model: f.m, weight: l.weight, transposed: l.transposed, Tail: []string{},
	}
	a := affine{k: int(l.k)}
	if l.alpha != 1 {
		a.apply([]float64{l.alpha}, nil)
	}
	cur := l.out
	if l.bias != "" {
		b, err := f.bias(l)
		if err != nil {
			return nil, err
		}
		for i := range b {
			b[i] *= l.beta
		}
		a.apply(nil, b)
	}
	var (
		found   flow           // the last place that holds the logits as rows
		moved   []*onnxpb.Node // steps since the layer that features would have to go through too
		decided bool           // behind the logits
	)
	settle := func(name string) {
		if cur.rows() && (h.Logits == "" || len(cur.dims) == 2) {
			h.Logits, found = name, cur
		}
	}
	settle(l.node.GetOutput()[0])
	for _, n := range path {
		s := steps[n.GetOpType()]
		if decided && !s.layout && !(s.ends && s.link == "") {
			return nil, &refusal{fmt.Sprintf("%s follows %s", describe(n), strings.Join(h.Tail, ", ")), n}
		}
		from := f.back(n)
		c := f.call(n, from, &cur)
		after := ops[n.GetOpType()](c, 0)
		if after == nil {
			after = new(value)
		}
		class, reason := noClass, ""
		if !decided || s.ends {
			class, reason = s.class(c, &cur, after)
		}
		if reason != "" {
			return nil, &refusal{reason, n}
		}
		isBias := false // the first constant added belongs to the layer
		switch {
		case s.affine:
			scale, shift, err := f.constants(n, from, &cur, int(l.k))
			if err != nil {
				return nil, err
			}
			isBias = scale == nil && a.shift == nil
			a.apply(scale, shift)
			h.Logits = "" // what came before has other numbers
		case s.pools && !c.pointless(&cur):
			if l.assumed {
				return nil, &refusal{fmt.Sprintf("%s follows %s, whose features %q have an unknown rank", describe(n), describe(l.node), l.features), n}
			}
			for _, m := range moved { // these name the number of classes, so features cannot go through them
				if op := m.GetOpType(); op == "Reshape" || op == "Flatten" {
					return nil, &refusal{fmt.Sprintf("%s stands between %s and %s", describe(m), describe(l.node), describe(n)), n}
				}
			}
			h.selection = append(append(h.selection, moved...), n)
			moved = nil
			h.Logits = ""
		case s.layout:
			moved = append(moved, n)
		case s.ends:
			decided = true
			if s.link != "" {
				h.Link = s.link
			}
		}
		if class >= len(after.dims) {
			class = noClass
		}
		cur = flow{*after, class}
		if !decided {
			settle(n.GetOutput()[0])
		}
		if !isBias {
			h.Tail = append(h.Tail, n.GetOpType())
		}
	}
	if h.Logits == "" {
		return nil, &refusal{fmt.Sprintf("%s gives %v behind %s, not one row of %d logits for each example", describe(l.node), &cur, start, l.k), l.node}
	}
	h.scale, h.shift = a.scale, a.shift
	h.Bias = a.shift != nil
	h.logitsValue = found.value
	if err := f.finish(h, l); err != nil {
		return nil, err
	}
	return h, nil
}

// call prepares a step with the flow as the input that carries the logits.
func (f *finder) call(n *onnxpb.Node, from string, cur *flow) *call {
	c := &call{Node: n, interpreter: f.in}
	for _, name := range n.GetInput() {
		var v *value
		switch name {
		case "":
		case from:
			v = &cur.value
		default:
			v = f.in.get(name)
		}
		c.in = append(c.in, v)
	}
	return c
}

// finish looks at the link and the features, and writes the evidence.
func (f *finder) finish(h *Head, l *linear) error {
	if f.g.producer[l.weight.name] != nil {
		// Weights that are computed must be computable; stored ones have been checked when the model was read.
		if _, err := f.m.evaluate(l.weight.name); err != nil {
			return err
		}
	}
	h.featuresValue = *f.in.get(l.features)
	if len(h.selection) > 0 {
		h.featuresValue.dims = nil
	}
	rank := ""
	if l.assumed {
		rank = ", taken to be [N,d] as the graph does not give its rank"
	}
	form := "features · Wᵀ"
	if h.Bias {
		form += " + b"
	}
	found := []string{
		fmt.Sprintf("%s is linear in %q%s, and its other side %q is constant", describe(l.node), l.features, rank, l.weight.name),
		fmt.Sprintf("logits %q = %s, %d features, %d classes", h.Logits, form, h.FeatureDim, h.Classes),
	}
	for _, n := range h.selection {
		found = append(found, fmt.Sprintf("%s commutes with the linear layer and is done on the features", describe(n)))
	}
	if h.scale != nil {
		found = append(found, fmt.Sprintf("a scale of %.6g is folded into the weights", h.scale[0]))
		if slices.Min(h.scale) != slices.Max(h.scale) {
			found[len(found)-1] = "a scale for each class is folded into the weights"
		}
	}
	switch {
	case h.Link != "":
		found = append(found, fmt.Sprintf("what follows makes probabilities of them: %s", strings.Join(h.Tail, ", ")))
	case f.linkBehind(h.Logits) != "":
		h.Link = f.linkBehind(h.Logits)
		found = append(found, fmt.Sprintf("elsewhere in the graph the logits go into %s", h.Link))
	case h.Classes == 1:
		h.Link = Sigmoid
		found = append(found, "no Sigmoid follows the logit; a single one is taken as that of two classes")
	default:
		h.Link = Softmax
		found = append(found, "no Softmax or Sigmoid follows the logits; one label among all classes is assumed")
	}
	if h.Classes == 1 && h.Link == Softmax {
		return &refusal{fmt.Sprintf("%s has one output only, of which Softmax makes 1", describe(l.node)), l.node}
	}
	h.Evidence = found
	return nil
}

// linkBehind looks forward from the logits for what makes probabilities of them, past operators that only reshape.
func (f *finder) linkBehind(name string) Link {
	const far = 100
	queue := []string{name}
	for i := 0; i < len(queue) && i < far; i++ {
		for _, n := range f.g.consumers[queue[i]] {
			s := steps[n.GetOpType()]
			if s == nil || !isDefault(n.GetDomain()) || input(n, 0) != queue[i] || len(n.GetOutput()) == 0 {
				continue
			}
			if s.link != "" {
				return s.link
			}
			if s.layout {
				queue = append(queue, n.GetOutput()[0])
			}
		}
	}
	return ""
}
