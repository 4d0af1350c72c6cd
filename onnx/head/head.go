package head

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
)

// Head is the last linear layer of a classifier: logits [N,K] = features [N,d] · Wᵀ + b, for N
// examples, d features and K classes. A binary classifier may have a single logit, K = 1.
type Head struct {
	// Op is the type of the linear operator, such as Gemm. Where the model adds up several linear
	// layers, Op and Node join theirs by "+", and FeaturesTensor by ",".
	Op string `json:"op"`
	// Node is the operator's name or, if it has none, its output's.
	Node string `json:"node"`
	// FeaturesTensor is the name of the tensor that the operator reads, φ.
	FeaturesTensor string `json:"features"`
	// LogitsTensor is the name of the last tensor that holds the logits.
	LogitsTensor string `json:"logits"`
	// Kind is where the logits come from. Unless it is Linear, Op and Node are the operator that gives them, Features
	// may be empty, and there is no layer.
	Kind Kind `json:"kind,omitempty"`
	// Head has d, K, whether there is a bias, and the link from logits to probabilities.
	layer.Head
	// Decoding is how steps are read, for the kinds [CTC] and [Tags]; nil before it is known, see [Head.Read].
	Decoding *Decoding `json:"decoding,omitempty"`
	// Steps is the number of axes of steps of a head with logits for each step of an example: 1 for sequences, such as
	// the tokens of a sentence, [N,T,K], and 2 for maps, such as the pixels of an image, [N,K,H,W]. It is 0 for one row
	// of logits for each example.
	Steps int `json:"steps,omitempty"`
	// Tail lists the types of the operators between the layer, with its bias, and the output.
	Tail []string `json:"tail"`
	// Evidence says in sentences what was found, for people to check.
	Evidence []string `json:"-"`

	// Labels are the class names that the model contains, in the order of the classes; two for a
	// single logit. Nil if there are none.
	Labels []string `json:"labels,omitempty"`

	// Approximation is the one in Options that was needed; "" if the logits are exactly φ·Wᵀ + b.
	Approximation Approximation `json:"approximation,omitempty"`
	// Rounding is positive for a quantised model, whose logits are φ·Wᵀ + b rounded to a multiple of
	// it and clipped to [Low, High]; 0 means no rounding. Low and High may be infinite. Successive
	// roundings are added up. All three are in units of the logits.
	Rounding  float64 `json:"rounding,omitempty"`
	Low, High float64 `json:"-"`

	model       *onnx.Model
	affine      affine
	after       []after     // how the output is computed from the probabilities
	normalised  bool        // the sigmoids of several classes are normalised
	columns     []int       // the classes in the output, nil for all
	picked      bool        // the output is the predicted class
	linked      bool        // the model computes probabilities from the logits
	scores      bool        // and the operator outputs them in another form
	logitsValue graph.Value // shape and type of the logits
	layout      layout      // of steps
	origin      *Head       // the head of a step, of an unrolled model, which has the weights; else nil

	// Of a head without a linear layer: the numbers of an example in LogitsTensor, and the names of n classes.
	width int
	names func(n int) []string
}

// UnsupportedError is returned if no head is found, or not the one asked for.
type UnsupportedError struct {
	// Reason is one sentence.
	Reason string
	// Kind is the one asked for.
	Kind Kind
	// Candidates are other linear layers in front of the output, the nearest first.
	Candidates []*Head
}

// Error gives the reason, and what to do about it.
func (e *UnsupportedError) Error() string {
	if e.Kind != Linear {
		return fmt.Sprintf("no output to calibrate: %s; if another is meant, name it with %s, or a tensor with %s", e.Reason, option.Output, option.Logits)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no classification head: %s; if another layer is meant, name its tensors with %s and %s",
		e.Reason, option.Features, option.Logits)
	for i, h := range e.Candidates {
		sep := ", or"
		if i == 0 {
			sep = ": nearest"
		}
		fmt.Fprintf(&b, "%s %s and %s (%s, %d features, %d classes)", sep,
			onnxpb.Printable(h.FeaturesTensor), onnxpb.Printable(h.LogitsTensor), h.Op, h.Features, h.Logits)
	}
	return b.String()
}

