package head

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/build"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// move follows an operator that moves the logits, or the probabilities computed from them: the steps must come out in
// the order that the logits have.
func (s *spread) move(p *passage) {
	before, after := p.at.class, p.now.class
	straight := s.straight
	if p.node.Op() != "Cast" {
		s.straight = nil
	}
	switch n := p.node; {
	case n.Op() == "Cast":
	case n.Op() == "Transpose":
		perm, _ := p.call.Permutation(len(p.at.Dims))
		order := slices.DeleteFunc(slices.Clone(perm), func(axis int) bool { return axis == before })
		switch {
		case slices.IsSorted(order):
			s.moved = true
		case straight != nil && slices.Equal(perm, straight.back):
			s.name, s.at, s.features, s.turned = straight.name, straight.at, straight.features, nil
		case !p.pastLogits && before != noClass && !s.moved && s.turned == nil:
			s.straight = &straightened{name: s.name, at: s.at, features: s.features, back: inverse(perm)}
			s.turned, s.features = n, slices.Index(perm, s.features)
		default:
			s.broken = n
		}
	case before == noClass:
	case n.Op() == "Reshape" || n.Op() == "Flatten":
		last := before == len(p.at.Dims)-1 && after == len(p.now.Dims)-1
		if !last && (before != 1 || after != 1) && after != noClass {
			s.broken = n
		}
		s.moved = true
	default:
		s.moved = true
	}
}

// inverse returns the permutation that undoes another.
func inverse(perm []int) []int {
	back := make([]int, len(perm))
	for i, axis := range perm {
		back[axis] = i
	}
	return back
}

// MaxSteps is the largest number of axes of steps: of a volume.
const MaxSteps = 3

// stepsOpset is the operator set from which on there are Range and Mod.
const stepsOpset = 11

// steps completes the trail of a head with logits for each step, if it is one.
func (f *finder) steps(t *trail) (layout, error) {
	s := &t.spread
	switch p := t.shares[0]; {
	case t.logits != "" || s.name == "":
		return layout{}, nil
	case s.broken != nil:
		return layout{}, graph.RefuseAt(s.broken, "%s mixes the steps of %v", f.describe(s.broken), &s.at)
	case !s.at.merged && f.notExamples(s.at.Dims[0]):
		return layout{}, graph.RefuseAt(t.nodes[0], "%s gives logits %v for each step, with another axis than that of the examples first: export the model with the examples there",
			f.describe(t.nodes[0]), &s.at)
	case t.at.Dims != nil && len(t.at.Dims) < len(s.at.Dims)-1:
		return layout{}, graph.RefuseAt(t.nodes[0], "%s gives logits %v for each step, and %v has no axes for examples and steps",
			f.describe(t.nodes[0]), &s.at, &t.at)
	case len(t.shares) > 1 || p.assumed && f.rank == 0 || p.transposed || len(s.at.Dims)-2 > MaxSteps:
		return layout{}, nil
	case f.g.Opset < stepsOpset:
		return layout{}, graph.RefuseAt(t.nodes[0], "%s gives logits for each step, which need operator set %d, and the model has %d: convert it with onnx.version_converter",
			f.describe(t.nodes[0]), stepsOpset, f.g.Opset)
	}
	if s.turned != nil {
		t.shares[0].selection = append(t.shares[0].selection, s.turned)
	}
	t.logits, t.found = s.name, s.at.Value
	l := layout{steps: len(s.at.Dims) - 2, class: s.at.class, rank: s.rank, features: s.features}
	if s.at.merged {
		l.steps, l.merged = 1, true
	}
	return l, nil
}

// notExamples reports whether the length of an axis is known, and is not that of the examples of an input.
func (f *finder) notExamples(length int64) bool {
	inputs := f.m.Inputs()
	at := slices.IndexFunc(inputs, func(v onnx.ValueInfo) bool { return len(v.Shape) > 0 })
	return length > 0 && at >= 0 && inputs[at].Shape[0].Value != length
}

// CutSteps and CutStep are the names of an output and an input of a model that is cut at a head with steps.
const (
	// CutSteps [rank] is the shape of the tensor that holds the logits, but for the axis of the classes: [N,T] or
	// [N,H,W], or [N·T] where the model merges them.
	CutSteps = "mfgs_steps"
	// CutStep [N] is the number of the step of each example whose features and logits are given, modulo the number of
	// its steps, which count in row-major order.
	CutStep = "mfgs_step"
)

