package head

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// An operator of a hostile graph may not take more memory than is reserved, however it multiplies.
func TestEvaluationIsBounded(t *testing.T) {
	t.Parallel()
	pb := onnxtest.Network()
	zeros := &onnxpb.Tensor{Name: proto.String("big"), DataType: proto.Int32(int32(tensor.Int64)), Dims: []int64{2},
		Int64Data: []int64{16, 1 << 30}}
	pb.Graph.Initializer = []*onnxpb.Tensor{zeros}
	pb.Graph.Node = []*onnxpb.Node{onnxtest.Node("ConstantOfShape", "big", "w"), onnxtest.Node("MatMul", "x w", "y")}
	m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Find(m, Options{}); err == nil ||
		!strings.Contains(err.Error(), "16 features and 1073741824 classes") {
		t.Errorf("got error %v", err)
	}
}

// What layers and the steps after them do to the logits is in the weights that are found: φ·W + b
// is the operators' definition written out, in float64, with constants that no term can be lost
// among.
func TestWeightsFollowTheOperators(t *testing.T) {
	t.Parallel()
	const d, k = 4, 3
	rng := rand.New(rand.NewPCG(11, 12))
	numbers := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(float32(1 + rng.Float64())) // a factor or divisor, far from 0 and from 1 on the whole
		}
		return x
	}
	w, v, s := numbers(d*k), numbers(k), numbers(k) // w is [d,k]
	wt := make([]float64, k*d)
	for i := range d {
		for c := range k {
			wt[c*d+i] = w[i*k+c]
		}
	}
	constants := []*onnxpb.Tensor{
		onnxtest.FloatTensor("w", w, d, k), onnxtest.FloatTensor("wt", wt, k, d), onnxtest.FloatTensor("v", v,
			k), onnxtest.FloatTensor("s", s, k),
		onnxtest.FloatTensor("half", []float64{0.5}), onnxtest.FloatTensor("kernel", wt, k, d, 1),
	}
	each := func(f func(c int, z float64) float64) func([]float64) {
		return func(z []float64) {
			for c := range z {
				z[c] = f(c, z[c])
			}
		}
	}
	layer := onnxtest.Node("MatMul", "x w", "z")
	transposed := onnxpb.IntAttribute("transB", 1)
	for _, test := range []struct {
		name  string
		nodes []*onnxpb.Node // from x to y
		want  func(z []float64)
	}{
		{"no step", []*onnxpb.Node{onnxtest.Node("MatMul", "x w", "y")},
			each(func(_ int, z float64) float64 { return z })},
		{"Add", []*onnxpb.Node{layer, onnxtest.Node("Add", "z v", "y")},
			each(func(c int, z float64) float64 { return z + v[c] })},
		{"Add from the left", []*onnxpb.Node{layer, onnxtest.Node("Add", "v z", "y")},
			each(func(c int, z float64) float64 { return z + v[c] })},
		{"Mul", []*onnxpb.Node{layer, onnxtest.Node("Mul", "z v", "y")},
			each(func(c int, z float64) float64 { return z * v[c] })},
		{"Mul by one number", []*onnxpb.Node{layer, onnxtest.Node("Mul", "half z", "y")},
			each(func(_ int, z float64) float64 { return z / 2 })},
		{"Div", []*onnxpb.Node{layer, onnxtest.Node("Div", "z v", "y")},
			each(func(c int, z float64) float64 { return z / v[c] })},
		{"Mul, then Add", []*onnxpb.Node{layer, onnxtest.Node("Mul", "z s", "u"), onnxtest.Node("Add", "u v", "y")},
			each(func(c int, z float64) float64 { return z*s[c] + v[c] })},
		{"Add, then Mul", []*onnxpb.Node{layer, onnxtest.Node("Add", "z v", "u"), onnxtest.Node("Mul", "u s", "y")},
			each(func(c int, z float64) float64 { return (z + v[c]) * s[c] })},
		{"Add, then Div", []*onnxpb.Node{layer, onnxtest.Node("Add", "z v", "u"), onnxtest.Node("Div", "u s", "y")},
			each(func(c int, z float64) float64 { return (z + v[c]) / s[c] })},
		{"Gemm", []*onnxpb.Node{onnxtest.Node("Gemm", "x wt v", "y", transposed)},
			each(func(c int, z float64) float64 { return z + v[c] })},
		{"Gemm with α and β", []*onnxpb.Node{onnxtest.Node("Gemm", "x w v", "y", onnxpb.FloatAttribute("alpha", 0.25),
			onnxpb.FloatAttribute("beta", 3))}, each(func(c int, z float64) float64 { return z/4 + 3*v[c] })},
		{"Gemm without β", []*onnxpb.Node{onnxtest.Node("Gemm", "x w v", "y", onnxpb.FloatAttribute("beta", 0))},
			each(func(_ int, z float64) float64 { return z })},
		{"classes in another order", []*onnxpb.Node{layer, onnxtest.Node("Add", "z v", "u"),
			onnxtest.Node("Gather", "u order", "y", onnxpb.IntAttribute("axis", 1))}, func(z []float64) {
			z[0], z[1], z[2] = z[2]+v[2], z[0]+v[0], z[1]+v[1]
		}},
		{"scaled classes in another order", []*onnxpb.Node{layer, onnxtest.Node("Mul", "z v", "u"),
			onnxtest.Node("Gather", "u order", "y", onnxpb.IntAttribute("axis", 1))}, func(z []float64) {
			z[0], z[1], z[2] = z[2]*v[2], z[0]*v[0], z[1]*v[1]
		}},
		{"another order of another order",
			[]*onnxpb.Node{layer, onnxtest.Node("Gather", "z order", "u", onnxpb.IntAttribute("axis", 1)),
				onnxtest.Node("Gather", "u swapped", "y", onnxpb.IntAttribute("axis", 1))}, func(z []float64) {
				z[1], z[2] = z[2], z[1]
			}},
		// Numbers that vary go to the features, and what they are multiplied by to the weights.
		{"Mul by a number that varies, times a constant", []*onnxpb.Node{layer, onnxtest.Node("Mul", "t half", "f"),
			onnxtest.Node("Mul", "z f", "y")}, each(func(_ int, z float64) float64 { return z / 2 })},
		{"Div by a number that varies, times a constant", []*onnxpb.Node{layer, onnxtest.Node("Mul", "half t", "f"),
			onnxtest.Node("Div", "z f", "y")}, each(func(_ int, z float64) float64 { return 2 * z })},
	} {
		t.Run(test.name, func(t *testing.T) {
			order := &onnxpb.Tensor{Name: proto.String("order"), Dims: []int64{k},
				DataType: proto.Int32(int32(tensor.Int64)), Int64Data: []int64{2, 0, 1}}
			swapped := &onnxpb.Tensor{Name: proto.String("swapped"), Dims: []int64{k},
				DataType: proto.Int32(int32(tensor.Int64)), Int64Data: []int64{1, 0, 2}}
			_, h := parsed(t, &onnxpb.Model{
				IrVersion:   proto.Int64(8),
				OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}},
				Graph: &onnxpb.Graph{
					Node: test.nodes, Initializer: append(constants, order, swapped),
					Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, d),
						onnxpb.TensorInfo("t", tensor.Float32, 1)}, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y",
						tensor.Float32, -1, k)},
				},
			})
			weights, bias, err := h.Weights()
			if err != nil {
				t.Fatal(err)
			}
			if h.Features != d || h.Logits != k || len(weights) != d*k || bias != nil && len(bias) != k {
				t.Fatalf("%d weights and %d biases of a head %d → %d", len(weights), len(bias), h.Features,
					h.Logits)
			}
			for example := range d + 1 {
				phi := make([]float64, d) // nothing, then each feature alone
				if example > 0 {
					phi[example-1] = 1
				}
				want := make([]float64, k)
				for c := range want {
					for i, x := range phi {
						want[c] += x * w[i*k+c]
					}
				}
				test.want(want)
				for c := range want {
					var got, size float64
					add := func(x float64) { got, size = got+x, size+math.Abs(x) }
					for i, x := range phi {
						add(x * float64(weights[c*d+i]))
					}
					if bias != nil {
						add(float64(bias[c]))
					}
					if !approx.Equal(got, want[c], 1e-6*(size+math.Abs(want[c]))) {
						t.Errorf("example %d, class %d: %v, want %v", example, c, got, want[c])
					}
				}
			}
		})
	}
}