// Find finds the linear layer that computes a classifier's logits.
//
// It walks back from an output, past operators that only reshape, convert, compute probabilities or
// pick the best class, to the first operator that is linear in exactly one tensor that depends on
// the model's input. Its weights must follow from constants. A bias, a scale for all or each of the
// classes, and a temperature are folded in. Pooling and token selection commute with a linear layer,
// so they may follow it. A group of operators that exporters write for one counts as that one.
//
// With several outputs, a layer that feeds another found layer is not a head: it is an embedding that
// is also an output. Of the others, layers followed by Softmax or Sigmoid come before those followed
// by ArgMax, and these before the rest; among equals the first output wins, because exporters put
// the main output first.
//
// If the graph gives no definite answer the error is an *UnsupportedError; any other error comes
// from reading the file. Find looks at the graph alone: check on a batch that φ·Wᵀ + b equals the
// logits.
func Find(m *onnx.Model, o Options) (*Head, error) {
	f := newFinder(m)
	f.approximate = o.Approximate == IgnoreRelu
	h, err := f.find(o)
	if err == nil {
		return h, nil
	}
	var r *graph.Refusal
	if !errors.As(err, &r) {
		return nil, err
	}
	u := &UnsupportedError{Reason: r.Reason, Kind: o.Kind}
	if r.At != nil && o.Kind == Linear {
		u.Candidates = f.candidates(r.At)
	}
	return nil, u
}

