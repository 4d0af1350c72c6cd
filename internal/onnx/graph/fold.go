package graph

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// Operators of the view alone, which say what several of the file amount to.
const (
	BothClasses = "mfgs.BothClasses" // 1−p beside p
)

// foldings recognise what is written out in several operators, by the last of them, and put in its
// place the one operator that it amounts to. Unlike lowerings they see shapes and constants, and
// what has been folded before. One that returns false leaves the node alone.
var foldings map[string][]func(*folding) bool

func init() {
	loglinear := []func(*folding) bool{foldSoftmax}
	foldings = map[string][]func(*folding) bool{
		"Div":             {foldSigmoid, foldGuarded, foldTanh, foldSoftmax},
		"Reciprocal":      {foldSigmoid},
		"Pow":             {foldSigmoid, foldSquaredRoot, foldPower},
		"Mul":             {foldTanh, foldSoftmax, foldSquaredRoot},
		"Exp":             loglinear,
		"Sub":             loglinear,
		"Add":             {foldTanh, foldSoftmax},
		"Neg":             loglinear,
		"Log":             loglinear,
		"ReduceSum":       {foldDistance},
		"ReduceSumSquare": {foldDistance},
		"ReduceL2":        {foldDistance},
		"Concat":          {foldBothClasses},
		"LpNormalization": loglinear,
		"MatMul":          {foldOnes},
		"Pad":             {foldPad},
		"Max":             {foldUnchanged},
		"Min":             {foldUnchanged},
		"Gather":          {foldOnlyOne, foldChoice},
		"Slice":           {foldChoice},
		"Squeeze":         {foldChoice},
		"ArgMin":          {foldArgMin},

		"com.microsoft.CDist": {foldDistance},
	}
}

// A folding is one node of the view being folded.
type folding struct {
	*lowering
	old  *Graph // before folding, with all who read a tensor
	in   *Interpreter
	fuel *int // looks at nodes, in all
}

// spend reports whether one more node may be looked at.
func (f *folding) spend() bool {
	*f.fuel--
	return *f.fuel >= 0
}

// fold returns the model's view with all folded that can be: the view itself where there is
// nothing.
func (v *View) fold() *Graph {
	wanted := func(n *onnxpb.Node) bool {
		switch n.Op() {
		case "Exp", "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
			"com.microsoft.CDist", "ArgMin", "Tanh", "Pad", "Max", "Min":
			return true
		case "Concat":
			return slices.ContainsFunc(n.GetInput(), func(name string) bool {
				p := v.Producer[name]
				return p != nil && p.Op() != "Shape" && slices.Contains([]string{"Sub", "Add", "Unsqueeze", "Reshape"},
					p.Op())
			})
		case "Gather", "Slice", "Squeeze":
			p := v.Producer[n.In(0)]
			return p != nil && slices.Contains([]string{"Softmax", "LogSoftmax", "Sigmoid", "MatMul", "Gemm", "Add"},
				p.Op())
		}
		return false
	}
	if !slices.ContainsFunc(v.Order, wanted) {
		return v.Graph
	}
	names := v.Names()
	view := v.emptied()
	in := v.Interpreter(false)
	in.G = view
	in.declareAll(v.model)
	fuel := 100*len(v.Order) + 1<<12
	for _, n := range v.Order {
		f := &folding{lowering: &lowering{Node: n, g: view, names: names}, old: v.Graph, in: in, fuel: &fuel}
		folded := false
		if f.wellFormed() && !in.Functions[n.Op()] {
			for _, rule := range foldings[n.Op()] {
				f.nodes, f.consts = nil, nil
				if folded = rule(f); folded {
					break
				}
			}
		}
		if !folded {
			f.nodes, f.consts = []*onnxpb.Node{n}, nil
		}
		view.extend(v.Graph, n, f.nodes, f.consts)
		for _, p := range f.nodes {
			in.run(p)
		}
	}
	return view
}

// reduce appends a reduction of one axis, in the form of the operator set.
func (f *folding) reduce(op, out, x string, axis int64, keep bool) string {
	kept := onnxpb.IntAttribute("keepdims", 0)
	if keep {
		kept = onnxpb.IntAttribute("keepdims", 1)
	}
	if f.g.Opset >= 18 || op == "ReduceSum" && f.g.Opset >= 13 {
		return f.add(op, out, []string{x, f.ints("axis", []int64{axis})}, kept)
	}
	return f.add(op, out, []string{x}, kept, onnxpb.IntsAttribute("axes", axis))
}

// change appends a Squeeze or Unsqueeze of one axis, likewise.
func (f *folding) change(op, out, x string, axis int64) string {
	if f.g.Opset >= 13 {
		return f.add(op, out, []string{x, f.ints("axis", []int64{axis})})
	}
	return f.add(op, out, []string{x}, onnxpb.IntsAttribute("axes", axis))
}

// get returns what is known of a tensor.
func (f *folding) get(name string) *Value { return f.in.Get(name) }

// plain returns the node that makes a tensor, nil if that is a function of the model's own.
func (f *folding) plain(name string) *onnxpb.Node { return f.in.Producer(name) }

