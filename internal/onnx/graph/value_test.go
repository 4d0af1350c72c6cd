package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// run gives the value of one node on constant inputs.
func runNode(n *onnxpb.Node, opset int64, inputs ...*Value) *Value {
	in := &Interpreter{G: &Graph{Opset: opset}, weights: true, Budget: MaxWeightElements, Values: map[string]*Value{}}
	for i, v := range inputs {
		name := string(rune('a' + i))
		n.Input = append(n.Input, name)
		in.Values[name] = v
	}
	n.Output = []string{"out"}
	in.run(n)
	return in.Values["out"]
}

// random returns an array of up to four dimensions, some of them 1 and some 0.
func randomTensor(r *rand.Rand) *Value {
	v := &Value{Type: tensor.Float32, Dims: []int64{}, Constant: true}
	for range r.IntN(5) {
		v.Dims = append(v.Dims, []int64{0, 1, 1, 2, 3, 4}[r.IntN(6)])
	}
	n, _ := onnxpb.Elements(v.Dims)
	v.Data = make([]float64, n)
	for i := range v.Data {
		v.Data[i] = r.NormFloat64()
	}
	return v
}

// get is v[index...], the obvious way, with broadcasting: an axis of length 1 is used for every index, and missing
// axes come first.
func (v *Value) get(index []int64) float64 {
	index = index[len(index)-len(v.Dims):]
	flat := int64(0)
	for i, d := range v.Dims {
		if d != 1 {
			flat = flat*d + index[i]
		}
	}
	return v.Data[flat]
}

// fill returns an array of the given shape with every element computed from its index.
func fill(dims []int64, f func(index []int64) float64) *Value {
	v := &Value{Dims: dims, Data: []float64{}}
	n, _ := onnxpb.Elements(dims)
	for flat := range n {
		index := make([]int64, len(dims))
		for i := len(dims) - 1; i >= 0; i-- {
			index[i] = flat % dims[i]
			flat /= dims[i]
		}
		v.Data = append(v.Data, f(index))
	}
	return v
}

func sameValue(t *testing.T, what string, got, want *Value) {
	t.Helper()
	if !slices.Equal(got.Dims, want.Dims) ||
		!slices.EqualFunc(got.Data, want.Data, func(a, b float64) bool { return approx.Equal(a, b, 1e-12) }) {
		t.Fatalf("%s: got %v %v, want %v %v", what, got.Dims, got.Data, want.Dims, want.Data)
	}
}

// Operators on whole arrays agree with the definition of each element.
func TestOperatorsAgainstTheirDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		a := randomTensor(r)
		rank := len(a.Dims)

		// A second operand: some axes 1, some leading ones dropped.
		b := &Value{Dims: slices.Clone(a.Dims)}
		for i := range b.Dims {
			if r.IntN(2) == 0 {
				b.Dims[i] = 1
			}
		}
		b.Dims = b.Dims[r.IntN(rank+1):]
		b = fill(b.Dims, func([]int64) float64 { return r.NormFloat64() })
		sub := fill(a.Dims, func(i []int64) float64 { return a.get(i) - b.get(i) })
		sameValue(t, "Sub", runNode(onnxtest.Node("Sub", "", ""), 13, a, b), sub)
		sameValue(t, "Sub", runNode(onnxtest.Node("Sub", "", ""), 13, b, a),
			fill(a.Dims, func(i []int64) float64 { return b.get(i) - a.get(i) }))

		perm := r.Perm(rank)
		var perm64, dims []int64
		for _, p := range perm {
			perm64, dims = append(perm64, int64(p)), append(dims, a.Dims[p])
		}
		sameValue(t, "Transpose", runNode(onnxtest.Node("Transpose", "", "", onnxpb.IntsAttribute("perm", perm64...)),
			13, a), fill(dims, func(i []int64) float64 {
			from := make([]int64, rank)
			for j, p := range perm {
				from[p] = i[j]
			}
			return a.get(from)
		}))
		if rank == 0 {
			continue
		}

		ax := r.IntN(rank)
		d := a.Dims[ax]
		axisAttr := onnxpb.IntAttribute("axis", int64(ax-r.IntN(2)*rank)) // counted from either end
		with := func(i []int64, x int64) []int64 {
			i = slices.Clone(i)
			i[ax] = x
			return i
		}
		dims = slices.Clone(a.Dims)
		if dims[ax] = 1; d > 0 {
			sameValue(t, "ReduceSum", runNode(onnxtest.Node("ReduceSum", "", "",
				onnxpb.IntsAttribute("axes", int64(ax))), 11, a), fill(dims, func(i []int64) (s float64) {
				for x := range d {
					s += a.get(with(i, x))
				}
				return s
			}))
			index := fill([]int64{int64(r.IntN(3))}, func([]int64) float64 { return float64(r.Int64N(2*d) - d) })
			dims[ax] = index.Dims[0]
			sameValue(t, "Gather", runNode(onnxtest.Node("Gather", "", "", axisAttr), 13, a, index),
				fill(dims, func(i []int64) float64 {
					return a.get(with(i, (int64(index.Data[i[ax]])+d)%d))
				}))
		}
		dims[ax] = 2 * d
		sameValue(t, "Concat", runNode(onnxtest.Node("Concat", "", "", axisAttr), 13, a, sub),
			fill(dims, func(i []int64) float64 {
				if i[ax] < d {
					return a.get(i)
				}
				return sub.get(with(i, i[ax]-d))
			}))

		// Slice as Python does it.
		start, end, step := r.Int64N(9)-4, r.Int64N(9)-4, []int64{-2, -1, 1, 2, 3}[r.IntN(5)]
		var picked []int64
		for x := range d {
			if step < 0 {
				x = d - 1 - x
			}
			from, to := start, end
			if from < 0 {
				from += d
			}
			if to < 0 {
				to += d
				if step < 0 {
					to = max(to, -1)
				}
			}
			if step < 0 {
				from = min(from, d-1)
			} else {
				from = max(from, 0)
			}
			if step > 0 && x >= from && x < to && (x-from)%step == 0 || step < 0 && x <= from && x > to &&
				(from-x)%-step == 0 {
				picked = append(picked, x)
			}
		}
		dims[ax] = int64(len(picked))
		one := func(x int64) *Value { return &Value{Type: tensor.Int64, Dims: []int64{1}, Data: []float64{float64(x)}} }
		sameValue(t, "Slice", runNode(onnxtest.Node("Slice", "", ""), 13, a, one(start), one(end), one(int64(ax)),
			one(step)), fill(dims, func(i []int64) float64 {
			return a.get(with(i, picked[i[ax]]))
		}))
	}
}

