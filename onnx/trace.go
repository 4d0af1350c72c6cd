package onnx

import (
	"errors"
	"fmt"
	"math"
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

// A linear is an operator that is linear in one tensor, the other being constant.
type linear struct {
	node       *onnxpb.Node
	features   string
	transposed bool // features lie [d,N]
	weight     weight
	k, d       int64
	alpha      float64
	bias       string // "" if it has none
	beta       float64
	out        flow
	assumed    bool // the rank of features is not known and taken to be 2
	whole      bool // a convolution over the whole of its input: features are that, flattened
}

// trace goes back from a tensor to the linear layer it comes from, and forward again to see what happens to the logits.
func (f *finder) trace(start string) (*Head, error) {
	var path []*onnxpb.Node // from the output back
	for t := start; ; {
		n := f.g.producer[t]
		switch {
		case n == nil && f.g.initialized(t):
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
	v, err := f.in.get(name)
	return err == nil && v.constant
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
		c := &call{Node: n, interpreter: f.in}
		for _, name := range n.GetInput() {
			var v *value
			if name == from {
				v = &cur.value
			} else if name != "" {
				var err error
				if v, err = f.in.get(name); err != nil {
					return nil, err
				}
			}
			c.in = append(c.in, v)
		}
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
		isBias := false
		switch {
		case s.affine:
			scale, shift, err := f.constants(n, from, &cur, int(l.k))
			if err != nil {
				return nil, err
			}
			isBias = scale == nil && a.shift == nil
			a.apply(scale, shift)
			h.Logits = ""
		case s.pools && !c.pointless(&cur):
			if l.assumed {
				return nil, &refusal{fmt.Sprintf("%s follows %s, whose features %q have an unknown rank", describe(n), describe(l.node), l.features), n}
			}
			for _, m := range moved {
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
	return h, f.finish(h, l)
}

// bias returns what a linear operator adds itself, one number or K.
func (f *finder) bias(l *linear) ([]float64, error) {
	if l.node.GetOpType() != "Conv" {
		return f.vector(l.bias, &l.out, int(l.k))
	}
	v, err := f.m.evaluate(l.bias) // along axis 1, whatever follows
	if err == nil && len(v.data) != int(l.k) {
		err = refuse("%s has %d biases for %d classes", describe(l.node), len(v.data), l.k)
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(v.data), nil
}

// An affine is what has been added and multiplied since the linear operator: scale ⊙ x + shift, each nil or of length k.
type affine struct {
	k            int
	scale, shift []float64
}

// apply follows a by x → scale ⊙ x + shift, each nil or of length 1 or k.
func (a *affine) apply(scale, shift []float64) {
	full := func(v []float64) []float64 {
		if len(v) == 1 {
			return slices.Repeat(v, a.k)
		}
		return slices.Clone(v)
	}
	if scale != nil {
		scale = full(scale)
		if a.scale == nil {
			a.scale = slices.Repeat([]float64{1}, a.k)
		}
		for i, s := range scale {
			a.scale[i] *= s
			if a.shift != nil {
				a.shift[i] *= s
			}
		}
	}
	if shift != nil {
		shift = full(shift)
		if a.shift == nil {
			a.shift = shift
			return
		}
		for i, s := range shift {
			a.shift[i] += s
		}
	}
}

// constants returns what an affine step multiplies the logits by and adds to them.
func (f *finder) constants(n *onnxpb.Node, from string, cur *flow, k int) (scale, shift []float64, err error) {
	if n.GetOpType() == "BatchNormalization" {
		return f.batchNorm(n, cur, k)
	}
	left := input(n, 0) == from
	if len(n.GetInput()) != 2 || input(n, 0) == input(n, 1) {
		return nil, nil, &refusal{describe(n) + " is not linear", n}
	}
	other := input(n, 0)
	if left {
		other = input(n, 1)
	}
	v, err := f.vector(other, cur, k)
	if err != nil {
		return nil, nil, err
	}
	switch op := n.GetOpType(); {
	case op == "Add":
		return nil, v, nil
	case op == "Mul":
		scale = v
	case op == "Sub" && left:
		for i := range v {
			v[i] = -v[i]
		}
		return nil, v, nil
	case op == "Sub":
		return []float64{-1}, v, nil
	case op == "Div" && left:
		for i := range v {
			v[i] = 1 / v[i]
		}
		scale = v
	default:
		return nil, nil, &refusal{describe(n) + " divides by the logits", n}
	}
	return scale, nil, checkScale(n, scale)
}

func checkScale(n *onnxpb.Node, scale []float64) error {
	for _, s := range scale {
		if s == 0 || math.IsNaN(s) || math.IsInf(s, 0) {
			return refuse("%s multiplies the logits by %v", describe(n), s)
		}
	}
	return nil
}

// batchNorm returns scale and shift of a normalisation with fixed statistics: γ/√(σ²+ε) and β − μγ/√(σ²+ε).
func (f *finder) batchNorm(n *onnxpb.Node, cur *flow, k int) (scale, shift []float64, err error) {
	if attrInt(n, "training_mode", 0) != 0 || len(n.GetInput()) != 5 || cur.class != 1 {
		return nil, nil, &refusal{describe(n) + " has no fixed statistics for each class", n}
	}
	var p [4][]float64
	for i := range p {
		v, err := f.m.evaluate(input(n, i+1))
		if err != nil {
			return nil, nil, err
		}
		if p[i] = v.data; len(p[i]) != k {
			return nil, nil, refuse("%s has %d statistics for %d classes", describe(n), len(p[i]), k)
		}
	}
	scale, shift = make([]float64, k), make([]float64, k)
	for i := range scale {
		scale[i] = p[0][i] / math.Sqrt(p[3][i]+attrFloat(n, "epsilon", 1e-5))
		shift[i] = p[1][i] - p[2][i]*scale[i]
	}
	return scale, shift, checkScale(n, scale)
}

// vector returns a constant that is combined elementwise with the logits: one number, or one for each class.
func (f *finder) vector(name string, cur *flow, k int) ([]float64, error) {
	v, err := f.m.evaluate(name)
	if err != nil {
		return nil, err
	}
	if len(v.data) == 1 && len(v.dims) <= max(len(cur.dims), 1) {
		return slices.Clone(v.data), nil
	}
	pad := len(cur.dims) - len(v.dims)
	if cur.class == noClass || pad < 0 {
		return nil, refuse("the constant %q of shape %v does not fit logits of shape %v", name, v.dims, cur)
	}
	for i, d := range v.dims {
		// Along the examples, axis 0, a constant may have been spread out for a fixed batch.
		if d != 1 && d != cur.dims[pad+i] && (pad+i > 0 || cur.class == 0) {
			return nil, refuse("the constant %q of shape %v does not fit logits of shape %v", name, v.dims, cur)
		}
	}
	n := 1
	if i := cur.class - pad; i >= 0 && v.dims[i] > 1 {
		n = k
	}
	inner := int64(1)
	if n > 1 {
		inner, _ = elements(v.dims[cur.class-pad+1:])
	}
	out := make([]float64, n)
	for i, x := range v.data {
		j := i / int(inner) % n
		if i < n*int(inner) && i%int(inner) == 0 {
			out[j] = x
		}
		if x != out[j] {
			return nil, refuse("the constant %q of shape %v is not the same for every example", name, v.dims)
		}
	}
	if len(v.data) == 0 {
		return nil, refuse("the constant %q is empty", name)
	}
	return out, nil
}

// finish looks at the link and the features, and writes the evidence.
func (f *finder) finish(h *Head, l *linear) error {
	if f.g.producer[l.weight.name] != nil {
		// Weights that are computed must be computable; stored ones have been checked when the model was read.
		if _, err := f.m.evaluate(l.weight.name); err != nil {
			return err
		}
	}
	v, err := f.in.get(l.features)
	if err != nil {
		return err
	}
	h.featuresValue = *v
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

// linear recognises an operator that is linear in exactly one tensor. It returns nil if n is another operator, and a
// refusal if it is one of these but not of a form that makes a head.
func (f *finder) linear(n *onnxpb.Node) (*linear, error) {
	if !isDefault(n.GetDomain()) || f.in.functions[opName(n)] || len(n.GetInput()) < 2 || len(n.GetOutput()) == 0 || n.GetOutput()[0] == "" {
		return nil, nil
	}
	var form func(*onnxpb.Node, *value, *value, bool) (*linear, error)
	switch n.GetOpType() {
	case "Gemm":
		form = f.gemm
	case "MatMul":
		form = f.matMul
	case "Conv":
		form = f.conv
	default:
		return nil, nil
	}
	a, err := f.in.get(input(n, 0))
	if err != nil {
		return nil, err
	}
	b, err := f.in.get(input(n, 1))
	if err != nil {
		return nil, err
	}
	if a.constant == b.constant {
		return nil, &refusal{fmt.Sprintf("%s multiplies two tensors that both depend on the input", describe(n)), n}
	}
	w, name := b, input(n, 1)
	if a.constant {
		w, name = a, input(n, 0)
	}
	if w.dims == nil {
		if _, err := f.m.evaluate(name); err != nil {
			return nil, err
		}
		return nil, errors.New("unreachable: a constant without a shape was evaluated")
	}
	l, err := form(n, a, b, a.constant)
	if err != nil {
		return nil, err
	}
	if size, ok := elements([]int64{l.k, l.d}); !ok || size == 0 || size > maxWeightElements {
		return nil, refuse("%s has %d features and %d classes", describe(n), l.d, l.k)
	}
	l.node = n
	l.weight.name = name
	if l.features = input(n, 0); a.constant {
		l.features = input(n, 1)
	}
	l.out.typ = a.typ
	l.out.merge(f.in.values[n.GetOutput()[0]])
	return l, nil
}

// gemm is α·A'·B' + β·C.
func (f *finder) gemm(n *onnxpb.Node, a, b *value, left bool) (*linear, error) {
	transA, transB := attrInt(n, "transA", 0) != 0, attrInt(n, "transB", 0) != 0
	l := &linear{alpha: attrFloat(n, "alpha", 1), beta: attrFloat(n, "beta", 1)}
	if l.beta != 0 {
		l.bias = input(n, 2)
	}
	if l.bias != "" && !f.constant(l.bias) {
		return nil, &refusal{fmt.Sprintf("%s adds %q, which depends on the input", describe(n), l.bias), n}
	}
	w := b.dims
	if left {
		// Weights stand on the left, so the result is [K,N].
		w = a.dims
		l.weight.transposed, l.transposed = transA, !transB
	} else {
		l.weight.transposed, l.transposed = !transB, transA
	}
	if len(w) != 2 {
		return nil, refuse("%s has weights of shape %v", describe(n), w)
	}
	l.k, l.d = w[0], w[1]
	if l.weight.transposed {
		l.k, l.d = w[1], w[0]
	}
	if l.out = (flow{value{dims: []int64{-1, l.k}}, 1}); left {
		l.out = flow{value{dims: []int64{l.k, -1}}, 0}
	}
	return l, nil
}

// matMul is x·W for x of any rank from 2, or W·x for rank 2.
func (f *finder) matMul(n *onnxpb.Node, a, b *value, left bool) (*linear, error) {
	l := &linear{alpha: 1, weight: weight{transposed: !left}, transposed: left}
	w, x := b.dims, a.dims
	if left {
		w, x = a.dims, b.dims
	}
	for len(w) > 2 && w[0] == 1 && len(x) >= len(w) {
		w = w[1:]
	}
	switch {
	case len(w) != 2:
		return nil, refuse("%s has weights of shape %v", describe(n), w)
	case x == nil && !left:
		if out := f.in.values[n.GetOutput()[0]]; len(out.dims) >= 2 {
			x = slices.Repeat([]int64{-1}, len(out.dims))
			break
		}
		l.assumed = true
		x = []int64{-1, -1}
	case len(x) < 2 || left && len(x) != 2:
		return nil, refuse("%s multiplies features of shape %v", describe(n), x)
	}
	if left {
		l.k, l.d = w[0], w[1]
		l.out = flow{value{dims: []int64{l.k, x[1]}}, 0}
		return l, nil
	}
	l.d, l.k = w[0], w[1]
	l.out = flow{value{dims: slices.Clone(x)}, len(x) - 1}
	l.out.dims[len(x)-1] = l.k
	return l, nil
}

// conv is a convolution that is a linear layer: with a 1×1 kernel at every place alike, or with a kernel as large as its
// input, so that there is one place only.
func (f *finder) conv(n *onnxpb.Node, x, w *value, left bool) (*linear, error) {
	l := &linear{alpha: 1, beta: 1, bias: input(n, 2)}
	if left || len(w.dims) < 3 {
		return nil, refuse("%s has weights of shape %v", describe(n), w.dims)
	}
	if l.bias != "" && !f.constant(l.bias) {
		return nil, refuse("%s adds %q, which depends on the input", describe(n), l.bias)
	}
	all := func(name string, want int64) bool {
		return !slices.ContainsFunc(attribute(n, name).GetInts(), func(x int64) bool { return x != want })
	}
	size, ok := elements(w.dims[1:])
	if !ok || attrInt(n, "group", 1) != 1 || !all("pads", 0) || !all("dilations", 1) {
		return nil, &refusal{describe(n) + " is no linear layer: it has groups, padding or dilation", n}
	}
	out := f.in.values[n.GetOutput()[0]]
	kernel := w.dims[2:]
	point := !slices.ContainsFunc(kernel, func(k int64) bool { return k != 1 })
	switch {
	case point && (all("strides", 1) || len(x.dims) > 2 && !slices.ContainsFunc(x.dims[2:], func(d int64) bool { return d != 1 })):
	case len(x.dims) == len(w.dims) && slices.Equal(x.dims[2:], kernel) && slices.Contains([]string{"", "NOTSET", "VALID"}, string(attribute(n, "auto_pad").GetS())):
		l.whole = true
	default:
		return nil, &refusal{fmt.Sprintf("%s is no linear layer: its kernel %v is neither 1×1 nor as large as its input", describe(n), kernel), n}
	}
	l.k, l.d = w.dims[0], size
	l.out = flow{value{dims: slices.Repeat([]int64{-1}, len(w.dims))}, 1}
	l.out.dims[1] = l.k
	for i := 2; i < len(w.dims); i++ {
		if l.whole {
			l.out.dims[i] = 1
		} else if len(out.dims) == len(w.dims) {
			l.out.dims[i] = out.dims[i]
		}
	}
	return l, nil
}