// made returns the node that makes a tensor, past those that only reshape, if it is the given
// operator.
func (f *folding) made(name, op string) *onnxpb.Node {
	const far = 4
	for range far {
		n := f.plain(name)
		switch {
		case n == nil:
			return nil
		case n.Op() == op:
			return n
		case !isReshape(n) && !f.passes(n):
			return nil
		}
		name = n.In(0)
	}
	return nil
}

// isReshape reports whether a node gives the numbers of its input in another shape, some of them
// several times.
func isReshape(n *onnxpb.Node) bool {
	switch n.Op() {
	case "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile":
		return true
	}
	return false
}

// repeatsNumbers reports whether a node gives numbers of its input several times.
func repeatsNumbers(n *onnxpb.Node) bool {
	return n.Op() == "Expand" || n.Op() == "Tile"
}

// passes reports whether a node gives its first input as it is, but for rounding: a maximum with
// −∞, for instance.
func (f *folding) passes(n *onnxpb.Node) bool {
	switch n.Op() {
	case "Identity":
		return true
	case "Cast":
		return f.get(n.GetOutput()[0]).Type.IsFloat()
	case "Dropout":
		return !f.in.Drops(n)
	case "Slice":
		return f.slicesAll(n)
	case "Max", "Min":
		none := math.Inf(1)
		if n.Op() == "Max" {
			none = math.Inf(-1)
		}
		return len(n.GetInput()) == 1 || len(n.GetInput()) == 2 && f.far(n.In(1), none)
	case "Clip":
		lo, hi, known := f.in.Call(n).ClipBounds()
		return known && lo <= -math.MaxFloat32 && hi >= math.MaxFloat32
	}
	return false
}

// slicesAll reports whether a Slice takes all there is.
func (f *folding) slicesAll(n *onnxpb.Node) bool {
	c := f.in.Call(n)
	starts, ok1 := c.List("starts", 1)
	ends, ok2 := c.List("ends", 2)
	steps, ok3 := c.List("steps", 4)
	return ok1 && ok2 && ok3 && len(starts) > 0 && !slices.ContainsFunc(starts, func(x int64) bool { return x != 0 }) &&
		!slices.ContainsFunc(ends, func(x int64) bool { return x < 1e9 }) &&
		!slices.ContainsFunc(steps, func(x int64) bool { return x != 1 })
}

// far reports whether a tensor is the constant ±∞, or what float32 has nearest to it.
func (f *folding) far(name string, limit float64) bool {
	x, ok := f.in.Scalar(name)
	return ok && (x == limit || math.Abs(x) >= math.MaxFloat32 && math.Signbit(x) == math.Signbit(limit))
}

// With returns the other input of a node of two of which one is as wanted, the first where both
// are.
func With(n *onnxpb.Node, wanted func(string) bool) (other string, ok bool) {
	if len(n.GetInput()) != 2 {
		return "", false
	}
	for i := 1; i >= 0; i-- {
		if wanted(n.In(i)) {
			return n.In(1 - i), true
		}
	}
	return "", false
}

// foldSigmoid: 1/(1 + exp(−x)).
func foldSigmoid(f *folding) bool {
	sum := f.Node.In(0)
	switch f.GetOpType() {
	case "Div":
		if !f.in.Is(sum, 1) {
			return false
		}
		sum = f.Node.In(1)
	case "Pow":
		if !f.in.Is(f.Node.In(1), -1) {
			return false
		}
	}
	add := f.made(sum, "Add")
	if add == nil {
		return false
	}
	of, ok := With(add, func(name string) bool { return f.in.Is(name, 1) })
	if !ok {
		return false
	}
	e := f.made(of, "Exp")
	if e == nil {
		return false
	}
	x := ""
	if neg := f.made(e.In(0), "Neg"); neg != nil {
		x = neg.In(0)
	} else if mul := f.made(e.In(0), "Mul"); mul != nil {
		x, _ = With(mul, func(name string) bool { return f.in.Is(name, -1) })
	}
	if x == "" || f.get(x).Constant {
		return false
	}
	f.add("Sigmoid", f.out(), []string{x})
	return true
}

// foldGuarded: (p + g) / (Σp + g·K), where g is 1 where the sum is 0 and else 0.
func foldGuarded(f *folding) bool {
	above, below := f.made(f.Node.In(0), "Add"), f.made(f.Node.In(1), "Add")
	if above == nil || below == nil {
		return false
	}
	p := above.In(0)
	sum, spread, not := f.made(below.In(0), "ReduceSum"), f.made(below.In(1), "Mul"), f.made(above.In(1), "Not")
	if sum == nil || spread == nil || not == nil || f.made(spread.In(0), "Not") != not ||
		!f.get(spread.In(1)).Constant ||
		sum.In(0) != p {
		return false
	}
	some := f.plain(not.In(0)) // the sum as a truth value
	if some == nil || some.Op() != "Cast" || f.made(some.In(0), "ReduceSum") != sum {
		return false
	}
	axis, ok := f.in.ReducedAxis(sum)
	if ok {
		f.add("LpNormalization", f.out(), []string{p}, onnxpb.IntAttribute("axis", axis), onnxpb.IntAttribute("p", 1))
	}
	return ok
}

