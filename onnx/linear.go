package onnx

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A linear is an operator that is linear in one tensor, the other being constant.
type linear struct {
	node       *onnxpb.Node
	features   string
	transposed bool // features lie [d,N]
	weight     weight
	k, d       int64
	alpha      float64
	bias       string // "" if it has none
	beta       float64
	out        flow
	assumed    bool // the rank of features is not known and taken to be 2
}

// linear recognises an operator that is linear in exactly one tensor. It returns nil if n is another operator, and a
// refusal if it is one of these but not of a form that makes a head.
func (f *finder) linear(n *onnxpb.Node) (*linear, error) {
	if f.in.functions[opName(n)] || len(n.GetInput()) < 2 || len(n.GetOutput()) == 0 || n.GetOutput()[0] == "" {
		return nil, nil
	}
	var form func(*onnxpb.Node, *value, *value, bool) (*linear, error)
	switch opName(n) {
	case "Gemm":
		form = f.gemm
	case "MatMul", "com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul":
		form = f.matMul
	case "Conv":
		form = f.conv
	default:
		return nil, nil
	}
	a, b := f.in.get(input(n, 0)), f.in.get(input(n, 1))
	if a.constant == b.constant {
		return nil, &refusal{fmt.Sprintf("%s multiplies two tensors that both depend on the input", f.describe(n)), n}
	}
	w, name := b, input(n, 1)
	if a.constant {
		w, name = a, input(n, 0)
	}
	if w.dims == nil { // too large to be followed so far, or not to be computed at all
		var err error
		if w, err = f.evaluate(name, false); err != nil {
			return nil, err
		}
		if a.constant {
			a = w
		} else {
			b = w
		}
	}
	l, err := form(n, a, b, a.constant)
	if err != nil {
		return nil, err
	}
	if size, ok := elements([]int64{l.k, l.d}); !ok || size == 0 || size > maxWeightElements {
		return nil, refuse("%s has %d features and %d classes", f.describe(n), l.d, l.k)
	}
	l.node = n
	l.weight.name = name
	if l.features = input(n, 0); a.constant {
		l.features = input(n, 1)
	}
	l.out.typ = cmp.Or(a.typ, b.typ)
	if op := f.g.source(n).GetOpType(); op == "MatMulInteger" || op == "ConvInteger" {
		l.out.typ = Int32
	}
	l.out.merge(f.in.values[n.GetOutput()[0]])
	return l, nil
}

// gemm is α·A'·B' + β·C.
func (f *finder) gemm(n *onnxpb.Node, a, b *value, left bool) (*linear, error) {
	transA, transB := attrInt(n, "transA", 0) != 0, attrInt(n, "transB", 0) != 0
	l := &linear{alpha: attrFloat(n, "alpha", 1), beta: attrFloat(n, "beta", 1)}
	if l.beta != 0 {
		l.bias = input(n, 2)
	}
	if l.bias != "" && !f.constant(l.bias) {
		return nil, &refusal{fmt.Sprintf("%s adds %q, which depends on the input", f.describe(n), l.bias), n}
	}
	w := b.dims
	if left {
		// Weights stand on the left, so the result is [K,N].
		w = a.dims
		l.weight.transposed, l.transposed = transA, !transB
	} else {
		l.weight.transposed, l.transposed = !transB, transA
	}
	if len(w) != 2 {
		return nil, refuse("%s has weights of shape %v", f.describe(n), w)
	}
	l.k, l.d = w[0], w[1]
	if l.weight.transposed {
		l.k, l.d = w[1], w[0]
	}
	if l.out = (flow{value: value{dims: []int64{-1, l.k}}, class: 1}); left {
		l.out = flow{value: value{dims: []int64{l.k, -1}}, class: 0}
	}
	return l, nil
}