// Layers that take different parts of the same tensor are one layer on both parts, and not one on
// the sum of their weights.
func TestLayersOnDifferentPartsOfATensorStayApart(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(13, 14))
	weights := func() []float64 {
		w := make([]float64, 4*3)
		for i := range w {
			w[i] = float64(float32(rng.NormFloat64()))
		}
		return w
	}
	first, second := weights(), weights()
	index := &onnxpb.Tensor{Name: proto.String("index"), DataType: proto.Int32(int32(tensor.Int64)),
		Int64Data: []int64{0}}
	_, h := parsed(t, &onnxpb.Model{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}},
		Graph: &onnxpb.Graph{
			Node: []*onnxpb.Node{
				onnxtest.Node("MatMul", "x first", "u"), onnxtest.Node("ReduceMean", "u", "a",
					onnxpb.IntsAttribute("axes", 1), onnxpb.IntAttribute("keepdims", 0)),
				onnxtest.Node("MatMul", "x second", "v"), onnxtest.Node("Gather", "v index", "b",
					onnxpb.IntAttribute("axis", 1)),
				onnxtest.Node("Add", "a b", "y"),
			},
			Initializer: []*onnxpb.Tensor{onnxtest.FloatTensor("first", first, 4, 3),
				onnxtest.FloatTensor("second", second, 4, 3), index},
			Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, 5,
				4)}, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, 3)},
		},
	})
	w, _, err := h.Weights()
	if err != nil {
		t.Fatal(err)
	}
	if h.Features != 8 || len(w) != 24 {
		t.Fatalf("%d weights of %d features, want 8 features", len(w), h.Features)
	}
	for c := range 3 {
		for i := range 4 {
			if a, b := w[c*8+i], w[c*8+4+i]; a != float32(first[i*3+c]) || b != float32(second[i*3+c]) {
				t.Errorf("feature %d, class %d: %v and %v, want %v and %v", i, c, a, b, first[i*3+c], second[i*3+c])
			}
		}
	}
}

