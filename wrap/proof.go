package wrap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/onnx/head"
)

const (
	// proofExamples is how many examples are compared, or somewhat more.
	proofExamples = 32
	// proofBytes is the largest model that is opened a second time, for a moment, to
	// compare where its head was found and not named: that takes a second at most.
	proofBytes = 256 << 20

	// How far probabilities may be from the model's own. Both come of the same logits, by
	// other ways of rounding float32; where numbers of 8 or 16 bits lie between, a
	// probability is rounded to 1/256.
	proofTolerance       = 1e-4
	coarseProofTolerance = 1e-2
	// logitRounding is how far logits may be from themselves, relative to the largest,
	// where the runtime has another kernel for the layer as the model has it.
	logitRounding = 1e-5
)

var errEnough = errors.New("enough examples")

// prove compares what is made of the logits with what the model itself gives on the first examples:
// always where the head was named by hand, otherwise where that costs nothing to speak of. There
// may be something to warn of.
func prove(ctx context.Context, cfg *Config, in *sources) (proof *Proof, warning string, err error) {
	if in.cut == nil {
		return nil, "", nil
	}
	h := in.cut.Head
	named := cfg.Head.Features != "" || cfg.Head.Logits != "" || cfg.Head.Output != ""
	if !named && in.cut.Model.Size() > proofBytes {
		return nil, "", nil
	}
	logits, owns, err := modelOutputs(ctx, cfg, in)
	if err != nil {
		return nil, "", err
	}
	n := len(logits) / h.LogitDim
	var compared []*agreement
	itself := false // the logits are an output
	for i := range owns {
		o := &owns[i]
		if len(o.Ops) == 0 {
			itself = true
			continue
		}
		if cfg.Head.Output != "" && o.Name != cfg.Head.Output {
			continue
		}
		a := agree(in.head, logits, n, &o.Output, o.values)
		understood := given(h, in.head, logits, n, o)
		switch {
		case understood != nil:
			compared = append(compared, understood)
		case a != nil && (named || only(o.Ops, plainOps) && !only(o.Ops, linearOps)):
			compared = append(compared, a)
		}
	}
	switch a := decisive(compared); {
	case a != nil && !a.holds():
		return nil, "", a.error(h, n)
	case a != nil:
		if s := a.smoothed; s != nil {
			warning = fmt.Sprintf("the model's own %q are %.4g·p + %.3g of the probabilities p made of the logits: it is p that figures and temperatures are of", a.output, s[0], s[1])
		}
		return &Proof{Output: a.output, Examples: n, Difference: a.difference}, warning, nil
	case named && !itself:
		warning = fmt.Sprintf("the head was named by hand, and the model gives nothing that its logits %q could be compared with: whether they are the right ones, and %s the right link, is not proven", h.Logits, h.Link)
	}
	return nil, warning, nil
}

// outputValues are what the model itself made of the logits of some examples.
type outputValues struct {
	head.Output
	values []float32 // [n,Width]
}

