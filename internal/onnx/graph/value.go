package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Value is what is known of a tensor without running the model.
type Value struct {
	Type     tensor.Type // Undefined: unknown
	Dims     []int64     // -1: unknown; nil: even the rank is unknown
	Constant bool        // the tensor depends on no input of the model
	Data     []float64   // nil: unknown. NaN is an unknown element of a shape.
}

// String formats the shape for messages.
func (v *Value) String() string {
	if v.Dims == nil {
		return "[…]"
	}
	s := make([]string, len(v.Dims))
	for i, d := range v.Dims {
		if s[i] = "?"; d >= 0 {
			s[i] = strconv.FormatInt(d, 10)
		}
	}
	return "[" + strings.Join(s, ",") + "]"
}

// Bounds on computing: for shapes, the elements of one tensor and of all; for weights, the elements of all
// (1 GiB; the heads of the largest image classifiers have some 10⁸ weights), and less for a small file.
// No operator needs more than maxRank dimensions.
const (
	maxShapeElements  = 1 << 12
	maxShapesElements = 1 << 22
	MaxWeightElements = 1 << 27
	maxRank           = 64
)

// An Interpreter infers values along the graph. If weights is set it computes constants of any size, else
// only those stored in the graph itself, which is enough for shapes and reads no file.
type Interpreter struct {
	G         *Graph
	reader    reader
	Functions map[string]bool // operators defined by the model itself, by opName
	weights   bool
	Budget    int64 // elements that may still be computed
	err       error // the first failure to read a file
	Values    map[string]*Value
}

func (v *View) Interpreter(weights bool) *Interpreter {
	in := &Interpreter{G: v.Graph, reader: v.reader, weights: weights, Budget: v.Limit, Values: map[string]*Value{},
		Functions: v.functions}
	if !weights {
		in.Budget = maxShapesElements
	}
	return in
}

// Infer infers all tensors of the graph.
func (v *View) Infer() *Interpreter {
	in := v.Interpreter(false)
	in.declareAll(v.model)
	for _, n := range v.Order {
		in.run(n)
	}
	return in
}

// declareAll sets the types and shapes that the model declares.
func (in *Interpreter) declareAll(m *onnxpb.Model) {
	g := m.GetGraph()
	for _, list := range [][]*onnxpb.ValueInfo{g.GetValueInfo(), g.GetInput(), g.GetOutput()} {
		for _, v := range list {
			in.declare(v)
		}
	}
}

// declare sets the type and shape that the model declares for a tensor.
func (in *Interpreter) declare(pb *onnxpb.ValueInfo) {
	if in.G.Initialized(pb.GetName()) {
		return
	}
	in.Values[pb.GetName()] = Declared(pb)
}

// Declared returns the declared type and shape of a tensor.
func Declared(pb *onnxpb.ValueInfo) *Value {
	t := pb.GetType().GetTensorType()
	v := &Value{Type: tensor.Type(t.GetElemType())}
	if shape := t.GetShape(); shape != nil {
		v.Dims = make([]int64, len(shape.GetDim()))
		for i, d := range shape.GetDim() {
			v.Dims[i] = -1
			if n, ok := d.GetValue().(*onnxpb.Dimension_DimValue); ok && n.DimValue >= 0 &&
				n.DimValue <= math.MaxInt32 {
				v.Dims[i] = n.DimValue
			}
		}
	}
	return v
}

// Evaluate computes a constant tensor with all its numbers.
func (v *View) Evaluate(name string) (*Value, error) {
	return v.Interpreter(true).Evaluate(name)
}

func (in *Interpreter) Evaluate(name string) (*Value, error) {
	needed := in.G.Ancestors(name)
	for _, n := range in.G.Order {
		if !needed[n] {
			continue
		}
		in.run(n)
		if in.err != nil {
			return nil, in.err
		}
		if out := n.GetOutput()[0]; in.Values[out] == nil || in.Values[out].Data == nil {
			if in.Budget < 0 {
				return nil, Refuse("computing %q takes too long for a model of this size", name)
			}
			return nil, Refuse("%q is computed by %s, which is not supported", name, n.Describe())
		}
	}
	v := in.Get(name)
	if in.err != nil {
		return nil, in.err
	}
	if v.Data == nil {
		return nil, Refuse("%q is a constant that mfgs cannot read", name)
	}
	return v, nil
}

