package proof

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/onnx/head"
)

func TestModelOutputsAreComparedByTheirMeaning(t *testing.T) {
	t.Parallel()
	const n = 20
	softmax, k := layer.Head{Logits: 3, Features: 1, Link: layer.Softmax}, 3
	logits := random(7, n*k)
	for i := range logits {
		logits[i] *= 3
	}
	p := probabilities(softmax, logits, n)
	of := func(f func(p float64) float64) []float32 {
		out := make([]float32, len(p))
		for i, v := range p {
			out[i] = float32(f(v))
		}
		return out
	}
	biased := slices.Clone(logits) // as without the bias of the first class
	for i := 0; i < len(biased); i += k {
		biased[i] += 0.3
	}
	other := func(f func(p float64) float64) []float32 {
		var out []float32
		for _, v := range probabilities(softmax, biased, n) {
			out = append(out, float32(f(v)))
		}
		return out
	}
	same := func(v float64) float64 { return v }
	classes, wrong := make([]float32, n), make([]float32, n)
	for i := range n {
		classes[i] = float32(argmax(p[i*k : (i+1)*k]))
		wrong[i] = float32((int(classes[i]) + 1) % k)
	}
	tied := slices.Clone(logits)
	for i := range n { // the best two alike
		row := tied[i*k : (i+1)*k]
		row[int(wrong[i])] = row[int(classes[i])]
	}

	one := layer.Head{Logits: 1, Features: 1, Link: layer.Sigmoid}
	several := layer.Head{Logits: 3, Features: 1, Link: layer.Sigmoid}
	ovr := layer.Head{Logits: 3, Features: 1, Link: layer.OneVsRest}
	float32s := func(p []float64) []float32 {
		out := make([]float32, len(p))
		for i, v := range p {
			out[i] = float32(v)
		}
		return out
	}
	second := func(p []float64) (out []float32) {
		for i := 1; i < len(p); i += 2 {
			out = append(out, float32(p[i]))
		}
		return out
	}
	const holds, differs, says = "holds", "differs", "says nothing"
	for name, tc := range map[string]struct {
		head   layer.Head
		logits []float32
		own    head.Output
		values []float32
		want   string
		smooth [2]float64
	}{
		"probabilities":        {softmax, logits, head.Output{Ops: []string{"Softmax"}}, of(same), holds, [2]float64{}},
		"of other logits":      {softmax, logits, head.Output{Ops: []string{"Softmax"}}, other(same), differs, [2]float64{}},
		"logarithms":           {softmax, logits, head.Output{Ops: []string{"LogSoftmax"}}, of(math.Log), holds, [2]float64{}},
		"logarithms of others": {softmax, logits, head.Output{Ops: []string{"LogSoftmax"}}, other(math.Log), differs, [2]float64{}},
		"less the logarithms": {softmax, logits, head.Output{Ops: []string{"LogSoftmax", "Neg"}},
			of(func(v float64) float64 { return -math.Log(v) }), holds, [2]float64{}},
		"smoothed": {softmax, logits, head.Output{Ops: []string{"Add", "Mul", "Softmax"}},
			of(func(v float64) float64 { return 0.9*v + 0.1/3 }), holds, [2]float64{0.9, 0.1 / 3}},
		"smoothed ones of others": {softmax, logits, head.Output{Ops: []string{"Add", "Mul", "Softmax"}},
			other(func(v float64) float64 { return 0.9*v + 0.1/3 }), differs, [2]float64{}},
		"clipped": {softmax, logits, head.Output{Ops: []string{"Clip", "Softmax"}},
			of(func(v float64) float64 { return min(max(v, 0.002), 0.998) }), holds, [2]float64{}},
		"rounded to 1/256": {softmax, logits, head.Output{Ops: []string{"QuantizeLinear", "Softmax"}, Coarse: true},
			of(func(v float64) float64 { return math.Round(v*256) / 256 }), holds, [2]float64{}},
		"rounded for no reason": {softmax, logits, head.Output{Ops: []string{"Softmax"}},
			of(func(v float64) float64 { return math.Round(v*256) / 256 }), differs, [2]float64{}},
		"other logits":        {softmax, logits, head.Output{Ops: []string{"Add"}}, biased, differs, [2]float64{}},
		"something else":      {softmax, logits, head.Output{Ops: []string{"Relu"}}, biased, says, [2]float64{}},
		"the largest, sorted": {softmax, logits, head.Output{Ops: []string{"Softmax", "TopK"}}, other(same), says, [2]float64{}},
		"not a number": {softmax, logits, head.Output{Ops: []string{"Softmax"}},
			of(func(float64) float64 { return math.NaN() }), says, [2]float64{}},
		"another number of them": {softmax, logits, head.Output{Ops: []string{"Softmax"}, Width: 4}, make([]float32, n*4), says, [2]float64{}},
		"classes": {softmax, logits, head.Output{Ops: []string{"ArgMax"}, Integer: true, Width: 1}, classes, holds,
			[2]float64{}},
		"other classes": {softmax, logits, head.Output{Ops: []string{"ArgMax"}, Integer: true, Width: 1}, wrong, differs,
			[2]float64{}},
		"classes that tie": {softmax, tied, head.Output{Ops: []string{"ArgMax"}, Integer: true, Width: 1}, wrong, holds,
			[2]float64{}},
		"classes by a table": {softmax, logits, head.Output{Ops: []string{"ArgMax", "Gather"}, Integer: true, Width: 1}, wrong, says,
			[2]float64{}},
		"classes by a threshold": {softmax, logits, head.Output{Ops: []string{"Greater"}, Integer: true, Width: 1}, wrong, says, [2]float64{}},
		"classes from 1": {softmax, logits, head.Output{Ops: []string{"ArgMax"}, Integer: true, Width: 1},
			slices.Repeat([]float32{3}, n), says, [2]float64{}},
		"one logit": {one, logits[:n], head.Output{Ops: []string{"Sigmoid"}, Width: 1},
			second(probabilities(one, logits[:n], n)), holds, [2]float64{}},
		"one logit, both classes": {one, logits[:n], head.Output{Ops: []string{"Concat", "Sigmoid"}, Width: 2}, float32s(probabilities(one, logits[:n], n)),
			holds, [2]float64{}},
		"one logit, of the other": {one, logits[:n], head.Output{Ops: []string{"Sigmoid"}, Width: 1}, second(probabilities(one, biased[:n], n)),
			differs, [2]float64{}},
		"labels": {several, logits, head.Output{Ops: []string{"Sigmoid"}},
			float32s(probabilities(several, logits, n)), holds, [2]float64{}},
		"labels of others": {several, logits, head.Output{Ops: []string{"Sigmoid"}}, float32s(probabilities(several, biased, n)),
			differs, [2]float64{}},
		"sigmoids for a softmax": {softmax, logits, head.Output{Ops: []string{"Sigmoid"}}, float32s(probabilities(several, logits, n)), says,
			[2]float64{}},
		"sigmoids, normalised": {ovr, logits, head.Output{Ops: []string{"Div", "Sigmoid"}}, float32s(probabilities(ovr, logits, n)), holds,
			[2]float64{}},
		"sigmoids for one normalised": {softmax, logits, head.Output{Ops: []string{"Div", "Sigmoid"}}, float32s(probabilities(ovr, logits, n)), differs,
			[2]float64{}},
		"a mean over several examples": {softmax, logits, head.Output{Ops: []string{"ReduceMean", "Softmax"}}, slices.Repeat([]float32{1. / 3}, n*k), differs,
			[2]float64{}},
	} {
		if tc.own.Width == 0 {
			tc.own.Width = k
		}
		a := agree(tc.head, tc.logits, n, &tc.own, tc.values)
		got := says
		if a != nil && a.holds() {
			got = holds
		} else if a != nil {
			got = differs
		}
		if got != tc.want {
			t.Errorf("%s: %s, want that it %s (%+v)", name, got, tc.want, a)
		}
		if a != nil && (a.smoothed != nil) != (tc.smooth != [2]float64{}) || a != nil && a.smoothed != nil &&
			!(math.Abs(a.smoothed[0]-tc.smooth[0]) <= 1e-5 && math.Abs(a.smoothed[1]-tc.smooth[1]) <= 1e-5) {
			t.Errorf("%s: smoothed by %v, want %v", name, a.smoothed, tc.smooth)
		}
	}
}