// matMul is x·W for x of any rank from 2, or W·x for rank 2. The fused operator may transpose either, and scale.
func (f *finder) matMul(n *onnxpb.Node, a, b *value, left bool) (*linear, error) {
	transW, transX := attrInt(n, "transB", 0) != 0, attrInt(n, "transA", 0) != 0
	w, x := b.dims, a.dims
	if left {
		w, x = a.dims, b.dims
		transW, transX = transX, transW
	}
	l := &linear{alpha: attrFloat(n, "alpha", 1), weight: weight{transposed: left == transW}, transposed: left != transX}
	if attrInt(n, "transBatchA", 0) != 0 || attrInt(n, "transBatchB", 0) != 0 || transX && len(x) != 2 {
		return nil, refuse("%s transposes features of shape %v", f.describe(n), x)
	}
	for len(w) > 2 && w[0] == 1 && len(x) >= len(w) {
		w = w[1:]
	}
	switch {
	case len(w) != 2:
		return nil, refuse("%s has weights of shape %v", f.describe(n), w)
	case x == nil && !left:
		if out := f.in.values[n.GetOutput()[0]]; len(out.dims) >= 2 {
			x = slices.Repeat([]int64{-1}, len(out.dims))
			break
		}
		l.assumed = true
		x = []int64{-1, -1}
	case len(x) < 2 || left && len(x) != 2:
		return nil, refuse("%s multiplies features of shape %v", f.describe(n), x)
	}
	l.k, l.d = w[0], w[1]
	if l.weight.transposed {
		l.k, l.d = w[1], w[0]
	}
	if left {
		l.out = flow{value: value{dims: []int64{l.k, -1}}, class: 0}
		return l, nil
	}
	l.out = flow{value: value{dims: slices.Clone(x)}, class: len(x) - 1}
	l.out.dims[len(x)-1] = l.k
	return l, nil
}

// conv is a convolution that is a linear layer: with a 1×1 kernel at every place alike, or with a kernel as large as its
// input, so that there is one place only.
func (f *finder) conv(n *onnxpb.Node, x, w *value, left bool) (*linear, error) {
	l := &linear{alpha: 1, beta: 1, bias: input(n, 2)}
	if left || len(w.dims) < 3 {
		return nil, refuse("%s has weights of shape %v", f.describe(n), w.dims)
	}
	if l.bias != "" && !f.constant(l.bias) {
		return nil, refuse("%s adds %q, which depends on the input", f.describe(n), l.bias)
	}
	all := func(name string, want int64) bool {
		return !slices.ContainsFunc(attribute(n, name).GetInts(), func(x int64) bool { return x != want })
	}
	size, ok := elements(w.dims[1:])
	if !ok || attrInt(n, "group", 1) != 1 || !all("pads", 0) || !all("dilations", 1) {
		return nil, &refusal{f.describe(n) + " is no linear layer: it has groups, padding or dilation", n}
	}
	out := f.in.values[n.GetOutput()[0]]
	kernel := w.dims[2:]
	point := !slices.ContainsFunc(kernel, func(k int64) bool { return k != 1 })
	whole := false // of the input: features are that, flattened
	switch {
	case point && (all("strides", 1) || len(x.dims) > 2 && !slices.ContainsFunc(x.dims[2:], func(d int64) bool { return d != 1 })):
	case len(x.dims) == len(w.dims) && slices.Equal(x.dims[2:], kernel) && slices.Contains([]string{"", "NOTSET", "VALID"}, string(attribute(n, "auto_pad").GetS())):
		whole = true
	default:
		return nil, &refusal{fmt.Sprintf("%s is no linear layer: its kernel %v is neither 1×1 nor as large as its input", f.describe(n), kernel), n}
	}
	l.k, l.d = w.dims[0], size
	l.out = flow{value: value{dims: slices.Repeat([]int64{-1}, len(w.dims))}, class: 1}
	l.out.dims[1] = l.k
	for i := 2; i < len(w.dims); i++ {
		if whole {
			l.out.dims[i] = 1
		} else if len(out.dims) == len(w.dims) {
			l.out.dims[i] = out.dims[i]
		}
	}
	return l, nil
}
