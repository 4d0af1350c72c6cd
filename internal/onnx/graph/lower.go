package graph

import (
	"encoding/binary"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Lowerings express an operator by operators of the default domain, in floating point: quantised operators
// by DequantizeLinear and QuantizeLinear, fused ones by their parts, those of scikit-learn by Gemm. The
// results are equal up to rounding. A lowering that returns false leaves the node alone.
var Lowerings map[string]func(*lowering) bool

func init() {
	Lowerings = map[string]func(*lowering) bool{
		"Einsum":                                 lowerEinsum,
		"QLinearMatMul":                          lowerQLinearMatMul,
		"QLinearConv":                            lowerQLinearConv,
		"MatMulInteger":                          lowerMatMulInteger,
		"ConvInteger":                            lowerConvInteger,
		"com.microsoft.QLinearConv":              lowerQLinearConv,
		"com.microsoft.QGemm":                    lowerQGemm,
		"com.microsoft.MatMulIntegerToFloat":     lowerMatMulIntegerToFloat,
		"com.microsoft.DynamicQuantizeMatMul":    lowerDynamicQuantizeMatMul,
		"com.microsoft.QLinearAdd":               lowerQLinearBinary("Add"),
		"com.microsoft.QLinearMul":               lowerQLinearBinary("Mul"),
		"com.microsoft.QLinearSigmoid":           lowerQLinearUnary("Sigmoid"),
		"com.microsoft.QLinearSoftmax":           lowerQLinearUnary("Softmax"),
		"com.microsoft.QLinearGlobalAveragePool": lowerQLinearUnary("GlobalAveragePool"),
		"com.microsoft.QLinearAveragePool":       lowerQLinearUnary("AveragePool"),
		"com.microsoft.QLinearReduceMean":        lowerQLinearUnary("ReduceMean"),
		"com.microsoft.QuantizeLinear":           lowerAs("QuantizeLinear"),
		"com.microsoft.DequantizeLinear":         lowerAs("DequantizeLinear"),
		"com.microsoft.FusedGemm":                lowerFused("Gemm"),
		"com.microsoft.FusedConv":                lowerFused("Conv"),
		"com.microsoft.MatMulNBits":              lowerMatMulNBits,
		"ai.onnx.ml.LinearClassifier":            lowerLinearClassifier,
		"ai.onnx.ml.ArrayFeatureExtractor":       lowerArrayFeatureExtractor,
		"Concat":                                 lowerOneVsRest,
	}
}

// A lowering is one node being lowered.
type lowering struct {
	*onnxpb.Node
	g      *Graph // as read
	names  *onnxpb.Namer
	budget *int // numbers that may still be copied between operators
	nodes  []*onnxpb.Node
	consts []*onnxpb.Tensor
}

// lower returns the graph with all possible lowerings applied: g itself if there are none. Tensors of g
// keep their names; tensors between the new nodes have new names.
func (v *View) lower(g *Graph) *Graph {
	wanted := func(n *onnxpb.Node) bool { return Lowerings[n.Op()] != nil && !v.functions[n.Op()] }
	if !slices.ContainsFunc(g.Order, wanted) {
		return g
	}
	names := new(onnxpb.Namer)
	names.Take(g.Proto)
	view := g.emptied()
	budget := 1 << 24
	for _, n := range g.Order {
		l := &lowering{Node: n, g: g, names: names, budget: &budget}
		if !wanted(n) || !l.wellFormed() || !Lowerings[n.Op()](l) {
			l.nodes, l.consts = []*onnxpb.Node{n}, nil
		}
		view.extend(g, n, l.nodes, l.consts)
	}
	return view
}

// wellFormed reports whether the node has a first input and output, which every lowering needs.
func (l *lowering) wellFormed() bool {
	return l.Node.In(0) != "" && len(l.GetOutput()) > 0 && l.out() != ""
}

// out returns the operator's output.
func (l *lowering) out() string { return l.GetOutput()[0] }

// fresh returns a new tensor's name.
func (l *lowering) fresh(suffix string) string {
	base := l.out()
	if base == "" {
		base = l.Node.Label()
	}
	return l.names.Fresh(base + "/" + suffix)
}

// add appends a node with output out, and returns out. Omitted inputs at the end are dropped.
func (l *lowering) add(op, out string, inputs []string, attributes ...*onnxpb.Attribute) string {
	for len(inputs) > 0 && inputs[len(inputs)-1] == "" {
		inputs = inputs[:len(inputs)-1]
	}
	name := l.Node.Label()
	l.nodes = append(l.nodes, &onnxpb.Node{OpType: &op, Name: &name, Input: inputs, Output: []string{out},
		Attribute: slices.DeleteFunc(attributes, func(a *onnxpb.Attribute) bool { return a == nil })})
	return out
}

// floats adds a constant.
func (l *lowering) floats(suffix string, data []float32, dims ...int64) string {
	name := l.fresh(suffix)
	l.consts = append(l.consts, &onnxpb.Tensor{Name: &name, DataType: proto.Int32(int32(tensor.Float32)), Dims: dims,
		FloatData: data})
	return name
}

// one is a scalar 1.
func (l *lowering) one() string { return l.floats("one", []float32{1}) }

// dequantized is (q − zero) · scale, with one scale.
func (l *lowering) dequantized(suffix, q, scale, zero string) string {
	return l.add("DequantizeLinear", l.fresh(suffix), []string{q, scale, zero})
}

// dequantizedAlong is dequantized with a scale per index along an axis, if there are several. That is for
// weights, which are computed here and never run, so the opset need not have the attribute.
func (l *lowering) dequantizedAlong(axis int64, suffix, q, scale, zero string) string {
	return l.add("DequantizeLinear", l.fresh(suffix), []string{q, scale, zero}, onnxpb.IntAttribute("axis", axis))
}

// attributes returns the node's attributes with the given names.
func (l *lowering) attributes(names ...string) []*onnxpb.Attribute {
	var list []*onnxpb.Attribute
	for _, name := range names {
		if a := l.Node.Attr(name); a != nil {
			list = append(list, a)
		}
	}
	return list
}

// ins returns the first n inputs, and whether the first required ones are present.
func (l *lowering) ins(n, required int) ([]string, bool) {
	in := make([]string, n)
	for i := range in {
		in[i] = l.Node.In(i)
		if in[i] == "" && i < required {
			return nil, false
		}
	}
	return in, true
}

var convAttributes = []string{"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}

func lowerAs(op string) func(*lowering) bool {
	return func(l *lowering) bool {
		l.add(op, l.out(), l.GetInput(), l.GetAttribute()...)
		return true
	}
}

// lowerQLinearMatMul: a, its scale and zero point, b, its scale and zero point, scale and zero
// point of the result. Several scales of b are per column.
func lowerQLinearMatMul(l *lowering) bool {
	in, ok := l.ins(8, 7)
	if !ok {
		return false
	}
	a := l.dequantized("a", in[0], in[1], in[2])
	b := l.dequantizedAlong(1, "b", in[3], in[4], in[5])
	y := l.add("MatMul", l.fresh("product"), []string{a, b})
	l.add("QuantizeLinear", l.out(), []string{y, in[6], in[7]})
	return true
}

// lowerQLinearConv: as QLinearMatMul, then an int32 bias in units of the product of both scales.
// Several scales of the weights are per output channel.
func lowerQLinearConv(l *lowering) bool {
	in, ok := l.ins(9, 7)
	if !ok || l.Node.Int("channels_last", 0) != 0 {
		return false
	}
	x := l.dequantized("x", in[0], in[1], in[2])
	w := l.dequantizedAlong(0, "w", in[3], in[4], in[5])
	bias := l.integerBias(in[8], in[1], in[4])
	y := l.add("Conv", l.fresh("convolved"), []string{x, w, bias}, l.attributes(convAttributes...)...)
	l.add("QuantizeLinear", l.out(), []string{y, in[6], in[7]})
	return true
}

// integerBias is a bias in units of the product of two scales, "" if there is none.
func (l *lowering) integerBias(bias, scaleA, scaleB string) string {
	if bias == "" {
		return ""
	}
	unit := l.add("Mul", l.fresh("bias_unit"), []string{scaleA, scaleB})
	b := l.add("Cast", l.fresh("bias_float"), []string{bias}, onnxpb.IntAttribute("to", int64(tensor.Float32)))
	return l.add("Mul", l.fresh("bias"), []string{b, unit})
}

// lowerQGemm: A, scale, zero point; B, scale, zero point; C in units of both scales; scale and zero
// point of the result, without which it is float.
func lowerQGemm(l *lowering) bool {
	in, ok := l.ins(9, 6)
	if !ok {
		return false
	}
	a := l.dequantized("a", in[0], in[1], in[2])
	b := l.dequantizedAlong(1-l.Node.Int("transB", 0)&1, "b", in[3], in[4], in[5])
	c := l.integerBias(in[6], in[1], in[4])
	attributes := l.attributes("alpha", "transA", "transB")
	if alpha := l.Node.Attr("alpha"); alpha != nil { // alpha scales the bias too
		attributes = append(attributes, onnxpb.FloatAttribute("beta", alpha.GetF()))
	}
	y := l.out()
	if in[7] != "" {
		y = l.fresh("product")
	}
	l.add("Gemm", y, []string{a, b, c}, attributes...)
	if in[7] != "" {
		l.add("QuantizeLinear", l.out(), []string{y, in[7], in[8]})
	}
	return true
}

// lowerMatMulInteger: A, B and their zero points. The result has integer values; its type here is not an
// integer type, which makes no difference as a Cast follows.
func lowerMatMulInteger(l *lowering) bool {
	in, ok := l.ins(4, 2)
	if !ok {
		return false
	}
	one := l.one()
	a := l.dequantized("a", in[0], one, in[2])
	b := l.centred(in[1], in[3])
	l.add("MatMul", l.out(), []string{a, b})
	return true
}

// centred is q − zero, for zero points along the last axis or a single one.
func (l *lowering) centred(q, zero string) string {
	b := l.add("Cast", l.fresh("b_float"), []string{q}, onnxpb.IntAttribute("to", int64(tensor.Float32)))
	if zero == "" {
		return b
	}
	z := l.add("Cast", l.fresh("zero_float"), []string{zero}, onnxpb.IntAttribute("to", int64(tensor.Float32)))
	return l.add("Sub", l.fresh("b"), []string{b, z})
}

func lowerConvInteger(l *lowering) bool {
	in, ok := l.ins(4, 2)
	if !ok {
		return false
	}
	one := l.one()
	x := l.dequantized("x", in[0], one, in[2])
	w := l.dequantizedAlong(0, "w", in[1], one, in[3])
	l.add("Conv", l.out(), []string{x, w}, l.attributes(convAttributes...)...)
	return true
}

// lowerMatMulIntegerToFloat: A, B, their scales, their zero points, a bias.
func lowerMatMulIntegerToFloat(l *lowering) bool {
	in, ok := l.ins(7, 4)
	if !ok {
		return false
	}
	a := l.dequantized("a", in[0], in[2], in[4])
	l.scaledProduct(a, in[1], in[3], in[5], in[6])
	return true
}

// lowerDynamicQuantizeMatMul: A in float, which is quantised, B, its scale and zero point, a bias.
func lowerDynamicQuantizeMatMul(l *lowering) bool {
	in, ok := l.ins(5, 3)
	if !ok {
		return false
	}
	q, scale, zero := l.fresh("a_quantized"), l.fresh("a_scale"), l.fresh("a_zero")
	op, name := "DynamicQuantizeLinear", l.Node.Label()
	l.nodes = append(l.nodes, &onnxpb.Node{OpType: &op, Name: &name, Input: in[:1], Output: []string{q, scale, zero}})
	a := l.dequantized("a", q, scale, zero)
	l.scaledProduct(a, in[1], in[2], in[3], in[4])
	return true
}

// scaledProduct is a · ((b − zero) ⊙ scale) + bias, with scales and zero points per column or single.
func (l *lowering) scaledProduct(a, b, scale, zero, bias string) {
	w := l.add("Mul", l.fresh("w"), []string{l.centred(b, zero), scale})
	l.product(a, w, bias)
}

// product is a · w + bias, "" for none.
func (l *lowering) product(a, w, bias string) {
	if bias == "" {
		l.add("MatMul", l.out(), []string{a, w})
		return
	}
	l.add("Add", l.out(), []string{l.add("MatMul", l.fresh("product"), []string{a, w}), bias})
}

// lowerQLinearBinary: A, scale, zero point; B, scale, zero point; scale and zero point of the
// result.
func lowerQLinearBinary(op string) func(*lowering) bool {
	return func(l *lowering) bool {
		in, _ := l.ins(8, 0)
		if in[1] == "" || in[3] == "" || in[4] == "" || in[6] == "" {
			return false
		}
		a := l.dequantized("a", in[0], in[1], in[2])
		b := l.dequantized("b", in[3], in[4], in[5])
		y := l.add(op, l.fresh("result"), []string{a, b})
		l.add("QuantizeLinear", l.out(), []string{y, in[6], in[7]})
		return true
	}
}

// lowerQLinearUnary: X, scale, zero point; scale and zero point of the result.
func lowerQLinearUnary(op string) func(*lowering) bool {
	return func(l *lowering) bool {
		in, _ := l.ins(5, 0)
		if in[1] == "" || in[3] == "" || l.Node.Int("channels_last", 0) != 0 {
			return false
		}
		x := l.dequantized("x", in[0], in[1], in[2])
		y := l.add(op, l.fresh("result"), []string{x}, slices.DeleteFunc(slices.Clone(l.GetAttribute()),
			func(a *onnxpb.Attribute) bool {
				return a.GetName() == "channels_last" || a.GetName() == "opset" // of the quantised operators only
			})...)
		l.add("QuantizeLinear", l.out(), []string{y, in[3], in[4]})
		return true
	}
}

// lowerFused: an operator followed by the activation it names. FusedConv may add its input Z before that.
func lowerFused(op string) func(*lowering) bool {
	return func(l *lowering) bool {
		in, ok := l.ins(4, 2)
		if !ok {
			return false
		}
		activation := string(l.Node.Attr("activation").GetS())
		if activation != "" && activation != "Relu" && activation != "Sigmoid" && activation != "Tanh" {
			return false // other activations have parameters
		}
		y := l.out()
		if activation != "" || in[3] != "" {
			y = l.fresh("linear")
		}
		names := convAttributes
		if op == "Gemm" {
			names = []string{"alpha", "beta", "transA", "transB"}
		}
		l.add(op, y, []string{in[0], in[1], in[2]}, l.attributes(names...)...)
		if in[3] != "" {
			sum := l.out()
			if activation != "" {
				sum = l.fresh("sum")
			}
			y = l.add("Add", sum, []string{y, in[3]})
		}
		if activation != "" {
			l.add(activation, l.out(), []string{y})
		}
		return true
	}
}

// lowerMatMulNBits: A [.., K] times weights of few bits, in blocks along K with a scale and zero point
// each.
func lowerMatMulNBits(l *lowering) bool {
	in, ok := l.ins(6, 3)
	if !ok || in[4] != "" { // a group index permutes the blocks
		return false
	}
	w := l.add(unpackNBits, l.fresh("w"), []string{in[1], in[2], in[3]},
		l.attributes("K", "N", "bits", "block_size")...)
	l.product(in[0], w, in[5])
	return true
}

// lowerLinearClassifier: coefficients [K,d] and intercepts [K] as attributes; outputs are the label and the
// scores, which post_transform computes from the logits. Two classes may have one row: the logits are
// then −a and a.
func lowerLinearClassifier(l *lowering) bool {
	w := l.Node.Attr("coefficients").GetFloats()
	b := l.Node.Attr("intercepts").GetFloats()
	k := len(b)
	labels := len(l.Node.Attr("classlabels_ints").GetInts()) + len(l.Node.Attr("classlabels_strings").GetStrings())
	if len(l.GetOutput()) < 2 || l.GetOutput()[1] == "" || k == 0 || len(w) == 0 || len(w)%k != 0 {
		return false
	}
	label, scores := l.out(), l.GetOutput()[1]
	d := len(w) / k
	post := string(l.Node.Attr("post_transform").GetS())
	// The operator itself keeps the label.
	if label != "" {
		l.nodes = append(l.nodes, &onnxpb.Node{OpType: l.OpType, Domain: l.Domain, Name: l.Name, Input: l.GetInput(),
			Output: []string{label}, Attribute: l.GetAttribute()})
	}
	opposite := k == 2 && b[0] == -b[1]
	for i := 0; opposite && i < d; i++ {
		opposite = w[i] == -w[d+i]
	}
	if k == 2 && opposite && post == "LOGISTIC" {
		w, b, k = w[d:], b[1:], 1
	}
	pair := k == 1 && labels == 2
	if pair && (post == "" || post == "NONE" || post == "SOFTMAX") {
		post = "LOGISTIC" // ONNX Runtime outputs the scores 1 − a and a, and the second class if a > 0
	}
	logits := scores
	if post != "" && post != "NONE" {
		logits = l.fresh("logits")
	}
	l.gemm(l.Node.In(0), w, b, logits)
	switch {
	case post == "LOGISTIC" && pair:
		p := l.add("Sigmoid", l.fresh("probability"), []string{logits})
		q := l.add("Sub", l.fresh("other"), []string{l.one(), p})
		l.add("Concat", scores, []string{q, p}, onnxpb.IntAttribute("axis", 1))
	case post == "LOGISTIC":
		l.add("Sigmoid", scores, []string{logits})
	case post == "SOFTMAX":
		l.add("Softmax", scores, []string{logits}, onnxpb.IntAttribute("axis", 1))
	case logits == scores:
	default:
		return false
	}
	return true
}

// lowerArrayFeatureExtractor picks columns.
func lowerArrayFeatureExtractor(l *lowering) bool {
	in, ok := l.ins(2, 2)
	if !ok {
		return false
	}
	index := l.add("Reshape", l.fresh("index"), []string{in[1], l.ints("index_shape", []int64{-1})})
	l.add("Gather", l.out(), []string{in[0], index}, onnxpb.IntAttribute("axis", -1))
	return true
}

// lowerOneVsRest: columns 1 of the scores of several binary LinearClassifiers of the same features,
// side by side, as scikit-learn's OneVsRestClassifier gives them, are those of one layer. Of two classes there is only
// one.
func lowerOneVsRest(l *lowering) bool {
	var w, b []float32
	var x string
	if a := l.Node.Int("axis", 0); a != 1 && a != -1 {
		return false
	}
	seen := map[string]bool{}
	for _, name := range l.GetInput() {
		column := l.g.Producer[name]
		if column == nil || column.Op() != "Slice" {
			return false
		}
		c := l.g.Producer[column.In(0)]
		if c == nil || c.Op() != "ai.onnx.ml.LinearClassifier" || len(c.GetOutput()) < 2 ||
			c.GetOutput()[1] != column.In(0) || !l.slicesColumn1(column) {
			return false
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		rows, intercepts := c.Attr("coefficients").GetFloats(), c.Attr("intercepts").GetFloats()
		if string(c.Attr("post_transform").GetS()) != "LOGISTIC" || len(intercepts) != 2 || len(rows)%2 != 0 ||
			len(rows) == 0 {
			return false
		}
		if x == "" {
			x = c.In(0)
		}
		if c.In(0) != x || len(w)%(len(rows)/2) != 0 || len(w) > 0 && len(w)/len(b) != len(rows)/2 {
			return false
		}
		if *l.budget -= len(rows); *l.budget < 0 {
			return false
		}
		w, b = append(w, rows[len(rows)/2:]...), append(b, intercepts[1])
	}
	l.gemm(x, w, b, l.fresh("logits"))
	l.add("Sigmoid", l.out(), []string{l.last()})
	return true
}

// slicesColumn1 reports whether a Slice of rows of two takes the second.
func (l *lowering) slicesColumn1(n *onnxpb.Node) bool {
	is := func(i int, want int64) bool {
		t := l.g.Consts[n.In(i)]
		if t == nil {
			return false
		}
		got := t.GetInt64Data()
		if raw := t.GetRawData(); len(raw) == 8 {
			got = []int64{int64(binary.LittleEndian.Uint64(raw))}
		}
		return len(got) == 1 && got[0] == want
	}
	return is(1, 1) && is(2, 2) && is(3, 1) && n.In(4) == ""
}

// gemm appends the linear layer in a LinearClassifier's attributes.
func (l *lowering) gemm(x string, w, b []float32, out string) {
	k := int64(len(b))
	features := l.add("Cast", l.fresh("features"), []string{x}, onnxpb.IntAttribute("to", int64(tensor.Float32)))
	weights := l.floats("coefficients", w, k, int64(len(w))/k)
	l.add("Gemm", out, []string{features, weights, l.floats("intercepts", b, k)}, onnxpb.IntAttribute("transB", 1))
}

// last returns the output of the last node.
func (l *lowering) last() string { return l.nodes[len(l.nodes)-1].GetOutput()[0] }

// lowerEinsum lowers a product of two operands without common axes in the result to a MatMul. The weights
// are the operand that contributes a single axis to the result or, if both do, the last axis.
func lowerEinsum(l *lowering) bool {
	in, ok := l.ins(3, 2)
	equation := strings.ReplaceAll(string(l.Node.Attr("equation").GetS()), " ", "")
	operands, result, explicit := strings.Cut(equation, "->")
	a, b, two := strings.Cut(operands, ",")
	if !ok || in[2] != "" || !explicit || !two || len(equation) > 64 {
		return false
	}
	if strings.HasPrefix(a, "...") && strings.HasPrefix(result, "...") && !strings.Contains(b, ".") {
		return l.einsumOverRest(in, a[3:], b, result[3:])
	}
	for _, s := range []string{a, b, result} {
		if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || repeats(s) {
			return false
		}
	}
	if b == "" || a == "" || result == "" {
		return false
	}
	freeA, freeB := keepLetters(a, b, false), keepLetters(b, a, false)
	if len(freeB) != 1 || len(freeA) == 1 && strings.HasSuffix(result, freeA) {
		a, b, freeA, freeB = b, a, freeB, freeA
		in[0], in[1] = in[1], in[0]
	}
	contracted := keepLetters(b, a, true)
	if len(freeB) != 1 || contracted == "" || freeA == "" || len(result) != len(freeA)+1 ||
		keepLetters(result, freeA+freeB, true) != result {
		return false // a common axis is kept, or an axis of one operand is summed over
	}
	freeA = keepLetters(result, freeA, true) // in the order of the result
	x := l.transposed("a", in[0], a, freeA+contracted)
	w := l.transposed("b", in[1], b, contracted+freeB)
	if len(contracted) > 1 {
		shape := slices.Repeat([]int64{0}, len(freeA)+1)
		shape[len(freeA)] = -1
		x = l.add("Reshape", l.fresh("a_rows"), []string{x, l.ints("a_shape", shape)})
		w = l.add("Flatten", l.fresh("b_rows"), []string{w}, onnxpb.IntAttribute("axis", int64(len(contracted))))
	}
	if freeA+freeB == result {
		l.add("MatMul", l.out(), []string{x, w})
		return true
	}
	y := l.add("MatMul", l.fresh("product"), []string{x, w})
	l.add("Transpose", l.out(), []string{y}, permutation(freeA+freeB, result))
	return true
}

// einsumOverRest is …d,kd->…k or …d,dk->…k.
func (l *lowering) einsumOverRest(in []string, a, b, result string) bool {
	switch {
	case len(a) != 1 || len(b) != 2 || len(result) != 1 || a == result:
		return false
	case b == result+a:
		w := l.add("Transpose", l.fresh("b"), []string{in[1]}, onnxpb.IntsAttribute("perm", 1, 0))
		l.add("MatMul", l.out(), []string{in[0], w})
	case b == a+result:
		l.add("MatMul", l.out(), []string{in[0], in[1]})
	default:
		return false
	}
	return true
}

// transposed permutes the axes of a tensor, one letter each.
func (l *lowering) transposed(suffix, tensor, from, to string) string {
	if from == to {
		return tensor
	}
	return l.add("Transpose", l.fresh(suffix), []string{tensor}, permutation(from, to))
}

// permutation is the attribute of the Transpose from one order of axes to another.
func permutation(from, to string) *onnxpb.Attribute {
	perm := make([]int64, len(to))
	for i := range to {
		perm[i] = int64(strings.IndexByte(from, to[i]))
	}
	return onnxpb.IntsAttribute("perm", perm...)
}

// keepLetters returns the letters of s that are in set, or the others.
func keepLetters(s, set string, in bool) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(set, r) != in {
			return -1
		}
		return r
	}, s)
}

func repeats(s string) bool {
	for i := range s {
		if strings.IndexByte(s, s[i]) != i {
			return true
		}
	}
	return false
}

// ints adds a constant list.
func (l *lowering) ints(suffix string, list []int64) string {
	name := l.fresh(suffix)
	l.consts = append(l.consts, &onnxpb.Tensor{Name: &name, DataType: proto.Int32(int32(tensor.Int64)),
		Dims: []int64{int64(len(list))}, Int64Data: list})
	return name
}