// foldArgMin: the smallest of x is the largest of −x.
func foldArgMin(f *folding) bool {
	if f.get(f.Node.In(0)).Constant {
		return false
	}
	negated := f.add("Neg", f.fresh("negated"), []string{f.Node.In(0)})
	f.add("ArgMax", f.out(), []string{negated}, f.GetAttribute()...)
	return true
}

// foldBothClasses: p beside 1−p, in either order. Where the probability of the single logit z comes
// first it is that of the first class, and that of the second is the Sigmoid of −z.
func foldBothClasses(f *folding) bool {
	if len(f.GetInput()) != 2 {
		return false
	}
	axis := f.Node.Attr("axis")
	for i := range 2 {
		q, p := f.Node.In(i), f.Node.In(1-i)
		if !f.complements(q, p) {
			continue
		}
		if i == 0 {
			f.add(BothClasses, f.out(), []string{p}, axis)
			return true
		}
		chain := []*onnxpb.Node{} // from p back to the Sigmoid
		for {
			n := f.plain(p)
			if n == nil || !f.spend() {
				return false
			}
			chain = append(chain, n)
			if n.Op() == "Sigmoid" {
				break
			}
			if !isReshape(n) && !f.passes(n) {
				return false
			}
			p = n.In(0)
		}
		p = f.add("Neg", f.fresh("negated"), []string{chain[len(chain)-1].In(0)})
		for _, n := range slices.Backward(chain) {
			p = f.add(n.GetOpType(), f.fresh("other"), append([]string{p}, n.GetInput()[1:]...), n.GetAttribute()...)
		}
		f.add(BothClasses, f.out(), []string{p}, axis)
		return true
	}
	return false
}

// complements reports whether a is 1 − b.
func (f *folding) complements(a, b string) bool {
	b = f.root(b)
	x, scale, shift := f.affine(a, b)
	return x == b && scale == -1 && shift == 1
}

// affine returns the tensor x of which another is scale·x + shift, going no further than a given
// one.
func (f *folding) affine(name, until string) (x string, scale, shift float64) {
	scale = 1
	for f.spend() {
		n := f.plain(name)
		if name == f.out() {
			n = f.Node
		}
		if n == nil || name == until {
			break
		}
		if isReshape(n) || f.passes(n) {
			name = n.In(0)
			continue
		}
		c, left := 0.0, false // the constant, and whether it stands on the left
		if n.Op() != "Neg" {
			var ok bool
			if c, ok = f.uniform(n.In(1)); !ok {
				c, ok = f.uniform(n.In(0))
				left = true
			}
			if !ok || len(n.GetInput()) != 2 {
				break
			}
		}
		switch op := n.Op(); {
		case op == "Neg":
			scale = -scale
		case op == "Add":
			shift += scale * c
		case op == "Sub" && left:
			shift += scale * c
			scale = -scale
		case op == "Sub":
			shift -= scale * c
		case op == "Mul":
			scale *= c
		case op == "Div" && !left:
			scale /= c
		default:
			return name, scale, shift
		}
		name = n.In(0)
		if left {
			name = n.In(1)
		}
	}
	return name, scale, shift
}

// uniform returns the number that all of a constant is.
func (f *folding) uniform(name string) (float64, bool) {
	v := f.get(name)
	if name == "" || !v.Constant || len(v.Data) == 0 || slices.Min(v.Data) != slices.Max(v.Data) {
		return 0, false
	}
	return v.Data[0], true
}

// foldTanh: ½ + ½ tanh(z/2) is the sigmoid of z.
func foldTanh(f *folding) bool {
	x, scale, shift := f.affine(f.out(), "")
	n := f.plain(x)
	for _, reader := range f.old.Consumers[f.out()] {
		if reader.Op() == "Mul" { // part of an activation
			return false
		}
	}
	if n == nil || n.Op() != "Tanh" || !Alike(scale, 0.5) || !Alike(shift, 0.5) {
		return false
	}
	z, half, zero := f.affine(n.In(0), "")
	if half != 0.5 || zero != 0 || f.get(z).Constant || len(f.get(z).Dims) != len(f.get(n.In(0)).Dims) {
		z = f.add("Mul", f.fresh("doubled"), []string{n.In(0), f.floats("two", []float32{2})})
	}
	f.add("Sigmoid", f.out(), []string{z})
	return true
}

// foldPower: cˣ, for constant c, is exp(x·log c).
func foldPower(f *folding) bool {
	c, ok := f.in.Scalar(f.Node.In(0))
	if !ok || !(c > 0) || c == 1 || f.get(f.Node.In(1)).Constant {
		return false
	}
	x := f.Node.In(1)
	if !(math.Abs(math.Log(c)-1) <= 1e-6) {
		x = f.add("Mul", f.fresh("exponent"), []string{x, f.floats("log", []float32{float32(math.Log(c))})})
	}
	f.add("Exp", f.out(), []string{x})
	return true
}