// Get returns the value of a tensor, never nil.
func (in *Interpreter) Get(name string) *Value {
	v := in.Values[name]
	if v == nil {
		if t := in.G.Consts[name]; t != nil {
			v = in.tensor(t)
		} else if t := in.G.sparse[name]; t != nil {
			v = in.sparse(t)
		} else {
			v = new(Value)
		}
		in.Values[name] = v
	}
	return v
}

// tensor returns the value of a stored tensor.
func (in *Interpreter) tensor(t *onnxpb.Tensor) *Value {
	return in.stored(t, t.GetDims(), t.GetSpan() != nil, func(n int64) ([]float64, error) {
		data := make([]float64, 0, n)
		err := in.reader.Floats(t, func(x float64) { data = append(data, x) })
		return data, err
	})
}

// sparse returns the value of a stored sparse tensor.
func (in *Interpreter) sparse(t *onnxpb.SparseTensor) *Value {
	inFile := t.GetValues().GetSpan() != nil || t.GetIndices().GetSpan() != nil
	return in.stored(t.GetValues(), t.GetDims(), inFile,
		func(n int64) ([]float64, error) { return in.reader.Dense(t, n) })
}

// stored returns the value of a constant whose n numbers read returns.
func (in *Interpreter) stored(t *onnxpb.Tensor, dims []int64, inFile bool,
	read func(n int64) ([]float64, error)) *Value {
	v := &Value{Type: tensor.Type(t.GetDataType()), Dims: append([]int64{}, dims...), Constant: true}
	n, _ := onnxpb.Elements(v.Dims) // checked when the model was read
	if v.Type.Value() == nil || !in.weights && inFile || !in.take(n) {
		return v
	}
	data, err := read(n)
	if in.err = cmp.Or(in.err, err); err == nil {
		v.Data = data
	}
	return v
}

// take reports whether n elements may be computed.
func (in *Interpreter) take(n int64) bool {
	if !in.weights && n > maxShapeElements {
		return false
	}
	in.Budget -= min(n, in.Budget+1)
	return in.Budget >= 0
}

// A Call is one node with the values of its inputs.
type Call struct {
	*onnxpb.Node
	*Interpreter
	In []*Value // nil for an omitted input
}

// Call returns a node with the values of its inputs.
func (in *Interpreter) Call(n *onnxpb.Node) *Call {
	c := &Call{Node: n, Interpreter: in}
	for _, name := range n.GetInput() {
		var v *Value
		if name != "" {
			v = in.Get(name)
		}
		c.In = append(c.In, v)
	}
	return c
}

// run infers the outputs of a node.
func (in *Interpreter) run(n *onnxpb.Node) {
	c := in.Call(n)
	constant := isDeterministic(n) && !in.Drops(n) &&
		!slices.ContainsFunc(c.In, func(v *Value) bool { return v != nil && !v.Constant })
	op := Ops[n.Op()]
	if in.Functions[n.Op()] || in.Drops(n) {
		op = nil
	}
	for i, out := range n.GetOutput() {
		if out == "" {
			continue
		}
		var v *Value
		if op != nil {
			v = op(c, i)
		}
		if v == nil || len(v.Dims) > maxRank {
			v = new(Value)
		}
		if n, ok := onnxpb.Elements(v.Dims); v.Dims == nil || !ok || int64(len(v.Data)) != n {
			v.Data = nil
		}
		v.Constant = constant || v.Constant || v.Data != nil && !slices.ContainsFunc(v.Data, math.IsNaN)
		if known := in.Values[out]; known != nil { // what the model declares fills the gaps
			v.Merge(known)
		}
		in.Values[out] = v
	}
}

// Merge fills the gaps of v from w.
func (v *Value) Merge(w *Value) {
	if v.Type == tensor.Undefined {
		v.Type = w.Type
	}
	if v.Dims == nil {
		v.Dims = w.Dims
	} else if len(v.Dims) == len(w.Dims) {
		for i, d := range w.Dims {
			if v.Dims[i] < 0 {
				v.Dims[i] = d
			}
		}
	}
}

// isDeterministic reports whether a node's outputs are constant if its inputs are: no random numbers, no
// subgraphs.
func isDeterministic(n *onnxpb.Node) bool {
	if Draws(n) {
		return false
	}
	for _, a := range n.GetAttribute() {
		if len(onnxpb.Subgraphs(a)) > 0 {
			return false
		}
	}
	return true
}

// Draws reports whether a node's operator draws random numbers.
func Draws(n *onnxpb.Node) bool {
	switch n.GetOpType() {
	case "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli":
		return true
	}
	return false
}

