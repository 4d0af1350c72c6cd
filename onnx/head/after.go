package head

import (
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/onnx/internal/graph"
	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// An after is a step that a model takes from probabilities to its output: x → Scale·x + Shift, or one of the others.
type after struct {
	op           string // "" for that, or Log, Exp, Clip, Both, Normalise, or a Link's name
	scale, shift float64
	low, high    float64
}

// Gives returns what the model itself gives, in the output that Find began at, where the probabilities of the classes are
// p, as Link makes them of the logits; of a single logit they are two. It is p, smoothed, clamped or in logarithms, of all
// classes or some. It returns nil where the model picks the best class, gives logits, or leaves a normalisation to others.
func (h *Head) Gives(p []float64) []float64 {
	if !h.linked || h.picked || h.scores || h.Link == OneVsRest && !slices.ContainsFunc(h.after, func(a after) bool { return a.op == string(OneVsRest) }) {
		return nil
	}
	y := slices.Clone(p)
	if h.LogitDim == 1 {
		y = y[1:]
	}
	for _, a := range h.after {
		switch a.op {
		case "Normalise":
			sum := 0.0
			for _, x := range y {
				sum += x
			}
			for i := range y {
				y[i] /= sum
			}
			continue
		case "Both":
			y = []float64{1 - y[0], y[0]}
			continue
		case string(OneVsRest):
			continue
		}
		for i, x := range y {
			switch a.op {
			case "Log":
				y[i] = math.Log(x)
			case "Exp":
				y[i] = math.Exp(x)
			case "Clip":
				y[i] = min(max(x, a.low), a.high)
			default:
				y[i] = a.scale*x + a.shift
			}
		}
	}
	if h.columns != nil {
		return picked(y, h.columns)
	}
	return y
}

// becomes notes what a step behind the link makes of the probabilities.
func (f *finder) becomes(t *trail, n *onnxpb.Node, s *step) {
	switch op := onnxpb.OpName(n); {
	case s.logs:
		t.after = append(t.after, after{op: "Log"})
	case s.exps:
		t.after = append(t.after, after{op: "Exp"})
	case s.normalises && t.link == OneVsRest && len(t.after) == 0:
		t.after = append(t.after, after{op: string(OneVsRest)})
	case s.normalises:
		t.after = append(t.after, after{op: "Normalise"})
	case op == graph.BothClasses:
		t.after = append(t.after, after{op: "Both"})
	case t.decided && (op == "Clip" || op == "Max" || op == "Min"):
		a := after{op: "Clip", low: math.Inf(-1), high: math.Inf(1)}
		if op == "Clip" {
			c := &graph.Call{Node: n, Interpreter: f.In, In: []*graph.Value{nil, f.In.Get(onnxpb.Input(n, 1)), f.In.Get(onnxpb.Input(n, 2))}}
			a.low, a.high, _ = c.ClipBounds()
		} else if x, of := f.In.Besides(n); of != "" && op == "Max" {
			a.low = x
		} else if of != "" {
			a.high = x
		}
		t.after = append(t.after, a)
	}
}

// smooth goes with probabilities through one operator that scales and shifts those of all classes alike, as label smoothing
// does, or gives their logarithms the other sign.
func (f *finder) smooth(t *trail, h *hop) error {
	n := h.node
	if onnxpb.OpName(n) == "BatchNormalization" || t.link == "" || t.picked {
		return f.unexpected(t, n)
	}
	scale, shift, err := f.constants(n, h.from, &t.at, max(t.k, t.classes()))
	if err != nil {
		return err
	}
	a := after{scale: 1}
	for _, x := range []struct {
		list []float64
		to   *float64
	}{{scale, &a.scale}, {shift, &a.shift}} {
		if len(x.list) == 0 {
			continue
		}
		if slices.Min(x.list) != slices.Max(x.list) {
			return graph.RefuseAt(n, "%s changes the probabilities of classes differently; export the model without it, or put the logarithms of its factors into the bias", f.describe(n))
		}
		*x.to = x.list[0]
	}
	if !(a.scale != 0) || a.scale < 0 && !t.logarithms {
		return graph.RefuseAt(n, "%s turns the probabilities round: the largest becomes the smallest", f.describe(n))
	}
	t.negated = t.negated != (a.scale < 0)
	t.after = append(t.after, a)
	t.tail = append(t.tail, stepName(n))
	return nil
}

// classes is how many probabilities there are, two of a single logit after its complement has been put beside it.
func (t *trail) classes() int {
	if c := t.at.class; c != noClass && c < len(t.at.Dims) && t.at.Dims[c] > 0 {
		return int(t.at.Dims[c])
	}
	return t.k
}

// column goes with probabilities through a choice among the classes, which Find takes if the outputs give all of them.
func (f *finder) column(t *trail, h *hop) error {
	n := h.node
	c := f.call(n, h.from, &t.at)
	if t.columns != nil || t.picked || !h.step.chooses || !choosesClasses(c, &t.at) || t.at.class == noClass {
		return f.unexpected(t, n)
	}
	k := t.classes()
	var rows []int
	if n.GetOpType() == "Split" {
		i := slices.Index(n.GetOutput(), h.out)
		if len(n.GetOutput()) != k || i < 0 {
			return f.unexpected(t, n)
		}
		rows = []int{i}
	} else {
		var err error
		if rows, err = f.chosen(t, c, k); err != nil {
			return err
		}
	}
	after := new(graph.Value)
	if op := graph.Ops[onnxpb.OpName(n)]; op != nil {
		if v := op(c, 0); v != nil {
			after = v
		}
	}
	t.columns = rows
	t.at = flow{Value: *after, class: noClass}
	t.tail = append(t.tail, stepName(n))
	return nil
}

const noAverage = "an average of probabilities is no softmax of one layer's logits; export the model without it, or let it average the logits"

// unexpected refuses what follows probabilities.
func (f *finder) unexpected(t *trail, n *onnxpb.Node) error {
	r := graph.RefuseAt(n, "%s follows %s", f.describe(n), strings.Join(t.tail, ", "))
	switch onnxpb.OpName(n) {
	case "ReduceMean", "AveragePool", "GlobalAveragePool":
		r.Reason += ": " + noAverage
	}
	return r
}
