package onnx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// What layers and the steps behind them do to the logits is in the weights that are found: φ·W + b is the operators'
// definition written out, in float64, with constants that no term can be lost among.
func TestWeightsFollowTheOperators(t *testing.T) {
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
	mean, variance, weak := numbers(k), numbers(k), make([]float64, k)
	wt := make([]float64, k*d)
	for i := range d {
		for c := range k {
			wt[c*d+i] = w[i*k+c]
		}
	}
	constants := []*onnxpb.Tensor{
		floatTensor("w", w, d, k), floatTensor("wt", wt, k, d), floatTensor("v", v, k), floatTensor("s", s, k),
		floatTensor("mean", mean, k), floatTensor("variance", variance, k), floatTensor("weak", weak, k),
		floatTensor("half", []float64{0.5}), floatTensor("kernel", wt, k, d, 1),
	}
	each := func(f func(c int, z float64) float64) func([]float64) {
		return func(z []float64) {
			for c := range z {
				z[c] = f(c, z[c])
			}
		}
	}
	norm := func(variance []float64, epsilon float64) func([]float64) {
		return each(func(c int, z float64) float64 { return s[c]*(z-mean[c])/math.Sqrt(variance[c]+epsilon) + v[c] })
	}
	layer := node("MatMul", "x w", "z")
	transposed := intAttribute("transB", 1)
	for _, test := range []struct {
		name  string
		nodes []*onnxpb.Node // from x to y
		want  func(z []float64)
	}{
		{"no step", []*onnxpb.Node{node("MatMul", "x w", "y")}, each(func(_ int, z float64) float64 { return z })},
		{"Add", []*onnxpb.Node{layer, node("Add", "z v", "y")}, each(func(c int, z float64) float64 { return z + v[c] })},
		{"Add from the left", []*onnxpb.Node{layer, node("Add", "v z", "y")}, each(func(c int, z float64) float64 { return z + v[c] })},
		{"Sub", []*onnxpb.Node{layer, node("Sub", "z v", "y")}, each(func(c int, z float64) float64 { return z - v[c] })},
		{"Sub from the left", []*onnxpb.Node{layer, node("Sub", "v z", "y")}, each(func(c int, z float64) float64 { return v[c] - z })},
		{"Mul", []*onnxpb.Node{layer, node("Mul", "z v", "y")}, each(func(c int, z float64) float64 { return z * v[c] })},
		{"Mul by one number", []*onnxpb.Node{layer, node("Mul", "half z", "y")}, each(func(_ int, z float64) float64 { return z / 2 })},
		{"Div", []*onnxpb.Node{layer, node("Div", "z v", "y")}, each(func(c int, z float64) float64 { return z / v[c] })},
		{"Neg", []*onnxpb.Node{layer, node("Neg", "z", "y")}, each(func(_ int, z float64) float64 { return -z })},
		{"Mul, then Add", []*onnxpb.Node{layer, node("Mul", "z s", "u"), node("Add", "u v", "y")}, each(func(c int, z float64) float64 { return z*s[c] + v[c] })},
		{"Add, then Mul", []*onnxpb.Node{layer, node("Add", "z v", "u"), node("Mul", "u s", "y")}, each(func(c int, z float64) float64 { return (z + v[c]) * s[c] })},
		{"Add, then Div, then Sub", []*onnxpb.Node{layer, node("Add", "z v", "u"), node("Div", "u s", "q"), node("Sub", "mean q", "y")}, each(func(c int, z float64) float64 { return mean[c] - (z+v[c])/s[c] })},
		{"BatchNormalization", []*onnxpb.Node{layer, node("BatchNormalization", "z s v mean variance", "y", floatAttribute("epsilon", 0.5))}, norm(variance, 0.5)},
		{"BatchNormalization of no variance", []*onnxpb.Node{layer, node("BatchNormalization", "z s v mean weak", "y")}, norm(weak, 1e-5)},
		{"Gemm", []*onnxpb.Node{node("Gemm", "x wt v", "y", transposed)}, each(func(c int, z float64) float64 { return z + v[c] })},
		{"Gemm with α and β", []*onnxpb.Node{node("Gemm", "x w v", "y", floatAttribute("alpha", 0.25), floatAttribute("beta", 3))}, each(func(c int, z float64) float64 { return z/4 + 3*v[c] })},
		{"Gemm without β", []*onnxpb.Node{node("Gemm", "x w v", "y", floatAttribute("beta", 0))}, each(func(_ int, z float64) float64 { return z })},
		{"classes in another order", []*onnxpb.Node{layer, node("Add", "z v", "u"), node("Gather", "u order", "y", intAttribute("axis", 1))}, func(z []float64) {
			z[0], z[1], z[2] = z[2]+v[2], z[0]+v[0], z[1]+v[1]
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			order := &onnxpb.Tensor{Name: proto.String("order"), Dims: []int64{k}, DataType: proto.Int32(int32(Int64)), Int64Data: []int64{2, 0, 1}}
			_, h := parsed(t, &onnxpb.Model{
				IrVersion:   proto.Int64(8),
				OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}},
				Graph: &onnxpb.Graph{
					Node: test.nodes, Initializer: append(constants, order),
					Input: []*onnxpb.ValueInfo{tensorInfo("x", Float32, -1, d)}, Output: []*onnxpb.ValueInfo{tensorInfo("y", Float32, -1, k)},
				},
			})
			weights, bias, err := h.Weights()
			if err != nil {
				t.Fatal(err)
			}
			if h.FeatureDim != d || h.Classes != k || len(weights) != d*k || bias != nil && len(bias) != k {
				t.Fatalf("%d weights and %d biases of a head %d → %d", len(weights), len(bias), h.FeatureDim, h.Classes)
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

// floatTensor is an initializer of float32.
func floatTensor(name string, data []float64, dims ...int64) *onnxpb.Tensor {
	if n, _ := elements(dims); int(n) != len(data) {
		panic(fmt.Sprintf("%s: %d numbers of shape %v", name, len(data), dims))
	}
	x := &onnxpb.Tensor{Name: &name, Dims: dims, DataType: proto.Int32(int32(Float32))}
	for _, v := range data {
		x.FloatData = append(x.FloatData, float32(v))
	}
	return x
}
