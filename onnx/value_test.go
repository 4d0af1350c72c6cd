package onnx

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/approx"
	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

func TestFloat16(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x3555: 0.333251953125, 0x7bff: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24,
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1)} {
		if got := float16(bits); got != want {
			t.Errorf("float16(%#04x) = %v, want %v", bits, got, want)
		}
	}
	if got := float16(0x7e00); !math.IsNaN(got) {
		t.Errorf("float16(0x7e00) = %v, want NaN", got)
	}
}

// Rounding gives the nearest of all float16 numbers, found by looking at all of them, and of two equally near the one whose last
// bit is 0.
func TestRoundFloat16(t *testing.T) {
	var all []float64 // the positive ones, in order of their bits
	for bits := range uint16(0x7c00) {
		all = append(all, float16(bits))
	}
	nearest := func(x float64) float64 {
		i, _ := slices.BinarySearch(all, math.Abs(x))
		switch {
		case i == 0:
			return 0
		case i == len(all): // the next step would be 65536
			if !(math.Abs(x) < 65520) {
				return math.Inf(int(math.Copysign(1, x)))
			}
			return math.Copysign(65504, x)
		}
		below, above := math.Abs(x)-all[i-1], all[i]-math.Abs(x)
		if below < above || below == above && (i-1)%2 == 0 {
			i--
		}
		return math.Copysign(all[i], x)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		x := math.Ldexp(2*r.Float64()-1, r.IntN(50)-30)
		if r.IntN(4) == 0 { // just between two
			i := r.IntN(len(all) - 1)
			x = (all[i] + all[i+1]) / 2
		}
		if got, want := roundFloat16(x), nearest(x); got != want {
			t.Fatalf("%v rounds to %v, want %v", x, got, want)
		}
	}
	for _, x := range []float64{0, 65504, 65519.99, 65520, -65520, math.Inf(1), math.Inf(-1)} {
		if got, want := roundFloat16(x), nearest(x); got != want {
			t.Errorf("%v rounds to %v, want %v", x, got, want)
		}
	}
	if !math.IsNaN(roundFloat16(math.NaN())) {
		t.Error("NaN is rounded to a number")
	}
}

// The same numbers come out of every way to store them.
func TestDecode(t *testing.T) {
	values := []float64{1, 0, 2, 100}
	for _, tt := range []struct {
		typ   DataType
		typed *onnxpb.Tensor
		raw   func(b []byte, x float64) []byte
	}{
		{Float32, &onnxpb.Tensor{FloatData: []float32{1, 0, 2, 100}}, func(b []byte, x float64) []byte {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		}},
		{Float64, &onnxpb.Tensor{DoubleData: []float64{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)) }},
		{Float16, &onnxpb.Tensor{Int32Data: []int32{0x3c00, 0, 0x4000, 0x5640}}, func(b []byte, x float64) []byte {
			return binary.LittleEndian.AppendUint16(b, map[float64]uint16{0: 0, 1: 0x3c00, 2: 0x4000, 100: 0x5640}[x])
		}},
		{BFloat16, &onnxpb.Tensor{Int32Data: []int32{0x3f80, 0, 0x4000, 0x42c8}}, func(b []byte, x float64) []byte {
			return binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(x))>>16))
		}},
		{Int8, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return append(b, byte(x)) }},
		{Uint8, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return append(b, byte(x)) }},
		{Int16, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint16(b, uint16(x)) }},
		{Uint16, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint16(b, uint16(x)) }},
		{Int32, &onnxpb.Tensor{Int32Data: []int32{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint32(b, uint32(x)) }},
		{Uint32, &onnxpb.Tensor{Uint64Data: []uint64{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint32(b, uint32(x)) }},
		{Int64, &onnxpb.Tensor{Int64Data: []int64{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(x)) }},
		{Uint64, &onnxpb.Tensor{Uint64Data: []uint64{1, 0, 2, 100}}, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(x)) }},
	} {
		t.Run(tt.typ.String(), func(t *testing.T) {
			var b []byte
			for _, x := range values {
				b = tt.raw(b, x)
			}
			for name, x := range map[string]*onnxpb.Tensor{"typed": tt.typed, "raw": {RawData: b}} {
				x.Dims, x.DataType = []int64{4}, proto.Int32(int32(tt.typ))
				if err := checkTensor(x); err != nil {
					t.Fatal(err)
				}
				var got []float64
				if err := new(store).floats(x, func(v float64) { got = append(got, v) }); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, values) {
					t.Errorf("%s: got %v, want %v", name, got, values)
				}
			}
		})
	}
	signs := &onnxpb.Tensor{DataType: proto.Int32(int32(Int8)), Dims: []int64{2}, RawData: []byte{0xff, 0x80}}
	var got []float64
	if err := new(store).floats(signs, func(v float64) { got = append(got, v) }); err != nil || !slices.Equal(got, []float64{-1, -128}) {
		t.Errorf("int8 0xff, 0x80 = %v (%v), want -1, -128", got, err)
	}
}