// modelOutputs runs the model on its first examples, and gives their logits, and what the model
// makes of these. Where that cannot be run, it makes nothing.
func modelOutputs(ctx context.Context, cfg *Config, in *sources) (logits []float32, owns []outputValues, err error) {
	model, list, err := head.WithOutputs(in.cut.Model, in.cut.Head)
	if err != nil || len(list) == 0 {
		return nil, nil, nil
	}
	run := cfg.Runtime.Config()
	run.Model, run.Preprocess = model, in.cut.Preprocess()
	net, err := featurize.NewNetwork(run)
	if err != nil {
		return nil, nil, nil // such as for an output whose shape is not what it is declared to be
	}
	defer net.Close()
	for _, o := range list {
		owns = append(owns, outputValues{Output: o})
	}
	n := 0
	config := in.train.Config
	config.Cache = nil
	if in.train.Size() < 0 { // whose beginning is wanted again
		batch := net.Batch()
		from, _ := in.train.Data.Range()
		config.To = from + (proofExamples+config.MaxBad+batch-1)/batch*batch
	}
	_, err = net.Stream(ctx, in.train.Data, config, func(r featurize.Results, _ *rows.Batch) error {
		logits = append(logits, r.Columns[0]...)
		for i := range owns {
			owns[i].values = append(owns[i].values, r.Columns[1+i]...)
		}
		if n += r.N; n >= proofExamples {
			return errEnough
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, nil, nil // what is wrong with the data will show when all of it is read
	}
	return logits, owns, nil
}

// plainOps make of logits what is known: probabilities, their logarithms or the best
// class, whatever the order. A head that was found is compared with what comes of them
// alone: others, such as a mean over several views, are understood by their place.
var plainOps = []string{
	"Softmax", "LogSoftmax", "Sigmoid", "ArgMax", "TopK", "Identity", "Cast", "Dropout", "Flatten", "Reshape",
	"Squeeze", "Unsqueeze", "Transpose", "QuantizeLinear", "DequantizeLinear", "ReduceMax", "Sub", "Exp",
	"ReduceSum", "Div", "Log", "Neg", "ReduceLogSumExp", "Concat", "mfgs.BothClasses", "LpNormalization",
	"ai.onnx.ml.Normalizer", "ai.onnx.ml.ZipMap", "Clip", "Max", "Min", "Expand", "Shape", "Add", "Mul", "Not",
	"Reciprocal",
}

// linearOps make other logits of logits.
var linearOps = []string{
	"Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "QuantizeLinear",
	"DequantizeLinear", "Add", "Sub", "Mul", "Div", "BatchNormalization",
}

// only reports whether all operators are of a list.
func only(ops, of []string) bool {
	return !slices.ContainsFunc(ops, func(op string) bool { return !slices.Contains(of, op) })
}

// agreement is how far one of a model's own outputs is from what is made of the logits.
type agreement struct {
	output     string
	what       string  // "probabilities" or "classes"
	difference float64 // as in Proof
	allowed    float64
	classes    int         // examples whose most probable class is another
	smoothed   *[2]float64 // a and b, where the model's own are a·p + b and not p
}

// given compares an output with what the head, as it was found, says that the model
// gives: probabilities smoothed, clamped or in logarithms. It is nil where that is not
// this output, or not the head's business.
func given(h *head.Head, head calibrate.Head, logits []float32, n int, o *outputValues) *agreement {
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
			got := float64(o.values[i*o.Width+j])
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
		return coarseProofTolerance
	}
	largest := 0.0
	for _, v := range logits {
		largest = max(largest, math.Abs(float64(v)))
	}
	return min(proofTolerance+logitRounding*largest, coarseProofTolerance)
}

// decisive returns the comparison that counts, nil without any: one of probabilities,
// which say more than classes, that holds, or else the first. A model may give other
// probabilities beside those of its head.
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
	found := fmt.Sprintf("they differ by %.2g, want at most %.2g, and in %d of %d examples in their class", a.difference, a.allowed, a.classes, n)
	if a.what == "classes" {
		found = fmt.Sprintf("they differ in %d of %d examples, want none", a.classes, n)
	}
	return fmt.Errorf("the %s made of the logits %q by %s are not the model's own %q: %s; name the tensor that the model makes them of with --logits, behind every bias and scale, and their --link, or give features and logits ready made",
		a.what, h.Logits, h.Link, a.output, found)
}

// agree compares what one of a model's own outputs says of n examples with their
// logits; nil where it cannot be told what it says.
func agree(h calibrate.Head, logits []float32, n int, o *head.Output, values []float32) *agreement {
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

// cutOff returns the probabilities between which a model's own are kept: where it cuts
// them off, several are the least or the largest.
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

// probabilities are those of each class, or of each label of a multi-label head.
func probabilities(h calibrate.Head, logits []float32, n int) []float64 {
	logp, _ := calibrate.Plain(h, logits, n, 1)
	p := make([]float64, 0, n*h.Classes())
	for j, l := range logp {
		// Of two outcomes of each label the second is that it is there.
		if !h.MultiLabel() || j%2 == 1 {
			p = append(p, math.Exp(l))
		}
	}
	return p
}

// outputProbabilities reads an output as probabilities of all classes; nil where it is
// something else.
func outputProbabilities(h calibrate.Head, n int, o *head.Output, values []float32) []float64 {
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
		if single { // of the class that the logit speaks for
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
	for _, sign := range []float64{1, -1} { // logarithms, or less these
		for i, v := range values {
			p[i] = math.Exp(sign * float64(v))
		}
		if distributions(h, p) {
			return p
		}
	}
	return nil
}

// distributions reports whether rows are probabilities: of a multi-label head each by
// itself, otherwise together.
func distributions(h calibrate.Head, p []float64) bool {
	const slack = coarseProofTolerance
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

// compareClasses compares the best class, where that is nothing else than the largest logit's. It
// is nil where the classes have other numbers: from 1 on, or the other way round.
func (a *agreement) compareClasses(
	h calibrate.Head, logits []float32, n int, o *head.Output, values []float32, largest float64,
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
	// Of our class and the model's, the differences and the sums there are.
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

// smoothing returns a and b where own is a·p + b of ours, nil where it is not.
func smoothing(ours, own []float64, n int, allowed float64) *[2]float64 {
	const least = 4 // through fewer a line goes too easily
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
