package head

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// weightedMean is Σₜ wₜ·zₜ over the positions of each example, with weights that add up to 1, so that it commutes with
// the linear layer and its bias: wₜ = mₜ/Σₜ mₜ under a mask m, as EuroBERT averages its logits, or a softmax over the
// positions.
var weightedMean = &step{class: meanClass, logits: average}

// mean recognises the last operator of a weighted mean, and returns the hop to the logits; nil if it is none.
func (f *finder) mean(n *onnxpb.Node) *hop {
	sum, rest := n, []*onnxpb.Node{n}
	if n.Op() == "Div" && len(n.GetInput()) == 2 {
		sum = f.in.Producer(n.In(0))
		rest = []*onnxpb.Node{sum, n}
	}
	if sum == nil || f.in.Functions[n.Op()] || !f.sumsPositions(sum, 0, 3) {
		return nil
	}
	product := f.in.Producer(sum.In(0))
	if product == nil || product.Op() != "Mul" || !f.multiplies(product) {
		return nil
	}
	for i, name := range product.GetInput() {
		if sum == n && f.softmaxOfPositions(name) || sum != n && f.addUpTo(name, n.In(1)) {
			return &hop{node: n, from: product.In(1 - i), step: weightedMean,
				mean: &mean{product: product, weights: name, rest: rest}}
		}
	}
	return nil
}

// softmaxOfPositions reports whether a tensor [N,T,1] is a softmax over axis 1.
func (f *finder) softmaxOfPositions(name string) bool {
	all := f.copies(name)
	n := f.in.Producer(all[len(all)-1])
	dims := f.in.Get(name).Dims
	if n == nil || n.Op() != "Softmax" || f.g.Opset < 13 || len(dims) != 3 || dims[2] != 1 {
		return false
	}
	axis, ok := graph.Axis(n.Int("axis", -1), 3)
	return ok && axis == 1
}

// addUpTo reports whether the sum of a tensor [N,T,1] over T is known to be another tensor.
func (f *finder) addUpTo(name, total string) bool {
	above := f.copies(total)
	sum := f.in.Producer(above[len(above)-1])
	spread := f.copies(name)
	switch dims := f.in.Get(name).Dims; {
	case sum == nil || len(dims) != 3 || dims[2] != 1:
		return false
	case f.sumsPositions(sum, 0, 3): // [N,T,1] to [N,1]
		return meet(spread, f.copies(sum.In(0)))
	case !f.sumsPositions(sum, 1, 2): // [N,T] to [N,1]
		return false
	}
	column := slices.IndexFunc(spread, func(name string) bool {
		u := f.in.Producer(name)
		return u != nil && u.Op() == "Unsqueeze" && f.adds(u, 2)
	})
	return column >= 0 && meet(f.copies(f.in.Producer(spread[column]).In(0)), f.copies(sum.In(0)))
}

// meet reports whether two lists have a name in common.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}

// sumsPositions reports whether a node sums a tensor of known rank over axis 1, and keeps the axis or not.
func (f *finder) sumsPositions(n *onnxpb.Node, keepdims int64, rank int) bool {
	if n.Op() != "ReduceSum" || f.in.Functions[n.Op()] || n.Int("keepdims", 1) != keepdims {
		return false
	}
	list, ok := f.in.ReducedAxis(n)
	axis, fits := graph.Axis(list, rank)
	if dims := f.in.Get(n.In(0)).Dims; dims != nil && len(dims) != rank {
		return false
	}
	return ok && fits && axis == 1
}

// adds reports whether an Unsqueeze gives a matrix one more axis, the given one.
func (f *finder) adds(n *onnxpb.Node, axis int) bool {
	list, ok := f.in.Call(n).List("axes", 1)
	if !ok || len(list) != 1 {
		return false
	}
	a, fits := graph.Axis(list[0], 3)
	return fits && a == axis
}

// copies returns a tensor and those that it holds the same numbers as in the same shape, up to rounding.
func (f *finder) copies(name string) []string {
	const far = 8
	list := []string{name}
	for range far {
		n := f.in.Producer(name)
		if n == nil || n.Op() != "Identity" && (n.Op() != "Cast" || !f.widens(n)) {
			break
		}
		name = n.In(0)
		list = append(list, name)
	}
	return list
}

// widens reports whether a Cast keeps the numbers of a mask, up to rounding.
func (f *finder) widens(n *onnxpb.Node) bool {
	from, to := f.in.Get(n.In(0)).Type, f.in.Get(n.GetOutput()[0]).Type
	return to.IsFloat() || to == tensor.Int64 && from != tensor.Undefined && !from.IsFloat()
}

// meanClass checks that the logits are [N,T,K], which the mean makes [N,K].
func meanClass(c *graph.Call, before *flow, _ *graph.Value) (int, string) {
	if before.class != 2 || len(before.Dims) != 3 || before.merged {
		return noClass, fmt.Sprintf("%s averages %v over positions", c.Node.Describe(), before)
	}
	return 1, ""
}

// average moves the operators of the mean from the logits to the features.
func average(p *passage) error {
	m := p.hop.mean
	p.now.Dims = []int64{p.at.Dims[0], p.at.Dims[2]}
	p.now.Type = p.at.Type
	by := &onnxpb.Node{OpType: m.product.OpType, Name: m.product.Name, Input: []string{"", m.weights},
		Output: []string{"weighted"}}
	for _, n := range append([]*onnxpb.Node{by}, m.rest...) {
		if err := p.selectBy(n); err != nil {
			return err
		}
	}
	return nil
}