// Operations on rounded logits are applied to the steps and the range of the rounding.
func TestRoundingFollowsTheOperators(t *testing.T) {
	t.Parallel()
	quantised := []*onnxpb.Node{onnxtest.Node("MatMul", "x w", "z"), onnxtest.Node("QuantizeLinear", "z step zero",
		"q"), onnxtest.Node("DequantizeLinear", "q step zero", "u")}
	zero := &onnxpb.Tensor{Name: proto.String("zero"), DataType: proto.Int32(int32(tensor.Int8)), RawData: []byte{3}}
	for _, test := range []struct {
		name                string
		step                *onnxpb.Node
		rounding, low, high float64
	}{
		{"nothing", onnxtest.Node("Identity", "u", "y"), 0.25, -131 * 0.25, 124 * 0.25},
		{"half", onnxtest.Node("Mul", "u half", "y"), 0.125, -131 * 0.125, 124 * 0.125},
		{"the negative", onnxtest.Node("Mul", "u minus", "y"), 0.25, -124 * 0.25, 131 * 0.25},
		{"more", onnxtest.Node("Add", "u half", "y"), 0.25, -131*0.25 + 0.5, 124*0.25 + 0.5},
	} {
		_, h := parsed(t, &onnxpb.Model{
			IrVersion:   proto.Int64(8),
			OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}},
			Graph: &onnxpb.Graph{
				Node: append(slices.Clone(quantised), test.step),
				Initializer: []*onnxpb.Tensor{onnxtest.FloatTensor("w", make([]float64, 12), 4, 3),
					onnxtest.FloatTensor("step", []float64{0.25}), onnxtest.FloatTensor("half", []float64{0.5}),
					onnxtest.FloatTensor("minus", []float64{-1}), zero},
				Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1,
					4)}, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, 3)},
			},
		})
		if h.Rounding != test.rounding || h.Low != test.low || h.High != test.high {
			t.Errorf("%s: rounded to multiples of %v in [%v,%v], want %v in [%v,%v]", test.name, h.Rounding, h.Low,
				h.High, test.rounding, test.low, test.high)
		}
	}
}

