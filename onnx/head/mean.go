package head

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// meanUnderMask is Σₜ mₜ·zₜ / Σₜ mₜ over the positions of each example, as EuroBERT averages its logits: the weights of
// the positions add up to 1, so that it commutes with the linear layer and its bias.
var meanUnderMask = &step{class: meanClass, logits: average}

// mean recognises the quotient of a mean under a mask, and returns the hop to the logits; nil if it is none.
func (f *finder) mean(n *onnxpb.Node) *hop {
	if n.Op() != "Div" || len(n.GetInput()) != 2 {
		return nil
	}
	m := mean{quotient: n, sum: f.in.Producer(n.In(0))}
	if m.sum == nil || !f.sumsPositions(m.sum, 0, 3) {
		return nil
	}
	if m.product = f.in.Producer(m.sum.In(0)); m.product == nil || m.product.Op() != "Mul" || !f.multiplies(m.product) {
		return nil
	}
	above := f.copies(n.In(1))
	weights := f.in.Producer(above[len(above)-1])
	if weights == nil || !f.sumsPositions(weights, 1, 2) {
		return nil
	}
	below := f.copies(weights.In(0))
	for i, name := range m.product.GetInput() {
		spread := f.copies(name)
		column := slices.IndexFunc(spread, func(name string) bool {
			u := f.in.Producer(name)
			return u != nil && u.Op() == "Unsqueeze" && f.adds(u, 2)
		})
		if column < 0 {
			continue
		}
		inner := f.copies(f.in.Producer(spread[column]).In(0))
		if slices.ContainsFunc(inner, func(name string) bool { return slices.Contains(below, name) }) {
			m.mask = name
			return &hop{node: n, from: m.product.In(1 - i), step: meanUnderMask, mean: &m}
		}
	}
	return nil
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

// widens reports whether a Cast keeps the numbers of a mask.
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
	for _, n := range []*onnxpb.Node{
		{OpType: m.product.OpType, Name: m.product.Name, Input: []string{"", m.mask}, Output: []string{"masked"}},
		m.sum, m.quotient,
	} {
		if err := p.selectBy(n); err != nil {
			return err
		}
	}
	return nil
}