// foldOnes: a product of exponentials with a matrix of ones is their sum.
func foldOnes(f *folding) bool {
	x, w := f.Node.In(0), f.Node.In(1)
	v := f.get(w)
	if one, ok := f.uniform(w); !ok || one != 1 || len(v.Dims) != 2 || f.made(x, "Exp") == nil {
		return false
	}
	if v.Dims[1] == 1 {
		f.reduce("ReduceSum", f.out(), x, -1, true)
		return true
	}
	sum := f.reduce("ReduceSum", f.fresh("sum"), x, -1, true)
	f.add("Expand", f.out(), []string{sum, f.ints("width", []int64{1, v.Dims[1]})})
	return true
}

// foldOnlyOne: to choose the only one there is along an axis is to drop the axis.
func foldOnlyOne(f *folding) bool {
	v, i := f.get(f.Node.In(0)), f.get(f.Node.In(1))
	a, ok := Axis(f.Node.Int("axis", 0), len(v.Dims))
	if !ok || v.Dims[a] != 1 || v.Constant || len(i.Data) != 1 || len(i.Dims) != 0 || i.Data[0] != 0 &&
		i.Data[0] != -1 {
		return false
	}
	f.change("Squeeze", f.out(), f.Node.In(0), int64(a))
	return true
}

// foldPad: a column of zeros in front of the last axis or behind it is one more part of a Concat.
func foldPad(f *folding) bool {
	x := f.Node.In(0)
	rank := len(f.get(x).Dims)
	pads, ok := f.in.Call(f.Node).List("pads", 1)
	mode := string(f.Node.Attr("mode").GetS())
	if !ok || rank < 2 || len(pads) != 2*rank || mode != "" && mode != "constant" || f.Node.Float("value", 0) != 0 ||
		f.Node.In(3) != "" {
		return false
	}
	if v := f.Node.In(2); v != "" && !f.in.Is(v, 0) {
		return false
	}
	for i, p := range pads {
		if i%rank != rank-1 && p != 0 {
			return false
		}
	}
	before, after := pads[rank-1], pads[2*rank-1]
	if before+after != 1 || before < 0 || after < 0 {
		return false
	}
	sum := f.reduce("ReduceSum", f.fresh("column"), x, -1, true)
	parts := []string{x, f.add("Mul", f.fresh("zeros"), []string{sum, f.floats("zero", []float32{0})})}
	if before == 1 {
		slices.Reverse(parts)
	}
	f.add("Concat", f.out(), parts, onnxpb.IntAttribute("axis", int64(rank-1)))
	return true
}

// foldUnchanged: what gives its input as it is.
func foldUnchanged(f *folding) bool {
	if !f.passes(f.Node) || f.get(f.Node.In(0)).Constant {
		return false
	}
	f.add("Identity", f.out(), f.GetInput()[:1])
	return true
}

// root returns the tensor that name is a reshaped form of.
func (f *folding) root(name string) string {
	const far = 16
	for range far {
		n := f.plain(name)
		if n == nil || !isReshape(n) && !f.passes(n) {
			break
		}
		name = n.In(0)
	}
	return name
}

// foldChoice: to choose a token of probabilities is to make probabilities of the token chosen. It
// goes before the function.
func foldChoice(f *folding) bool {
	p := f.plain(f.Node.In(0))
	if p == nil || !slices.Contains([]string{"Softmax", "LogSoftmax", "Sigmoid"}, p.Op()) || f.get(p.In(0)).Constant {
		return false
	}
	before, after := f.get(p.In(0)), f.get(f.out())
	// otherwise only a change of shape
	if f.GetOpType() == "Squeeze" && (len(before.Dims) != 3 || before.Dims[0] != 1) {
		return false
	}
	if p.Op() != "Sigmoid" {
		rank := len(before.Dims)
		c := f.in.Call(f.Node)
		if v := c.Result(); v.Dims != nil {
			after = v
		}
		// Only along the last axis, which stays the last, whatever is chosen in front of it.
		a := p.Int("axis", -1)
		if f.g.Opset < 13 {
			a = p.Int("axis", 1)
		}
		if i, ok := Axis(a, max(rank, 1)); rank < 2 && a != -1 || rank >= 2 && (!ok || i != rank-1) {
			return false
		}
		var along []int64
		switch f.GetOpType() {
		case "Gather":
			along = []int64{f.Node.Int("axis", 0)}
		case "Slice":
			var ok bool
			if along, ok = c.SliceAxes(); !ok {
				return false
			}
		case "Squeeze":
			if along, _ = c.List("axes", 1); !slices.Equal(along, []int64{0}) {
				return false
			}
		}
		for _, a := range along {
			if i, ok := Axis(a, max(rank, 1)); rank == 0 || !ok || i == rank-1 {
				return false
			}
		}
	}
	chosen := f.add(f.GetOpType(), f.fresh("chosen"), append([]string{p.In(0)}, f.GetInput()[1:]...),
		f.GetAttribute()...)
	last := onnxpb.IntAttribute("axis", -1)
	if f.g.Opset < 13 && len(after.Dims) > 0 {
		last = onnxpb.IntAttribute("axis", int64(len(after.Dims)-1))
	}
	if p.Op() == "Sigmoid" {
		last = nil
	}
	f.add(p.GetOpType(), f.out(), []string{chosen}, last)
	return true
}