// run gives the value of one node on constant inputs.
func runNode(n *onnxpb.Node, opset int64, inputs ...*value) *value {
	in := &interpreter{g: &graph{opset: opset}, weights: true, budget: maxWeightElements, values: map[string]*value{}}
	for i, v := range inputs {
		name := string(rune('a' + i))
		n.Input = append(n.Input, name)
		in.values[name] = v
	}
	n.Output = []string{"out"}
	in.run(n)
	return in.values["out"]
}

// random returns an array of up to four dimensions, some of them 1 and some 0.
func random(r *rand.Rand) *value {
	v := &value{typ: Float32, dims: []int64{}, constant: true}
	for range r.IntN(5) {
		v.dims = append(v.dims, []int64{0, 1, 1, 2, 3, 4}[r.IntN(6)])
	}
	n, _ := elements(v.dims)
	v.data = make([]float64, n)
	for i := range v.data {
		v.data[i] = r.NormFloat64()
	}
	return v
}

// get is v[index...], the obvious way; an axis of length 1 serves every index, and missing axes come first.
func (v *value) get(index []int64) float64 {
	index = index[len(index)-len(v.dims):]
	flat := int64(0)
	for i, d := range v.dims {
		if d != 1 {
			flat = flat*d + index[i]
		}
	}
	return v.data[flat]
}

// fill returns an array of the given shape with every element computed from its index.
func fill(dims []int64, f func(index []int64) float64) *value {
	v := &value{dims: dims, data: []float64{}}
	n, _ := elements(dims)
	for flat := range n {
		index := make([]int64, len(dims))
		for i := len(dims) - 1; i >= 0; i-- {
			index[i] = flat % dims[i]
			flat /= dims[i]
		}
		v.data = append(v.data, f(index))
	}
	return v
}

func sameValue(t *testing.T, what string, got, want *value) {
	t.Helper()
	if !slices.Equal(got.dims, want.dims) || !slices.EqualFunc(got.data, want.data, func(a, b float64) bool { return approx.Equal(a, b, 1e-12) }) {
		t.Fatalf("%s: got %v %v, want %v %v", what, got.dims, got.data, want.dims, want.data)
	}
}

