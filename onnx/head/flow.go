package head

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A flow describes the tensor that carries the logits, at one point between the linear layer and the
// output.
type flow struct {
	graph.Value
	class  int  // the axis of the classes, or noClass
	merged bool // axis 0 runs over all positions of all examples
}

// noClass is the class axis of a flow whose classes have no axis of their own, or an unknown one.
const noClass = -1

// rows reports whether the flow holds one row of K numbers per example, not counting axes of
// length 1.
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

// merges reports whether a reshape joins the axes in front of the classes and keeps these last.
func merges(before *flow, after *graph.Value, class int) bool {
	return !before.rows() && before.class == len(before.Dims)-1 && before.class > 1 && len(after.Dims) == 2 &&
		class == 1
}

// A trail is the state of the forward pass from the linear layers to the output.
type trail struct {
	affine
	nodes []*onnxpb.Node // the linear operators, for messages
	at    flow           // the current tensor

	logits     string         // the last tensor that held the logits as rows
	found      graph.Value    // its shape and type
	moved      []*onnxpb.Node // reshaping steps since the layer, which features would have to pass too
	spread     spread         // the last tensor that held logits for each step of an example
	pastLogits bool           // the current tensor comes after the logits
	picked     bool           // the best class has been picked
	link       layer.Link
	tail       []string
	after      []after // how the current tensor is computed from the probabilities
	normalised bool    // the sigmoids of several classes have been normalised
	columns    []int   // the classes that are left, nil for all

	rounding     float64 // the logits are rounded to multiples of this
	low, high    float64 // and clipped to this range
	approximated bool    // a Relu was ignored
	averaged     bool    // a mean of probabilities is taken to be of one
	logarithms   bool    // the current tensor holds log-probabilities
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

// transform applies x → scale ⊙ x + shift to the logits, and to their rounding and range. Scale and
// shift are nil or have length 1 or k.
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

// arrive records that the trail has come to a tensor.
func (t *trail) arrive(name string) {
	number := t.at.Type.IsFloat() || t.at.Type == tensor.Undefined || t.at.Type == tensor.Int32
	if !t.pastLogits && number && t.at.rows() && (t.logits == "" || len(t.at.Dims) == 2) {
		t.logits, t.found = name, t.at.Value
	}
	if !t.pastLogits && number && t.at.class > 0 && !t.at.rows() {
		t.spread.name, t.spread.at = name, t.at
	}
	if t.spread.selected {
		t.spread = spread{name: t.spread.name, at: t.spread.at, rank: len(t.at.Dims), features: t.at.class}
	}
}

// forget records that earlier tensors hold other numbers than the logits.
func (t *trail) forget() { t.logits, t.spread.name, t.spread.straight = "", "", nil }

// selectBy moves a pooling or selecting operator from the logits to the features.
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
	for _, m := range t.moved { // these contain the number of classes, so features cannot pass them
		if op := m.GetOpType(); op == "Reshape" || op == "Flatten" {
			return graph.RefuseAt(n, "%s stands between %s and %s", m.Describe(), t.nodes[0].Describe(), n.Describe())
		}
	}
	p.selection = append(append(p.selection, t.moved...), n)
	t.moved = nil
	t.forget()
	t.spread.selected = true
	return nil
}

// merge applies a reshape for which merges holds to the features.
func (t *trail) merge(n *onnxpb.Node) error {
	op := "Flatten"
	return t.selectBy(&onnxpb.Node{OpType: &op, Name: n.Name, Input: n.GetInput()[:1], Output: n.GetOutput(),
		Attribute: []*onnxpb.Attribute{onnxpb.IntAttribute("axis", int64(t.at.class))}})
}

// An after is one step from the probabilities to the model's output.
type after func(y []float64) []float64

// classes returns the number of probabilities: two for a single logit once its complement has been
// joined to it.
func (t *trail) classes() int {
	if c := t.at.class; c != noClass && c < len(t.at.Dims) && t.at.Dims[c] > 0 {
		return int(t.at.Dims[c])
	}
	return t.k
}

// A spread is a tensor with logits for each step of an example, such as [N,T,K] of a sequence or [N,K,H,W] of a map,
// and how the features of the steps lie.
type spread struct {
	name     string
	at       flow
	rank     int           // of the features
	features int           // the axis of their numbers, after turned
	turned   *onnxpb.Node  // a Transpose that the features must pass too
	straight *straightened // what was before turned, where nothing has changed since
	moved    bool          // the logits were moved without a change of the order of the steps
	broken   *onnxpb.Node  // what brought the steps into an order that the features do not have
	selected bool          // an operator was moved to the features, which lie as the logits do after it
}

// A straightened is a spread before a Transpose of its steps, and the Transpose that takes it back, as PyTorch writes
// both around a Softmax up to operator set 12.
type straightened struct {
	name     string
	at       flow
	features int
	back     []int
}

// mayBeOne reports whether there may be one step: the lengths of their axes are open, or 1.
func (s *spread) mayBeOne() bool {
	for i, d := range s.at.Dims {
		if i > 0 && i != s.at.class && d > 1 {
			return false
		}
	}
	return !s.at.merged && s.turned == nil && s.broken == nil
}

// asLaid reports whether there are logits for each step that lie as the layer gave them.
func (s *spread) asLaid() bool {
	return s.name != "" && !s.at.merged && !s.moved && !s.selected && s.turned == nil && s.broken == nil
}

// A layout says how the logits and features of the steps lie.
type layout struct {
	steps    int  // the number of their axes; 0 for a head with one row for each example
	class    int  // the axis of the classes
	rank     int  // of the features
	features int  // the axis of their numbers
	merged   bool // the first axis is that of all steps of all examples
}