// foldDistance: Σⱼ(φⱼ − c_kj)², for constant c, is −2c_k·φ + |c_k|² and |φ|², which is the same for
// all k; and the root of that.
func foldDistance(f *folding) bool {
	rows, weights, root, ok := f.cdist()
	keep, axis := false, int64(0)
	if !ok {
		var diff string
		if diff, axis, keep, ok = f.squares(); !ok {
			return false
		}
		if rows, weights, ok = f.differences(diff, &axis); !ok {
			return false
		}
		root = f.Node.Op() == "ReduceL2"
	}
	square := f.reduce("ReduceSumSquare", f.fresh("squares"), weights, 1, false)
	z := f.add("Gemm", f.fresh("logits"), []string{rows, weights, square}, onnxpb.FloatAttribute("alpha", -2),
		onnxpb.IntAttribute("transB", 1))
	common := f.reduce("ReduceSumSquare", f.fresh("common"), rows, 1, true)
	last := f.add("Add", f.fresh("squared"), []string{z, common})
	if keep {
		last = f.change("Unsqueeze", f.fresh("kept"), last, axis)
	}
	if root {
		f.add("Sqrt", f.fresh("root"), []string{last})
	}
	f.nodes[len(f.nodes)-1].Output = []string{f.out()}
	return true
}

// foldSquaredRoot: (√x)².
func foldSquaredRoot(f *folding) bool {
	x, power := f.power(f.Node)
	root := f.plain(x)
	for root != nil && f.passes(root) && f.spend() {
		root = f.plain(root.In(0))
	}
	if root == nil || power != 2 {
		return false
	}
	half := 0.5
	if root.Op() == "Pow" {
		_, half = f.power(root)
	}
	// PyTorch's cdist has the root 1/(2 + 10⁻⁶)
	if root.Op() != "Sqrt" && root.Op() != "Pow" || !(math.Abs(2*half-1) <= 1e-6) {
		return false
	}
	f.add("Identity", f.out(), []string{root.In(0)})
	return true
}

// cdist recognises distances by one operator: of rows [N,d] from constant ones [K,d].
func (f *folding) cdist() (rows, center string, root, ok bool) {
	if f.Node.Op() != "com.microsoft.CDist" {
		return "", "", false, false
	}
	metric := string(f.Node.Attr("metric").GetS())
	a, b := f.get(f.Node.In(0)), f.get(f.Node.In(1))
	return f.Node.In(0), f.Node.In(1), metric == "euclidean",
		slices.Contains([]string{"", "euclidean", "sqeuclidean"}, metric) && !a.Constant && b.Constant &&
			len(b.Dims) == 2
}

// differences takes the differences of all rows [N,d] from constant ones apart: in shapes [N,1,d]
// and [K,d], or [N,d,1] and [d,K]. The constant ones are made [K,d], and axis, that of d, is
// counted from the start.
func (f *folding) differences(diff string, axis *int64) (rows, weights string, ok bool) {
	phi, center, sign, offset, ok := f.difference(diff)
	if !ok {
		return "", "", false
	}
	c := f.get(center)
	if *axis < 0 {
		*axis += 3
	}
	along := 3 - *axis // the axis of the classes
	pad := 3 - len(c.Dims)
	phi = f.narrow(phi, along)
	for n := f.plain(phi); n != nil && f.passes(n) && f.spend(); n = f.plain(phi) {
		phi = n.In(0)
	}
	p := f.get(phi)
	if len(p.Dims) != 3 || *axis < 1 || *axis > 2 || pad < 0 || pad > 1 || pad == 0 && c.Dims[0] != 1 {
		return "", "", false
	}
	k, width := c.Dims[along-int64(pad)], c.Dims[*axis-int64(pad)]
	if p.Dims[along] != 1 || p.Dims[*axis] != width || k < 1 {
		return "", "", false
	}
	if u := f.plain(phi); u != nil && isReshape(u) && !repeatsNumbers(u) {
		if from := f.get(u.In(0)); len(from.Dims) == 2 && from.Dims[1] == width {
			rows = u.In(0)
		}
	}
	if rows == "" {
		rows = f.change("Squeeze", f.fresh("features"), phi, along)
	}
	shape := []int64{k, width}
	if *axis == 1 {
		shape = []int64{width, k}
	}
	weights = f.add("Reshape", f.fresh("prototypes"), []string{center, f.ints("shape", shape)})
	if *axis == 1 {
		weights = f.add("Transpose", f.fresh("prototypes"), []string{weights}, onnxpb.IntsAttribute("perm", 1, 0))
	}
	if offset != 0 { // ±(φ − c) + offset is ±(φ − (c ∓ offset))
		weights = f.add("Sub", f.fresh("prototypes"),
			[]string{weights, f.floats("offset", []float32{float32(sign * offset)})})
	}
	return rows, weights, true
}

