package head

import (
	"errors"
	"math"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// Below returns the linear layer whose outputs the given one reads. One elementwise function may lie
// between them: activation returns the tensor that it is applied to, for its last node, and "" for
// other nodes. If there is no such layer the error is an *UnsupportedError.
func Below(above *Head, activation func(n *onnxpb.Node) (from string)) (*Head, error) {
	h, err := newFinder(above.model).layerBelow(above, activation)
	var r *graph.Refusal
	if errors.As(err, &r) {
		err = &UnsupportedError{Reason: r.Reason}
	}
	return h, err
}

func (f *finder) layerBelow(above *Head, activation func(*onnxpb.Node) string) (*Head, error) {
	if len(above.affine.shares) > 1 {
		return nil, graph.Refuse("%s are added up, each with features of its own", above.Node)
	}
	s := above.affine.shares[0]
	if s.transposed {
		return nil, graph.Refuse("%q has the examples along its last axis", s.features)
	}
	name, path, stop, err := f.descend(s.features, activation)
	if err != nil {
		return nil, err
	}
	activated := name != s.features
	f.sums = 0
	t, err := f.reach(name)
	var r *graph.Refusal
	switch {
	case errors.As(err, &r) && !activated && stop != nil:
		return nil, graph.Refuse("%s stands below", f.describe(stop))
	case err != nil:
		return nil, err
	case len(t.shares) > 1:
		return nil, graph.Refuse("%q adds up several layers", name)
	case t.pastLogits || t.rounding == 0 && !(math.IsInf(t.low, -1) && math.IsInf(t.high, 1)):
		return nil, graph.Refuse("%s stands between %s and %q", strings.Join(t.tail, ", "), f.describe(t.nodes[0]),
			s.features)
	case t.rounding > 0 && !activated:
		return nil, graph.Refuse("what %s gives is rounded, and the range of the integers may stand for an activation",
			f.describe(t.nodes[0]))
	}
	if t, err = f.follow(t, path); err != nil {
		return nil, err
	}
	for _, n := range s.selection {
		if by := f.step(n); by == nil || !by.selects && by.keeps != all {
			return nil, graph.Refuse("%s stands between %s and %s", f.describe(n), f.describe(t.nodes[0]), above.Node)
		}
		if err := t.selectBy(n); err != nil {
			return nil, err
		}
	}
	fits := t.at.rows()
	if len(s.selection) > 0 { // the selection belongs to the layer above, whose axes must be kept
		fits = t.at.class == f.contracted(s)
	}
	if !fits || t.k != s.d {
		return nil, graph.Refuse("%s gives %v, and %s reads rows of %d", f.describe(t.nodes[0]), &t.at, above.Node, s.d)
	}
	h := &Head{Head: layer.Head{Logits: t.k, Bias: t.shift != nil}, Rounding: t.rounding, Low: t.low, High: t.high,
		model: f.m, affine: t.affine}
	if err := f.fill(h, t, s.features); err != nil {
		return nil, err
	}
	return h, nil
}

// descend walks from features down to the layer they come from. It returns the tensor below the
// activation, which is features itself if there is none; the operators passed on the way; and the
// node at which the search stopped if that is not a layer.
func (f *finder) descend(features string, activation func(*onnxpb.Node) string) (
	name string, path []hop, stop *onnxpb.Node, err error) {
	for name = features; ; {
		if stop = f.g.Producer[name]; stop == nil {
			return "", nil, nil, graph.Refuse("%q is an input of the model", name)
		}
		l, err := f.linear(stop)
		if err != nil {
			return "", nil, nil, err
		}
		if l != nil { // operators passed may belong to the layer, such as a bias
			return features, nil, nil, nil
		}
		if stop.GetOutput()[0] == name {
			if from := activation(stop); from != "" {
				return from, path, stop, nil
			}
		}
		h := f.back(stop, name)
		if h == nil || !h.carries() {
			return features, nil, stop, nil
		}
		path = append(path, *h)
		name = h.from
	}
}

// carries reports whether a hop only moves or selects numbers.
func (h *hop) carries() bool {
	return h.step.keeps == all || h.step.selects
}

// contracted returns the axis of its features that a layer sums over; noClass if their rank is
// unknown.
func (f *finder) contracted(s *share) int {
	for _, n := range f.g.Consumers[s.features] {
		if n.Op() == "Conv" && n.In(1) == s.terms[0].weight.name {
			return 1
		}
	}
	return max(noClass, len(f.in.Get(s.features).Dims)-1)
}
