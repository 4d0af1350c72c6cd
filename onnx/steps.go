package onnx

import (
	"fmt"
	"slices"
)

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
			return noClass, fmt.Sprintf("%s turns the %d logits into %v", describe(c.Node), k, &flow{*after, noClass})
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
	if !ok || a == 0 || before.class < 1 || a == before.class || after.dims == nil {
		return noClass, fmt.Sprintf("%s selects from %v along examples or classes", describe(c.Node), before)
	}
	if a < before.class {
		return before.class + len(c.arg(1).dims) - 1, ""
	}
	return before.class, ""
}

func sliceClass(c *call, before *flow, after *value) (int, string) {
	starts, ok := c.list("starts", 1)
	along, ok2 := c.list("axes", 3)
	if along == nil {
		for i := range starts {
			along = append(along, int64(i))
		}
	}
	marked, in := axes(along, len(before.dims))
	if !ok || !ok2 || !in || before.class < 1 || marked[0] || marked[before.class] || after.dims == nil {
		return noClass, fmt.Sprintf("%s cuts %v along examples or classes", describe(c.Node), before)
	}
	return before.class, ""
}

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

// pointless reports whether a pooling step has nothing to pool: every axis it runs over has length 1.
func (c *call) pointless(before *flow) bool {
	switch c.GetOpType() {
	case "GlobalAveragePool", "AveragePool", "ReduceMean":
		return before.rows()
	}
	return false
}