// squares recognises a sum of squares, or its root: of what, along which axis, and whether that is
// kept.
func (f *folding) squares() (of string, axis int64, keep, ok bool) {
	axis, ok = f.in.ReducedAxis(f.Node)
	of, keep = f.Node.In(0), f.Node.Int("keepdims", 1) != 0
	if f.Node.Op() == "ReduceSum" {
		p := f.plain(of)
		if p == nil {
			return "", 0, false, false
		}
		x, power := f.power(p)
		if power != 2 {
			return "", 0, false, false
		}
		of = x
	}
	if a := f.plain(of); a != nil && a.Op() == "Abs" {
		of = a.In(0)
	}
	return of, axis, keep, ok
}

// power takes xᵖ apart; p is 0 for what is none.
func (f *folding) power(n *onnxpb.Node) (x string, p float64) {
	switch n.Op() {
	case "Pow":
		if p, ok := f.in.Scalar(n.In(1)); ok {
			return n.In(0), p
		}
	case "Mul":
		if n.In(0) == n.In(1) {
			return n.In(0), 2
		}
	}
	return "", 0
}

// difference takes ±(φ − c) + offset apart, where c is constant but for being spread out over the
// examples.
func (f *folding) difference(name string) (phi, c string, sign, offset float64, ok bool) {
	n := f.plain(name)
	const far = 3
	for range far {
		if n == nil {
			return "", "", 0, 0, false
		}
		if n.Op() != "Add" && n.Op() != "Sub" {
			break
		}
		if x, ok := f.in.Scalar(n.In(1)); ok {
			if n.Op() == "Sub" {
				x = -x
			}
			offset += x
			n = f.plain(n.In(0))
			continue
		}
		break
	}
	if n == nil || n.Op() != "Sub" {
		return "", "", 0, 0, false
	}
	a, b := n.In(0), n.In(1)
	ca, cb := f.spread(a), f.spread(b)
	switch {
	case ca == "" && cb != "":
		return a, cb, 1, offset, true
	case cb == "" && ca != "":
		return b, ca, -1, offset, true
	}
	return "", "", 0, 0, false
}

// spread returns the constant that a tensor is, spread out or not; "" if it is none.
func (f *folding) spread(name string) string {
	for f.spend() {
		if f.get(name).Constant {
			return name
		}
		n := f.plain(name)
		if n == nil || !repeatsNumbers(n) {
			return ""
		}
		name = n.In(0)
	}
	return ""
}

// narrow returns what a tensor is spread out from, if that has length 1 along an axis.
func (f *folding) narrow(name string, axis int64) string {
	for f.spend() {
		n := f.plain(name)
		if n == nil || !repeatsNumbers(n) || len(f.get(n.In(0)).Dims) != len(f.get(name).Dims) {
			return name
		}
		name = n.In(0)
	}
	return name
}

// ReducedAxis returns the one axis that a reduction runs over.
func (in *Interpreter) ReducedAxis(n *onnxpb.Node) (int64, bool) {
	list, ok := in.Call(n).List("axes", 1)
	if !ok || len(list) != 1 {
		return 0, false
	}
	return list[0], true
}

// A form is a sum of numbers that are not known, each times a factor, and a constant.
type form struct {
	of   map[atom]float64
	plus float64
}

// An atom is a tensor x, log x, or log Σ exp x or log Σ x along an axis.
type atom struct {
	name  string
	log   bool // log x in the place of x
	sum   bool // summed over
	whole bool // the same for all classes
}

func (f *form) add(g *form, times float64) *form {
	if f == nil || g == nil {
		return nil
	}
	sum := &form{of: map[atom]float64{}, plus: f.plus + times*g.plus}
	for a, x := range f.of {
		sum.of[a] = x
	}
	for a, x := range g.of {
		if sum.of[a] += times * x; sum.of[a] == 0 {
			delete(sum.of, a)
		}
	}
	return sum
}

// parts splits a form into the one atom that differs between classes, and what is the same for all;
// ok is false if there are several or it has another factor than 1.
func (f *form) parts() (base atom, rest *form, ok bool) {
	rest = &form{of: map[atom]float64{}, plus: f.plus}
	found := 0
	for a, x := range f.of {
		if a.whole {
			rest.of[a] = x
			continue
		}
		base = a
		found++
		ok = x == 1
	}
	return base, rest, ok && found == 1
}

// An exponent works out forms along one axis, that of the classes.
type exponent struct {
	*folding
	axis int64 // counted from the end where that is known
}

// foldSoftmax: whatever equals exp(x)/Σexp(x), its logarithm, that with the other sign, or p/Σp.
// Sums and differences of logarithms are followed as such, so that it does not matter what is
// subtracted from x first, as long as that is the same for all classes, or in what way the quotient
// is formed.
func foldSoftmax(f *folding) bool {
	var sums []*onnxpb.Node
	f.reductions(f.Node, 12, &sums)
	return slices.ContainsFunc(sums, f.softmaxBy)
}

