package onnxlayers

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// A Nonlinearity is an elementwise function, by the name of ONNX's operator.
type Nonlinearity string

const (
	Identity  Nonlinearity = "Identity"  // x
	Relu      Nonlinearity = "Relu"      // max(0, x)
	LeakyRelu Nonlinearity = "LeakyRelu" // x for x ≥ 0, else αx
	Elu       Nonlinearity = "Elu"       // x for x > 0, else α(eˣ − 1)
	Selu      Nonlinearity = "Selu"      // γx for x > 0, else γα(eˣ − 1)
	Tanh      Nonlinearity = "Tanh"
	Logistic  Nonlinearity = "Sigmoid"   // 1/(1 + e⁻ˣ)
	Softplus  Nonlinearity = "Softplus"  // log(1 + eˣ)
	Gelu      Nonlinearity = "Gelu"      // xΦ(x), Φ the normal CDF
	GeluTanh  Nonlinearity = "GeluTanh"  // Gelu with Φ(x) ≈ (1 + tanh(√(2/π)(x + 0.044715x³)))/2
	Swish     Nonlinearity = "Swish"     // x/(1 + e⁻ᵅˣ); SiLU is α = 1
	HardSwish Nonlinearity = "HardSwish" // x·max(0, min(1, x/6 + ½))
)

// An Activation is a Nonlinearity with its parameters, 0 if it has none.
type Activation struct {
	Func         Nonlinearity
	Alpha, Gamma float64
}

// String returns the function's name and parameters.
func (a Activation) String() string {
	switch a.Func {
	case LeakyRelu, Elu, Swish:
		return fmt.Sprintf("%s(%.6g)", a.Func, a.Alpha)
	case Selu:
		return fmt.Sprintf("%s(%.6g, %.6g)", a.Func, a.Alpha, a.Gamma)
	}
	return string(a.Func)
}

// At returns the function and its derivative at x, from the left at kinks. It panics if a.Func is unknown.
func (a Activation) At(x float64) (y, slope float64) {
	switch a.Func {
	case Identity:
		return x, 1
	case Relu:
		if x > 0 {
			return x, 1
		}
		return math.Max(0, x), 0 // NaN stays
	case LeakyRelu:
		if x > 0 {
			return x, 1
		}
		return a.Alpha * x, a.Alpha
	case Elu, Selu:
		scale := 1.0
		if a.Func == Selu {
			scale = a.Gamma
		}
		if x > 0 {
			return scale * x, scale
		}
		return scale * a.Alpha * math.Expm1(x), scale * a.Alpha * math.Exp(x)
	case Tanh:
		y = math.Tanh(x)
		return y, (1 - y) * (1 + y)
	case Logistic:
		return logistic(x), logistic(x) * logistic(-x)
	case Softplus:
		return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))), logistic(x)
	case Gelu:
		cumulative := math.Erfc(-x/math.Sqrt2) / 2
		return x * cumulative, cumulative + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	case GeluTanh:
		t := math.Tanh(geluScale * (x + geluCube*x*x*x))
		return x * (1 + t) / 2, (1+t)/2 + x*(1-t)*(1+t)/2*geluScale*(1+3*geluCube*x*x)
	case Swish:
		s := logistic(a.Alpha * x)
		return x * s, s + a.Alpha*x*s*logistic(-a.Alpha*x)
	case HardSwish:
		switch {
		case x <= -3:
			return 0, 0
		case x > 3:
			return x, 1
		}
		return x * (x/6 + 0.5), x/3 + 0.5
	}
	panic(fmt.Sprintf("onnxlayers: there is no activation %q", a.Func))
}

// Apply writes the function of each x to y, which may be x, and its derivatives to slope unless that is nil. It panics
// as At does.
func (a Activation) Apply(y, slope, x []float64) {
	y = y[:len(x)]
	switch {
	case a.Func == Relu && slope == nil: // common, and fast without unpredictable branches
		for i, v := range x {
			y[i] = max(0, v)
		}
	case slope == nil:
		for i, v := range x {
			y[i], _ = a.At(v)
		}
	default:
		for i, v := range x {
			y[i], slope[i] = a.At(v)
		}
	}
}

