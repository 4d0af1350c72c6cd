package onnx

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A step is an operator that may stand between the linear layer and the output.
type step struct {
	layout     bool // moves numbers about and changes none, but for rounding
	rounds     bool // rounds
	pools      bool // averages or selects: the same for features and logits
	affine     bool // adds and multiplies by constants
	ends       bool // the logits end here: makes probabilities or a decision of them
	late       bool // may stand only behind the link
	normalises bool // makes the sum over the classes 1
	logs, exps bool // gives logarithms of probabilities; takes logarithms, and gives probabilities
	chooses    bool // inputs behind the first are shapes or indices, and may be computed
	anyOutput  bool // any output may be followed
	anySide    bool // any input may be what is followed, as with what is affine
	asked      bool // not linear; an approximation that must be asked for
	link       Link
	// class returns the class axis behind the operator, given the flow before and the shape behind. A reason refuses.
	class func(c *call, before *flow, after *value) (axis int, reason string)
}

// steps says what may follow a linear layer, by opName. The shape behind each comes from ops.
var steps map[string]*step

func init() {
	steps = map[string]*step{
		"Identity":              {layout: true, class: keepClass},
		"Cast":                  {layout: true, class: castClass},
		"Dropout":               {layout: true, class: dropoutClass},
		"Flatten":               {layout: true, class: reshapeClass},
		"Reshape":               {layout: true, chooses: true, class: reshapeClass},
		"Squeeze":               {layout: true, class: squeezeClass},
		"Unsqueeze":             {layout: true, class: unsqueezeClass},
		"Transpose":             {layout: true, class: transposeClass},
		"QuantizeLinear":        {layout: true, rounds: true, class: keepClass},
		"DequantizeLinear":      {layout: true, rounds: true, class: keepClass},
		"GlobalAveragePool":     {pools: true, class: globalPoolClass},
		"AveragePool":           {pools: true, class: averagePoolClass},
		"ReduceMean":            {pools: true, class: reduceClass},
		"Gather":                {pools: true, chooses: true, class: gatherClass},
		"GatherND":              {pools: true, chooses: true, class: gatherNDClass},
		"Slice":                 {pools: true, chooses: true, class: sliceClass},
		"Add":                   {affine: true, class: keepClass},
		"Sub":                   {affine: true, class: keepClass},
		"Mul":                   {affine: true, class: keepClass},
		"Div":                   {affine: true, class: keepClass},
		"Neg":                   {affine: true, class: keepClass},
		"BatchNormalization":    {affine: true, class: keepClass},
		"Softmax":               {ends: true, link: Softmax, class: softmaxClass},
		"LogSoftmax":            {ends: true, link: Softmax, logs: true, class: softmaxClass},
		"Sigmoid":               {ends: true, link: Sigmoid, class: keepClass},
		"ArgMax":                {ends: true, class: argMaxClass},
		"TopK":                  {ends: true, chooses: true, anyOutput: true, class: topKClass},
		"Clip":                  {layout: true, class: clipClass},
		"Exp":                   {late: true, exps: true, class: keepClass},
		"Log":                   {late: true, logs: true, class: keepClass},
		"Max":                   {late: true, anySide: true, class: keepClass},
		"Min":                   {late: true, anySide: true, class: keepClass},
		"Split":                 {pools: true, chooses: true, anyOutput: true, class: splitClass},
		bothClasses:             {late: true, class: bothClassesClass},
		"Relu":                  {layout: true, asked: true, class: keepClass},
		"LpNormalization":       {late: true, normalises: true, class: lpNormalizationClass},
		"ai.onnx.ml.Normalizer": {late: true, normalises: true, class: normalizerClass},
		"ai.onnx.ml.ZipMap":     {layout: true, class: zipMapClass},
	}
}

// shift adds a number to all logits of an example, which a Softmax does not see.
var shift = &step{class: shiftClass}

// The functions below follow the class axis through the operators of the table steps.

func keepClass(c *call, before *flow, after *value) (int, string) {
	if len(after.dims) != len(before.dims) {
		return noClass, describe(c.Node) + " changes the rank of the logits"
	}
	return before.class, ""
}

func castClass(c *call, before *flow, after *value) (int, string) {
	if !after.typ.IsFloat() {
		return noClass, fmt.Sprintf("%s turns the logits into %v", describe(c.Node), after.typ)
	}
	return before.class, ""
}

