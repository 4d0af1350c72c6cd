package head

import (
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
)

// numbers returns a constant and its elements.
func (f *finder) numbers(name string) (*graph.Value, error) {
	if v := f.in.Get(name); v.Constant && v.Data != nil {
		return v, nil
	}
	return f.evaluate(name, true)
}

// vector returns a constant that is combined elementwise with the logits: one number, or one per
// class.
func (f *finder) vector(name string, cur *flow, k int) ([]float64, error) {
	v, err := f.numbers(name)
	if err != nil {
		return nil, err
	}
	if len(v.Data) == 1 && len(v.Dims) <= max(len(cur.Dims), 1) {
		return slices.Clone(v.Data), nil
	}
	pad := len(cur.Dims) - len(v.Dims)
	if cur.class == noClass || pad < 0 {
		return nil, graph.Refuse("the constant %q of shape %v does not fit logits of shape %v", name, v.Dims, cur)
	}
	for i, d := range v.Dims {
		// Along axis 0, the examples, a constant may have been broadcast to a fixed batch.
		if d != 1 && d != cur.Dims[pad+i] && (pad+i > 0 || cur.class == 0) {
			return nil, graph.Refuse("the constant %q of shape %v does not fit logits of shape %v", name, v.Dims, cur)
		}
	}
	n := 1
	if i := cur.class - pad; i >= 0 && v.Dims[i] > 1 {
		n = k
	}
	inner := int64(1)
	if n > 1 {
		inner, _ = onnxpb.Elements(v.Dims[cur.class-pad+1:])
	}
	out := make([]float64, n)
	for i, x := range v.Data {
		j := i / int(inner) % n
		if i < n*int(inner) && i%int(inner) == 0 {
			out[j] = x
		}
		if x != out[j] {
			return nil, graph.Refuse("the constant %q of shape %v is not the same for every example", name, v.Dims)
		}
	}
	if len(v.Data) == 0 {
		return nil, graph.Refuse("the constant %q is empty", name)
	}
	return out, nil
}

// call prepares the evaluation of a node, with cur as the input that carries the logits.
func (f *finder) call(n *onnxpb.Node, from string, cur *flow) *graph.Call {
	c := f.in.Call(n)
	for i, name := range n.GetInput() {
		if name == from && name != "" {
			c.In[i] = &cur.Value
		}
	}
	return c
}

// A finder searches one model. It keeps the constants it has computed.
type finder struct {
	m  *onnx.Model
	v  *graph.View
	g  *graph.Graph
	in *graph.Interpreter

	budget      int64 // elements that may still be computed
	worked      map[string]evaluated
	approximate bool       // a Relu may be ignored
	link        layer.Link // Options.Link
	sums, depth int        // sums of several layers examined: in all, and nested
	rank        int        // of features whose own is not known; 0 for 2
}

func newFinder(m *onnx.Model) *finder {
	v := m.View()
	return &finder{m: m, v: v, g: v.Graph, in: v.Infer(), budget: v.Limit, worked: map[string]evaluated{}}
}

// evaluated is a computed constant, with its numbers if they are few, or why there is none.
type evaluated struct {
	value *graph.Value
	err   error
}

// evaluate computes a constant. All constants of one search share one budget. Of a constant computed
// before it may return type and shape only, unless numbers is set.
func (f *finder) evaluate(name string, numbers bool) (*graph.Value, error) {
	if e, ok := f.worked[name]; ok && (e.err != nil || e.value.Data != nil || !numbers) {
		return e.value, e.err
	}
	in := f.v.Interpreter(true)
	in.Budget = f.budget
	v, err := in.Evaluate(name)
	f.budget = max(0, in.Budget)
	kept := evaluated{v, err}
	const few = 1 << 16
	if err == nil && len(v.Data) > few {
		kept.value = v.Like()
		kept.value.Constant = true
	}
	f.worked[name] = kept
	return v, err
}

// describe names a node for messages, with the node of the file that it was lowered from.
func (f *finder) describe(n *onnxpb.Node) string {
	switch s := f.g.Source(n); {
	case s == n:
		return n.Describe()
	case n.Op() == graph.BothClasses: // of the view alone
		return s.Describe()
	default:
		return n.Op() + " of " + s.Describe()
	}
}

// single reports whether a tensor that depends on the input is known to hold a single number.
func (f *finder) single(name string) bool {
	v := f.in.Get(name)
	n, ok := onnxpb.Elements(v.Dims)
	return !v.Constant && v.Dims != nil && ok && n == 1
}

func (f *finder) constant(name string) bool {
	return f.in.Get(name).Constant
}
