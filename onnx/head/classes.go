package head

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// The functions below are the class functions of the table steps: each returns the axis of the
// classes after an operator, or a reason to refuse.

func keepClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	if len(after.Dims) != len(before.Dims) {
		return noClass, c.Node.Describe() + " changes the rank of the logits"
	}
	return before.class, ""
}

func castClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	if !after.Type.IsFloat() {
		return noClass, fmt.Sprintf("%s turns the logits into %v", c.Node.Describe(), after.Type)
	}
	return before.class, ""
}

func dropoutClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	if t := c.Arg(2); c.Node.In(2) != "" && (len(t.Data) != 1 || t.Data[0] != 0) {
		return noClass, c.Node.Describe() + " is in training mode"
	}
	return before.class, ""
}

// reshapeClass finds the class axis after an operator that keeps the numbers in order. Logits that
// are rows stay rows if some axis holds the classes and no longer axis follows it.
func reshapeClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	if after.Dims == nil || before.class == noClass {
		return noClass, ""
	}
	if k := before.Dims[before.class]; merges(before, after, 1) && (after.Dims[1] == k || after.Dims[1] < 0) {
		return 1, ""
	}
	if !before.rows() && keepsSteps(before, after) {
		if before.class == 1 && !before.merged {
			return 1, ""
		}
		return len(after.Dims) - 1, ""
	}
	if !before.rows() && !(before.class == 0 && len(before.Dims) == 1) {
		return noClass, fmt.Sprintf("%s flattens %v, which is not one row of logits for each example",
			c.Node.Describe(), before)
	}
	k := before.Dims[before.class]
	for i := len(after.Dims) - 1; i >= 0; i-- {
		switch d := after.Dims[i]; {
		case d == k && (k > 1 || i > 0):
			return i, ""
		case d == 1:
		case d < 0 && i == 1 && len(after.Dims) == 2:
			return i, "" // [N,?]: a computed shape, where only N can have been computed
		case d < 0 && k == 1:
			return noClass, "" // one logit, its axis dropped
		default:
			return noClass, fmt.Sprintf("%s turns the %d logits into %v", c.Node.Describe(), k,
				&flow{Value: *after, class: noClass})
		}
	}
	return noClass, ""
}

// keepsSteps reports whether a reshape of logits for each step keeps the rows of the steps and their order: the classes
// stay on the last axis, or stay behind the examples and before the steps.
func keepsSteps(before *flow, after *graph.Value) bool {
	k, last, rank := before.Dims[before.class], len(before.Dims)-1, len(after.Dims)
	switch {
	case rank < 3 || before.class < 1:
		return false
	case before.class == last:
		return after.Dims[rank-1] == k
	}
	return before.class == 1 && after.Dims[1] == k
}

func squeezeClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	if after.Dims == nil || before.class == noClass {
		return noClass, ""
	}
	list, _ := c.List("axes", 1)
	drop, ok := graph.Axes(list, len(before.Dims))
	if !ok {
		return noClass, c.Node.Describe() + " is malformed"
	}
	if list == nil {
		for i, d := range before.Dims {
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

func unsqueezeClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	if after.Dims == nil || before.class == noClass {
		return noClass, ""
	}
	list, _ := c.List("axes", 1)
	insert, ok := graph.Axes(list, len(after.Dims))
	if !ok {
		return noClass, c.Node.Describe() + " is malformed"
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

func transposeClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	if after.Dims == nil || before.class == noClass {
		return noClass, ""
	}
	perm, ok := c.Permutation(len(after.Dims))
	if !ok {
		return noClass, c.Node.Describe() + " is malformed"
	}
	return slices.Index(perm, before.class), ""
}

func globalPoolClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	if before.class != 1 || len(before.Dims) < 3 {
		return noClass, fmt.Sprintf("%s pools %v over the classes", c.Node.Describe(), before)
	}
	return 1, ""
}

func reduceClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	list, ok := c.List("axes", 1)
	drop, in := graph.Axes(list, len(before.Dims))
	if !ok || !in || len(list) == 0 || before.class < 1 || drop[0] || drop[before.class] {
		return noClass, fmt.Sprintf("%s averages %v over examples or classes", c.Node.Describe(), before)
	}
	if c.Node.Int("keepdims", 1) != 0 {
		return before.class, ""
	}
	return before.class - count(drop[:before.class]), ""
}

func gatherClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	a, ok := graph.Axis(c.Node.Int("axis", 0), len(before.Dims))
	positions := a == 0 && before.merged && len(c.Arg(1).Dims) == 1 // one position per example
	if !ok || a == 0 && !positions || before.class < 1 || c.Arg(1).Dims == nil {
		return noClass, fmt.Sprintf("%s selects from %v along the examples", c.Node.Describe(), before)
	}
	if a == before.class && before.Dims[a] == 1 && len(c.Arg(1).Dims) == 0 {
		return noClass, "" // one logit, its axis dropped
	}
	if a == before.class && len(c.Arg(1).Dims) != 1 {
		return noClass, fmt.Sprintf("%s picks single classes from %v", c.Node.Describe(), before)
	}
	if a < before.class {
		return before.class + len(c.Arg(1).Dims) - 1, ""
	}
	return before.class, ""
}