// The constants of GeluTanh.
const (
	geluScale = 0.7978845608028654 // √(2/π)
	geluCube  = 0.044715
)

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// A recogniser recognises activations, as one operator or composed of several.
type recogniser struct{ in *graph.Interpreter }

// activation recognises an activation whose last operator is n, and returns its input tensor; "" if n is not one.
func (f recogniser) activation(n *onnxpb.Node) (a Activation, from string) {
	if f.in.Functions[n.Op()] || len(n.GetOutput()) == 0 {
		return Activation{}, ""
	}
	a, from = f.operator(n)
	if from == "" {
		a, from = f.composed(n)
	}
	if from == "" || f.in.Get(from).Constant {
		return Activation{}, ""
	}
	in, out := f.in.Get(from).Dims, f.in.Get(n.GetOutput()[0]).Dims
	if in != nil && out != nil && len(in) != len(out) { // broadcasting with a constant added axes
		return Activation{}, ""
	}
	return a, from
}

// operator is activation for a single operator.
func (f recogniser) operator(n *onnxpb.Node) (Activation, string) {
	x := n.In(0)
	alpha := func(otherwise float64) float64 { return n.Float("alpha", otherwise) }
	switch n.Op() {
	case "Relu", "Tanh", "Sigmoid", "Softplus", "HardSwish":
		return Activation{Func: Nonlinearity(n.GetOpType())}, x
	case "LeakyRelu":
		return Activation{Func: LeakyRelu, Alpha: alpha(0.01)}, x
	case "Elu":
		return Activation{Func: Elu, Alpha: alpha(1)}, x
	case "Selu": // the defaults of the operator's definition
		return Activation{Func: Selu, Alpha: alpha(1.67326319217681884765625),
			Gamma: n.Float("gamma", 1.05070102214813232421875)}, x
	case "Gelu":
		switch string(n.Attr("approximate").GetS()) {
		case "", "none":
			return Activation{Func: Gelu}, x
		case "tanh":
			return Activation{Func: GeluTanh}, x
		}
	case "com.microsoft.Gelu":
		return Activation{Func: Gelu}, x
	case "com.microsoft.FastGelu":
		if n.In(1) == "" {
			return Activation{Func: GeluTanh}, x
		}
	case "com.microsoft.QuickGelu":
		return Activation{Func: Swish, Alpha: alpha(1.702)}, x
	case "Swish":
		return Activation{Func: Swish, Alpha: alpha(1)}, x
	case "PRelu":
		if slope, ok := f.in.Scalar(n.In(1)); ok {
			return Activation{Func: LeakyRelu, Alpha: slope}, x
		}
	case "Clip":
		if lo, hi, known := f.in.Call(n).ClipBounds(); known && lo == 0 && hi >= math.MaxFloat32 {
			return Activation{Func: Relu}, x
		}
	case "Max":
		if c, of := f.in.Besides(n); of != "" && c == 0 {
			return Activation{Func: Relu}, of
		}
	}
	return Activation{}, ""
}

// composed is activation for several operators, of which n is the last.
func (f recogniser) composed(n *onnxpb.Node) (Activation, string) {
	if op := n.Op(); op != "Mul" && op != "Div" {
		return Activation{}, ""
	}
	y := n.GetOutput()[0]
	_, factors := f.product(y, "")
	for _, name := range factors { // x times a gate, which determines which tensor is x
		gate := f.in.Producer(name)
		if gate == nil {
			continue
		}
		a, x, c := f.gate(gate)
		if x == "" {
			continue
		}
		k, of := f.product(y, x)
		if len(of) == 2 && (of[0] == x && of[1] == name || of[1] == x && of[0] == name) && alike(k, c) {
			return a, x
		}
	}
	return Activation{}, ""
}