func dropoutClass(c *call, before *flow, _ *value) (int, string) {
	if t := c.arg(2); input(c.Node, 2) != "" && (len(t.data) != 1 || t.data[0] != 0) {
		return noClass, describe(c.Node) + " is in training mode"
	}
	return before.class, ""
}

// reshapeClass finds the class axis behind an operator that keeps the numbers in their order. Where the logits are rows
// they stay rows as long as some axis holds the classes and nothing lies behind it.
func reshapeClass(c *call, before *flow, after *value) (int, string) {
	if after.dims == nil || before.class == noClass {
		return noClass, ""
	}
	if k := before.dims[before.class]; merges(before, after, 1) && (after.dims[1] == k || after.dims[1] < 0) {
		return 1, ""
	}
	if flattens(before, after, 1) && after.dims[1] == before.dims[1] && before.dims[1] > 0 {
		return 1, ""
	}
	if !before.rows() && !(before.class == 0 && len(before.dims) == 1) {
		return noClass, fmt.Sprintf("%s flattens %v, which is not one row of logits for each example", describe(c.Node), before)
	}
	k := before.dims[before.class]
	for i := len(after.dims) - 1; i >= 0; i-- {
		switch d := after.dims[i]; {
		case d == k && (k > 1 || i > 0):
			return i, ""
		case d == 1:
		case d < 0 && i == 1 && len(after.dims) == 2:
			return i, "" // [N,?]: the shape is computed, and N is the only thing that can be
		case d < 0 && k == 1:
			return noClass, "" // one logit, its axis dropped
		default:
			return noClass, fmt.Sprintf("%s turns the %d logits into %v", describe(c.Node), k, &flow{value: *after, class: noClass})
		}
	}
	return noClass, ""
}

func squeezeClass(c *call, before *flow, after *value) (int, string) {
	if after.dims == nil || before.class == noClass {
		return noClass, ""
	}
	list, _ := c.list("axes", 1)
	drop, ok := axes(list, len(before.dims))
	if !ok {
		return noClass, describe(c.Node) + " is malformed"
	}
	if list == nil {
		for i, d := range before.dims {
			drop[i] = d == 1
		}
	}
	if drop[before.class] {
		return noClass, ""
	}
	return before.class - count(drop[:before.class]), ""
}

func count(marked []bool) (n int) {
	for _, m := range marked {
		if m {
			n++
		}
	}
	return n
}

func unsqueezeClass(c *call, before *flow, after *value) (int, string) {
	if after.dims == nil || before.class == noClass {
		return noClass, ""
	}
	list, _ := c.list("axes", 1)
	insert, ok := axes(list, len(after.dims))
	if !ok {
		return noClass, describe(c.Node) + " is malformed"
	}
	old := 0
	for i, one := range insert {
		if one {
			continue
		}
		if old == before.class {
			return i, ""
		}
		old++
	}
	return noClass, ""
}

func transposeClass(c *call, before *flow, after *value) (int, string) {
	if after.dims == nil || before.class == noClass {
		return noClass, ""
	}
	perm, ok := c.permutation(len(after.dims))
	if !ok {
		return noClass, describe(c.Node) + " is malformed"
	}
	return slices.Index(perm, before.class), ""
}

func globalPoolClass(c *call, before *flow, _ *value) (int, string) {
	if before.class != 1 || len(before.dims) < 3 {
		return noClass, fmt.Sprintf("%s pools %v over the classes", describe(c.Node), before)
	}
	return 1, ""
}

func averagePoolClass(c *call, before *flow, after *value) (int, string) {
	auto := string(attribute(c.Node, "auto_pad").GetS())
	padded := slices.ContainsFunc(attribute(c.Node, "pads").GetInts(), func(p int64) bool { return p != 0 })
	if padded || auto != "" && auto != "NOTSET" && auto != "VALID" || attrInt(c.Node, "ceil_mode", 0) != 0 {
		return noClass, describe(c.Node) + " averages with padding, which does not commute with a linear layer"
	}
	return globalPoolClass(c, before, after)
}