// stepRows appends operators that make rows [N·T,width] of float32 of a tensor that holds width numbers for each step
// along an axis.
func stepRows(b *build.Builder, x string, typ tensor.Type, rank, axis, width int, name string) string {
	if typ != tensor.Float32 {
		x = b.Add("Cast", x, name+"_float", onnxpb.IntAttribute("to", int64(tensor.Float32)))
	}
	if axis != rank-1 {
		perm := make([]int64, 0, rank)
		for i := range rank {
			if i != axis {
				perm = append(perm, int64(i))
			}
		}
		x = b.Add("Transpose", x, name+"_turned", onnxpb.IntsAttribute("perm", append(perm, int64(axis))...))
	}
	return b.Op("Reshape", []string{x, b.Ints(-1, int64(width))}, name)
}

// AddStepShape appends operators that compute the shape of the steps, [rank-1] of int64: [N,T] or [N,H,W].
func (h *Head) AddStepShape(b *build.Builder) string {
	shape := b.Add("Shape", b.Take(h.LogitsTensor), CutSteps+"_all")
	var rest []int64
	for i := range len(h.logitsValue.Dims) {
		if i != h.layout.class {
			rest = append(rest, int64(i))
		}
	}
	shape = b.Op("Gather", []string{shape, b.Ints(rest...)}, CutSteps)
	if !h.layout.merged {
		return shape
	}
	// The number of examples is that of an input.
	first := b.Add("Shape", h.batchInput(), CutSteps+"_input")
	first = b.Op("Slice", []string{first, b.Ints(0), b.Ints(1), b.Ints(0)}, CutSteps+"_examples")
	steps := b.Op("Div", []string{shape, notZero(b, first)}, CutSteps+"_each")
	return b.Op("Concat", []string{first, steps}, CutSteps, onnxpb.IntAttribute("axis", 0))
}

// StepCount returns how many steps an example has, by a guess where the model leaves that open, or 1.
func (h *Head) StepCount() int {
	const open, most = 128, 1 << 24
	n := 1
	if h.layout.merged {
		return open
	}
	for i, d := range h.logitsValue.Dims {
		switch {
		case h.Steps == 0 || i == 0 || i == h.layout.class:
		case d > 0:
			n *= int(min(d, most))
		default:
			n *= open
		}
		n = min(n, most)
	}
	return n
}

// batchInput is the input whose first axis says how many examples there are.
func (h *Head) batchInput() string {
	inputs := h.model.Inputs()
	return inputs[max(0, slices.IndexFunc(inputs, func(v onnx.ValueInfo) bool { return len(v.Shape) > 0 }))].Name
}

// notZero appends operators that replace 0 by 1, since a division by 0 ends the process.
func notZero(b *build.Builder, x string) string {
	none := b.Op("Equal", []string{x, b.Ints(0)}, CutStep+"_equal")
	none = b.Add("Cast", none, CutStep+"_none", onnxpb.IntAttribute("to", int64(tensor.Int64)))
	return b.Op("Add", []string{x, none}, CutStep+"_divisor")
}

// selectSteps appends operators that take one row for each example from rows of all steps: row n·T + (step mod T).
func selectSteps(b *build.Builder, step string, rows []string, names []string) []string {
	op := func(kind string, in ...string) string { return b.Op(kind, in, CutStep+"_"+kind) }
	n := op("Shape", step)
	all := op("Slice", op("Shape", rows[0]), b.Ints(0), b.Ints(1))
	t := op("Div", all, n)
	t = notZero(b, t) // Gather refuses what is selected then
	scalar := func(x string) string { return b.Op("Squeeze", []string{x}, CutStep+"_scalar") }
	first := op("Mul", op("Range", b.Scalar(tensor.Int64, 0), scalar(n), b.Scalar(tensor.Int64, 1)), t)
	at := op("Add", first, op("Mod", step, t))
	picked := make([]string, len(rows))
	for i, r := range rows {
		picked[i] = b.Op("Gather", []string{r, at}, names[i])
	}
	return picked
}

// stepsEvidence says what was found of steps.
func (h *Head) stepsEvidence() string {
	axes := map[int]string{1: "[N,T]", 2: "[N,H,W]"}[h.Steps]
	if axes == "" {
		axes = fmt.Sprintf("%d axes", h.Steps)
	}
	return fmt.Sprintf("there are logits for each step of an example, %s: every step is classified by itself, and calibrated on one step of each example",
		axes)
}