// Classes may agree although probabilities differ: probabilities decide. Classes numbered differently, such as from
// 1, are the same classes.
func TestClassesMayHaveOtherNumbers(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 4, Features: 1, Link: layer.Softmax}
	logits := []float32{3, 1, 0, 2, 0, 5, 1, 2, 0, 1, 6, 2}
	own := &head.Output{Name: "class", Width: 1, Integer: true, Ops: []string{"Add", "ArgMax"}}
	for name, tc := range map[string]struct {
		classes []float32
		differ  int // -1: nothing to compare
	}{
		"from 0":       {[]float32{0, 1, 2}, 0},
		"from 1":       {[]float32{1, 2, 3}, -1},
		"others":       {[]float32{1, 1, 2}, 1},
		"out of range": {[]float32{0, 1, 4}, -1},
		"backwards":    {[]float32{3, 2, 1}, -1},
		"all others":   {[]float32{3, 3, 3}, 3},
	} {
		a := agree(h, logits, 3, own, tc.classes)
		if got := a != nil; got != (tc.differ >= 0) {
			t.Errorf("%s: %+v", name, a)
		} else if a != nil && a.classes != tc.differ {
			t.Errorf("%s: %d differ, want %d", name, a.classes, tc.differ)
		}
	}
}

func TestProbabilitiesAreBetterEvidenceThanClasses(t *testing.T) {
	t.Parallel()
	classes := &agreement{what: "classes"}
	differing := &agreement{what: "probabilities", difference: 0.1, allowed: 1e-4}
	holding := &agreement{what: "probabilities", difference: 1e-7, allowed: 1e-4}
	for name, tc := range map[string]struct {
		all  []*agreement
		want *agreement
	}{
		"nothing":                         {nil, nil},
		"classes alone":                   {[]*agreement{classes}, classes},
		"probabilities that differ":       {[]*agreement{classes, differing}, differing},
		"other probabilities beside them": {[]*agreement{differing, holding}, holding},
	} {
		if got := decisive(tc.all); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// random returns n standard normal numbers.
func random(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}