func (f *finder) find(o Options) (*Head, error) {
	if f.g.Opset == 0 {
		return nil, graph.Refuse("the model uses default operators and does not import them, so that their version is not known; export it again, or add the import with onnx.helper.make_opsetid")
	}
	if f.g.Opset < 7 {
		return nil, graph.Refuse("operator set %d is older than 7; convert the model with onnx.version_converter",
			f.g.Opset)
	}
	if o.Link != "" && o.Link.Validate() != nil {
		return nil, graph.Refuse("%s %q: want %s", option.Link, o.Link, layer.Names())
	}
	f.link = o.Link
	if err := o.Kind.Validate(); err != nil {
		return nil, graph.Refuse("%v", err)
	}
	if o.Approximate != "" && o.Approximate != IgnoreRelu {
		return nil, graph.Refuse("%s %q: want %s", option.Approximate, o.Approximate, IgnoreRelu)
	}
	for _, name := range []string{o.Features, o.Logits} {
		// Features of several layers are joined names, of no tensor; confirm checks them.
		if name != "" && !f.g.Has(name) && (name == o.Logits || !strings.Contains(name, featuresSep)) {
			return nil, graph.Refuse("the graph has no tensor %q", name)
		}
	}
	switch o.Kind {
	case Linear:
	case CTC, Tags:
		return f.findSteps(o)
	default:
		return f.findOutput(o)
	}
	var h *Head
	var err error
	if o.Logits != "" {
		if h, err = f.trace(o.Logits); err == nil {
			_, err = f.complete([]*Head{h})
		}
	} else {
		h, err = f.choose(o.Output)
	}
	if err != nil {
		return nil, err
	}
	if o.Features != "" {
		if err := f.confirm(h, o.Features); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// choose tries the model's outputs, or the one named.
func (f *finder) choose(output string) (*Head, error) {
	var names []string
	for _, v := range f.m.Outputs() {
		if output == "" || v.Name == output {
			names = append(names, v.Name)
		}
	}
	switch {
	case len(names) == 0 && output == "":
		return nil, graph.Refuse("the model has no output")
	case len(names) == 0:
		return nil, graph.Refuse("the model has no output %q", output)
	}
	const most = 64 // a model with a hundred outputs is a detector
	var heads []*Head
	var first error // preferably of an output that may hold logits
	plausible := false
	for _, name := range names[:min(most, len(names))] {
		f.sums = 0
		h, err := f.trace(name)
		var r *graph.Refusal
		switch {
		case err == nil:
			heads = append(heads, h)
		case !errors.As(err, &r):
			return nil, err
		case first == nil || !plausible && f.in.Get(name).Type.IsFloat():
			first, plausible = err, f.in.Get(name).Type.IsFloat()
		}
	}
	heads, err := f.complete(heads)
	if len(heads) == 0 {
		return nil, cmp.Or(first, err)
	}
	heads = f.last(heads)
	var steps []*Head
	if one := slices.DeleteFunc(slices.Clone(heads), func(h *Head) bool { return h.Steps > 0 }); len(one) > 0 {
		steps = slices.DeleteFunc(heads, func(h *Head) bool { return h.Steps == 0 })
		heads = one // an answer for each example comes before one for each step
	}
	best := slices.MaxFunc(heads, func(a, b *Head) int { return a.purpose() - b.purpose() }) // the first of equals
	var others []string
	for _, h := range heads {
		if h.Node != best.Node {
			others = append(others, h.LogitsTensor)
		}
	}
	if len(others) > 0 {
		best.Evidence = append(best.Evidence,
			fmt.Sprintf("other outputs come from other linear layers; choose one of them with %s %s",
				option.Logits, strings.Join(others, ", ")))
	}
	if len(steps) > 0 {
		best.Evidence = append(best.Evidence, fmt.Sprintf("%q has logits for each step of an example: choose it with %s",
			steps[0].LogitsTensor, option.Logits))
	}
	return best, nil
}

// complete drops heads whose outputs hold only some classes, or hold them in another order. The
// second of two classes is enough: the first has the remaining probability.
func (f *finder) complete(heads []*Head) ([]*Head, error) {
	given := map[string][]int{}
	for _, h := range heads {
		given[h.LogitsTensor] = append(given[h.LogitsTensor], h.columns...)
	}
	var err error
	whole := slices.DeleteFunc(slices.Clone(heads), func(h *Head) bool {
		if h.columns == nil {
			return false
		}
		n, list := h.Logits, given[h.LogitsTensor]
		if h.Link == layer.Sigmoid {
			n = max(2, n)
		}
		ok := n == 2 && slices.Equal(list, []int{1}) || len(list) == n
		for i, k := range list {
			ok = ok && (len(list) == 1 || k == i)
		}
		if !ok {
			err = graph.Refuse("the outputs give the probabilities of some classes of %q only, or not in their order; export the model with all of them in one output",
				h.LogitsTensor)
		}
		return !ok
	})
	return whole, err
}

// last drops layers that feed another found layer: embeddings that are also outputs.
func (f *finder) last(heads []*Head) []*Head {
	inner := map[*onnxpb.Node]bool{}
	for _, h := range heads {
		for _, s := range h.affine.shares {
			maps.Copy(inner, f.g.Ancestors(s.features))
		}
	}
	return slices.DeleteFunc(heads, func(h *Head) bool { return inner[f.g.Producer[h.LogitsTensor]] })
}

// purpose ranks how clearly the graph uses the head as a classifier's: 3 if the output is
// probabilities, 2 if it is the class picked from them, 1 if it is the class picked from the logits.
func (h *Head) purpose() int {
	switch {
	case h.linked && !h.picked:
		return 3
	case h.linked:
		return 2
	case h.picked:
		return 1
	}
	return 0
}

// featuresSep separates the names in Head.Features.
const featuresSep = ","

// confirm checks that the layer reads the features that the user named, up to a change of shape.
func (f *finder) confirm(h *Head, features string) error {
	if h.FeaturesTensor == features {
		return nil
	}
	if !f.g.Has(features) {
		return graph.Refuse("the logits %q are linear in %q, not in %q", h.LogitsTensor, h.FeaturesTensor, features)
	}
	for t := h.FeaturesTensor; t != features; {
		n := f.g.Producer[t]
		if s := f.step(n); s == nil || s.keeps < inRange {
			between := "the graph's input"
			if n != nil {
				between = f.describe(n)
			}
			return graph.Refuse("the logits %q are linear in %q, and %s stands between that and %q", h.LogitsTensor,
				h.FeaturesTensor, between, features)
		}
		t = n.In(0)
	}
	h.Evidence = append(h.Evidence, fmt.Sprintf("%q reaches the layer as %q, in another shape", features, h.FeaturesTensor))
	return nil
}

// candidates looks for linear layers below an obstacle. The logits of each are the last tensor
// towards the obstacle that is linear in its features: after the bias, not before it. Layers below
// another layer, or below a product such as squeeze-and-excitation, are part of the backbone and no
// candidates.
func (f *finder) candidates(at *onnxpb.Node) []*Head {
	const most, far = 3, 1000
	var heads []*Head
	type place struct {
		node *onnxpb.Node
		path []string // tensors from the node towards the obstacle
	}
	seen := map[*onnxpb.Node]bool{at: true}
	for queue := []place{{node: at}}; len(queue) > 0 && len(heads) < most && len(seen) < far; queue = queue[1:] {
		for _, name := range f.ungated(queue[0].node) {
			n := f.g.Producer[name]
			if n == nil || seen[n] {
				continue
			}
			seen[n] = true
			path := append([]string{name}, queue[0].path...)
			l, _ := f.linear(n)
			if l == nil {
				if !f.weighs(n) && !f.gates(n) {
					queue = append(queue, place{n, path})
				}
				continue
			}
			f.sums = 0
			for _, name := range slices.Backward(path) {
				h, err := f.trace(name)
				if err != nil || h.Steps > 0 {
					continue
				}
				if !slices.ContainsFunc(heads, func(o *Head) bool {
					return o.FeaturesTensor == h.FeaturesTensor &&
						o.LogitsTensor == h.LogitsTensor
				}) {
					heads = append(heads, h)
				}
				break
			}
		}
	}
	return heads
}

// weighs reports whether a node multiplies a tensor that depends on the input by weights.
func (f *finder) weighs(n *onnxpb.Node) bool {
	switch n.GetOpType() {
	case "Gemm", "MatMul", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN":
		return !f.constant(n.GetOutput()[0])
	}
	return false
}

// finish builds the head that a trail has led to.
func (f *finder) finish(t *trail, start string) (*Head, error) {
	first := t.nodes[0]
	lies, err := f.steps(t)
	if err != nil {
		return nil, err
	}
	if t.logits == "" {
		return nil, graph.RefuseAt(first, "%s gives %v after %s, not one row of %d logits for each example",
			f.describe(first), &t.at, start, t.k)
	}
	h := &Head{
		LogitsTensor: t.logits, Head: layer.Head{Logits: t.k, Bias: t.shift != nil, Link: t.link},
		Tail: append([]string{}, t.tail...), Rounding: t.rounding, Low: t.low, High: t.high,
		after: t.after, normalised: t.normalised, columns: t.columns,
		model: f.m, affine: t.affine, linked: t.link != "", picked: t.picked, logitsValue: t.found,
		Steps: lies.steps, layout: lies,
	}
	if t.approximated {
		h.Approximation = IgnoreRelu
	}
	if err := f.fill(h, t, start); err != nil {
		return nil, err
	}
	if h.Logits > 1 && (t.picked || slices.ContainsFunc(t.nodes, f.exclusive)) {
		h.Link = h.Link.Normalise()
	}
	if err := f.settle(h, t); err != nil {
		return nil, err
	}
	h.scores = slices.ContainsFunc(t.nodes, f.givesScores)
	h.Evidence = f.evidence(h, t)
	if h.Steps > 0 {
		h.Evidence = append(h.Evidence, h.stepsEvidence())
	}
	var source string
	h.Link, source = f.linkOf(h)
	h.Evidence = append(h.Evidence, source)
	classes := h.Logits
	if h.Link == layer.Sigmoid {
		classes = max(2, classes)
	}
	if h.Labels = f.labels(t, classes); h.Labels != nil {
		h.Evidence = append(h.Evidence, fmt.Sprintf("the model names its classes, the first %q", h.Labels[0]))
	} else if names, key := named(f.m.Metadata(), classes); names != nil {
		h.Labels = names
		h.Evidence = append(h.Evidence, fmt.Sprintf("its metadata name the classes under %q, the first %q", key, names[0]))
	}
	return h, nil
}

// fill sets the names and size of the layer at which a trail begins, and checks that its weights can
// be computed.
func (f *finder) fill(h *Head, t *trail, start string) error {
	first := t.nodes[0]
	if out := f.in.Get(start); t.shares[0].assumed && h.Steps == 0 && len(out.Dims) > 2 &&
		!(&flow{Value: *out, class: len(out.Dims) - 1}).rows() {
		return graph.RefuseAt(first, "%s gives %v after %s, not one row of %d logits for each example",
			f.describe(first), &flow{Value: *out}, start, t.k)
	}
	var op, node, features []string
	for _, n := range t.nodes {
		n = f.g.Source(n)
		op, node = append(op, n.Op()), append(node, n.Label())
	}
	for _, p := range t.shares {
		features = append(features, p.features)
		h.Features += p.d
		for _, m := range p.terms {
			if f.g.Producer[m.weight.name] == nil {
				continue // stored weights were checked when the model was read
			}
			if _, err := f.evaluate(m.weight.name, false); err != nil {
				return err
			}
		}
	}
	h.Op, h.Node, h.FeaturesTensor = strings.Join(op, "+"), strings.Join(node, "+"), strings.Join(features, featuresSep)
	if size, ok := onnxpb.Elements([]int64{int64(h.Logits), int64(h.Features)}); !ok || size == 0 ||
		size > graph.MaxWeightElements {
		return graph.Refuse("%s has %d features and %d classes", f.describe(first), h.Features, h.Logits)
	}
	return nil
}

// exclusive reports whether a node's operator outputs one class out of all.
func (f *finder) exclusive(n *onnxpb.Node) bool {
	return f.g.Source(n).Op() == "ai.onnx.ml.LinearClassifier"
}

// givesScores reports whether a node's operator has weights for one of two classes only and outputs
// scores, although the view treats them as probabilities.
func (f *finder) givesScores(n *onnxpb.Node) bool {
	c := f.g.Source(n)
	return f.exclusive(n) && len(c.Attr("intercepts").GetFloats()) == 1 &&
		string(c.Attr("post_transform").GetS()) != "LOGISTIC"
}

// settle checks the link, and sets the one that was asked for.
func (f *finder) settle(h *Head, t *trail) error {
	first := t.nodes[0]
	if f.link != "" && f.link != h.Link {
		if h.Link != "" && (h.Link == layer.Softmax || f.link == layer.Softmax) {
			return graph.RefuseAt(first, "the probabilities are computed from %q by %s, not by %s", h.LogitsTensor, h.Link,
				f.link)
		}
		h.Link = f.link
	}
	if h.Logits == 1 && h.Link != "" && h.Link != layer.Sigmoid {
		return graph.RefuseAt(first, "%s has one output only, of which %s makes 1", f.describe(first), h.Link)
	}
	return nil
}

// evidence says what was found of the layer.
func (f *finder) evidence(h *Head, t *trail) []string {
	var found []string
	say := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(found, s) { // two layers may be alike
			found = append(found, s)
		}
	}
	for _, p := range t.shares {
		rank := ""
		switch {
		case p.assumed && f.rank > 0:
			rank = fmt.Sprintf(", taken to have the rank of the output, %d, since the graph does not declare its own", f.rank)
		case p.assumed:
			rank = ", assumed to be [N,d] since the graph does not declare its rank"
		}
		say("%s is linear in %q%s, and its other side %q is constant", f.describe(f.reader(t, p)), p.features, rank,
			p.terms[0].weight.name)
	}
	rows := "N"
	if h.Steps > 0 {
		rows = "N·T"
	}
	form := fmt.Sprintf("= features [%s,%d] · Wᵀ", rows, h.Features)
	if h.Approximation != "" {
		form = "≈" + strings.TrimPrefix(form, "=")
	}
	if h.Bias {
		form += " + b"
	}
	say("logits %q [%s,%d] %s", h.LogitsTensor, rows, h.Logits, form)
	if len(t.shares) > 1 {
		say("the logits add up %d linear layers, taken as one on the features of all", len(t.shares))
	}
	for _, p := range t.shares {
		for _, n := range p.selection {
			say("%s commutes with the linear layer and is done on the features", f.describe(n))
		}
		m := p.terms[0]
		switch {
		case p.beside:
			say("each class has a layer of its own, of the same features")
		case m.scale == nil:
		case slices.Min(m.scale) != slices.Max(m.scale):
			say("a scale for each class is folded into the weights")
		case m.scale[0] != 1:
			say("a scale of %.6g is folded into the weights", m.scale[0])
		}
		if m.rows != nil && !p.beside {
			say("the logits are %d of the layer's outputs", len(m.rows))
		}
	}
	if h.Rounding > 0 {
		say("the logits are rounded to multiples of %.3g, as the model is quantised", h.Rounding)
	}
	if t.averaged {
		say("the mean of probabilities is taken to be of one step, whose number the graph leaves open; with more, running it fails")
	}
	if h.Approximation != "" {
		say("approximation %s: the Relu between the layer and the logits is ignored for the variances",
			h.Approximation)
	}
	return found
}

// linkOf returns the link, chosen by default if the path to the output shows none, and a sentence on
// where it comes from.
func (f *finder) linkOf(h *Head) (l layer.Link, source string) {
	found := f.linkAfter(h.LogitsTensor)
	if h.Logits == 1 && found != "" { // a Softmax of a single number would be constant
		found = layer.Sigmoid
	}
	switch {
	case h.Link != "" && h.Link == f.link:
		return h.Link, fmt.Sprintf("the probabilities are computed by %s, as requested", h.Link)
	case h.Link != "":
		return h.Link, "the probabilities are computed from them by " + strings.Join(h.Tail, ", ")
	case found != "":
		return found, fmt.Sprintf("elsewhere in the graph the logits go into %s", found)
	case h.Logits == 1:
		return layer.Sigmoid, "no Sigmoid follows the logit; a single logit is assumed to be that of two classes"
	}
	return layer.Softmax, "no Softmax or Sigmoid follows the logits; one label among all classes is assumed"
}

// reader returns the linear operator that reads a share's features.
func (f *finder) reader(t *trail, p *share) *onnxpb.Node {
	for _, n := range t.nodes {
		if slices.Contains(n.GetInput(), p.features) {
			return n
		}
	}
	return t.nodes[0]
}

// linkAfter looks forward from the logits for a function that turns them into probabilities, past
// operators that only reshape.
func (f *finder) linkAfter(name string) (found layer.Link) {
	f.forward(name, func(n *onnxpb.Node, in string) bool {
		s := f.step(n)
		if s == nil || n.In(0) != in || len(n.GetOutput()) == 0 {
			return false
		}
		if found == "" && s.link != "" && f.leadsOut(n.GetOutput()[0]) {
			found = f.linkAt(n, s.link)
		}
		return found == "" && s.keeps > changed
	})
	return found
}

// leadsOut reports whether a tensor reaches an output of the model through steps only: a Sigmoid
// that gates another tensor is not a link.
func (f *finder) leadsOut(name string) bool {
	tensors := f.forward(name, func(n *onnxpb.Node, _ string) bool {
		s := f.step(n)
		return s != nil && (s.keeps > changed || s.logits == nil || s.link != "" || s.picks)
	})
	return slices.ContainsFunc(f.g.Proto.GetOutput(), func(v *onnxpb.ValueInfo) bool {
		return slices.Contains(tensors, v.GetName())
	})
}

// forward returns the tensors that depend on one past nodes that may be passed, the nearest first
// and no more than are looked at.
func (f *finder) forward(name string, pass func(n *onnxpb.Node, in string) bool) []string {
	const far = 100
	queue := []string{name}
	i := 0
	for ; i < len(queue) && i < far; i++ {
		for _, n := range f.g.Consumers[queue[i]] {
			if pass(n, queue[i]) {
				queue = append(queue, n.GetOutput()...)
			}
		}
	}
	return queue[:i]
}

// linkAt is the link that n makes, unless its probabilities are divided by their sum.
func (f *finder) linkAt(n *onnxpb.Node, made layer.Link) layer.Link {
	normalised := slices.ContainsFunc(f.g.Order, func(next *onnxpb.Node) bool {
		s := f.step(next)
		return s != nil && s.normalises && next.In(0) == n.GetOutput()[0]
	})
	if normalised {
		return made.Normalise()
	}
	return made
}

// Weights returns the layer's weights w, [K,d] row-major, and bias b, of length K or nil: logits =
// features · wᵀ + b, with every scale that stands between layer and logits folded in. It reads them
// from the file on every call.
func (h *Head) Weights() (w, b []float32, err error) {
	if h.origin != nil {
		return h.origin.Weights()
	}
	k, d := h.Logits, h.Features
	w = make([]float32, k*d)
	first := 0 // column of the share
	for _, p := range h.affine.shares {
		for i, t := range p.terms {
			if err := h.addTerm(w[first:], d, p, t, i == 0); err != nil {
				return nil, nil, err
			}
		}
		first += p.d
	}
	if h.affine.shift != nil {
		b = make([]float32, k)
		for i, x := range h.affine.shift {
			b[i] = float32(x)
		}
	}
	for _, list := range [][]float32{w, b} {
		for _, x := range list {
			if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
				return nil, nil, fmt.Errorf("weights of %s hold NaN or infinite numbers", h.Node)
			}
		}
	}
	return w, b, nil
}