// Something that only looks like a linear layer and its link is refused for that reason.
func TestLayersThatOnlyLookLikeHeadsAreRefused(t *testing.T) {
	t.Parallel()
	layer := onnxtest.Node("MatMul", "x w", "z")
	pixels := []int64{-1, 4, 1, 1}
	pooled := []*onnxpb.Node{onnxtest.Node("GlobalAveragePool", "z", "m"), onnxtest.Node("Flatten", "m", "y")}
	conv := func(out string, attributes ...*onnxpb.Attribute) *onnxpb.Node {
		return onnxtest.Node("Conv", "x kernel", out, attributes...)
	}
	normalizer := onnxtest.Node("Normalizer", "s", "y", &onnxpb.Attribute{Name: proto.String("norm"), S: []byte("L2")})
	normalizer.Domain = proto.String("ai.onnx.ml")
	for _, test := range []struct {
		name   string
		opset  int64
		input  []int64
		nodes  []*onnxpb.Node
		reason string // "" where it is a head
	}{
		{"a layer", 13, []int64{-1, 4},
			[]*onnxpb.Node{layer, onnxtest.Node("Softmax", "z", "y", onnxpb.IntAttribute("axis", 1))}, ""},
		{"Softmax over examples", 13, []int64{-1, 4},
			[]*onnxpb.Node{layer, onnxtest.Node("Softmax", "z", "y",
				onnxpb.IntAttribute("axis", 0))}, "runs over axis 0"},
		{"Softmax over axis 1 and all later ones, as before operator set 13", 11, []int64{-1, 4},
			[]*onnxpb.Node{layer, onnxtest.Node("Unsqueeze", "z", "u", onnxpb.IntsAttribute("axes", 2)),
				onnxtest.Node("Softmax", "u", "y")}, ""},
		{"Softmax over the last axis, as it is from operator set 13 on", 13, []int64{-1, 4},
			[]*onnxpb.Node{layer, onnxtest.Node("Unsqueeze", "z two", "u"),
				onnxtest.Node("Softmax", "u", "y")}, "runs over axis -1"},
		{"ArgMax over examples", 13, []int64{-1, 4}, []*onnxpb.Node{layer, onnxtest.Node("ArgMax", "z", "y")},
			"runs over axis 0"},
		{"ArgMax", 13, []int64{-1, 4}, []*onnxpb.Node{layer,
			onnxtest.Node("ArgMax", "z", "y", onnxpb.IntAttribute("axis", 1))}, ""},
		{"Dropout in training", 13, []int64{-1, 4}, []*onnxpb.Node{layer, onnxtest.Node("Dropout", "z p on", "y")},
			"training mode"},
		{"Dropout", 13, []int64{-1, 4}, []*onnxpb.Node{layer, onnxtest.Node("Dropout", "z p off", "y")}, ""},
		{"another norm", 13, []int64{-1, 4}, []*onnxpb.Node{layer, onnxtest.Node("Sigmoid", "z", "s"), normalizer},
			`normalises by "L2"`},
		{"logits that are cut off", 13, []int64{-1, 4}, []*onnxpb.Node{layer, onnxtest.Node("Clip", "z low high", "y")},
			"cuts off logits"},
		{"a convolution", 13, pixels, []*onnxpb.Node{conv("z"), onnxtest.Node("Flatten", "z", "y")}, ""},
		{"a convolution with padding", 13, pixels,
			append([]*onnxpb.Node{conv("z", onnxpb.IntsAttribute("pads", 1, 1, 1, 1))},
				pooled...), "groups, padding or dilation"},
		{"a convolution with groups", 13, []int64{-1, 8, 1, 1},
			append([]*onnxpb.Node{conv("z", onnxpb.IntAttribute("group", 2))},
				pooled...), "groups, padding or dilation"},
	} {
		scalar := func(name string, typ tensor.Type, x float32, n int64) *onnxpb.Tensor {
			t := &onnxpb.Tensor{Name: &name, DataType: proto.Int32(int32(typ))}
			switch typ {
			case tensor.Float32:
				t.FloatData = []float32{x}
			case tensor.Bool:
				t.Int32Data = []int32{int32(n)}
			default:
				t.Dims, t.Int64Data = []int64{1}, []int64{n}
			}
			return t
		}
		m, err := onnx.Parse("model", onnxtest.Marshal(t, &onnxpb.Model{
			IrVersion: proto.Int64(8),
			OpsetImport: []*onnxpb.OperatorSet{{Version: &test.opset},
				{Domain: proto.String("ai.onnx.ml"), Version: proto.Int64(3)}},
			Graph: &onnxpb.Graph{
				Node: test.nodes,
				Initializer: []*onnxpb.Tensor{
					onnxtest.FloatTensor("w", make([]float64, 12), 4, 3), onnxtest.FloatTensor("kernel",
						make([]float64, 16), 4, 4, 1, 1),
					scalar("one", tensor.Int64, 0, 1), scalar("two", tensor.Int64, 0, 2), scalar("p", tensor.Float32,
						0.5, 0), scalar("on", tensor.Bool, 0, 1), scalar("off", tensor.Bool, 0, 0),
					scalar("low", tensor.Float32, -20, 0), scalar("high", tensor.Float32, 3, 0),
				},
				Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32,
					test.input...)}, Output: []*onnxpb.ValueInfo{{Name: proto.String("y")}},
			},
		}))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		_, err = Find(m, Options{})
		switch {
		case test.reason == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.reason != "" && (err == nil || !strings.Contains(err.Error(), test.reason)):
			t.Errorf("%s: got %v, want it refused: %s", test.name, err, test.reason)
		}
	}
}

