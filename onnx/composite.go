package onnx

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// Steps that several operators make together.
var (
	softmaxByHand    = &step{ends: true, link: Softmax, class: reducedClass}
	logSoftmaxByHand = &step{ends: true, link: Softmax, logs: true, class: reducedClass}
	shiftedByMax     = &step{shifts: true, class: reducedClass}
	normalisedByHand = &step{late: true, normalises: true, class: reducedClass}
	sigmoidByHand    = &step{ends: true, link: Sigmoid, class: keepClass}
	bothClasses      = &step{late: true, class: bothClassesClass}
)

// composite recognises what is written out in operators: a softmax, a sigmoid, a division by the sum, and 1−p beside p. n is
// the last of them.
func (f *finder) composite(n *onnxpb.Node) *hop {
	if !isDefault(n.GetDomain()) || f.in.functions[n.GetOpType()] {
		return nil
	}
	a, b := input(n, 0), input(n, 1)
	switch n.GetOpType() {
	case "Div": // exp(x) / Σ exp(x), p / Σ p, or 1 / (1 + exp(−x))
		if f.is(a, 1) {
			return f.sigmoid(n, b)
		}
		sum := f.made(b, "ReduceSum")
		if sum == nil {
			a, sum = f.guarded(a, b)
		}
		if sum == nil || input(sum, 0) != a {
			return nil
		}
		if e := f.made(a, "Exp"); e != nil {
			return &hop{node: n, via: sum, step: softmaxByHand, from: f.unshifted(input(e, 0), sum)}
		}
		return &hop{node: n, via: sum, step: normalisedByHand, from: a}
	case "Reciprocal":
		return f.sigmoid(n, a)
	case "Exp": // exp(x − log Σ exp(x))
		if sub := f.made(a, "Sub"); sub != nil {
			if via := f.logSumExp(input(sub, 0), input(sub, 1)); via != nil {
				return &hop{node: n, via: via, step: softmaxByHand, from: f.unshifted(input(sub, 0), via)}
			}
		}
	case "Sub": // x − log Σ exp(x)
		if via := f.logSumExp(a, b); via != nil {
			return &hop{node: n, via: via, step: logSoftmaxByHand, from: f.unshifted(a, via)}
		}
		if top := f.made(b, "ReduceMax"); top != nil && input(top, 0) == a {
			return &hop{node: n, via: top, step: shiftedByMax, from: a}
		}
	case "Concat":
		if len(n.GetInput()) == 2 && f.others(a, b) {
			return &hop{node: n, step: bothClasses, from: b}
		}
	}
	return nil
}

// made returns the node that makes a tensor, past those that only reshape, if it is the given operator.
func (f *finder) made(name, op string) *onnxpb.Node {
	const far = 4
	for range far {
		n := f.g.producer[name]
		switch {
		case n == nil:
			return nil
		case opName(n) == op && !f.in.functions[op]:
			return n
		case opName(n) != "Identity" && opName(n) != "Cast" && opName(n) != "Reshape" && opName(n) != "Unsqueeze" && opName(n) != "Squeeze":
			return nil
		}
		name = input(n, 0)
	}
	return nil
}

// logSumExp returns the reduction in s = log Σ exp(x), nil if s is something else.
func (f *finder) logSumExp(x, s string) *onnxpb.Node {
	if n := f.made(s, "ReduceLogSumExp"); n != nil && input(n, 0) == x {
		return n
	}
	l := f.made(s, "Log")
	if l == nil {
		return nil
	}
	n := f.made(input(l, 0), "ReduceSum")
	if n == nil {
		return nil
	}
	if e := f.made(input(n, 0), "Exp"); e != nil && input(e, 0) == x {
		return n
	}
	return nil
}

// unshifted returns x' where x = x' − max x' along the axes of via, and else x: softmax is the same for both.
func (f *finder) unshifted(x string, via *onnxpb.Node) string {
	sub := f.g.producer[x]
	if sub == nil || opName(sub) != "Sub" {
		return x
	}
	top := f.made(input(sub, 1), "ReduceMax")
	if top == nil || input(top, 0) != input(sub, 0) {
		return x
	}
	if a, b := f.reduced(top), f.reduced(via); a == nil || !slices.Equal(a, b) {
		return x
	}
	return input(sub, 0)
}

// reduced returns the axes of a reduction, nil if they are not known.
func (f *finder) reduced(n *onnxpb.Node) []int64 {
	list, _ := (&call{Node: n, interpreter: f.in, in: []*value{nil, f.in.get(input(n, 1))}}).list("axes", 1)
	return list
}

// others reports whether a is 1 − b.
func (f *finder) others(a, b string) bool {
	sub := f.made(a, "Sub")
	if sub == nil {
		return false
	}
	return f.is(input(sub, 0), 1) && f.root(input(sub, 1)) == f.root(b)
}

// is reports whether a tensor is the constant x.
func (f *finder) is(name string, x float64) bool {
	v := f.in.get(name)
	return v.constant && len(v.data) == 1 && v.data[0] == x
}

// sigmoid recognises 1 + exp(−x), of which n gives the inverse.
func (f *finder) sigmoid(n *onnxpb.Node, name string) *hop {
	add := f.made(name, "Add")
	if add == nil {
		return nil
	}
	for i := range 2 {
		e := f.made(input(add, i), "Exp")
		if e == nil || !f.is(input(add, 1-i), 1) {
			continue
		}
		if neg := f.made(input(e, 0), "Neg"); neg != nil {
			return &hop{node: n, via: neg, step: sigmoidByHand, from: input(neg, 0)}
		}
		if mul := f.made(input(e, 0), "Mul"); mul != nil && f.is(input(mul, 1), -1) {
			return &hop{node: n, via: mul, step: sigmoidByHand, from: input(mul, 0)}
		}
	}
	return nil
}

// guarded returns p and the sum of it in (p + g) / (Σp + g·K), where g is 1 where the sum is 0 and else 0.
func (f *finder) guarded(a, b string) (p string, sum *onnxpb.Node) {
	above, below := f.made(a, "Add"), f.made(b, "Add")
	if above == nil || below == nil {
		return "", nil
	}
	p = input(above, 0)
	sum = f.made(input(below, 0), "ReduceSum")
	spread := f.made(input(below, 1), "Mul")
	not := f.made(input(above, 1), "Not")
	if sum == nil || spread == nil || not == nil || f.made(input(spread, 0), "Not") != not || !f.constant(input(spread, 1)) ||
		f.made(input(not, 0), "ReduceSum") != sum {
		return "", nil
	}
	return p, sum
}

// root returns the tensor that name is a reshaped form of.
func (f *finder) root(name string) string {
	const far = 8
	for range far {
		n := f.g.producer[name]
		if n == nil {
			break
		}
		switch opName(n) {
		case "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze":
			name = input(n, 0)
		}
	}
	return name
}

// reducedClass checks that a reduction, which c is the call of, runs over the classes.
func reducedClass(c *call, before *flow, _ *value) (int, string) {
	list, ok := c.list("axes", 1)
	marked, in := axes(list, len(before.dims))
	if !ok || !in || len(list) != 1 || before.class != noClass && !marked[before.class] {
		return noClass, fmt.Sprintf("%s does not run over the classes of %v", describe(c.Node), before)
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
	return noClass, ""
}
