package head

import (
	"cmp"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A linear is an operator that is linear in one tensor, the other being constant.
type linear struct {
	node       *onnxpb.Node
	features   string
	transposed bool // features are [d,N]
	weight     weight
	k, d       int64
	alpha      float64
	bias       string // "" if it has none
	beta       float64
	out        flow
	assumed    bool // the rank of features is unknown and assumed to be 2
}

// linear recognises an operator that is linear in exactly one tensor. It returns nil if n is not a
// linear operator, and a refusal if it is one in a form that cannot be a head.
func (f *finder) linear(n *onnxpb.Node) (*linear, error) {
	if f.in.Functions[n.Op()] || len(n.GetInput()) < 2 || len(n.GetOutput()) == 0 || n.GetOutput()[0] == "" {
		return nil, nil
	}
	var form func(*onnxpb.Node, *graph.Value, *graph.Value, bool) (*linear, error)
	switch n.Op() {
	case "Gemm":
		form = f.gemm
	case "MatMul", "com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul":
		form = f.matMul
	case "Conv":
		form = f.conv
	default:
		return nil, nil
	}
	a, b := f.in.Get(n.In(0)), f.in.Get(n.In(1))
	if a.Constant == b.Constant {
		return nil, graph.RefuseAt(n, "%s multiplies two tensors that both depend on the input", f.describe(n))
	}
	w, name := b, n.In(1)
	if a.Constant {
		w, name = a, n.In(0)
	}
	if w.Dims == nil { // too large for inference so far, or impossible to compute
		var err error
		if w, err = f.evaluate(name, false); err != nil {
			return nil, err
		}
		if a.Constant {
			a = w
		} else {
			b = w
		}
	}
	l, err := form(n, a, b, a.Constant)
	if err != nil {
		return nil, err
	}
	if size, ok := onnxpb.Elements([]int64{l.k, l.d}); !ok || size == 0 || size > graph.MaxWeightElements {
		return nil, graph.Refuse("%s has %d features and %d classes", f.describe(n), l.d, l.k)
	}
	l.node = n
	l.weight.name = name
	if l.features = n.In(0); a.Constant {
		l.features = n.In(1)
	}
	l.out.Type = cmp.Or(a.Type, b.Type)
	if op := f.g.Source(n).GetOpType(); op == "MatMulInteger" || op == "ConvInteger" {
		l.out.Type = tensor.Int32
	}
	l.out.Merge(f.in.Values[n.GetOutput()[0]])
	return l, nil
}

// gemm is α·A'·B' + β·C.
func (f *finder) gemm(n *onnxpb.Node, a, b *graph.Value, left bool) (*linear, error) {
	transA, transB := n.Int("transA", 0) != 0, n.Int("transB", 0) != 0
	l := &linear{alpha: n.Float("alpha", 1), beta: n.Float("beta", 1)}
	if l.beta != 0 {
		l.bias = n.In(2)
	}
	if l.bias != "" && !f.constant(l.bias) {
		return nil, graph.RefuseAt(n, "%s adds %q, which depends on the input", f.describe(n), l.bias)
	}
	w := b.Dims
	if left {
		// The weights are on the left, so the result is [K,N].
		w = a.Dims
		l.weight.transposed, l.transposed = transA, !transB
	} else {
		l.weight.transposed, l.transposed = !transB, transA
	}
	if len(w) != 2 {
		return nil, graph.Refuse("%s has weights of shape %v", f.describe(n), w)
	}
	l.k, l.d = w[0], w[1]
	if l.weight.transposed {
		l.k, l.d = w[1], w[0]
	}
	if l.out = (flow{Value: graph.Value{Dims: []int64{-1, l.k}}, class: 1}); left {
		l.out = flow{Value: graph.Value{Dims: []int64{l.k, -1}}, class: 0}
	}
	return l, nil
}

// matMul is x·W for x of rank 2 or more, or W·x for rank 2. The fused operator may transpose either,
// and scale.
func (f *finder) matMul(n *onnxpb.Node, a, b *graph.Value, left bool) (*linear, error) {
	transW, transX := n.Int("transB", 0) != 0, n.Int("transA", 0) != 0
	w, x := b.Dims, a.Dims
	if left {
		w, x = a.Dims, b.Dims
		transW, transX = transX, transW
	}
	l := &linear{alpha: n.Float("alpha", 1), weight: weight{transposed: left == transW}, transposed: left != transX}
	if n.Int("transBatchA", 0) != 0 || n.Int("transBatchB", 0) != 0 || transX && len(x) != 2 {
		return nil, graph.Refuse("%s transposes features of shape %v", f.describe(n), x)
	}
	for len(w) > 2 && w[0] == 1 && len(x) >= len(w) {
		w = w[1:]
	}
	switch {
	case len(w) != 2:
		return nil, graph.Refuse("%s has weights of shape %v", f.describe(n), w)
	case x == nil && !left:
		if out := f.in.Values[n.GetOutput()[0]]; len(out.Dims) >= 2 {
			x = slices.Repeat([]int64{-1}, len(out.Dims))
			break
		}
		l.assumed = true
		x = slices.Repeat([]int64{-1}, max(2, f.rank))
	case left && !transX && len(x) == 3 && x[2] == 1: // a column for each example
		l.k, l.d, l.transposed = w[0], w[1], false
		if l.weight.transposed {
			l.k, l.d = w[1], w[0]
		}
		l.out = flow{Value: graph.Value{Dims: []int64{x[0], l.k, 1}}, class: 1}
		return l, nil
	case len(x) < 2 || left && len(x) != 2:
		return nil, graph.Refuse("%s multiplies features of shape %v", f.describe(n), x)
	}
	l.k, l.d = w[0], w[1]
	if l.weight.transposed {
		l.k, l.d = w[1], w[0]
	}
	if left {
		l.out = flow{Value: graph.Value{Dims: []int64{l.k, -1}}, class: 0}
		return l, nil
	}
	l.out = flow{Value: graph.Value{Dims: slices.Clone(x)}, class: len(x) - 1}
	l.out.Dims[len(x)-1] = l.k
	return l, nil
}

// conv is a convolution that is a linear layer: with a 1×1 kernel, applied at every position, or with
// a kernel as large as its input.
func (f *finder) conv(n *onnxpb.Node, x, w *graph.Value, left bool) (*linear, error) {
	l := &linear{alpha: 1, beta: 1, bias: n.In(2)}
	if left || len(w.Dims) < 3 {
		return nil, graph.Refuse("%s has weights of shape %v", f.describe(n), w.Dims)
	}
	if l.bias != "" && !f.constant(l.bias) {
		return nil, graph.Refuse("%s adds %q, which depends on the input", f.describe(n), l.bias)
	}
	all := func(name string, want int64) bool {
		return !slices.ContainsFunc(n.Attr(name).GetInts(), func(x int64) bool { return x != want })
	}
	size, ok := onnxpb.Elements(w.Dims[1:])
	if !ok || n.Int("group", 1) != 1 || !all("pads", 0) || !all("dilations", 1) {
		return nil, graph.RefuseAt(n, "%s is not a linear layer: it has groups, padding or dilation", f.describe(n))
	}
	out := f.in.Values[n.GetOutput()[0]]
	kernel := w.Dims[2:]
	point := !slices.ContainsFunc(kernel, func(k int64) bool { return k != 1 })
	whole := false // the features are the whole input, flattened
	switch {
	case point && (all("strides", 1) || len(x.Dims) > 2 &&
		!slices.ContainsFunc(x.Dims[2:], func(d int64) bool { return d != 1 })):
	case len(x.Dims) == len(w.Dims) && slices.Equal(x.Dims[2:], kernel) &&
		slices.Contains([]string{"", "NOTSET", "VALID"}, string(n.Attr("auto_pad").GetS())):
		whole = true
	default:
		return nil, graph.RefuseAt(n, "%s is not a linear layer: its kernel %v is neither 1×1 nor as large as its input",
			f.describe(n), kernel)
	}
	l.k, l.d = w.Dims[0], size
	l.out = flow{Value: graph.Value{Dims: slices.Repeat([]int64{-1}, len(w.Dims))}, class: 1}
	l.out.Dims[1] = l.k
	for i := 2; i < len(w.Dims); i++ {
		if whole {
			l.out.Dims[i] = 1
		} else if len(out.Dims) == len(w.Dims) {
			l.out.Dims[i] = out.Dims[i]
		}
	}
	return l, nil
}

// bias returns the bias in the linear operator itself, one number or K.
func (f *finder) bias(l *linear) ([]float64, error) {
	if l.node.GetOpType() != "Conv" {
		return f.vector(l.bias, &l.out, int(l.k))
	}
	v, err := f.numbers(l.bias) // along axis 1
	if err == nil && len(v.Data) != int(l.k) {
		err = graph.Refuse("%s has %d biases for %d classes", f.describe(l.node), len(v.Data), l.k)
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(v.Data), nil
}
