package fuse

import (
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Decisions are computed from the outputs probabilities and ood_score: the output abstain, [N], if there is a
// threshold, and prediction_set, [N,C], if Set is set. NaN abstains, and is in no set.
type Decisions struct {
	Uncertainty, OOD *float64 // abstain above these; nil for no bound
	Set              *Set
}

// Set defines a prediction set: the classes whose score is at most the threshold.
type Set struct {
	// Ranked scores are the total probability of the more probable classes, plus the penalty of the class's rank;
	// other scores are 1 - p. Ranked ones need opset 11: see [RankedOpset].
	Ranked     bool
	Penalties  []float64 // [C], by rank; nil for none
	Thresholds []float64 // one, or one per class
}

// RankedOpset is the first opset in which classes can be ranked.
const RankedOpset = 11

// addDecisions declares the outputs of decisions.
func (f *fuser) addDecisions(add func(key string, typ tensor.Type, dims ...int64)) {
	d := f.mf.Decisions
	if d != nil && (d.Uncertainty != nil || d.OOD != nil) {
		add("abstain", tensor.Bool)
	}
	if d != nil && d.Set != nil {
		add("prediction_set", tensor.Bool, f.classes)
	}
}

// decide computes the outputs of decisions.
func (f *fuser) decide(outputs Outputs) {
	d := f.mf.Decisions
	abstain, set := outputs.Of("abstain"), outputs.Of("prediction_set")
	if d == nil || abstain == nil && set == nil {
		return
	}
	probabilities := outputs[Probabilities].Name
	p := f.widened(probabilities)
	rest := f.binary("Sub", f.number(1), p) // 1 - p
	top, uncertainty := "", ""
	if f.link == layer.Sigmoid && f.k > 1 {
		uncertainty = f.reduce("ReduceMean", f.extreme("Min", p, rest, 2), 1, true)
	} else if f.head.Correctness {
		uncertainty = f.slice(p, 1, 1-layer.Right, 2-layer.Right)
	} else {
		// For the most probable class use the sum of the other probabilities, which is accurate if p is close
		// to 1.
		classes := make([]int64, f.classes)
		for i := range classes {
			classes[i] = int64(i)
		}
		first := f.op("ArgMax", []string{probabilities}, onnxpb.IntAttribute("axis", 1), onnxpb.IntAttribute("keepdims", 1))
		top = f.compared("Equal", f.list(classes...), first)
		others := f.binary("Mul", p, f.binary("Sub", f.number(1), top))
		uncertainty = f.sum(others, 1, f.classes, true)
		rest = f.binary("Add", f.binary("Mul", top, uncertainty), f.binary("Sub", rest, f.binary("Mul", top, rest)))
	}
	if abstain != nil {
		var answered string
		for _, rule := range []struct {
			at    *float64
			value func() string
		}{
			{d.Uncertainty, func() string { return uncertainty }},
			{d.OOD, func() string { return f.reshape(outputs.Of("ood_score").Name, -1, 1) }},
		} {
			if rule.at == nil {
				continue
			}
			if is := f.atMost(rule.value(), []float64{*rule.at}); answered == "" {
				answered = is
			} else {
				answered = f.binary("And", answered, is)
			}
		}
		f.as(abstain.Name, func() string { return f.reshape(f.unary("Not", answered), -1) })
	}
	if set != nil {
		score := rest
		if d.Set.Ranked {
			score = f.ranked(p, top, d.Set)
		}
		f.as(set.Name, func() string { return f.atMost(score, d.Set.Thresholds) })
	}
}

// atMost compares numbers with thresholds, which broadcast: ≤ by an operator that all opsets have.
func (f *fuser) atMost(x string, thresholds []float64) string {
	above := make([]float64, len(thresholds))
	for i, t := range thresholds {
		above[i] = math.Nextafter(t, math.Inf(1))
		if f.mf.Single {
			above[i] = singleAbove(t)
		}
	}
	return f.binary("Less", x, f.reals("thresholds", above, int64(len(above))))
}

// singleAbove returns the least float32 above t.
func singleAbove(t float64) float64 {
	x := float32(t)
	if float64(x) <= t {
		x = math.Nextafter32(x, float32(math.Inf(1)))
	}
	return float64(x)
}

// ranked returns the scores of a ranked set, [N,C]. The total of the more probable classes is 1 minus that of the
// class itself and all less probable ones, which is accurate if that is small; for the most probable class it
// is exactly 0, even if the probabilities do not quite sum to 1.
func (f *fuser) ranked(p, top string, s *Set) string {
	topK := f.op("TopK", []string{p, f.list(f.classes)}, onnxpb.IntAttribute("axis", 1))
	order := f.Names.Fresh("mfgs_order")
	last := f.Nodes[len(f.Nodes)-1]
	last.Output = append(last.Output, order)
	after := f.op("CumSum", []string{topK, f.integer(1)}, onnxpb.IntAttribute("reverse", 1))
	penalties := s.Penalties
	if penalties == nil {
		penalties = make([]float64, f.classes)
	}
	above := f.binary("Sub", f.number(1), after)
	ordered := f.binary("Add", above, f.reals("penalties", penalties, f.classes))
	scores := f.op("ScatterElements", []string{f.binary("Mul", p, f.number(0)), order, ordered}, onnxpb.IntAttribute("axis", 1))
	return f.binary("Add", f.binary("Mul", top, f.number(penalties[0])), f.binary("Mul", f.binary("Sub", f.number(1), top), scores))
}
