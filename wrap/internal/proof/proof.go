// Package proof checks a head: it compares the probabilities and classes computed from the logits with the
// model's own outputs.
package proof

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
)

const (
	// How far probabilities may be from the model's own. Both come from the same logits and differ in float32
	// rounding; with 8- or 16-bit numbers in between, a probability is rounded to 1/256.
	tolerance       = 1e-4
	coarseTolerance = 1e-2
	// logitRounding is how far logits may differ between two kernels for the same layer, relative to the largest.
	logitRounding = 1e-5
)

// A ModelOutput is one of the model's own outputs, for n examples.
type ModelOutput struct {
	head.Output
	Values []float32 // [n,Width]
}

// Options say how the head was found.
type Options struct {
	Named  bool   // the user named its tensors or an output
	Output string // the output that was named; "" compares all
}

// Compare compares the probabilities and classes that a head, described by c, gives for the logits of some examples
// with the model's own outputs. The proof is nil if there is nothing to compare with. It returns an error if they
// disagree.
func Compare(
	h *head.Head, c layer.Head, logits []float32, outputs []ModelOutput, opts Options,
) (proof *bundle.Proof, warning string, err error) {
	n := len(logits) / h.Logits
	var compared []*agreement
	itself := false // the logits are an output
	for i := range outputs {
		o := &outputs[i]
		if len(o.Ops) == 0 {
			itself = true
			continue
		}
		if opts.Output != "" && o.Name != opts.Output {
			continue
		}
		a := agree(c, logits, n, &o.Output, o.Values)
		known := compareTail(h, c, logits, n, o)
		switch {
		case known != nil:
			compared = append(compared, known)
		case a != nil && (opts.Named || only(o.Ops, plainOps) && !only(o.Ops, linearOps)):
			compared = append(compared, a)
		}
	}
	switch a := decisive(compared); {
	case a != nil && !a.holds():
		return nil, "", a.error(h, n)
	case a != nil:
		if s := a.smoothed; s != nil {
			warning = fmt.Sprintf("the model's output %q is %.4g·p + %.3g of the probabilities p computed from the logits: metrics and temperatures are those of p", a.output, s[0], s[1])
		}
		return &bundle.Proof{Output: a.output, Examples: n, Difference: a.difference}, warning, nil
	case opts.Named && !itself:
		warning = fmt.Sprintf("the head was given, and the model has no output to compare its logits %q with: check that they are the right ones, and that %s is the right link", h.LogitsTensor, h.Link)
	}
	return nil, warning, nil
}

// plainOps turn logits into probabilities, their logarithms or the best class, in any order. A head that was found is
// compared only with outputs of these: others, such as a mean over several views, mean something else.
var plainOps = append(slices.Collect(maps.Keys(layer.ByOperator())),
	"ArgMax", "TopK", "Identity", "Cast", "Dropout", "Flatten", "Reshape",
	"Squeeze", "Unsqueeze", "Transpose", "QuantizeLinear", "DequantizeLinear", "ReduceMax", "Sub", "Exp",
	"ReduceSum", "Div", "Log", "Neg", "ReduceLogSumExp", "Concat", "mfgs.BothClasses", "LpNormalization",
	"ai.onnx.ml.Normalizer", "ai.onnx.ml.ZipMap", "Clip", "Max", "Min", "Expand", "Shape", "Add", "Mul", "Not",
	"Reciprocal",
)

// linearOps turn logits into other logits.
var linearOps = []string{
	"Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "QuantizeLinear",
	"DequantizeLinear", "Add", "Sub", "Mul", "Div", "BatchNormalization",
}

// only reports whether all operators are in a list.
func only(ops, of []string) bool {
	return !slices.ContainsFunc(ops, func(op string) bool { return !slices.Contains(of, op) })
}

// agreement is how well one of the model's own outputs agrees with what is computed from the logits.
type agreement struct {
	output     string
	what       string  // "probabilities" or "classes"
	difference float64 // as in Proof
	allowed    float64
	classes    int         // examples whose most probable class is another
	smoothed   *[2]float64 // a and b if the model's own are a·p + b instead of p
}