func reduceClass(c *call, before *flow, _ *value) (int, string) {
	list, ok := c.list("axes", 1)
	drop, in := axes(list, len(before.dims))
	if ok && in && len(list) == 1 && drop[0] && before.timeFirst() && attrInt(c.Node, "keepdims", 1) == 0 {
		return before.class - 1, ""
	}
	if !ok || !in || len(list) == 0 || before.class < 1 || drop[0] || drop[before.class] {
		return noClass, fmt.Sprintf("%s averages %v over examples or classes", describe(c.Node), before)
	}
	if attrInt(c.Node, "keepdims", 1) != 0 {
		return before.class, ""
	}
	return before.class - count(drop[:before.class]), ""
}

func gatherClass(c *call, before *flow, after *value) (int, string) {
	a, ok := axis(attrInt(c.Node, "axis", 0), len(before.dims))
	if ok && a == 0 && before.timeFirst() && c.arg(1).dims != nil && len(c.arg(1).dims) == 0 {
		return before.class - 1, ""
	}
	positions := a == 0 && before.merged && len(c.arg(1).dims) == 1 // one of each example's
	if !ok || a == 0 && !positions || before.class < 1 || c.arg(1).dims == nil {
		return noClass, fmt.Sprintf("%s selects from %v along the examples", describe(c.Node), before)
	}
	if a == before.class && len(c.arg(1).dims) != 1 {
		return noClass, fmt.Sprintf("%s picks single classes from %v", describe(c.Node), before)
	}
	if a < before.class {
		return before.class + len(c.arg(1).dims) - 1, ""
	}
	return before.class, ""
}

// gatherNDClass allows a selection along the axes in front of the classes; that of examples must go with another, or be one
// by one.
func gatherNDClass(c *call, before *flow, after *value) (int, string) {
	index, batch := c.arg(1).dims, int(attrInt(c.Node, "batch_dims", 0))
	q := -1
	if len(index) > 0 {
		q = int(index[len(index)-1])
	}
	if q < 0 || batch < 0 || batch > 1 || q+batch < 2 || before.class < q+batch || after.dims == nil {
		return noClass, fmt.Sprintf("%s selects from %v along examples or classes", describe(c.Node), before)
	}
	return len(index) - 1 + before.class - batch - q, ""
}

func sliceClass(c *call, before *flow, after *value) (int, string) {
	along, known := c.sliceAxes()
	marked, in := axes(along, len(before.dims))
	switch {
	case !known || !in || before.class < 1 || len(along) == 0 || len(after.dims) != len(before.dims):
	case marked[0] && len(along) == 1 && before.timeFirst() && after.dims[0] == 1:
		return before.class, ""
	case marked[0]:
	case marked[before.class] && len(along) > 1:
	default:
		return before.class, ""
	}
	return noClass, fmt.Sprintf("%s cuts %v along the examples", describe(c.Node), before)
}

// sliceAxes returns the axes a Slice cuts along; false if they are not known.
func (c *call) sliceAxes() ([]int64, bool) {
	along, ok := c.list("axes", 3)
	if along != nil || !ok {
		return along, ok
	}
	// Left out, they are the first ones, as many as there are starts, whose values need not be known.
	n := len(attribute(c.Node, "starts").GetInts())
	if dims := c.arg(1).dims; len(dims) == 1 && dims[0] >= 0 && dims[0] <= maxRank {
		n = int(dims[0])
	}
	for i := range n {
		along = append(along, int64(i))
	}
	return along, n > 0
}

// splitClass allows to split the classes of probabilities, and positions of what is not rows.
func splitClass(c *call, before *flow, after *value) (int, string) {
	a, ok := axis(attrInt(c.Node, "axis", 0), len(before.dims))
	if !ok || a == 0 || before.class < 1 || len(after.dims) != len(before.dims) {
		return noClass, fmt.Sprintf("%s splits %v along the examples", describe(c.Node), before)
	}
	return before.class, ""
}

// choosesClasses reports whether a selection runs along the classes.
func (c *call) choosesClasses(before *flow) bool {
	var along []int64
	switch c.GetOpType() {
	case "Gather", "Split":
		along = []int64{attrInt(c.Node, "axis", 0)}
	case "Slice":
		along, _ = c.sliceAxes()
	}
	if before.class == noClass {
		return false
	}
	marked, ok := axes(along, len(before.dims))
	return ok && marked[before.class]
}

// clipClass allows bounds that probabilities lie in, and for logits those so wide that what they cut off is all the same.
func clipClass(c *call, before *flow, after *value) (int, string) {
	lo, hi, known := c.clipBounds()
	const wide = 10 // a probability of e⁻¹⁰
	if before.class != noClass && !(known && lo <= -wide && hi >= wide) {
		return noClass, fmt.Sprintf("%s cuts off logits", describe(c.Node))
	}
	return keepClass(c, before, after)
}

