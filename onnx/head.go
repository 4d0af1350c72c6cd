package onnx

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// Link is the function that turns logits into probabilities.
type Link string

const (
	// Softmax is for one label among all classes.
	Softmax Link = "softmax"
	// Sigmoid is for one logit (two classes), or for several labels that may hold at once.
	Sigmoid Link = "sigmoid"
)

// HeadOptions says where to look for the head. The zero value looks behind every output of the model.
type HeadOptions struct {
	// Features names the tensor the logits must be linear in, if not "".
	Features string
	// Logits names the tensor to start from instead of an output, if not "".
	Logits string
	// Output names the output of the model to start from, if not "". Logits goes before it.
	Output string
}

// Head is the last linear layer of a classifier: logits = features · Wᵀ + b, with N examples, d features and K classes.
type Head struct {
	Op         string   `json:"op"`          // the operator that is linear: Gemm, MatMul or Conv
	Node       string   `json:"node"`        // its name or, where it has none, that of its output
	Features   string   `json:"features"`    // the tensor that goes into it
	Logits     string   `json:"logits"`      // the last tensor that holds the logits
	FeatureDim int      `json:"feature_dim"` // d, without the bias
	Classes    int      `json:"classes"`     // K
	Bias       bool     `json:"bias"`        // whether there is a b
	Link       Link     `json:"link"`        // what follows the logits
	Tail       []string `json:"tail"`        // the operators between the linear layer, its bias included, and the output
	Evidence   []string `json:"-"`           // what was found, in sentences for people

	model         *Model
	weight        weight
	scale, shift  []float64      // logits = scale ⊙ (features · Wᵀ) + shift; nil for 1 and 0, else of length K
	selection     []*onnxpb.Node // operators between layer and logits that act alike on features: pooling, picking a token
	transposed    bool           // the features tensor is [d,N]
	featuresValue value          // what is known of the features, behind selection
	logitsValue   value          // and of the logits
}

// weight is the constant side of a linear operator.
type weight struct {
	name       string
	transposed bool // the tensor is [d,K], not [K,d]
}

// UnsupportedError is returned where no head is found, or not the one asked for.
type UnsupportedError struct {
	// Reason is why, in one sentence.
	Reason string
	// Candidates are linear layers before the output that could be meant, the nearest first.
	Candidates []*Head
}

// Error gives the reason and the way out.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no classification head: %s; if another layer is meant, name it with --features TENSOR --logits TENSOR", e.Reason)
	for i, h := range e.Candidates {
		sep := ", or"
		if i == 0 {
			sep = ": nearest"
		}
		fmt.Fprintf(&b, "%s --features %s --logits %s (%s, %d features, %d classes)", sep, printable(h.Features), printable(h.Logits), h.Op, h.FeatureDim, h.Classes)
	}
	return b.String()
}

// refusal is why a search ended, before FindHead makes an UnsupportedError of it.
type refusal struct {
	reason string
	at     *onnxpb.Node // the obstacle, if candidates are to be looked for behind it
}

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) *refusal {
	return &refusal{reason: fmt.Sprintf(format, args...)}
}

// FindHead finds the linear layer that makes a classifier's logits.
//
// It goes back from an output, past operators that only reshape, convert, pick the best class or make probabilities, to
// the first operator that is linear in exactly one tensor that depends on the model's input; what it is multiplied by
// must follow from constants. Bias, scalar or per-class scale, and a temperature are folded in. Pooling and the
// selection of a token commute with a linear layer, so they may stand behind it.
//
// With several outputs, a layer that feeds another one found is no head (an embedding that is an output too). Among the
// rest one that ends in a Softmax or Sigmoid comes before one that ends in an ArgMax, and that before one that ends in
// neither; then the first output wins: exporters put the main output first.
//
// Where the graph gives no certain answer the error is an *UnsupportedError; any other error comes from reading the file.
// The finding rests on the graph alone; that φ·Wᵀ + b gives the logits should be checked on a batch.
func FindHead(m *Model, o HeadOptions) (*Head, error) {
	f := &finder{m: m, g: m.graph, in: m.infer()}
	h, err := f.find(o)
	if err == nil {
		return h, nil
	}
	var r *refusal
	if !errors.As(err, &r) {
		return nil, err
	}
	u := &UnsupportedError{Reason: r.reason}
	if r.at != nil {
		u.Candidates = f.candidates(r.at)
	}
	return nil, u
}

type finder struct {
	m  *Model
	g  *graph
	in *interpreter
}