// compareTail compares an output with what the head's tail computes from the probabilities: smoothed,
// clamped or logarithms. It is nil if that is another output, or unknown.
func compareTail(h *head.Head, head layer.Head, logits []float32, n int, o *ModelOutput) *agreement {
	if o.Integer || n == 0 {
		return nil
	}
	p, c := probabilities(head, logits, n), head.Classes()
	a := &agreement{output: o.Name, what: "probabilities", allowed: allowed(logits, &o.Output)}
	for i := range n {
		gives := h.Gives(p[i*c : (i+1)*c])
		if len(gives) != o.Width {
			return nil
		}
		for j, want := range gives {
			got := float64(o.Values[i*o.Width+j])
			// Written so that NaN fails.
			if !(math.Abs(want-got) <= a.allowed*max(1, math.Abs(want))) {
				return nil
			}
			a.difference = max(a.difference, min(math.Abs(want-got), a.allowed))
		}
	}
	return a
}

// allowed is how far probabilities may be from the model's own.
func allowed(logits []float32, o *head.Output) float64 {
	if o.Coarse {
		return coarseTolerance
	}
	largest := 0.0
	for _, v := range logits {
		largest = max(largest, math.Abs(float64(v)))
	}
	return min(tolerance+logitRounding*largest, coarseTolerance)
}