// softmaxBy is foldSoftmax for what is normalised by a given sum.
func (f *folding) softmaxBy(sum *onnxpb.Node) bool {
	axis, ok := f.in.ReducedAxis(sum)
	if sum.Op() == "LpNormalization" {
		axis, ok = sum.Int("axis", -1), sum == f.Node && sum.Int("p", 2) == 1
	}
	if !ok || axis == 0 {
		return false
	}
	e := &exponent{folding: f, axis: axis}
	if rank := len(f.get(sum.In(0)).Dims); rank > 0 && axis > 0 {
		e.axis -= int64(rank) // from the end, which is the same however many axes of length 1 stand in front
	}
	out := f.out()
	for _, as := range []struct {
		op    string
		value *form
	}{{"Softmax", e.log(out, f.Node, false)}, {"LogSoftmax", e.linear(out, f.Node, false)}} {
		if as.value == nil {
			continue
		}
		negated := false
		base, rest, ok := as.value.parts()
		if !ok && as.op == "LogSoftmax" {
			negated = true
			base, rest, ok = (&form{of: map[atom]float64{}}).add(as.value, -1).parts()
		}
		whole := base
		whole.sum, whole.whole = true, true
		if !ok || len(rest.of) != 1 || rest.of[whole] != -1 || !(math.Abs(rest.plus) <= 1e-6) {
			continue
		}
		switch {
		case base.log && f.Node.Op() == "LpNormalization":
			continue
		case base.log && as.op == "Softmax":
			f.add("LpNormalization", out, []string{base.name}, onnxpb.IntAttribute("axis", axis),
				onnxpb.IntAttribute("p", 1))
		case base.log:
			continue
		case negated:
			logs := f.add(as.op, f.fresh("log_softmax"), []string{base.name}, onnxpb.IntAttribute("axis", axis))
			f.add("Neg", out, []string{logs})
		default:
			f.add(as.op, out, []string{base.name}, onnxpb.IntAttribute("axis", axis))
		}
		return true
	}
	return false
}

// reductions collects the sums that a node depends on, past what is elementwise or changes shapes.
func (f *folding) reductions(n *onnxpb.Node, depth int, sums *[]*onnxpb.Node) {
	const most = 4
	if n == nil || depth == 0 || !f.spend() || len(*sums) == most || slices.Contains(*sums, n) {
		return
	}
	switch n.Op() {
	case "ReduceSum", "ReduceL1", "ReduceLogSumExp", "ReduceLogSum", "LpNormalization":
		*sums = append(*sums, n)
		return
	case "Div", "Mul", "Sub", "Add", "Reciprocal", "Pow", "Log", "Exp", "Neg":
	default:
		if !isReshape(n) && !f.passes(n) && n.Op() != "Max" && n.Op() != "Clip" {
			return
		}
	}
	for i := range min(2, len(n.GetInput())) {
		if i > 0 && isReshape(n) || f.get(n.In(i)).Constant {
			continue
		}
		f.reductions(f.plain(n.In(i)), depth-1, sums)
	}
}

func single(a atom) *form { return &form{of: map[atom]float64{a: 1}} }

// linear returns a tensor's numbers as a form; n is the node that makes it, and whole says that it
// is known to be the same for all classes.
func (e *exponent) linear(name string, n *onnxpb.Node, whole bool) *form {
	whole = whole || e.common(name)
	self := single(atom{name: e.named(name, whole), whole: whole})
	if x, ok := e.in.Scalar(name); ok {
		return &form{plus: x}
	}
	if n == nil || !e.spend() {
		return self
	}
	a, b := n.In(0), n.In(1)
	switch n.Op() {
	case "Add", "Sub":
		if len(n.GetInput()) != 2 || a == b {
			return self
		}
		sign := 1.0
		if n.Op() == "Sub" {
			sign = -1
		}
		if !whole && !e.common(a) && !e.common(b) || e.get(a).Constant && !e.in.Is(a, 0) || e.get(b).Constant &&
			!e.in.Is(b, 0) {
			return self
		}
		return e.linear(a, e.plain(a), whole).add(e.linear(b, e.plain(b), whole), sign)
	case "Neg":
		return e.negative(a, whole, self)
	case "Mul", "Div":
		if len(n.GetInput()) == 2 && e.in.Is(b, -1) {
			return e.negative(a, whole, self)
		}
		if n.Op() == "Mul" && len(n.GetInput()) == 2 && e.in.Is(a, -1) {
			return e.negative(b, whole, self)
		}
	case "Log":
		return e.log(a, e.plain(a), whole)
	case "ReduceLogSumExp", "ReduceLogSum":
		if f := e.summed(n, n.Op() == "ReduceLogSumExp"); f != nil {
			return f
		}
	}
	if e.passes(n) || whole && isReshape(n) {
		return e.linear(a, e.plain(a), whole)
	}
	return self
}

// negative is the form of −x. Logits with the other sign are logits, and left as they are.
func (e *exponent) negative(x string, whole bool, self *form) *form {
	f := (&form{}).add(e.linear(x, e.plain(x), whole), -1)
	for a := range f.of {
		if a.whole {
			return f
		}
	}
	return self
}