// gate recognises the second factor in a(x) = c·x·gate(x); x is "" if n is not one.
func (f recogniser) gate(n *onnxpb.Node) (a Activation, x string, c float64) {
	switch n.Op() {
	case "Sigmoid":
		x, alpha := f.scaledTensor(n.In(0))
		return Activation{Func: Swish, Alpha: alpha}, x, 1
	case "HardSigmoid":
		if alike(n.Float("alpha", 0.2), 1.0/6) && alike(n.Float("beta", 0.5), 0.5) {
			return Activation{Func: HardSwish}, n.In(0), 1
		}
	case "Clip": // x · max(0, min(6, x + 3)) / 6
		lo, hi, known := f.in.Call(n).ClipBounds()
		if add := f.in.Producer(n.In(0)); known && lo == 0 && hi == 6 && add != nil && add.Op() == "Add" {
			if three, of := f.in.Besides(add); three == 3 {
				return Activation{Func: HardSwish}, of, 1.0 / 6
			}
		}
	case "Add": // 1 + erf(x/√2), 1 + tanh(√(2/π)(x + 0.044715x³))
		one, of := f.in.Besides(n)
		if of == "" || one != 1 {
			return Activation{}, "", 0
		}
		inner := f.in.Producer(of)
		if inner == nil {
			return Activation{}, "", 0
		}
		of, k := f.scaledTensor(inner.In(0))
		switch {
		case inner.Op() == "Erf" && alike(k, math.Sqrt2/2):
			return Activation{Func: Gelu}, of, 0.5
		case inner.Op() == "Tanh" && alike(k, geluScale):
			return Activation{Func: GeluTanh}, f.cubed(of), 0.5
		}
	}
	return Activation{}, "", 0
}

// scaledTensor decomposes a tensor into k · of, where of is not itself a constant multiple.
func (f recogniser) scaledTensor(name string) (of string, k float64) {
	k = 1
	const far = 4
	for range far {
		n := f.in.Producer(name)
		if n == nil {
			break
		}
		c, x := f.in.Besides(n)
		switch {
		case x == "":
			return name, k
		case n.Op() == "Mul":
			k *= c
		case n.Op() == "Div" && x == n.In(0):
			k /= c
		default:
			return name, k
		}
		name = x
	}
	return name, k
}

// cubed returns x if a tensor is x + 0.044715x³, else "".
func (f recogniser) cubed(name string) string {
	n := f.in.Producer(name)
	if n == nil || n.Op() != "Add" || len(n.GetInput()) != 2 {
		return ""
	}
	for i := range 2 {
		x := n.In(i)
		k, of := f.product(n.In(1-i), x)
		if !alike(k, geluCube) {
			continue
		}
		if len(of) == 3 && of[0] == x && of[1] == x && of[2] == x {
			return x
		}
		if len(of) != 1 {
			continue
		}
		if p := f.in.Producer(of[0]); p != nil && p.Op() == "Pow" && p.In(0) == x && f.in.Is(p.In(1), 3) {
			return x
		}
	}
	return ""
}

// product decomposes a tensor into a constant times other tensors. atom is not decomposed.
func (f recogniser) product(name, atom string) (k float64, of []string) {
	return f.productTo(name, atom, 4)
}

func (f recogniser) productTo(name, atom string, depth int) (k float64, of []string) {
	n := f.in.Producer(name)
	if k, ok := f.in.Scalar(name); ok {
		return k, nil
	}
	if name == atom || n == nil || depth == 0 || len(n.GetInput()) != 2 {
		return 1, []string{name}
	}
	switch n.Op() {
	case "Mul":
		k1, of1 := f.productTo(n.In(0), atom, depth-1)
		k2, of2 := f.productTo(n.In(1), atom, depth-1)
		return k1 * k2, append(of1, of2...)
	case "Div":
		if by, ok := f.in.Scalar(n.In(1)); ok {
			k, of = f.productTo(n.In(0), atom, depth-1)
			return k / by, of
		}
	}
	return 1, []string{name}
}

// alike reports whether a constant is x within half precision.
func alike(k, x float64) bool { return math.Abs(k-x) <= 1e-3*math.Abs(x) }