// addTerm writes one weight into the columns of its share, or adds it if set is false. The rows of w
// are stride apart.
func (h *Head) addTerm(w []float32, stride int, p *share, t term, set bool) error {
	v, err := h.model.View().Evaluate(t.weight.name)
	if err != nil {
		return fmt.Errorf("weights of %s: %w", h.Node, err)
	}
	rows := len(v.Data) / p.d
	if rows*p.d != len(v.Data) || t.rows == nil && rows != h.Logits {
		return fmt.Errorf("weights %q of %s: %d numbers and not %d × %d", t.weight.name, h.Node, len(v.Data),
			h.Logits, p.d)
	}
	for i := range h.Logits {
		row, scale := i, 1.0
		if t.rows != nil {
			row = t.rows[i]
		}
		if t.scale != nil {
			scale = t.scale[i]
		}
		for j := range p.d {
			at := row*p.d + j
			if t.weight.transposed {
				at = j*rows + row
			}
			x := float32(scale * v.Data[at])
			if !set {
				x += w[i*stride+j]
			}
			w[i*stride+j] = x
		}
	}
	return nil
}

// Gives returns what the output that Find started from holds for class probabilities p, which Link
// computes from the logits (two for a single logit): p or its logarithm, of all classes or some. It
// is nil if the model outputs logits or the best class, or does not normalise.
func (h *Head) Gives(p []float64) []float64 {
	if !h.linked || h.picked || h.scores || h.Link.Normalised() && !h.normalised {
		return nil
	}
	y := slices.Clone(p)
	if h.Logits == 1 {
		y = y[1:]
	}
	for _, step := range h.after {
		y = step(y)
	}
	if h.columns != nil {
		return picked(y, h.columns)
	}
	return y
}

// trace walks back from a tensor to the linear layer it comes from, and forward again to follow the
// logits.
func (f *finder) trace(start string) (*Head, error) {
	t, err := f.reach(start)
	if err != nil {
		return nil, err
	}
	if rank := len(f.in.Get(start).Dims); t.shares[0].assumed && rank > 2 {
		// The declaration of an output says what cannot be inferred. What lies between must keep the rank.
		f.rank = rank
		defer func() { f.rank = 0 }()
		if ranked, err := f.reach(start); err == nil && len(ranked.at.Dims) == rank {
			t = ranked
		}
	}
	return f.finish(t, start)
}
