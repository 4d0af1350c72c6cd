package head

import (
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/build"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

const (
	ctcName    = "mfgs_ctc"         // of operators
	ctcOpset   = 11                 // of CumSum, GatherElements and ScatterElements
	impossible = -1e30              // a logarithm of 0 that can be added to
	allOfAxis  = int64(math.MaxInt) // the end of an axis, for Slice
)

// ctc writes the operators that read text. Shapes in comments: N examples, T steps, K symbols, U of the longest text,
// S = 2U+1 places of its symbols with a blank before, between and after them.
type ctc struct {
	*build.Builder
	h *Head
}

func (c *ctc) op(op string, in []string, attributes ...*onnxpb.Attribute) string {
	return c.Op(op, in, ctcName, attributes...)
}

func (c *ctc) binary(op, x, y string) string { return c.op(op, []string{x, y}) }

func (c *ctc) cast(x string, to tensor.Type) string {
	return c.op("Cast", []string{x}, onnxpb.IntAttribute("to", int64(to)))
}

func (c *ctc) double(x float64) string { return c.Scalar(tensor.Float64, x) }

// slice takes [from,to) of the second axis.
func (c *ctc) slice(x string, from, to int64) string {
	return c.op("Slice", []string{x, c.Ints(from), c.Ints(to), c.Ints(1)})
}

func (c *ctc) concat(axis int64, x ...string) string {
	return c.op("Concat", x, onnxpb.IntAttribute("axis", axis))
}

func (c *ctc) reduce(op, x string, keep bool, axes ...int64) string {
	return c.Reduce(op, x, ctcName, keep, axes...)
}

// filled has the shape of a tensor of integers, and one of them everywhere.
func (c *ctc) filled(like, value string) string {
	return c.binary("Add", c.binary("Mul", like, c.Ints(0)), value)
}

// bestPath returns the most probable symbol of each step, [N,T].
func (c *ctc) bestPath(x string) string {
	return c.op("ArgMax", []string{x}, onnxpb.IntAttribute("axis", 2), onnxpb.IntAttribute("keepdims", 0))
}

// addSteps appends the operators of a head without a decoding: see [StepsOf].
func (h *Head) addSteps(b *build.Builder) (figures, text, numbers string) {
	c := &ctc{b, h}
	x := c.cast(b.Take(h.LogitsTensor), tensor.Float32)
	far := func(x string) string { // of sums from 1
		off := c.binary("Sub", c.reduce("ReduceSum", x, false, 2), b.Scalar(tensor.Float32, 1))
		return c.op("Reshape", []string{c.reduce("ReduceMax", c.op("Abs", []string{off}), true, 0, 1), c.Ints(1, 1)})
	}
	shape := c.op("Reshape", []string{c.cast(c.op("Shape", []string{x}), tensor.Float32), c.Ints(1, 3)})
	least := c.op("Reshape", []string{c.reduce("ReduceMin", x, true, 0, 1, 2), c.Ints(1, 1)})
	figures = c.concat(1, shape, least, far(x), far(c.op("Exp", []string{x})))
	text = c.op("Reshape", []string{c.bestPath(x), c.Ints(1, -1)})
	return figures, text, c.op("Mul", []string{c.cast(text, tensor.Float32), b.Scalar(tensor.Float32, 0)})
}

// AddDecoding appends the operators of a head that reads text, and returns the names of its logits, [N,2] of float32,
// of the symbols of the texts, [N,U] of int64 with -1 after the last, and of their probabilities, [N,U] of float32.
// Without a decoding these are what [StepsOf] takes, the best path, and zeros.
func (h *Head) AddDecoding(b *build.Builder) (logits, text, numbers string) {
	if h.Decoding == nil {
		return h.addSteps(b)
	}
	c := &ctc{b, h}
	x := b.Take(h.LogitsTensor)
	if h.logitsValue.Type != tensor.Float32 {
		x = c.cast(x, tensor.Float32)
	}
	if h.Decoding.StepsFirst {
		x = c.op("Transpose", []string{x}, onnxpb.IntsAttribute("perm", 1, 0, 2))
	}
	if h.Decoding.Of == Scores {
		x = c.op("LogSoftmax", []string{x}, onnxpb.IntAttribute("axis", 2))
	}
	right := "" // log p of all, [N,1]
	if h.Kind == Tags {
		right, text, numbers = c.tags(x)
	} else {
		var length string
		text, numbers, length = c.text(x)
		right = c.forward(x, text, length)
	}
	wrong := c.op("Log", []string{c.op("Max", []string{
		c.binary("Sub", c.double(1), c.op("Exp", []string{right})), c.double(LeastProbability)})})
	right = c.op("Max", []string{right, c.double(leastLogProbability)})
	return b.Rows(c.concat(1, wrong, right), tensor.Float64, CutLogits), text, numbers
}

// tags returns the logarithms of the probabilities that all tags are right, [N,1] of float64, the tags, [N,T] with -1
// for steps that do not count, and their probabilities, 0 for these.
func (c *ctc) tags(x string) (right, tags, numbers string) {
	d := c.h.Decoding
	best, p := c.bestPath(x), c.reduce("ReduceMax", x, false, 2)
	log := c.cast(p, tensor.Float64)
	if d.Of == Probabilities {
		log = c.op("Log", []string{c.op("Max", []string{log, c.double(LeastProbability)})})
	} else {
		p = c.op("Exp", []string{p})
	}
	counts := c.binary("Equal", best, best) // all
	if d.Mask != "" {
		counts = c.op("Not", []string{c.binary("Equal", c.cast(d.Mask, tensor.Int64), c.Ints(0))})
	}
	if d.SkipFirst > 0 || d.SkipLast > 0 {
		rank := c.binary("CumSum", c.cast(counts, tensor.Int64), c.Scalar(tensor.Int64, 1)) // from 1
		last := c.binary("Sub", c.slice(rank, -1, allOfAxis), c.Ints(int64(d.SkipLast)))
		skipped := c.binary("Or", c.binary("Less", rank, c.Ints(int64(d.SkipFirst)+1)), c.binary("Greater", rank, last))
		counts = c.binary("And", counts, c.op("Not", []string{skipped}))
	}
	right = c.reduce("ReduceSum", c.op("Where", []string{counts, log, c.double(0)}), true, 1)
	tags = c.op("Where", []string{counts, best, c.Ints(-1)})
	return right, tags, c.op("Where", []string{counts, p, c.Scalar(tensor.Float32, 0)})
}

// text returns the symbols of the best paths and their probabilities, [N,U] with U ≥ 1, and their number, [N,1]. A
// symbol's probability is the largest that it has in the steps that read it.
func (c *ctc) text(x string) (text, numbers, length string) {
	blank, none := c.Ints(int64(c.h.Decoding.Blank)), c.Ints(-1)
	best := c.bestPath(x)
	first := c.slice(best, 0, 1)
	before := c.concat(1, c.filled(first, none), c.slice(best, 0, -1))
	isBlank, repeated := c.binary("Equal", best, blank), c.binary("Equal", best, before)
	dropped := c.binary("Or", isBlank, repeated)
	kept := c.op("Not", []string{dropped})
	ends := c.binary("CumSum", c.cast(kept, tensor.Int64), c.Scalar(tensor.Int64, 1))
	length = c.slice(ends, -1, allOfAxis)
	steps := c.op("Slice", []string{c.op("Shape", []string{best}), c.Ints(1), c.Ints(2)}) // T
	// What is dropped goes to place T, behind all texts.
	place := c.op("Where", []string{kept, c.binary("Sub", ends, c.Ints(1)), steps})
	empty := c.concat(1, c.filled(best, none), c.filled(first, none))
	text = c.scatter(empty, place, c.op("Where", []string{kept, best, none}))
	p := c.reduce("ReduceMax", x, false, 2)
	if c.h.Decoding.Of != Probabilities {
		p = c.op("Exp", []string{p})
	}
	zero := c.Scalar(tensor.Float32, 0)
	largest := c.largestSoFar(p, c.cast(repeated, tensor.Float32))
	after := c.concat(1, c.slice(best, 1, allOfAxis), c.filled(first, none))
	ending := c.op("Not", []string{c.binary("Or", isBlank, c.binary("Equal", best, after))})
	place = c.op("Where", []string{ending, c.binary("Sub", ends, c.Ints(1)), steps})
	numbers = c.scatter(c.binary("Mul", c.cast(empty, tensor.Float32), zero), place, c.op("Where", []string{ending, largest, zero}))
	longest := c.op("Reshape", []string{c.reduce("ReduceMax", length, true, 0), c.Ints(1)})
	longest = c.op("Where", []string{c.binary("Greater", longest, c.Ints(0)), longest, c.Ints(1)})
	cut := func(x string) string { return c.op("Slice", []string{x, c.Ints(0), longest, c.Ints(1)}) }
	return cut(text), cut(numbers), length
}

func (c *ctc) scatter(to, at, x string) string {
	return c.op("ScatterElements", []string{to, at, x}, onnxpb.IntAttribute("axis", 1))
}

// forward returns the logarithms of the probabilities of all paths that give texts of these lengths, [N,1] of float64.
func (c *ctc) forward(x, text, length string) string {
	blank, low := c.Ints(int64(c.h.Decoding.Blank)), c.double(impossible)
	symbols := c.op("Where", []string{c.binary("Less", text, c.Ints(0)), blank, text})
	blanks := c.filled(symbols, blank)
	column := c.slice(blanks, 0, 1)
	pairs := c.concat(2, c.op("Reshape", []string{blanks, c.Ints(0, -1, 1)}), c.op("Reshape", []string{symbols, c.Ints(0, -1, 1)}))
	places := c.concat(1, c.op("Reshape", []string{pairs, c.Ints(0, -1)}), column) // [N,S]

	// log p of the symbol of each place at each step, [N,T,S]
	shape := c.concat(0, c.Ints(1), c.op("Slice", []string{c.op("Shape", []string{x}), c.Ints(1), c.Ints(2)}), c.Ints(1))
	all := c.binary("Expand", c.op("Reshape", []string{places, c.Ints(0, 1, -1)}), shape)
	emitted := c.cast(c.op("GatherElements", []string{x, all}, onnxpb.IntAttribute("axis", 2)), tensor.Float64)
	if c.h.Decoding.Of == Probabilities {
		emitted = c.op("Log", []string{c.op("Max", []string{emitted, c.double(LeastProbability)})})
	} else {
		emitted = c.op("Max", []string{emitted, low}) // a difference of two −∞ would be NaN
	}

	// A path may go on to a symbol two places on only if that is another symbol, and no blank.
	zeros := c.binary("Mul", c.cast(places, tensor.Float64), c.double(0)) // [N,S]
	lows := c.binary("Add", zeros, low)
	one, two := c.slice(lows, 0, 1), c.slice(lows, 0, 2)
	earlier := c.concat(1, column, column, c.slice(places, 0, -2))
	barred := c.binary("Or", c.binary("Equal", places, blank), c.binary("Equal", places, earlier))
	skip := c.op("Where", []string{barred, low, c.double(0)})

	start := c.concat(1, c.slice(zeros, 0, 1), c.slice(lows, 1, allOfAxis))
	last := c.scan(start, emitted, one, two, skip)
	twice := c.binary("Add", length, length)
	some := c.binary("Greater", length, c.Ints(0))
	before := c.op("Where", []string{some, c.binary("Sub", twice, c.Ints(1)), c.Ints(0)})
	gather := func(at string) string {
		return c.op("GatherElements", []string{last, at}, onnxpb.IntAttribute("axis", 1))
	}
	return c.logSum(gather(twice), c.op("Where", []string{some, gather(before), low}))
}

// logSum is log Σ exp, elementwise.
func (c *ctc) logSum(x ...string) string {
	top := c.op("Max", x)
	var parts []string
	for _, v := range x {
		parts = append(parts, c.op("Exp", []string{c.binary("Sub", v, top)}))
	}
	return c.binary("Add", top, c.op("Log", []string{c.op("Sum", parts)}))
}

// largestSoFar returns the largest of the numbers of a step and of those before it that it repeats, [N,T].
func (c *ctc) largestSoFar(p, repeated string) string {
	state, one, again := c.Names.Fresh("mfgs_largest"), c.Names.Fresh("mfgs_p"), c.Names.Fresh("mfgs_again")
	column := func(name string) *onnxpb.ValueInfo { return onnxpb.TensorInfo(name, tensor.Float32, -1) }
	outer := c.Nodes
	c.Nodes = nil
	next := c.op("Max", []string{one, c.binary("Mul", state, again)})
	given := c.op("Identity", []string{next})
	body := &onnxpb.Graph{
		Name: proto.String("mfgs_largest_so_far"), Node: c.Nodes,
		Input:  []*onnxpb.ValueInfo{column(state), column(one), column(again)},
		Output: []*onnxpb.ValueInfo{column(next), column(given)},
	}
	c.Nodes = outer
	start := c.op("Reshape", []string{c.slice(p, 0, 1), c.Ints(-1)})
	c.op("Scan", []string{start, p, repeated}, onnxpb.GraphAttribute("body", body),
		onnxpb.IntAttribute("num_scan_inputs", 2), onnxpb.IntsAttribute("scan_input_axes", 1, 1),
		onnxpb.IntsAttribute("scan_output_axes", 1))
	last, all := c.Nodes[len(c.Nodes)-1], c.Names.Fresh("mfgs_largest_so_far")
	last.Output = append(last.Output, all)
	return all
}

// scan returns log α of the last step, [N,S], from that before the first: α_t(s) is p_t(s) times the sum of α_{t-1} of
// s, s-1 and, where that is not barred, s-2.
func (c *ctc) scan(start, emitted, one, two, skip string) string {
	alpha, now := c.Names.Fresh("mfgs_alpha"), c.Names.Fresh("mfgs_emitted")
	rows := func(name string) *onnxpb.ValueInfo { return onnxpb.TensorInfo(name, tensor.Float64, -1, -1) }
	outer := c.Nodes
	c.Nodes = nil
	shifted := c.concat(1, one, c.slice(alpha, 0, -1))
	skipped := c.binary("Add", c.concat(1, two, c.slice(alpha, 0, -2)), skip)
	next := c.binary("Add", c.logSum(alpha, shifted, skipped), now)
	body := &onnxpb.Graph{
		Name: proto.String("mfgs_forward"), Node: c.Nodes,
		Input:  []*onnxpb.ValueInfo{rows(alpha), rows(now)},
		Output: []*onnxpb.ValueInfo{rows(next)},
	}
	c.Nodes = outer
	return c.op("Scan", []string{start, emitted}, onnxpb.GraphAttribute("body", body),
		onnxpb.IntAttribute("num_scan_inputs", 1), onnxpb.IntsAttribute("scan_input_axes", 1))
}