func (f *finder) find(o HeadOptions) (*Head, error) {
	if f.g.opset < 7 {
		return nil, refuse("operator set %d is older than 7; convert the model with onnx.version_converter", f.g.opset)
	}
	for _, name := range []string{o.Features, o.Logits} {
		if name != "" && !f.g.has(name) {
			return nil, refuse("the graph has no tensor %q", name)
		}
	}
	var h *Head
	var err error
	if o.Logits != "" {
		h, err = f.trace(o.Logits)
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
		return nil, refuse("the model has no output")
	case len(names) == 0:
		return nil, refuse("the model has no output %q", output)
	}
	const most = 64 // detectors with a hundred outputs are no classifiers
	var heads []*Head
	var first error
	for _, name := range names[:min(most, len(names))] {
		h, err := f.trace(name)
		var r *refusal
		switch {
		case err == nil:
			heads = append(heads, h)
		case !errors.As(err, &r):
			return nil, err
		case first == nil:
			first = err
		}
	}
	if len(heads) == 0 {
		return nil, first
	}
	heads = f.last(heads)
	best := slices.MaxFunc(heads, func(a, b *Head) int { return a.purpose() - b.purpose() }) // the first of equals
	var others []string
	for _, h := range heads {
		if h.Node != best.Node {
			others = append(others, h.Logits)
		}
	}
	if len(others) > 0 {
		best.Evidence = append(best.Evidence, fmt.Sprintf("other outputs come from other linear layers; choose them with --logits %s",
			strings.Join(others, " or --logits ")))
	}
	return best, nil
}

// last leaves out layers that feed another of the layers found: an embedding that is an output too.
func (f *finder) last(heads []*Head) []*Head {
	inner := map[*onnxpb.Node]bool{}
	for _, h := range heads {
		maps.Copy(inner, f.g.ancestors(h.Features))
	}
	return slices.DeleteFunc(heads, func(h *Head) bool { return inner[f.g.producer[h.Logits]] })
}

// purpose says how plainly the graph itself tells what the logits are for: 2 where probabilities are made of them, 1 where
// the best class is picked.
func (h *Head) purpose() int {
	p := 0
	for _, op := range h.Tail {
		switch s := steps[op]; {
		case s.link != "":
			p = max(p, 2)
		case s.ends:
			p = max(p, 1)
		}
	}
	return p
}

// confirm checks that the tensor the user named as features is what the layer reads, up to a change of shape.
func (f *finder) confirm(h *Head, features string) error {
	for t := h.Features; t != features; {
		n := f.g.producer[t]
		if n == nil || !isDefault(n.GetDomain()) || steps[n.GetOpType()] == nil || !steps[n.GetOpType()].layout {
			between := "the graph's input"
			if n != nil {
				between = describe(n)
			}
			return refuse("the logits %q are linear in %q, and %s stands between that and %q", h.Logits, h.Features, between, features)
		}
		t = input(n, 0)
	}
	if h.Features != features {
		h.Evidence = append(h.Evidence, fmt.Sprintf("%q reaches the layer as %q, in another shape", features, h.Features))
	}
	return nil
}

// candidates looks for linear layers behind an obstacle.
func (f *finder) candidates(at *onnxpb.Node) []*Head {
	const most, far = 3, 1000
	var heads []*Head
	seen := map[*onnxpb.Node]bool{at: true}
	for queue := []*onnxpb.Node{at}; len(queue) > 0 && len(heads) < most && len(seen) < far; queue = queue[1:] {
		for _, name := range dependencies(queue[0]) {
			n := f.g.producer[name]
			if n == nil || seen[n] {
				continue
			}
			seen[n] = true
			queue = append(queue, n)
			if l, _ := f.linear(n); l == nil {
				continue
			}
			if h, err := f.trace(name); err == nil && len(heads) < most {
				heads = append(heads, h)
			}
		}
	}
	return heads
}

// Weights returns the layer's weights w, [K,d] row-major, and bias b, of length K or nil: logits = features · wᵀ + b, with
// every scale that stands between layer and logits folded in. It reads them from the file on every call.
func (h *Head) Weights() (w, b []float32, err error) {
	v, err := h.model.evaluate(h.weight.name)
	if err != nil {
		return nil, nil, fmt.Errorf("weights of %s: %w", h.Node, err)
	}
	k, d := h.Classes, h.FeatureDim
	if len(v.data) != k*d {
		return nil, nil, fmt.Errorf("weights %q of %s: %d numbers and not %d × %d", h.weight.name, h.Node, len(v.data), k, d)
	}
	w = make([]float32, k*d)
	for i := range k {
		scale := 1.0
		if h.scale != nil {
			scale = h.scale[i]
		}
		for j := range d {
			at := i*d + j
			if h.weight.transposed {
				at = j*k + i
			}
			w[i*d+j] = float32(scale * v.data[at])
		}
	}
	if h.shift != nil {
		b = make([]float32, k)
		for i, x := range h.shift {
			b[i] = float32(x)
		}
	}
	for _, list := range [][]float32{w, b} {
		for _, x := range list {
			if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
				return nil, nil, fmt.Errorf("weights %q of %s hold NaN or infinite numbers", h.weight.name, h.Node)
			}
		}
	}
	return w, b, nil
}