// topKClass is a choice among the classes.
func topKClass(c *call, before *flow, _ *value) (int, string) {
	i, ok := axis(attrInt(c.Node, "axis", -1), len(before.dims))
	if attrInt(c.Node, "largest", 1) == 0 {
		return noClass, fmt.Sprintf("%s picks the smallest", describe(c.Node))
	}
	if before.class != noClass && (!ok || i != before.class) {
		return noClass, fmt.Sprintf("%s runs over an axis of %v that is not the classes'", describe(c.Node), before)
	}
	return noClass, ""
}

// normalizerClass allows the norm that makes probabilities sum to 1.
func normalizerClass(c *call, before *flow, _ *value) (int, string) {
	if norm := string(attribute(c.Node, "norm").GetS()); norm != "L1" {
		return noClass, fmt.Sprintf("%s normalises by %q and not by L1", describe(c.Node), norm)
	}
	return before.class, ""
}

func lpNormalizationClass(c *call, before *flow, _ *value) (int, string) {
	i, ok := axis(attrInt(c.Node, "axis", -1), len(before.dims))
	if attrInt(c.Node, "p", 2) != 1 || before.class != noClass && (!ok || i != before.class) {
		return noClass, fmt.Sprintf("%s does not make the sum over the classes 1", describe(c.Node))
	}
	return before.class, ""
}

// zipMapClass: what is behind a ZipMap is no tensor.
func zipMapClass(*call, *flow, *value) (int, string) { return noClass, "" }

// softmaxClass checks that a Softmax runs over the classes. Before operator set 13 it ran over all axes from the one named.
func softmaxClass(c *call, before *flow, _ *value) (int, string) {
	old := c.g.opset < 13
	otherwise := int64(-1)
	if old {
		otherwise = 1
	}
	a := attrInt(c.Node, "axis", otherwise)
	if before.dims == nil || before.class == noClass {
		if a == -1 || a == 1 {
			return noClass, ""
		}
		return noClass, fmt.Sprintf("%s runs over axis %d, and the graph does not say which that is", describe(c.Node), a)
	}
	i, ok := axis(a, len(before.dims))
	if ok && old {
		for j := i; j < len(before.dims); j++ {
			if j != before.class && before.dims[j] != 1 {
				ok = false
			}
		}
		ok = ok && i <= before.class
	} else {
		ok = ok && i == before.class
	}
	if !ok {
		return noClass, fmt.Sprintf("%s runs over axis %d of %v, and the classes lie along axis %d", describe(c.Node), a, before, before.class)
	}
	return before.class, ""
}

func argMaxClass(c *call, before *flow, _ *value) (int, string) {
	i, ok := axis(attrInt(c.Node, "axis", 0), len(before.dims))
	if before.class != noClass && (!ok || i != before.class) {
		return noClass, fmt.Sprintf("%s runs over axis %d of %v, and the classes lie along axis %d", describe(c.Node), attrInt(c.Node, "axis", 0), before, before.class)
	}
	return noClass, ""
}

// shiftClass finds the classes where a number for each example has been added.
func shiftClass(c *call, before *flow, after *value) (int, string) {
	if len(after.dims) != len(before.dims) {
		return noClass, describe(c.Node) + " changes the rank of the logits"
	}
	return before.class, ""
}

// bothClassesClass checks that there is one probability to be completed.
func bothClassesClass(c *call, before *flow, _ *value) (int, string) {
	a := attrInt(c.Node, "axis", 0)
	if before.dims != nil && a < 0 {
		a += int64(len(before.dims))
	}
	if a == 0 {
		return noClass, fmt.Sprintf("%s joins classes along the examples", describe(c.Node))
	}
	if n, ok := elements(before.dims[min(1, len(before.dims)):]); before.dims != nil && ok && n != 1 {
		return noClass, fmt.Sprintf("%s joins %v with its complement", describe(c.Node), before)
	}
	if before.dims == nil {
		return noClass, ""
	}
	return int(a), ""
}

// stepName names a step's operator for people.
func stepName(n *onnxpb.Node) string {
	if n.GetOpType() == bothClasses {
		return "Concat"
	}
	return n.GetOpType()
}
