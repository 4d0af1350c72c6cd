package head

import (
	"errors"
	"math"
	"strings"

	"github.com/mfgs/mfgs/onnx/internal/graph"
	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// Below returns the layer whose outputs the given one reads. Between the two may stand one function of each number, of whose
// last node activation returns the tensor it is applied to; of other nodes "". Where there is no such layer the error is an
// *UnsupportedError.
func (f *finder) Below(above *Head, activation func(n *onnxpb.Node) (from string)) (*Head, error) {
	h, err := f.layerBelow(above, activation)
	var r *graph.Refusal
	if errors.As(err, &r) {
		err = &UnsupportedError{Reason: r.Reason}
	}
	return h, err
}

func (f *finder) layerBelow(above *Head, activation func(*onnxpb.Node) string) (*Head, error) {
	fail := func(err error) (*Head, error) { return nil, err }
	if len(above.affine.shares) > 1 {
		return fail(graph.Refuse("%s are added up, each with features of its own", above.Node))
	}
	s := above.affine.shares[0]
	if s.transposed {
		return fail(graph.Refuse("%q has the examples along its last axis", s.features))
	}
	name, stop, path := s.features, (*onnxpb.Node)(nil), []hop(nil)
	activated := false
	for {
		if stop = f.g.Producer[name]; stop == nil {
			return fail(graph.Refuse("%q is an input of the model", name))
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
			if from := activation(stop); from != "" {
				name, activated = from, true
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
	if !activated { // what is in between may belong to the layer, such as a bias
		name, path = s.features, nil
	}
	f.sums = 0
	t, err := f.reach(name)
	var r *graph.Refusal
	switch {
	case errors.As(err, &r) && !activated && stop != nil:
		return fail(graph.Refuse("%s stands below", f.describe(stop)))
	case err != nil:
		return fail(err)
	case len(t.shares) > 1:
		return fail(graph.Refuse("%q adds up several layers", name))
	case t.decided || t.shifted || t.rounding == 0 && !(math.IsInf(t.low, -1) && math.IsInf(t.high, 1)):
		return fail(graph.Refuse("%s stands between %s and %q", strings.Join(t.tail, ", "), f.describe(t.nodes[0]), s.features))
	case t.rounding > 0 && !activated:
		return fail(graph.Refuse("what %s gives is rounded, and the range of the integers may stand for an activation", f.describe(t.nodes[0])))
	}
	if t, err = f.follow(t, path); err != nil {
		return fail(err)
	}
	for _, n := range s.selection {
		if !selects[n.GetOpType()] {
			return fail(graph.Refuse("%s stands between %s and %s", f.describe(n), f.describe(t.nodes[0]), above.Node))
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
		return fail(graph.Refuse("%s gives %v, and %s reads rows of %d", f.describe(t.nodes[0]), &t.at, above.Node, s.d))
	}
	h := &Head{LogitDim: t.k, Bias: t.shift != nil, Rounding: t.rounding, Low: t.low, High: t.high, model: f.m, affine: t.affine}
	if err := f.fill(h, t, s.features); err != nil {
		return fail(err)
	}
	return h, nil
}

// selects lists the operators that choose from what an elementwise function gives, or move it about, by axes alone.
var selects = map[string]bool{
	"Gather": true, "GatherND": true, "Slice": true, "Flatten": true, "Transpose": true, "Squeeze": true, "Unsqueeze": true, "Cast": true,
}

// carries reports whether a hop only moves numbers about, or chooses among them.
func (h *hop) carries() bool {
	return h.step.keeps == all || h.step.selects
}

// contracted returns the axis of its features that a layer sums over; noClass if their rank is not known.
func (f *finder) contracted(s *share) int {
	for _, n := range f.g.Consumers[s.features] {
		if n.Op() == "Conv" && n.In(1) == s.terms[0].weight.name {
			return 1
		}
	}
	return max(noClass, len(f.In.Get(s.features).Dims)-1)
}
