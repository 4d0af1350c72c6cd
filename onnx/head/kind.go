package head

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/build"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Floors of what logarithms are taken of, and of logarithms. Probabilities in float32 add up to 1 with an error of the
// first; that of 1 - p is no smaller.
const (
	LeastProbability    = 0x1p-24
	leastLogProbability = -104 // log of the smallest float32
)

// findOutput returns a head without a linear layer, of the output or tensor that the options name or else of the
// first output that holds a row of numbers for each example.
func (f *finder) findOutput(o Options) (*Head, error) {
	if o.Approximate != "" {
		return nil, graph.Refuse("%s is for a linear layer, and %s %s looks for none", option.Approximate, option.Kind, o.Kind)
	}
	names, err := f.outputNames(o)
	if err != nil {
		return nil, err
	}
	var found []*Head
	var first error // preferably of an output that may hold probabilities
	for _, name := range names {
		h, err := f.rowsOf(name)
		if err != nil {
			if t := f.in.Get(name).Type; first == nil || t == tensor.Undefined || t.IsFloat() {
				first = err
			}
			continue
		}
		if !slices.ContainsFunc(found, func(g *Head) bool { return g.LogitsTensor == h.LogitsTensor }) {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return nil, first
	}
	if o.Logits == "" {
		var err error
		if found, err = f.joinColumns(found); err != nil {
			return nil, err
		}
	}
	// A single column beside others is rarely the classes, and embeddings are less likely than what ends in a softmax.
	likely := func(h *Head) int { return 2*min(h.Logits, 2) + classifies(h.Op) }
	h := slices.MaxFunc(found, func(a, b *Head) int { return likely(a) - likely(b) })
	if len(found) > 1 {
		var others []string
		for _, g := range found {
			if g != h {
				others = append(others, fmt.Sprintf("%q [N,%d]", g.LogitsTensor, g.Logits))
			}
		}
		h.Evidence = append(h.Evidence, fmt.Sprintf("other outputs hold numbers too: %s; choose one of them with %s",
			strings.Join(others, ", "), option.Logits))
	}
	if o.Features != "" {
		v := f.in.Get(o.Features)
		width, ok := width(v)
		if v.Constant || !v.Type.IsFloat() || !ok {
			return nil, graph.Refuse("%q is %v, want float numbers that depend on the input, as many for each example",
				o.Features, &flow{Value: *v})
		}
		h.FeaturesTensor, h.Features = o.Features, width
		h.affine.shares = []*share{{features: o.Features, d: width, known: *v}}
		if f.g.Producer[o.Features] == nil && f.m.Opset() >= missingOpset {
			h.Missing, h.Features = true, 2*width
		}
		what := fmt.Sprintf("scores of what is out-of-distribution may use %q [N,%d]", o.Features, width)
		if h.Missing {
			what += ", and whether each is missing"
		}
		h.Evidence = append(h.Evidence, what)
	}
	h.Link = cmp.Or(o.Link, h.Link)
	return h.As(o.Kind)
}

// outputNames returns the tensor or output that the options name, or all outputs.
func (f *finder) outputNames(o Options) (names []string, err error) {
	if o.Logits != "" {
		return []string{o.Logits}, nil
	}
	for _, v := range f.m.Outputs() {
		if o.Output == "" || v.Name == o.Output {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return nil, graph.Refuse("the model has no output %q", o.Output)
	}
	return names, nil
}

// classifies returns 1 for operators that mostly give probabilities, else 0.
func classifies(op string) int {
	switch op {
	case "Softmax", "LogSoftmax", "Sigmoid", "TreeEnsembleClassifier", "SVMClassifier", "LinearClassifier", "Normalizer":
		return 1
	}
	return 0
}

// joinColumns replaces heads of one number each, where they are several, by that of the tensor whose columns they are,
// as where an export has an output for each class.
func (f *finder) joinColumns(found []*Head) ([]*Head, error) {
	var single []*Head
	whole, same := "", true
	for _, h := range found {
		if h.width == 1 {
			of := f.columnOf(h.LogitsTensor)
			same = same && (len(single) == 0 || of == whole)
			whole, single = of, append(single, h)
		}
	}
	if len(single) < 2 {
		return found, nil
	}
	var names []string
	for _, h := range single {
		names = append(names, strconv.Quote(h.LogitsTensor))
	}
	list := strings.Join(names[:min(len(names), 8)], ", ")
	if !same || whole == "" {
		if len(single) < len(found) {
			return found, nil
		}
		return nil, graph.Refuse("several outputs hold one number for each example: %s; choose one of them, or the tensor that holds those of all classes, with %s",
			list, option.Logits)
	}
	h, err := f.rowsOf(whole)
	if err != nil {
		return nil, err
	}
	h.Evidence = append(h.Evidence, fmt.Sprintf("its columns are the outputs %s", list))
	return append(slices.DeleteFunc(found, func(h *Head) bool { return h.width == 1 }), h), nil
}

// columnOf returns the tensor that a tensor is a column of, or "".
func (f *finder) columnOf(name string) string {
	for n := f.g.Producer[name]; n != nil; n = f.g.Producer[n.In(0)] {
		switch n.Op() {
		case "Identity", "Reshape", "Squeeze", "Unsqueeze", "Cast":
		case "Slice", "Gather", "Split", "ai.onnx.ml.ArrayFeatureExtractor":
			return n.In(0)
		default:
			return ""
		}
	}
	return ""
}

// missingOpset is the operator set from which on there is IsNaN.
const missingOpset = 9

// addMissing appends operators that replace missing values (NaN) among columns [N,d] by 0, and append to them whether
// each is missing: [N,2d]. A distance of Mahalanobis is then the same as if their mean took their place.
func (h *Head) addMissing(b *build.Builder, x, name string) string {
	is := b.Add("IsNaN", x, name+"_missing")
	there := b.Op("Where", []string{is, b.Scalar(tensor.Float32, 0), x}, name+"_there")
	flags := b.Add("Cast", is, name+"_flags", onnxpb.IntAttribute("to", int64(tensor.Float32)))
	both := b.Op("Concat", []string{there, flags}, name+"_both", onnxpb.IntAttribute("axis", 1))
	return b.Rows(both, tensor.Float32, name)
}

// width returns how many numbers an example has in a tensor.
func width(v *graph.Value) (int, bool) {
	if len(v.Dims) == 0 {
		return 0, false
	}
	n, ok := onnxpb.Elements(v.Dims[1:])
	return int(n), ok && n > 0 && n < graph.MaxWeightElements
}

// rowsOf returns the head of a tensor, past what does not change its numbers.
func (f *finder) rowsOf(name string) (*Head, error) {
	start, tail := name, []string{}
	for n := f.g.Producer[name]; n != nil && n.Op() == "ai.onnx.ml.ZipMap"; n = f.g.Producer[name] {
		tail = append([]string{n.GetOpType()}, tail...)
		name = n.In(0)
	}
	v := *f.in.Get(name)
	node := f.g.Producer[name]
	k, ok := width(&v)
	if n := f.classifier(node, name); n > 0 && !ok {
		k, ok, v.Dims = n, true, []int64{-1, int64(n)}
	}
	for _, out := range f.m.Outputs() { // declared, where nothing can be inferred
		if !ok && out.Name == name && (v.Type == tensor.Undefined || v.Type == out.Type) && len(out.Shape) > 0 {
			v.Type, v.Dims = out.Type, nil
			for _, d := range out.Shape {
				v.Dims = append(v.Dims, d.Value)
			}
			k, ok = width(&v)
		}
	}
	long := 0 // axes after the first that are not of length 1
	for _, d := range v.Dims[min(1, len(v.Dims)):] {
		if d != 1 {
			long++
		}
	}
	switch {
	case v.Constant:
		return nil, graph.Refuse("%q is a constant", start)
	case v.Type != tensor.Undefined && !v.Type.IsFloat():
		return nil, graph.RefuseAt(node, "%q holds %v, want probabilities or scores", start, v.Type)
	case !ok:
		return nil, graph.RefuseAt(node, "%q is %v, want a row of numbers for each example, their number declared: export the model with it",
			start, &flow{Value: v})
	case long > 1:
		hint := ""
		if len(v.Dims) == 3 {
			hint = fmt.Sprintf("; a model that reads text takes %s %s", option.Kind, CTC)
		}
		return nil, graph.RefuseAt(node, "%q is %v, want one row of numbers for each example, not one for each step or position%s",
			start, &flow{Value: v}, hint)
	case node == nil:
		return nil, graph.Refuse("%q is an input of the model", start)
	}
	h := &Head{
		Op: f.g.Source(node).GetOpType(), Node: f.g.Source(node).Label(), LogitsTensor: name, Tail: tail,
		Head:  layer.Head{Logits: k, Link: layer.Softmax, Nonlinear: true},
		Kind:  None,
		width: k, model: f.m, logitsValue: v,
	}
	h.names = func(n int) []string {
		if names := f.labels(&trail{nodes: []*onnxpb.Node{node}, logits: name}, n); names != nil {
			return names
		}
		if names := f.onlyLabels(n); names != nil {
			return names
		}
		names, _ := named(f.m.Metadata(), n)
		return names
	}
	h.Evidence = []string{fmt.Sprintf("%q [N,%d] comes from %s; no linear layer is looked for", name, k, f.describe(node))}
	return h, nil
}

// classifier returns how many classes the operators of scikit-learn have that give a tensor, or that turn it into maps;
// 0 if there are none.
func (f *finder) classifier(n *onnxpb.Node, output string) (classes int) {
	of := func(n *onnxpb.Node) {
		for _, name := range []string{"classlabels_strings", "classlabels_ints", "classlabels_int64s"} {
			classes = max(classes, len(n.Attr(name).GetStrings()), len(n.Attr(name).GetInts()))
		}
	}
	if n != nil && len(n.GetOutput()) > 1 && n.GetOutput()[1] == output {
		switch n.Op() {
		case "ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.SVMClassifier", "ai.onnx.ml.LinearClassifier":
			of(n)
		}
	}
	for _, n := range f.g.Consumers[output] {
		if n.Op() == "ai.onnx.ml.ZipMap" {
			of(n)
		}
	}
	return classes
}

// As returns the head with another kind, for one of classes without a linear layer: what [Probabilities] or [Scores]
// are the logits of. A single probability is that of the second of two classes.
func (h *Head) As(kind Kind) (*Head, error) {
	if !h.Nonlinear || h.Kind == CTC || kind == CTC {
		panic("head: As for a head with a linear layer, or one that reads text")
	}
	as := *h
	as.Kind, as.Logits, as.Evidence = kind, h.width, slices.Clone(h.Evidence)
	const maxOpset = 8 // from which on Max has other types than float, and broadcasts
	switch {
	case (kind == Probabilities || kind == LogProbabilities) && h.model.Opset() < maxOpset:
		return nil, graph.Refuse("%s need operator set %d, and the model has %d: convert it with onnx.version_converter",
			kind, maxOpset, h.model.Opset())
	case h.width == 1 && as.Link != layer.Softmax && as.Link != layer.Sigmoid:
		return nil, graph.Refuse("%s %s is for several classes, and %q has one number", option.Link, as.Link, h.LogitsTensor)
	case h.width == 1 && kind == Probabilities:
		as.Logits, as.Link = 2, layer.Softmax
	case h.width == 1 && kind == LogProbabilities:
		return nil, graph.Refuse("%q has one number for each example, and log-probabilities need one for each class: with one class's probabilities give %s %s",
			h.LogitsTensor, option.Kind, Probabilities)
	case h.width == 1:
		as.Link = layer.Sigmoid
	case kind == LogProbabilities && as.Link != layer.Softmax:
		return nil, graph.Refuse("%s %s cannot be used with log-probabilities, which are of classes that exclude each other",
			option.Link, as.Link)
	}
	as.Labels = h.names(as.Classes())
	return &as, nil
}

// addNonlinear appends operators that compute the logits of a head without a linear layer, [N,K] of float32, in numbers
// of type in.
func (h *Head) addNonlinear(b *build.Builder, in tensor.Type) string {
	x := b.Rows(b.Take(h.LogitsTensor), h.logitsValue.Type, CutLogits+"_given")
	switch h.Kind {
	case LogProbabilities:
		return b.Op("Max", []string{x, b.Scalar(tensor.Float32, leastLogProbability)}, CutLogits)
	case Probabilities:
	default:
		return b.Rows(x, tensor.Float32, CutLogits)
	}
	if in != tensor.Float32 {
		x = b.Add("Cast", x, CutLogits+"_double", onnxpb.IntAttribute("to", int64(in)))
	}
	least := b.Scalar(in, LeastProbability)
	log := func(x string) string {
		return b.Add("Log", b.Op("Max", []string{x, least}, CutLogits+"_floored"), CutLogits+"_log")
	}
	yes := log(x)
	if h.width == 1 || h.Link != layer.Softmax {
		no := log(b.Op("Sub", []string{b.Scalar(in, 1), x}, CutLogits+"_rest"))
		if h.width > 1 {
			yes = b.Op("Sub", []string{yes, no}, CutLogits+"_odds")
		} else {
			yes = b.Op("Concat", []string{no, yes}, CutLogits+"_both", onnxpb.IntAttribute("axis", 1))
		}
	}
	return b.Rows(yes, in, CutLogits)
}