// A Sigmoid written out is one only with the exponential of −x, added to 1.
func TestSigmoidsByHand(t *testing.T) {
	t.Parallel()
	const d, k = 4, 3
	w := make([]float64, d*k)
	for i := range w {
		w[i] = 1 + float64(i)/8
	}
	for _, test := range []struct {
		name  string
		nodes []*onnxpb.Node
		found bool
	}{
		{"of x", []*onnxpb.Node{onnxtest.Node("Neg", "z", "n"), onnxtest.Node("Exp", "n", "e"),
			onnxtest.Node("Add", "e one", "s"), onnxtest.Node("Reciprocal", "s", "y")}, true},
		{"by a factor", []*onnxpb.Node{onnxtest.Node("Mul", "z minus", "n"), onnxtest.Node("Exp", "n", "e"),
			onnxtest.Node("Add", "one e", "s"), onnxtest.Node("Reciprocal", "s", "y")}, true},
		{"of −x", []*onnxpb.Node{onnxtest.Node("Exp", "z", "e"), onnxtest.Node("Add", "e one", "s"),
			onnxtest.Node("Reciprocal", "s", "y")}, false},
		{"of whole numbers", []*onnxpb.Node{onnxtest.Node("Neg", "z", "n"), onnxtest.Node("Exp", "n", "e"),
			onnxtest.Node("Cast", "e", "i", onnxpb.IntAttribute("to", int64(tensor.Int32))), onnxtest.Node("Cast", "i",
				"f", onnxpb.IntAttribute("to", 1)),
			onnxtest.Node("Add", "f one", "s"), onnxtest.Node("Reciprocal", "s", "y")}, false},
		{"of another sum", []*onnxpb.Node{onnxtest.Node("Neg", "z", "n"), onnxtest.Node("Exp", "n", "e"),
			onnxtest.Node("Add", "e two", "s"), onnxtest.Node("Reciprocal", "s", "y")}, false},
	} {
		m, err := onnx.Parse("model", onnxtest.Marshal(t, &onnxpb.Model{
			IrVersion:   proto.Int64(8),
			OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}},
			Graph: &onnxpb.Graph{
				Node: append([]*onnxpb.Node{onnxtest.Node("MatMul", "x w", "z")}, test.nodes...),
				Initializer: []*onnxpb.Tensor{onnxtest.FloatTensor("w", w, d, k),
					onnxtest.FloatTensor("one", []float64{1}), onnxtest.FloatTensor("two",
						[]float64{2}), onnxtest.FloatTensor("minus", []float64{-1})},
				Input: []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1,
					d)}, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, k)},
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		h, err := Find(m, Options{})
		if (err == nil) != test.found || test.found && h.Link != layer.Sigmoid {
			t.Errorf("%s: head %+v, error %v", test.name, h, err)
		}
	}
}

func parsed(t *testing.T, pb *onnxpb.Model) (*onnx.Model, *Head) {
	t.Helper()
	m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m, h
}
