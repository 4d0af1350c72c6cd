package head

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A flow is what is known of the tensor that carries the logits, at one point between the linear
// layer and the output.
type flow struct {
	graph.Value
	class  int  // the axis along which the classes lie, or noClass
	merged bool // axis 0 is that of all positions of all examples
}

// noClass is the class axis of a flow in which the classes have no axis of their own any more, or
// it is not known.
const noClass = -1

// rows reports whether the flow holds one row of K numbers per example, whatever axes of length 1
// lie between.
func (f *flow) rows() bool {
	if f.class < 1 || f.merged {
		return false
	}
	for i, d := range f.Dims[1:] {
		if i+1 != f.class && d != 1 {
			return false
		}
	}
	return true
}

// merges reports whether a change of shape joins the axes in front of the classes, which stay the
// last.
func merges(before *flow, after *graph.Value, class int) bool {
	return !before.rows() && before.class == len(before.Dims)-1 && before.class > 1 && len(after.Dims) == 2 &&
		class == 1
}

// A trail is what is known on the way from linear layers to the output.
type trail struct {
	affine
	nodes []*onnxpb.Node // the linear operators, for people
	at    flow           // where the trail stands

	logits     string         // the last tensor that held the logits as rows
	found      graph.Value    // what is known of it
	moved      []*onnxpb.Node // steps since the layer that features would have to go through too
	decided    bool           // behind the logits
	picked     bool           // the best class has been picked
	link       layer.Link
	tail       []string
	after      []after // what becomes of the probabilities
	normalised bool    // the sigmoids of several classes have been normalised
	columns    []int   // the classes whose probabilities are left, nil for all

	rounding     float64 // the logits are rounded to multiples of this,
	low, high    float64 // and kept in this range
	approximated bool    // a Relu was ignored
	logarithms   bool    // of the probabilities
}

// join adds the logits of another trail.
func (t *trail) join(o *trail) {
	t.apply(nil, o.shift)
	for _, n := range o.nodes {
		if !slices.Contains(t.nodes, n) {
			t.nodes = append(t.nodes, n)
		}
	}
	t.tail = append(t.tail, o.tail...)
	t.moved = nil
	t.rounding += o.rounding
	t.low, t.high = math.Inf(-1), math.Inf(1)
	t.approximated = t.approximated || o.approximated
	for _, p := range o.shares {
		same := slices.IndexFunc(t.shares, func(q *share) bool {
			return q.features == p.features && q.transposed == p.transposed && slices.Equal(q.selection, p.selection)
		})
		if same >= 0 {
			t.shares[same].terms = append(t.shares[same].terms, p.terms...)
		} else {
			t.shares = append(t.shares, p)
		}
	}
}

// transform follows the logits by x → scale ⊙ x + shift, each nil or of length 1 or k, and what is
// known of their rounding.
func (t *trail) transform(scale, shift []float64) {
	t.apply(scale, shift)
	if math.IsInf(t.low, -1) && math.IsInf(t.high, 1) && t.rounding == 0 {
		return
	}
	one := func(v []float64, i int, otherwise float64) float64 {
		if len(v) == 0 {
			return otherwise
		}
		return v[min(i, len(v)-1)]
	}
	largest, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for i := range t.k {
		s, b := one(scale, i, 1), one(shift, i, 0)
		largest = max(largest, math.Abs(s))
		low, high = min(low, s*t.low+b, s*t.high+b), max(high, s*t.low+b, s*t.high+b)
	}
	t.rounding, t.low, t.high = t.rounding*largest, low, high
}

// stand notes that the trail has come to a tensor.
func (t *trail) stand(name string) {
	number := t.at.Type.IsFloat() || t.at.Type == tensor.Undefined || t.at.Type == tensor.Int32
	if !t.decided && number && t.at.rows() && (t.logits == "" || len(t.at.Dims) == 2) {
		t.logits, t.found = name, t.at.Value
	}
}

// selectBy makes a pooling or selecting operator one of the features.
func (t *trail) selectBy(n *onnxpb.Node) error {
	if len(t.shares) > 1 {
		return graph.RefuseAt(n, "%s follows the sum of %s and %s", n.Describe(), t.nodes[0].Describe(),
			t.nodes[1].Describe())
	}
	p := t.shares[0]
	if p.assumed {
		return graph.RefuseAt(n, "%s follows %s, whose features %q have an unknown rank", n.Describe(),
			t.nodes[0].Describe(), p.features)
	}
	for _, m := range t.moved { // these name the number of classes, so features cannot go through them
		if op := m.GetOpType(); op == "Reshape" || op == "Flatten" {
			return graph.RefuseAt(n, "%s stands between %s and %s", m.Describe(), t.nodes[0].Describe(), n.Describe())
		}
	}
	p.selection = append(append(p.selection, t.moved...), n)
	t.moved = nil
	t.logits = ""
	return nil
}

// merge makes such a change that of the features.
func (t *trail) merge(n *onnxpb.Node) error {
	op := "Flatten"
	return t.selectBy(&onnxpb.Node{OpType: &op, Name: n.Name, Input: n.GetInput()[:1], Output: n.GetOutput(),
		Attribute: []*onnxpb.Attribute{onnxpb.IntAttribute("axis", int64(t.at.class))}})
}

// An after is a step that a model takes from probabilities to its output.
type after func(y []float64) []float64

// classes is how many probabilities there are, two of a single logit after its complement has been
// put beside it.
func (t *trail) classes() int {
	if c := t.at.class; c != noClass && c < len(t.at.Dims) && t.at.Dims[c] > 0 {
		return int(t.at.Dims[c])
	}
	return t.k
}
