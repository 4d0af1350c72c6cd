package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A Dense layer is out = f(in · Wᵀ + b), with an elementwise f.
type Dense struct {
	Op         string // the operator that is linear
	Node       string // its name or, where it has none, that of its output
	In, Out    int    // how many numbers of an example go in and come out
	Bias       bool
	Activation Activation // f; that of the head is Identity

	// A quantised model rounds what the layer gives, before or after its activation, to multiples that add up to Rounding, 0 for
	// none, and keeps it in the range of its integers.
	Rounding float64

	layer *Head
}

// Weights returns w, [Out,In] row-major, and b, of length Out or nil, with every scale that stands between the layer and its
// activation folded in. It reads them from the file on every call.
func (d Dense) Weights() (w, b []float32, err error) { return d.layer.Weights() }

// A Tail is the last dense layers of a classifier, down to its logits: with N examples
//
//	x₀ = Input [N,d₀], xᵢ = fᵢ(xᵢ₋₁·Wᵢᵀ + bᵢ) [N,dᵢ], logits = x_L [N,K]
type Tail struct {
	Layers []Dense // the lowest first, the head last
	// Input is the tensor that goes into the first layer: [N,d₀] when what else it is made of has been selected and its axes
	// have been joined, as CutTail does. Of a head that adds up several layers it is several, joined by ",".
	Input string

	head *Head
}

// DenseTail returns the top dense layers of the network that ends in h: as many as layers says, h being the first of them,
// or with layers 0 all that follow one another. Between two of them may stand an activation, a Dropout that is switched off,
// what changes types and shapes but leaves one row for each example, and the selection of a token. What a layer is FindHead
// decides. It panics if h was not found in m.
//
// Where the network has fewer the error is an *UnsupportedError that says what is in the way; any other error comes from
// reading the file. As with FindHead, the finding rests on the graph alone, and should be checked on a batch.
func DenseTail(m *Model, h *Head, layers int) (*Tail, error) {
	if h.model != m {
		panic("onnx: DenseTail with the head of another model")
	}
	if layers < 0 {
		return nil, fmt.Errorf("%d dense layers, want a positive number, or 0 for all", layers)
	}
	f := newFinder(m)
	t := &Tail{head: h, Layers: []Dense{dense(h, Activation{Func: Identity})}}
	for lowest := h; layers == 0 || len(t.Layers) < layers; {
		below, a, err := f.below(lowest)
		var r *refusal
		if errors.As(err, &r) {
			if layers == 0 {
				break
			}
			return nil, &UnsupportedError{Reason: fmt.Sprintf("the network ends in %s, not in %d: %s", counted(len(t.Layers), "dense layer"), layers, r.reason), plain: true}
		}
		if err != nil {
			return nil, err
		}
		t.Layers = append(t.Layers, dense(below, a))
		lowest = below
	}
	slices.Reverse(t.Layers)
	t.Input = t.Layers[0].layer.Features
	return t, nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func dense(h *Head, a Activation) Dense {
	return Dense{Op: h.Op, Node: h.Node, In: h.FeatureDim, Out: h.Classes, Bias: h.Bias, Activation: a, Rounding: h.Rounding, layer: h}
}

// CutTail is Cut one or several layers lower: a model with two outputs, what goes into the tail, [N,d₀], and the logits,
// [N,K], both float32. It panics if h was not found in m, or t not for h.
func CutTail(m *Model, h *Head, t *Tail) (*Model, error) {
	if h.model != m || t.head != h {
		panic("onnx: CutTail with the head of another model, or the tail of another head")
	}
	return cutBelow(m, h, t.Layers[0].layer)
}

// below returns the layer whose outputs the given one reads, and what activation is between the two.
func (f *finder) below(above *Head) (*Head, Activation, error) {
	fail := func(err error) (*Head, Activation, error) { return nil, Activation{}, err }
	if len(above.affine.shares) > 1 {
		return fail(refuse("%s are added up, each with features of its own", above.Node))
	}
	s := above.affine.shares[0]
	if s.transposed {
		return fail(refuse("%q has the examples along its last axis", s.features))
	}
	a, name, stop, path := Activation{Func: Identity}, s.features, (*onnxpb.Node)(nil), []hop(nil)
	for {
		if stop = f.g.producer[name]; stop == nil {
			return fail(refuse("%q is an input of the model", name))
		}
		l, err := f.linear(stop)
		if err != nil {
			return fail(err)
		}
		if l != nil {
			stop = nil
			break
		}
		if stop.GetOutput()[0] == name {
			if found, from := f.activation(stop); from != "" {
				a, name = found, from
				break
			}
		}
		h := f.back(stop, name)
		if h == nil || !h.carries() {
			break
		}
		path = append(path, *h)
		name = h.from
	}
	if a.Func == Identity { // what is in between may belong to the layer, such as a bias
		name, path = s.features, nil
	}
	f.sums = 0
	t, err := f.reach(name)
	var r *refusal
	switch {
	case errors.As(err, &r) && a.Func == Identity && stop != nil:
		return fail(refuse("%s stands below", f.describe(stop)))
	case err != nil:
		return fail(err)
	case len(t.shares) > 1:
		return fail(refuse("%q adds up several layers", name))
	case t.decided || t.shifted || t.rounding == 0 && !(math.IsInf(t.low, -1) && math.IsInf(t.high, 1)):
		return fail(refuse("%s stands between %s and %q", strings.Join(t.tail, ", "), f.describe(t.nodes[0]), s.features))
	case t.rounding > 0 && a.Func == Identity:
		return fail(refuse("what %s gives is rounded, and the range of the integers may stand for an activation", f.describe(t.nodes[0])))
	}
	if t, err = f.follow(t, path); err != nil {
		return fail(err)
	}
	for _, n := range s.selection {
		if !selects[n.GetOpType()] {
			return fail(refuse("%s stands between %s and %s", f.describe(n), f.describe(t.nodes[0]), above.Node))
		}
		if err := t.selectBy(n); err != nil {
			return fail(err)
		}
	}
	fits := t.at.rows()
	if len(s.selection) > 0 { // that is from the layer above, so that axes must lie as it has them
		fits = t.at.class == f.contracted(s)
	}
	if !fits || t.k != s.d {
		return fail(refuse("%s gives %v, and %s reads rows of %d", f.describe(t.nodes[0]), &t.at, above.Node, s.d))
	}
	h := &Head{Classes: t.k, Bias: t.shift != nil, Rounding: t.rounding, Low: t.low, High: t.high, model: f.m, affine: t.affine}
	if err := f.fill(h, t, s.features); err != nil {
		return fail(err)
	}
	return h, a, nil
}

// selects lists the operators that choose from what an elementwise function gives, or move it about, by axes alone.
var selects = map[string]bool{
	"Gather": true, "GatherND": true, "Slice": true, "Flatten": true, "Transpose": true, "Squeeze": true, "Unsqueeze": true, "Cast": true,
}

// carries reports whether a hop only moves numbers about, or chooses among them.
func (h *hop) carries() bool {
	return h.step.layout && !h.step.asked && h.node.GetOpType() != "Clip" || h.step.pools && h.step.chooses
}

// contracted returns the axis of its features that a layer sums over; noClass if their rank is not known.
func (f *finder) contracted(s *share) int {
	for _, n := range f.g.consumers[s.features] {
		if opName(n) == "Conv" && input(n, 1) == s.terms[0].weight.name {
			return 1
		}
	}
	return max(noClass, len(f.in.get(s.features).dims)-1)
}