// Operators on whole arrays agree with the definition of each element.
func TestOperatorsAgainstTheirDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		a := random(r)
		rank := len(a.dims)

		// A second operand: some axes 1, some leading ones dropped.
		b := &value{dims: slices.Clone(a.dims)}
		for i := range b.dims {
			if r.IntN(2) == 0 {
				b.dims[i] = 1
			}
		}
		b.dims = b.dims[r.IntN(rank+1):]
		b = fill(b.dims, func([]int64) float64 { return r.NormFloat64() })
		sub := fill(a.dims, func(i []int64) float64 { return a.get(i) - b.get(i) })
		sameValue(t, "Sub", runNode(node("Sub", "", ""), 13, a, b), sub)
		sameValue(t, "Sub", runNode(node("Sub", "", ""), 13, b, a), fill(a.dims, func(i []int64) float64 { return b.get(i) - a.get(i) }))

		perm := r.Perm(rank)
		var perm64, dims []int64
		for _, p := range perm {
			perm64, dims = append(perm64, int64(p)), append(dims, a.dims[p])
		}
		sameValue(t, "Transpose", runNode(node("Transpose", "", "", intsAttribute("perm", perm64...)), 13, a), fill(dims, func(i []int64) float64 {
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
		d := a.dims[ax]
		axisAttr := intAttribute("axis", int64(ax-r.IntN(2)*rank)) // counted from either end
		with := func(i []int64, x int64) []int64 {
			i = slices.Clone(i)
			i[ax] = x
			return i
		}
		dims = slices.Clone(a.dims)
		if dims[ax] = 1; d > 0 {
			sameValue(t, "ReduceSum", runNode(node("ReduceSum", "", "", intsAttribute("axes", int64(ax))), 11, a), fill(dims, func(i []int64) (s float64) {
				for x := range d {
					s += a.get(with(i, x))
				}
				return s
			}))
			index := fill([]int64{int64(r.IntN(3))}, func([]int64) float64 { return float64(r.Int64N(2*d) - d) })
			dims[ax] = index.dims[0]
			sameValue(t, "Gather", runNode(node("Gather", "", "", axisAttr), 13, a, index), fill(dims, func(i []int64) float64 {
				return a.get(with(i, (int64(index.data[i[ax]])+d)%d))
			}))
		}
		dims[ax] = 2 * d
		sameValue(t, "Concat", runNode(node("Concat", "", "", axisAttr), 13, a, sub), fill(dims, func(i []int64) float64 {
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
			if step > 0 && x >= from && x < to && (x-from)%step == 0 || step < 0 && x <= from && x > to && (from-x)%-step == 0 {
				picked = append(picked, x)
			}
		}
		dims[ax] = int64(len(picked))
		one := func(x int64) *value { return &value{typ: Int64, dims: []int64{1}, data: []float64{float64(x)}} }
		sameValue(t, "Slice", runNode(node("Slice", "", ""), 13, a, one(start), one(end), one(int64(ax)), one(step)), fill(dims, func(i []int64) float64 {
			return a.get(with(i, picked[i[ax]]))
		}))
	}
}

// Shapes are followed as far as they can be known, and no further.
func TestShapes(t *testing.T) {
	x := func(dims ...int64) *value { return &value{typ: Float32, dims: dims} }
	list := func(xs ...float64) *value { return &value{typ: Int64, dims: []int64{int64(len(xs))}, data: xs} }
	ints := intsAttribute
	str := func(name, s string) *onnxpb.Attribute { return &onnxpb.Attribute{Name: &name, S: []byte(s)} }
	nan := math.NaN()
	unknown := &value{}
	for _, tt := range []struct {
		name string
		node *onnxpb.Node
		in   []*value
		want string
	}{
		{"convolution", node("Conv", "", "", ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), []*value{x(-1, 3, 224, 224), x(64, 3, 3, 3)}, "[?,64,112,112]"},
		{"dilated", node("Conv", "", "", ints("dilations", 2, 2)), []*value{x(1, 3, 10, -1), x(8, 3, 3, 3)}, "[1,8,6,?]"},
		{"same padding", node("Conv", "", "", ints("strides", 2, 2), str("auto_pad", "SAME_UPPER")), []*value{x(1, 3, 9, 9), x(8, 3, 3, 3)}, "[1,8,5,5]"},
		{"of unknown input", node("Conv", "", ""), []*value{unknown, x(8, 3, 3, 3)}, "[?,8,?,?]"},
		{"too small", node("Conv", "", ""), []*value{x(1, 3, 2, 2), x(8, 3, 3, 3)}, "[1,8,?,?]"},
		{"pool", node("MaxPool", "", "", ints("kernel_shape", 3, 3), ints("strides", 2, 2)), []*value{x(1, 8, 12, 13)}, "[1,8,5,6]"},
		{"pool up", node("MaxPool", "", "", ints("kernel_shape", 3, 3), ints("strides", 2, 2), intAttribute("ceil_mode", 1)), []*value{x(1, 8, 12, 13)}, "[1,8,6,6]"},
		{"global pool", node("GlobalAveragePool", "", ""), []*value{x(-1, 8, 12, -1)}, "[?,8,1,1]"},
		{"flatten", node("Flatten", "", ""), []*value{x(-1, 8, 2, 2)}, "[?,32]"},
		{"flatten from the end", node("Flatten", "", "", intAttribute("axis", -1)), []*value{x(2, 8, 2, 5)}, "[32,5]"},
		{"reshape", node("Reshape", "", ""), []*value{x(-1, 8, 2, 2), list(0, -1)}, "[?,32]"},
		{"reshape without 0", node("Reshape", "", ""), []*value{x(-1, 8, 2, 2), list(-1, 32)}, "[?,32]"},
		{"reshape by a computed number", node("Reshape", "", ""), []*value{x(-1, 8, 2, 2), list(nan, -1)}, "[?,?]"},
		{"reshape by an unknown list", node("Reshape", "", ""), []*value{x(-1, 8, 2, 2), {typ: Int64, dims: []int64{3}}}, "[?,?,?]"},
		{"reshape that does not divide", node("Reshape", "", ""), []*value{x(5, 7), list(2, -1)}, "[2,?]"},
		{"squeeze", node("Squeeze", "", "", ints("axes", -1, 2)), []*value{x(-1, 8, 1, 1)}, "[?,8]"},
		{"squeeze all", node("Squeeze", "", ""), []*value{x(1, 8, 1, 1)}, "[8]"},
		{"squeeze all with an unknown", node("Squeeze", "", ""), []*value{x(-1, 8, 1, 1)}, "[…]"},
		{"unsqueeze", node("Unsqueeze", "", ""), []*value{x(-1, 8), list(0, -1)}, "[1,?,8,1]"},
		{"broadcast", node("Add", "", ""), []*value{x(-1, 1, 5), x(4, -1)}, "[?,4,5]"},
		{"no broadcast", node("Add", "", ""), []*value{x(2, 3), x(4)}, "[…]"},
		{"product", node("MatMul", "", ""), []*value{x(-1, 7, 5), x(5, 3)}, "[?,7,3]"},
		{"product with a vector", node("MatMul", "", ""), []*value{x(-1, 7, 5), x(5)}, "[?,7]"},
		{"Gemm", node("Gemm", "", "", intAttribute("transA", 1), intAttribute("transB", 1)), []*value{x(5, -1), x(3, 5)}, "[?,3]"},
		{"mean", node("ReduceMean", "", "", ints("axes", -1, -2), intAttribute("keepdims", 0)), []*value{x(-1, 7, 5, 2)}, "[?,7]"},
		{"best", node("ArgMax", "", "", intAttribute("axis", -1), intAttribute("keepdims", 0)), []*value{x(-1, 7)}, "[?]"},
		{"part", node("Split", "", "", intAttribute("axis", 1)), []*value{x(4, 7)}, "[4,7]"},
		{"token", node("Gather", "", "", intAttribute("axis", 1)), []*value{x(-1, 7, 5), {typ: Int64, dims: []int64{}, data: []float64{0}}}, "[?,5]"},
		{"window", node("Slice", "", ""), []*value{x(-1, 7, 5), list(1), list(math.MaxInt64), list(1), list(2)}, "[?,3,5]"},
		{"of another domain", &onnxpb.Node{OpType: proto.String("Relu"), Domain: proto.String("com.example")}, []*value{x(1)}, "[…]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (&flow{value: *runNode(tt.node, 13, tt.in...)}).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// No operator of a hostile graph may take more memory than was set aside, however it multiplies.
func TestEvaluationIsBounded(t *testing.T) {
	pb := network()
	zeros := &onnxpb.Tensor{Name: proto.String("big"), DataType: proto.Int32(int32(Int64)), Dims: []int64{2}, Int64Data: []int64{16, 1 << 30}}
	pb.Graph.Initializer = []*onnxpb.Tensor{zeros}
	pb.Graph.Node = []*onnxpb.Node{node("ConstantOfShape", "big", "w"), node("MatMul", "x w", "y")}
	m, err := Parse("model", marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FindHead(m, HeadOptions{}); err == nil || !strings.Contains(err.Error(), "16 features and 1073741824 classes") {
		t.Errorf("got error %v", err)
	}
	// What fits once does not fit as often as it is asked for.
	in := m.interpreter(true)
	in.budget = 1000
	in.values["a"] = &value{typ: Float32, dims: []int64{400}, data: make([]float64, 400), constant: true}
	var known []bool
	for _, n := range []*onnxpb.Node{node("Neg", "a", "b"), node("Neg", "b", "c"), node("Neg", "c", "d")} {
		in.run(n)
		known = append(known, in.values[n.Output[0]].data != nil)
	}
	if !slices.Equal(known, []bool{true, true, false}) {
		t.Errorf("of 1000 elements, 400 were given out thus: %v", known)
	}
}