// log returns the logarithms of a tensor's numbers as a form.
func (e *exponent) log(name string, n *onnxpb.Node, whole bool) *form {
	whole = whole || e.common(name)
	self := single(atom{name: e.named(name, whole), log: true, whole: whole})
	if x, ok := e.in.Scalar(name); ok && x > 0 {
		return &form{plus: math.Log(x)}
	}
	if n == nil || !e.spend() {
		return self
	}
	a, b := n.In(0), n.In(1)
	const small = 1e-6 // beside a sum in which something is 1, or against a division by 0
	switch n.Op() {
	case "Exp":
		return e.linear(a, e.plain(a), whole)
	case "Mul", "Div":
		if len(n.GetInput()) != 2 || !whole && !e.common(a) && !e.common(b) {
			return self
		}
		sign := 1.0
		if n.Op() == "Div" {
			sign = -1
		}
		return e.log(a, e.plain(a), whole).add(e.log(b, e.plain(b), whole), sign)
	case "LpNormalization": // of positive numbers, which is only asked where the node folded is one
		sum := e.total(a, false)
		if n == e.Node && sum != nil {
			return e.log(a, e.plain(a), whole).add(sum, -1)
		}
	case "Reciprocal":
		return (&form{}).add(e.log(a, e.plain(a), whole), -1)
	case "Pow":
		if e.in.Is(b, -1) {
			return (&form{}).add(e.log(a, e.plain(a), whole), -1)
		}
	case "ReduceSum", "ReduceL1": // of positive numbers
		if f := e.summed(n, false); f != nil {
			return f
		}
	case "Max", "Add":
		if x, ok := e.in.Scalar(b); ok && whole && len(n.GetInput()) == 2 && x >= 0 && x <= small {
			return e.log(a, e.plain(a), whole)
		}
	case "Clip":
		if lo, hi, known := e.in.Call(n).ClipBounds(); whole && known && lo <= small && hi >= math.MaxFloat32 {
			return e.log(a, e.plain(a), whole)
		}
	}
	if e.passes(n) || whole && isReshape(n) {
		return e.log(a, e.plain(a), whole)
	}
	return self
}

// named is the name by which a tensor is known in a form: for what is the same for all classes its
// shape does not matter.
func (e *exponent) named(name string, whole bool) string {
	if whole {
		return e.root(name)
	}
	return name
}

// summed is the form of log Σ exp x or log Σ x.
func (e *exponent) summed(n *onnxpb.Node, exp bool) *form {
	axis, ok := e.in.ReducedAxis(n)
	if rank := len(e.get(n.In(0)).Dims); ok && rank > 0 && axis >= 0 {
		axis -= int64(rank)
	}
	if !ok || axis != e.axis {
		return nil
	}
	return e.total(n.In(0), exp)
}

// total is the form of log Σ exp x or log Σ x.
func (e *exponent) total(x string, exp bool) *form {
	var inner *form
	if exp {
		inner = e.linear(x, e.plain(x), false)
	} else {
		inner = e.log(x, e.plain(x), false)
	}
	base, rest, ok := inner.parts()
	if !ok {
		base, rest = atom{name: x, log: !exp}, &form{}
	}
	base.sum, base.whole = true, true
	return rest.add(single(base), 1)
}

// common reports whether a tensor is known to hold the same number for all classes.
func (e *exponent) common(name string) bool { return e.in.Common(name, e.axis, e.fuel) }

// Common reports whether a tensor is known not to vary along an axis, which is counted from the end
// if that is known.
func (in *Interpreter) Common(name string, axis int64, fuel *int) bool {
	v := in.Get(name)
	if len(v.Dims) > 0 && axis < 0 {
		at := axis + int64(len(v.Dims))
		if at < 0 || v.Dims[at] == 1 {
			return true
		}
	}
	if v.Dims != nil && (len(v.Dims) == 0 || axis >= 0 && int64(len(v.Dims)) == axis+1 && v.Dims[axis] == 1) {
		return true
	}
	n := in.G.Producer[name]
	if *fuel--; n == nil || *fuel < 0 || in.Functions[n.Op()] || v.Constant {
		return false
	}
	switch op := n.Op(); op {
	case "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceLogSumExp", "ReduceLogSum", "ReduceSumSquare",
		"ReduceL2", "ReduceL1":
		a, ok := in.ReducedAxis(n)
		if rank := len(in.Get(n.In(0)).Dims); ok && rank > 0 && a >= 0 && axis < 0 {
			a -= int64(rank)
		}
		return ok && a == axis && n.Int("keepdims", 1) != 0
	case "Expand", "Tile":
		return axis < 0 && in.Common(n.In(0), axis, fuel)
	case "Identity", "Cast", "Neg", "Exp", "Log", "Abs", "Sqrt", "Reciprocal", "Clip", "Not", "IsInf", "IsNaN",
		"Dropout":
		return in.Common(n.In(0), axis, fuel)
	case "Add", "Sub", "Mul", "Div", "Max", "Min", "Where", "Pow", "Equal", "Less", "Greater", "And", "Or":
		return !slices.ContainsFunc(n.GetInput(), func(name string) bool { return !in.Common(name, axis, fuel) })
	}
	return false
}