// Shapes are inferred where they can be known.
func TestShapes(t *testing.T) {
	t.Parallel()
	x := func(dims ...int64) *Value { return &Value{Type: tensor.Float32, Dims: dims} }
	list := func(xs ...float64) *Value { return &Value{Type: tensor.Int64, Dims: []int64{int64(len(xs))}, Data: xs} }
	ints := onnxpb.IntsAttribute
	str := func(name, s string) *onnxpb.Attribute { return &onnxpb.Attribute{Name: &name, S: []byte(s)} }
	nan := math.NaN()
	unknown := &Value{}
	for _, tt := range []struct {
		name string
		node *onnxpb.Node
		in   []*Value
		want string
	}{
		{"convolution", onnxtest.Node("Conv", "", "", ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)),
			[]*Value{x(-1, 3, 224, 224), x(64, 3, 3, 3)}, "[?,64,112,112]"},
		{"dilated", onnxtest.Node("Conv", "", "", ints("dilations", 2, 2)), []*Value{x(1, 3, 10, -1), x(8, 3, 3, 3)},
			"[1,8,6,?]"},
		{"same padding", onnxtest.Node("Conv", "", "", ints("strides", 2, 2), str("auto_pad", "SAME_UPPER")),
			[]*Value{x(1, 3, 9, 9), x(8, 3, 3, 3)}, "[1,8,5,5]"},
		{"of unknown input", onnxtest.Node("Conv", "", ""), []*Value{unknown, x(8, 3, 3, 3)}, "[?,8,?,?]"},
		{"too small", onnxtest.Node("Conv", "", ""), []*Value{x(1, 3, 2, 2), x(8, 3, 3, 3)}, "[1,8,?,?]"},
		{"pool", onnxtest.Node("MaxPool", "", "", ints("kernel_shape", 3, 3), ints("strides", 2, 2)),
			[]*Value{x(1, 8, 12, 13)}, "[1,8,5,6]"},
		{"pool up", onnxtest.Node("MaxPool", "", "", ints("kernel_shape", 3, 3), ints("strides", 2, 2),
			onnxpb.IntAttribute("ceil_mode", 1)), []*Value{x(1, 8, 12, 13)}, "[1,8,6,6]"},
		{"global pool", onnxtest.Node("GlobalAveragePool", "", ""), []*Value{x(-1, 8, 12, -1)}, "[?,8,1,1]"},
		{"flatten", onnxtest.Node("Flatten", "", ""), []*Value{x(-1, 8, 2, 2)}, "[?,32]"},
		{"flatten from the end", onnxtest.Node("Flatten", "", "", onnxpb.IntAttribute("axis", -1)),
			[]*Value{x(2, 8, 2, 5)}, "[32,5]"},
		{"reshape", onnxtest.Node("Reshape", "", ""), []*Value{x(-1, 8, 2, 2), list(0, -1)}, "[?,32]"},
		{"reshape without 0", onnxtest.Node("Reshape", "", ""), []*Value{x(-1, 8, 2, 2), list(-1, 32)}, "[?,32]"},
		{"reshape by a computed number", onnxtest.Node("Reshape", "", ""), []*Value{x(-1, 8, 2, 2), list(nan, -1)},
			"[?,?]"},
		{"reshape by an unknown list", onnxtest.Node("Reshape", "", ""),
			[]*Value{x(-1, 8, 2, 2), {Type: tensor.Int64, Dims: []int64{3}}}, "[?,?,?]"},
		{"reshape that does not divide", onnxtest.Node("Reshape", "", ""), []*Value{x(5, 7), list(2, -1)}, "[2,?]"},
		{"squeeze", onnxtest.Node("Squeeze", "", "", ints("axes", -1, 2)), []*Value{x(-1, 8, 1, 1)}, "[?,8]"},
		{"squeeze all", onnxtest.Node("Squeeze", "", ""), []*Value{x(1, 8, 1, 1)}, "[8]"},
		{"squeeze all with an unknown", onnxtest.Node("Squeeze", "", ""), []*Value{x(-1, 8, 1, 1)}, "[…]"},
		{"unsqueeze", onnxtest.Node("Unsqueeze", "", ""), []*Value{x(-1, 8), list(0, -1)}, "[1,?,8,1]"},
		{"broadcast", onnxtest.Node("Add", "", ""), []*Value{x(-1, 1, 5), x(4, -1)}, "[?,4,5]"},
		{"no broadcast", onnxtest.Node("Add", "", ""), []*Value{x(2, 3), x(4)}, "[…]"},
		{"product", onnxtest.Node("MatMul", "", ""), []*Value{x(-1, 7, 5), x(5, 3)}, "[?,7,3]"},
		{"product with a vector", onnxtest.Node("MatMul", "", ""), []*Value{x(-1, 7, 5), x(5)}, "[?,7]"},
		{"Gemm", onnxtest.Node("Gemm", "", "", onnxpb.IntAttribute("transA", 1), onnxpb.IntAttribute("transB", 1)),
			[]*Value{x(5, -1), x(3, 5)}, "[?,3]"},
		{"mean", onnxtest.Node("ReduceMean", "", "", ints("axes", -1, -2), onnxpb.IntAttribute("keepdims", 0)),
			[]*Value{x(-1, 7, 5, 2)}, "[?,7]"},
		{"best", onnxtest.Node("ArgMax", "", "", onnxpb.IntAttribute("axis", -1), onnxpb.IntAttribute("keepdims", 0)),
			[]*Value{x(-1, 7)}, "[?]"},
		{"part", onnxtest.Node("Split", "", "", onnxpb.IntAttribute("axis", 1)), []*Value{x(4, 7)}, "[4,7]"},
		{"token", onnxtest.Node("Gather", "", "", onnxpb.IntAttribute("axis", 1)),
			[]*Value{x(-1, 7, 5), {Type: tensor.Int64, Dims: []int64{}, Data: []float64{0}}}, "[?,5]"},
		{"window", onnxtest.Node("Slice", "", ""), []*Value{x(-1, 7, 5), list(1), list(math.MaxInt64), list(1),
			list(2)}, "[?,3,5]"},
		{"of another domain", &onnxpb.Node{OpType: proto.String("Relu"), Domain: proto.String("com.example")},
			[]*Value{x(1)}, "[…]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := runNode(tt.node, 13, tt.in...).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// The budget is spent: a value that fits once does not fit again and again.
func TestTheBudgetOfElementsIsSpentOnce(t *testing.T) {
	t.Parallel()
	in := &Interpreter{G: new(Graph), weights: true, Budget: 1000, Values: map[string]*Value{}}
	in.Values["a"] = &Value{Type: tensor.Float32, Dims: []int64{400}, Data: make([]float64, 400), Constant: true}
	var known []bool
	for _, n := range []*onnxpb.Node{onnxtest.Node("Neg", "a", "b"), onnxtest.Node("Neg", "b", "c"),
		onnxtest.Node("Neg", "c", "d")} {
		in.run(n)
		known = append(known, in.Values[n.Output[0]].Data != nil)
	}
	if !slices.Equal(known, []bool{true, true, false}) {
		t.Errorf("of 1000 elements, 400 were given out thus: %v", known)
	}
}