// decisive returns the comparison that counts, nil if there is none: probabilities before
// classes, and those that agree before others, since a model may have other probabilities beside those of its head.
func decisive(all []*agreement) *agreement {
	rank := func(a *agreement) int {
		r := 0
		if a.what == "probabilities" {
			r = 4
		}
		if a.holds() {
			r += 2
		}
		if a.smoothed == nil {
			r++
		}
		return r
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MaxFunc(all, func(a, b *agreement) int { return rank(a) - rank(b) }) // the first of equals
}

func (a *agreement) holds() bool { return a.smoothed != nil || a.difference <= a.allowed }

func (a *agreement) error(h *head.Head, n int) error {
	found := fmt.Sprintf("they differ by %.2g, want at most %.2g, and have another class for %d of %d examples", a.difference, a.allowed, a.classes, n)
	if a.what == "classes" {
		found = fmt.Sprintf("they differ for %d of %d examples, want none", a.classes, n)
	}
	return fmt.Errorf("the %s computed from the logits %q by %s do not match the model's output %q: %s; name the right logits tensor with %s, after every bias and scale, and its link with %s, or give precomputed features and logits",
		a.what, h.LogitsTensor, h.Link, a.output, found, option.Logits, option.Link)
}

// agree compares one of a model's own outputs for n examples with their logits. It is nil if the meaning of the
// output is unknown.
func agree(h layer.Head, logits []float32, n int, o *head.Output, values []float32) *agreement {
	largest := 0.0
	for _, v := range slices.Concat(logits, values) {
		if v-v != 0 { // NaN, for both
			return nil
		}
	}
	for _, v := range logits {
		largest = max(largest, math.Abs(float64(v)))
	}
	if n == 0 {
		return nil
	}
	a := &agreement{output: o.Name, what: "probabilities", allowed: allowed(logits, o)}
	if o.Integer {
		a.what = "classes"
		return a.compareClasses(h, logits, n, o, values, largest)
	}
	own := outputProbabilities(h, n, o, values)
	if own == nil {
		return nil
	}
	ours := probabilities(h, logits, n)
	low, high := cutOff(own, o.Ops)
	c := len(own) / n
	for i := range n {
		if !h.MultiLabel() && argmax(ours[i*c:(i+1)*c]) != argmax(own[i*c:(i+1)*c]) {
			a.classes++
		}
	}
	for i, p := range ours {
		a.difference = max(a.difference, math.Abs(min(max(p, low), high)-own[i]))
	}
	if !a.holds() {
		a.smoothed = smoothing(ours, own, n, a.allowed)
	}
	return a
}

// cutOff returns the bounds to which the model clips its probabilities, 0 and 1 if it does not. With clipping several
// have the smallest or the largest value.
func cutOff(own []float64, ops []string) (low, high float64) {
	low, high = 0, 1
	if !slices.ContainsFunc(ops, func(op string) bool { return op == "Clip" || op == "Max" || op == "Min" }) {
		return low, high
	}
	least, most := slices.Min(own), slices.Max(own)
	lows, highs := 0, 0
	for _, p := range own {
		if p == least {
			lows++
		}
		if p == most {
			highs++
		}
	}
	if lows > 1 {
		low = least
	}
	if highs > 1 {
		high = most
	}
	return low, high
}

// probabilities returns those of each class, or of each label of a multi-label head.
func probabilities(h layer.Head, logits []float32, n int) []float64 {
	logp, _ := calibrate.Plain(h, logits, n, 1)
	p := make([]float64, 0, n*h.Classes())
	for j, l := range logp {
		// Of the two outcomes of a label the second is its presence.
		if !h.MultiLabel() || j%2 == 1 {
			p = append(p, math.Exp(l))
		}
	}
	return p
}

// outputProbabilities reads an output as probabilities of all classes; nil if it is
// something else.
func outputProbabilities(h layer.Head, n int, o *head.Output, values []float32) []float64 {
	c := h.Classes()
	single := h.Logits == 1 && o.Width == 1
	if o.Width != c && !single || slices.Contains(o.Ops, "TopK") {
		return nil
	}
	if only(o.Ops, linearOps) {
		if o.Width != h.Logits {
			return nil
		}
		return probabilities(h, values, n)
	}
	p := make([]float64, 0, n*c)
	for _, v := range values {
		if single { // of the second class
			p = append(p, 1-float64(v))
		}
		p = append(p, float64(v))
	}
	if distributions(h, p) {
		return p
	}
	if single || h.MultiLabel() {
		return nil
	}
	for _, sign := range []float64{1, -1} { // logarithms, or their negatives
		for i, v := range values {
			p[i] = math.Exp(sign * float64(v))
		}
		if distributions(h, p) {
			return p
		}
	}
	return nil
}

// distributions reports whether rows are probabilities: of a multi-label head each in [0,1], otherwise with
// sum 1 too.
func distributions(h layer.Head, p []float64) bool {
	const slack = coarseTolerance
	c := h.Classes()
	for i, v := range p {
		if !(v >= -slack && v <= 1+slack) {
			return false
		}
		if i%c == 0 && !h.MultiLabel() {
			sum := 0.0
			for _, u := range p[i : i+c] {
				sum += u
			}
			if !(math.Abs(sum-1) <= slack*max(2, float64(c)/10)) {
				return false
			}
		}
	}
	return true
}

// compareClasses compares the best class if it is that of the largest logit. It is nil if the model numbers
// classes differently: from 1, or in reverse.
func (a *agreement) compareClasses(
	h layer.Head, logits []float32, n int, o *head.Output, values []float32, largest float64,
) *agreement {
	k := h.Logits
	best := slices.Contains(o.Ops, "ArgMax") || slices.Contains(o.Ops, "TopK")
	if k == 1 || h.MultiLabel() || o.Width != 1 || !best || !only(o.Ops, plainOps) {
		return nil
	}
	a.allowed = 0
	slack := 1e-4 * largest
	if o.Coarse {
		slack = 1e-2 * largest
	}
	// Differences and sums of the model's class and ours.
	differences, sums := map[int]bool{}, map[int]bool{}
	for i := range n {
		row := logits[i*k : (i+1)*k]
		class, largest := int(values[i]), slices.Max(row)
		ours := slices.Index(row, largest)
		differences[class-ours], sums[class+ours] = true, true
		if class < 0 || class >= k {
			return nil
		}
		if float64(largest-row[class]) > slack { // else a tie
			a.classes++
		}
	}
	if a.classes > 0 && len(differences) != len(sums) && (len(differences) == 1 || len(sums) == 1) {
		return nil
	}
	a.difference = float64(a.classes) / float64(n)
	return a
}

// smoothing returns a and b if own is a·p + b for our p, else nil.
func smoothing(ours, own []float64, n int, allowed float64) *[2]float64 {
	const least = 4 // a line fits fewer too easily
	if n < least {
		return nil
	}
	var mx, my, sxx, sxy float64
	for i := range ours {
		mx, my = mx+ours[i]/float64(len(ours)), my+own[i]/float64(len(ours))
	}
	for i := range ours {
		sxx, sxy = sxx+(ours[i]-mx)*(ours[i]-mx), sxy+(ours[i]-mx)*(own[i]-my)
	}
	a := sxy / sxx
	b := my - a*mx
	if !(a >= 0.5 && a < 1 && b >= 0 && a+b <= 1) {
		return nil
	}
	for i := range ours {
		if !(math.Abs(a*ours[i]+b-own[i]) <= allowed) {
			return nil
		}
	}
	return &[2]float64{a, b}
}

func argmax(p []float64) int {
	best := 0
	for i, v := range p {
		if v > p[best] {
			best = i
		}
	}
	return best
}