// gatherNDClass allows a selection along the axes in front of the classes. The axis of the examples
// must be indexed together with another, or be the batch axis.
func gatherNDClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	index, batch := c.Arg(1).Dims, int(c.Node.Int("batch_dims", 0))
	q := -1
	if len(index) > 0 {
		q = int(index[len(index)-1])
	}
	if q < 0 || batch < 0 || batch > 1 || q+batch < 2 || before.class < q+batch || after.Dims == nil {
		return noClass, fmt.Sprintf("%s selects from %v along examples or classes", c.Node.Describe(), before)
	}
	return len(index) - 1 + before.class - batch - q, ""
}

func sliceClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	along, known := c.SliceAxes()
	marked, in := graph.Axes(along, len(before.Dims))
	switch {
	case !known || !in || before.class < 1 || len(along) == 0 || len(after.Dims) != len(before.Dims):
	case marked[0]:
	case marked[before.class] && len(along) > 1:
	default:
		return before.class, ""
	}
	return noClass, fmt.Sprintf("%s cuts %v along the examples", c.Node.Describe(), before)
}

// clipClass allows any bounds for probabilities, and for logits bounds so wide that clipping makes no
// difference.
func clipClass(c *graph.Call, before *flow, after *graph.Value) (int, string) {
	lo, hi, known := c.ClipBounds()
	const wide = 10 // a probability of e⁻¹⁰
	if before.class != noClass && !(known && lo <= -wide && hi >= wide) {
		return noClass, fmt.Sprintf("%s cuts off logits", c.Node.Describe())
	}
	return keepClass(c, before, after)
}

// normalizerClass allows the L1 norm, which makes probabilities sum to 1.
func normalizerClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	if norm := string(c.Node.Attr("norm").GetS()); norm != "L1" {
		return noClass, fmt.Sprintf("%s normalises by %q and not by L1", c.Node.Describe(), norm)
	}
	return before.class, ""
}

func lpNormalizationClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	i, ok := graph.Axis(c.Node.Int("axis", -1), len(before.Dims))
	if c.Node.Int("p", 2) != 1 || before.class != noClass && (!ok || i != before.class) {
		return noClass, fmt.Sprintf("%s does not make the sum over the classes 1", c.Node.Describe())
	}
	return before.class, ""
}

// zipMapClass: the output of a ZipMap is not a tensor.
func zipMapClass(*graph.Call, *flow, *graph.Value) (int, string) { return noClass, "" }

// softmaxClass checks that a Softmax runs over the classes. Before opset 13 it ran over all axes from
// the given one on.
func softmaxClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	old := c.G.Opset < 13
	otherwise := int64(-1)
	if old {
		otherwise = 1
	}
	a := c.Node.Int("axis", otherwise)
	if before.Dims == nil || before.class == noClass {
		if a == -1 || a == 1 {
			return noClass, ""
		}
		return noClass, fmt.Sprintf("%s runs over axis %d, and the graph does not say which that is", c.Node.Describe(),
			a)
	}
	i, ok := graph.Axis(a, len(before.Dims))
	if ok && old {
		for j := i; j < len(before.Dims); j++ {
			if j != before.class && before.Dims[j] != 1 {
				ok = false
			}
		}
		ok = ok && i <= before.class
	} else {
		ok = ok && i == before.class
	}
	if !ok {
		return noClass, fmt.Sprintf("%s runs over axis %d of %v, and the classes lie along axis %d", c.Node.Describe(),
			a, before, before.class)
	}
	return before.class, ""
}

func argMaxClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	i, ok := graph.Axis(c.Node.Int("axis", 0), len(before.Dims))
	if before.class != noClass && (!ok || i != before.class) {
		return noClass, fmt.Sprintf("%s runs over axis %d of %v, and the classes lie along axis %d", c.Node.Describe(),
			c.Node.Int("axis", 0), before, before.class)
	}
	return noClass, ""
}

// bothClassesClass checks that there is a single probability to join its complement to.
func bothClassesClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	a := c.Node.Int("axis", 0)
	if before.Dims != nil && a < 0 {
		a += int64(len(before.Dims))
	}
	if a == 0 {
		return noClass, fmt.Sprintf("%s joins classes along the examples", c.Node.Describe())
	}
	if n, ok := onnxpb.Elements(before.Dims[min(1, len(before.Dims)):]); before.Dims != nil && ok && n != 1 {
		return noClass, fmt.Sprintf("%s joins %v with its complement", c.Node.Describe(), before)
	}
	if before.Dims == nil {
		return noClass, ""
	}
	return int(a), ""
}