// Drops reports whether a Dropout may be in training mode.
func (in *Interpreter) Drops(n *onnxpb.Node) bool {
	if n.GetOpType() != "Dropout" || n.In(2) == "" {
		return false
	}
	mode := in.Get(n.In(2))
	return len(mode.Data) != 1 || mode.Data[0] != 0
}

// Producer returns the node that computes a tensor, nil if there is none or it calls one of the model's
// functions.
func (in *Interpreter) Producer(name string) *onnxpb.Node {
	n := in.G.Producer[name]
	if n == nil || in.Functions[n.Op()] {
		return nil
	}
	return n
}

// Scalar returns a constant of one number.
func (in *Interpreter) Scalar(name string) (float64, bool) {
	v := in.Get(name)
	if name == "" || !v.Constant || len(v.Data) != 1 {
		return 0, false
	}
	return v.Data[0], true
}

// Is reports whether a tensor is the constant x.
func (in *Interpreter) Is(name string, x float64) bool {
	c, ok := in.Scalar(name)
	return ok && c == x
}

// Besides returns the scalar constant and the tensor that a binary operator combines; "" if its operands
// are others.
func (in *Interpreter) Besides(n *onnxpb.Node) (c float64, of string) {
	if len(n.GetInput()) != 2 {
		return 0, ""
	}
	for i := range 2 {
		if c, ok := in.Scalar(n.In(i)); ok {
			return c, n.In(1 - i)
		}
	}
	return 0, ""
}

// Result infers the first output, never nil.
func (c *Call) Result() *Value {
	if op := Ops[c.Node.Op()]; op != nil {
		if v := op(c, 0); v != nil {
			return v
		}
	}
	return new(Value)
}

// Arg returns the i-th input, never nil.
func (c *Call) Arg(i int) *Value {
	if i < len(c.In) && c.In[i] != nil {
		return c.In[i]
	}
	return new(Value)
}

// ints returns the i-th input as integers, some perhaps unknown; nil if nothing is known.
func (c *Call) ints(i int) []maybeInt {
	v := c.Arg(i)
	if v.Data == nil || len(v.Data) > maxShapeElements {
		return nil
	}
	list := make([]maybeInt, len(v.Data))
	for j, x := range v.Data {
		list[j] = toInt(x)
	}
	return list
}

// maybeInt is an integer that may be unknown.
type maybeInt struct {
	n     int64
	known bool
}

// toInt converts an element to an integer, clamped far beyond any dimension.
func toInt(x float64) maybeInt {
	const most = 1 << 40
	if math.IsNaN(x) {
		return maybeInt{}
	}
	return maybeInt{int64(max(-most, min(most, x))), true}
}

// List returns a list of integers that is an attribute up to some opset and the input i since; ok is false
// if it is not fully known. An omitted list is nil.
func (c *Call) List(name string, i int) (list []int64, ok bool) {
	if a := c.Node.Attr(name); a != nil {
		return a.GetInts(), true
	}
	if c.Node.In(i) == "" {
		return nil, true
	}
	for _, x := range c.ints(i) {
		if !x.known {
			return nil, false
		}
		list = append(list, x.n)
	}
	return list, c.Arg(i).Data != nil
}

// Axis resolves a possibly negative axis against a rank.
func Axis(a int64, rank int) (int, bool) {
	if a < 0 {
		a += int64(rank)
	}
	return int(a), a >= 0 && a < int64(rank)
}

// Axes resolves a list of axes and marks them; false if one is out of range.
func Axes(list []int64, rank int) ([]bool, bool) {
	marked := make([]bool, rank)
	for _, a := range list {
		i, ok := Axis(a, rank)
		if !ok {
			return nil, false
		}
		marked[i] = true
	}
	return marked, true
}

// broadcast returns the shape of an elementwise operation, nil if it is unknown.
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

// at returns, for each element of an array of shape out, the index in a row-major array of shape
// dims that broadcasts to it.
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
		n, ok := onnxpb.Elements(dims)
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

// A Refusal is why a search failed. Package head turns it into an UnsupportedError.
type Refusal struct {
	Reason string
	At     *onnxpb.Node // the obstacle, if there may be candidates below it
}

func (r *Refusal) Error() string { return r.Reason }

func Refuse(format string, args ...any) *Refusal {
	return &Refusal{Reason: fmt.Sprintf(format, args...)}
}

// RefuseAt is Refuse for a node that is the obstacle.
func RefuseAt(n *onnxpb.Node, format string, args ...any) *Refusal {
	return &Refusal{Reason: fmt.Sprintf(format, args...), At: n}
}
