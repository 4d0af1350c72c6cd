package head

import (
	"math"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// operand returns the constant operand of a binary operator, one number or one per class, and whether
// the logits are the left operand.
func (p *passage) operand() (v []float64, left bool, err error) {
	n := p.node
	if len(n.GetInput()) != 2 || n.In(0) == n.In(1) {
		return nil, false, graph.RefuseAt(n, "%s is not linear", p.describe(n))
	}
	other := n.In(0)
	if left = other == p.from; left {
		other = n.In(1)
	}
	v, err = p.vector(other, &p.at, p.width())
	return v, left, err
}

// width is the length of an example's row of logits or probabilities.
func (p *passage) width() int {
	if p.pastLogits {
		return max(p.k, p.classes())
	}
	return p.k
}

// The functions below are the constants of the table steps: they return what an operator multiplies
// the logits by, and what it adds.

func sum(p *passage) (scale, shift []float64, err error) {
	v, _, err := p.operand()
	return nil, v, err
}

func product(p *passage) (scale, shift []float64, err error) {
	if scale, _, err = p.operand(); err != nil {
		return nil, nil, err
	}
	return scale, nil, checkScale(p.node, scale)
}

func quotient(p *passage) (scale, shift []float64, err error) {
	scale, left, err := p.operand()
	if err == nil && !left {
		err = graph.RefuseAt(p.node, "%s divides by the logits", p.describe(p.node))
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range scale {
		scale[i] = 1 / scale[i]
	}
	return scale, nil, checkScale(p.node, scale)
}

// batchNorm returns scale and shift of a batch normalisation with fixed statistics: γ/√(σ²+ε) and
// β − μγ/√(σ²+ε).
func batchNorm(p *passage) (scale, shift []float64, err error) {
	n, k := p.node, p.width()
	if n.Int("training_mode", 0) != 0 || len(n.GetInput()) != 5 || p.at.class != 1 {
		return nil, nil, graph.RefuseAt(n, "%s has no fixed statistics for each class", p.describe(n))
	}
	var stats [4][]float64
	for i := range stats {
		v, err := p.numbers(n.In(i + 1))
		if err != nil {
			return nil, nil, err
		}
		if stats[i] = v.Data; len(stats[i]) != k {
			return nil, nil, graph.Refuse("%s has %d statistics for %d classes", p.describe(n), len(stats[i]), k)
		}
	}
	scale, shift = make([]float64, k), make([]float64, k)
	for i := range scale {
		scale[i] = stats[0][i] / math.Sqrt(stats[3][i]+n.Float("epsilon", 1e-5))
		shift[i] = stats[1][i] - stats[2][i]*scale[i]
	}
	return scale, shift, checkScale(n, scale)
}

func checkScale(n *onnxpb.Node, scale []float64) error {
	for _, s := range scale {
		if s == 0 || math.IsNaN(s) || math.IsInf(s, 0) {
			return graph.Refuse("%s multiplies the logits by %v", n.Describe(), s)
		}
	}
	return nil
}

// scaleAll moves a factor that depends on the input from the logits to the features.
func scaleAll(p *passage) error {
	f, t, h, n := p.finder, p.trail, p.hop, p.node
	if t.shift != nil {
		return graph.RefuseAt(n, "%s scales what the bias has been added to, by a number that depends on the input",
			f.describe(n))
	}
	for _, s := range t.shares {
		rows := len(t.at.Dims) == 2 && t.at.rows() && len(s.known.Dims) == 2 && !s.transposed && len(s.selection) == 0
		if h.factor.each && !rows {
			return graph.RefuseAt(n, "%s scales %v by a number for each example", f.describe(n), &t.at)
		}
	}
	if h.factor.constant != "" {
		v, err := f.vector(h.factor.constant, &t.at, t.k)
		if err != nil {
			return err
		}
		if n.GetOpType() == "Div" {
			for i := range v {
				v[i] = 1 / v[i]
			}
		}
		if err := checkScale(n, v); err != nil {
			return err
		}
		t.transform(v, nil)
	}
	op := n.GetOpType()
	for _, p := range t.shares {
		p.selection = append(p.selection, &onnxpb.Node{OpType: &op, Name: n.Name, Input: []string{"", h.factor.varying},
			Output: []string{"scaled"}})
	}
	t.forget()
	return nil
}
