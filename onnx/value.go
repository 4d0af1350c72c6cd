package onnx

import (
	"cmp"
	"math"
	"slices"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A value is what is known about a tensor without running the model.
type value struct {
	typ      DataType  // Undefined: not known
	dims     []int64   // -1: not known; nil: not even the rank is known
	constant bool      // the tensor depends on no input of the model
	data     []float64 // nil: not known. NaN stands for an unknown element of a shape.
}

// Bounds on what is computed with: while looking at shapes, the elements of one tensor and of all; when weights are worked
// out, the elements of all (1 GiB; the heads of the largest image classifiers have some 10⁸ weights), and no more than a file
// of that size can have a use for. No operator has a use for more than maxRank dimensions.
const (
	maxShapeElements  = 1 << 12
	maxShapesElements = 1 << 22
	maxWeightElements = 1 << 27
	maxRank           = 64
)

// An interpreter works out values along the graph, in its order. Constants of any size get their numbers when weights is set,
// otherwise only those that stand in the graph itself, which is enough to follow shapes and reads no file.
type interpreter struct {
	g         *graph
	store     *store
	functions map[string]bool // operators defined by the model itself, by opName
	weights   bool
	budget    int64 // elements that may still be computed
	err       error // the first failure to read a file
	values    map[string]*value
}

func (m *Model) interpreter(weights bool) *interpreter {
	in := &interpreter{g: m.view, store: m.store, weights: weights, budget: min(maxWeightElements, m.store.mayGive()),
		values: map[string]*value{}, functions: map[string]bool{}}
	if !weights {
		in.budget = maxShapesElements
	}
	for _, f := range m.pb.GetFunctions() {
		in.functions[opName(&onnxpb.Node{OpType: f.Name, Domain: f.Domain})] = true
	}
	return in
}

// infer works out every tensor of the graph.
func (m *Model) infer() *interpreter {
	in := m.interpreter(false)
	in.declareAll(m)
	for _, n := range m.view.order {
		in.run(n)
	}
	return in
}

// declareAll takes over what the model says of its tensors.
func (in *interpreter) declareAll(m *Model) {
	g := m.pb.GetGraph()
	for _, list := range [][]*onnxpb.ValueInfo{g.GetValueInfo(), g.GetInput(), g.GetOutput()} {
		for _, v := range list {
			in.declare(v)
		}
	}
}

// declare takes over what the model says of a tensor.
func (in *interpreter) declare(pb *onnxpb.ValueInfo) {
	if in.g.initialized(pb.GetName()) {
		return
	}
	v := valueInfo(pb)
	w := &value{typ: v.Type}
	if v.Shape != nil {
		w.dims = make([]int64, len(v.Shape))
		for i, d := range v.Shape {
			if w.dims[i] = d.Value; d.Value > math.MaxInt32 {
				w.dims[i] = -1
			}
		}
	}
	in.values[v.Name] = w
}

// evaluate works out a constant tensor with all its numbers.
func (m *Model) evaluate(name string) (*value, error) {
	return m.interpreter(true).evaluate(name)
}

func (in *interpreter) evaluate(name string) (*value, error) {
	needed := in.g.ancestors(name)
	for _, n := range in.g.order {
		if !needed[n] {
			continue
		}
		in.run(n)
		if in.err != nil {
			return nil, in.err
		}
		if out := n.GetOutput()[0]; in.values[out] == nil || in.values[out].data == nil {
			if in.budget < 0 {
				return nil, refuse("%q takes more computing than a model of this size has a use for", name)
			}
			return nil, refuse("%q is computed by %s, which mfgs does not evaluate", name, describe(n))
		}
	}
	v := in.get(name)
	if in.err != nil {
		return nil, in.err
	}
	if v.data == nil {
		return nil, refuse("%q is a constant that mfgs cannot read", name)
	}
	return v, nil
}

// get returns what is known of a tensor; never nil.
func (in *interpreter) get(name string) *value {
	v := in.values[name]
	if v == nil {
		if t := in.g.consts[name]; t != nil {
			v = in.tensor(t)
		} else if t := in.g.sparse[name]; t != nil {
			v = in.sparse(t)
		} else {
			v = new(value)
		}
		in.values[name] = v
	}
	return v
}

// tensor returns the value of a stored tensor.
func (in *interpreter) tensor(t *onnxpb.Tensor) *value {
	v := &value{typ: DataType(t.GetDataType()), dims: slices.Clone(t.GetDims()), constant: true}
	if v.dims == nil {
		v.dims = []int64{}
	}
	n, _ := elements(v.dims) // checked when the model was read
	_, numeric := decoders[v.typ]
	if !numeric || !in.weights && t.GetSpan() != nil || !in.take(n) {
		return v
	}
	v.data = make([]float64, 0, n)
	if err := in.store.floats(t, func(x float64) { v.data = append(v.data, x) }); err != nil {
		v.data = nil
		in.err = cmp.Or(in.err, err)
	}
	return v
}

// sparse returns the value of a stored sparse tensor.
func (in *interpreter) sparse(t *onnxpb.SparseTensor) *value {
	v := &value{typ: DataType(t.GetValues().GetDataType()), dims: slices.Clone(t.GetDims()), constant: true}
	if v.dims == nil {
		v.dims = []int64{}
	}
	n, _ := elements(v.dims) // checked when the model was read
	_, numeric := decoders[v.typ]
	if !numeric || !in.weights && (t.GetValues().GetSpan() != nil || t.GetIndices().GetSpan() != nil) || !in.take(n) {
		return v
	}
	var err error
	v.data, err = in.store.dense(t, n)
	in.err = cmp.Or(in.err, err)
	return v
}

// take reports whether n elements may be computed.
func (in *interpreter) take(n int64) bool {
	if !in.weights && n > maxShapeElements {
		return false
	}
	in.budget -= min(n, in.budget+1)
	return in.budget >= 0
}

// A call is one node with the values of its inputs.
type call struct {
	*onnxpb.Node
	*interpreter
	in []*value // nil where an input is left out
}

// run works out the outputs of a node.
func (in *interpreter) run(n *onnxpb.Node) {
	c := &call{Node: n, interpreter: in}
	constant := isDeterministic(n) && !in.drops(n)
	for _, name := range n.GetInput() {
		var v *value
		if name != "" {
			v = in.get(name)
			constant = constant && v.constant
		}
		c.in = append(c.in, v)
	}
	op := ops[opName(n)]
	if in.functions[opName(n)] || in.drops(n) {
		op = nil
	}
	for i, out := range n.GetOutput() {
		if out == "" {
			continue
		}
		var v *value
		if op != nil {
			v = op(c, i)
		}
		if v == nil || len(v.dims) > maxRank {
			v = new(value)
		}
		if n, ok := elements(v.dims); v.dims == nil || !ok || int64(len(v.data)) != n {
			v.data = nil
		}
		v.constant = constant || v.constant || v.data != nil && !slices.ContainsFunc(v.data, math.IsNaN)
		if known := in.values[out]; known != nil { // what the model declares fills the gaps
			v.merge(known)
		}
		in.values[out] = v
	}
}

// merge fills the gaps of v from w.
func (v *value) merge(w *value) {
	if v.typ == Undefined {
		v.typ = w.typ
	}
	if v.dims == nil {
		v.dims = w.dims
	} else if len(v.dims) == len(w.dims) {
		for i, d := range w.dims {
			if v.dims[i] < 0 {
				v.dims[i] = d
			}
		}
	}
}

// isDeterministic reports whether a node without inputs that vary gives the same outputs every time and can be seen
// through: no random numbers, no subgraphs.
func isDeterministic(n *onnxpb.Node) bool {
	if draws(n) {
		return false
	}
	for _, a := range n.GetAttribute() {
		if len(subgraphs(a)) > 0 {
			return false
		}
	}
	return true
}

// draws reports whether a node is of an operator that draws random numbers.
func draws(n *onnxpb.Node) bool {
	switch n.GetOpType() {
	case "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli":
		return true
	}
	return false
}

// drops reports whether a Dropout may be in training mode, in which it drops at random.
func (in *interpreter) drops(n *onnxpb.Node) bool {
	if n.GetOpType() != "Dropout" || input(n, 2) == "" {
		return false
	}
	mode := in.get(input(n, 2))
	return len(mode.data) != 1 || mode.data[0] != 0
}

// ancestors returns the nodes that a tensor depends on.
func (g *graph) ancestors(names ...string) map[*onnxpb.Node]bool {
	needed := map[*onnxpb.Node]bool{}
	for stack := slices.Clone(names); len(stack) > 0; {
		name := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n := g.producer[name]; n != nil && !needed[n] {
			needed[n] = true
			stack = append(stack, dependencies(n)...)
		}
	}
	return needed
}

// arg returns the i-th input, never nil.
func (c *call) arg(i int) *value {
	if i < len(c.in) && c.in[i] != nil {
		return c.in[i]
	}
	return new(value)
}

// ints returns the i-th input as integers, with false for those not known; nil if nothing is known.
func (c *call) ints(i int) []maybeInt {
	v := c.arg(i)
	if v.data == nil || len(v.data) > maxShapeElements {
		return nil
	}
	list := make([]maybeInt, len(v.data))
	for j, x := range v.data {
		list[j] = toInt(x)
	}
	return list
}

// maybeInt is an integer that may be unknown.
type maybeInt struct {
	n     int64
	known bool
}

// toInt converts an element to an integer, clamped far outside anything a shape can hold.
func toInt(x float64) maybeInt {
	const most = 1 << 40
	if math.IsNaN(x) {
		return maybeInt{}
	}
	return maybeInt{int64(max(-most, min(most, x))), true}
}

// list returns a list of integers that is an attribute up to some operator set and the input i from then on; ok is false
// if it is not fully known. A list left out is nil.
func (c *call) list(name string, i int) (list []int64, ok bool) {
	if a := attribute(c.Node, name); a != nil {
		return a.GetInts(), true
	}
	if input(c.Node, i) == "" {
		return nil, true
	}
	for _, x := range c.ints(i) {
		if !x.known {
			return nil, false
		}
		list = append(list, x.n)
	}
	return list, c.arg(i).data != nil
}

// axis resolves a possibly negative axis against a rank.
func axis(a int64, rank int) (int, bool) {
	if a < 0 {
		a += int64(rank)
	}
	return int(a), a >= 0 && a < int64(rank)
}

// axes resolves a list of axes and marks them; false if one is out of range.
func axes(list []int64, rank int) ([]bool, bool) {
	marked := make([]bool, rank)
	for _, a := range list {
		i, ok := axis(a, rank)
		if !ok {
			return nil, false
		}
		marked[i] = true
	}
	return marked, true
}

// broadcast returns the shape of an elementwise operation, nil if it is not known.
func broadcast(a, b []int64) []int64 {
	if a == nil || b == nil {
		return nil
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i, d := range b {
		o := &out[len(a)-len(b)+i]
		switch {
		case *o == 1:
			*o = d
		case d == 1 || d == *o:
		case *o < 0:
			*o = d
		case d >= 0:
			return nil
		}
	}
	return out
}

// at returns, for each element of an array of shape out, the index in a row-major array of shape dims that broadcasts
// to it.
func at(out, dims []int64) func(func(int)) {
	stride := make([]int64, len(out))
	step := int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		if dims[i] != 1 {
			stride[len(out)-len(dims)+i] = step
		}
		step *= dims[i]
	}
	return strided(out, stride)
}

// strided calls do with the offset of every element of an array of shape dims, in row-major order.
func strided(dims, stride []int64) func(func(int)) {
	return func(do func(int)) {
		n, ok := elements(dims)
		if !ok || n == 0 {
			return
		}
		index := make([]int64, len(dims))
		var offset int64
		for {
			do(int(offset))
			i := len(dims) - 1
			for ; i >= 0; i-- {
				index[i]++
				offset += stride[i]
				if index[i] < dims[i] {
					break
				}
				offset -= stride[i] * dims[i]
				index[i] = 0
			}
			if i < 0 {
				return
			}
		}
	}
}
