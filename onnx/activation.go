package onnx

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// A Nonlinearity is a function that is applied to every number of a layer, by the name of ONNX's operator.
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
	Gelu      Nonlinearity = "Gelu"      // xΦ(x), Φ being the normal distribution's cumulative function
	GeluTanh  Nonlinearity = "GeluTanh"  // Gelu with Φ(x) ≈ (1 + tanh(√(2/π)(x + 0.044715x³)))/2
	Swish     Nonlinearity = "Swish"     // x/(1 + e⁻ᵅˣ); SiLU is that with α = 1
	HardSwish Nonlinearity = "HardSwish" // x·max(0, min(1, x/6 + ½))
)

// An Activation is a Nonlinearity with its parameters, which are 0 where it has none.
type Activation struct {
	Func         Nonlinearity
	Alpha, Gamma float64
}

// String returns the function's name, with its parameters where it has any.
func (a Activation) String() string {
	switch a.Func {
	case LeakyRelu, Elu, Swish:
		return fmt.Sprintf("%s(%.6g)", a.Func, a.Alpha)
	case Selu:
		return fmt.Sprintf("%s(%.6g, %.6g)", a.Func, a.Alpha, a.Gamma)
	}
	return string(a.Func)
}

// At returns the function and its derivative at x; where there is none, that from the left. It panics if a.Func is none of
// the above.
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
	panic(fmt.Sprintf("onnx: there is no activation %q", a.Func))
}

// The constants of GeluTanh.
const (
	geluScale = 0.7978845608028654 // √(2/π)
	geluCube  = 0.044715
)

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// activation recognises an activation whose last operator is n, and returns the tensor it is applied to; "" if n is none.
func (f *finder) activation(n *onnxpb.Node) (a Activation, from string) {
	if f.in.functions[opName(n)] || len(n.GetOutput()) == 0 {
		return Activation{}, ""
	}
	a, from = f.operator(n)
	if from == "" {
		a, from = f.writtenOut(n)
	}
	if from == "" || f.constant(from) {
		return Activation{}, ""
	}
	in, out := f.in.get(from).dims, f.in.get(n.GetOutput()[0]).dims
	if in != nil && out != nil && len(in) != len(out) { // a constant of more axes has given them to the result
		return Activation{}, ""
	}
	return a, from
}

// operator is activation for a single operator.
func (f *finder) operator(n *onnxpb.Node) (Activation, string) {
	x := input(n, 0)
	alpha := func(otherwise float64) float64 { return attrFloat(n, "alpha", otherwise) }
	switch opName(n) {
	case "Relu", "Tanh", "Sigmoid", "Softplus", "HardSwish":
		return Activation{Func: Nonlinearity(n.GetOpType())}, x
	case "LeakyRelu":
		return Activation{Func: LeakyRelu, Alpha: alpha(0.01)}, x
	case "Elu":
		return Activation{Func: Elu, Alpha: alpha(1)}, x
	case "Selu": // the defaults of the operator's definition
		return Activation{Func: Selu, Alpha: alpha(1.67326319217681884765625), Gamma: attrFloat(n, "gamma", 1.05070102214813232421875)}, x
	case "Gelu":
		switch string(attribute(n, "approximate").GetS()) {
		case "", "none":
			return Activation{Func: Gelu}, x
		case "tanh":
			return Activation{Func: GeluTanh}, x
		}
	case "com.microsoft.Gelu":
		return Activation{Func: Gelu}, x
	case "com.microsoft.FastGelu":
		if input(n, 1) == "" {
			return Activation{Func: GeluTanh}, x
		}
	case "com.microsoft.QuickGelu":
		return Activation{Func: Swish, Alpha: alpha(1.702)}, x
	case "Swish":
		return Activation{Func: Swish, Alpha: alpha(1)}, x
	case "PRelu":
		if slope, ok := f.scalar(input(n, 1)); ok {
			return Activation{Func: LeakyRelu, Alpha: slope}, x
		}
	case "Clip":
		c := &call{Node: n, interpreter: f.in, in: []*value{f.in.get(x), f.in.get(input(n, 1)), f.in.get(input(n, 2))}}
		if lo, hi, known := c.clipBounds(); known && lo == 0 && hi >= math.MaxFloat32 {
			return Activation{Func: Relu}, x
		}
	case "Max":
		if c, of := f.besides(n); of != "" && c == 0 {
			return Activation{Func: Relu}, of
		}
	}
	return Activation{}, ""
}

// writtenOut is activation for several operators, of which n is the last.
func (f *finder) writtenOut(n *onnxpb.Node) (Activation, string) {
	if op := opName(n); op != "Mul" && op != "Div" {
		return Activation{}, ""
	}
	y := n.GetOutput()[0]
	_, factors := f.product(y, "")
	for _, name := range factors { // x times a gate, where the gate tells which tensor is x
		gate := f.g.producer[name]
		if gate == nil || f.in.functions[opName(gate)] {
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

// gate recognises the second factor in a(x) = c·x·gate(x); x is "" if it is none.
func (f *finder) gate(n *onnxpb.Node) (a Activation, x string, c float64) {
	switch opName(n) {
	case "Sigmoid":
		x, alpha := f.scaledTensor(input(n, 0))
		return Activation{Func: Swish, Alpha: alpha}, x, 1
	case "HardSigmoid":
		if alike(attrFloat(n, "alpha", 0.2), 1.0/6) && alike(attrFloat(n, "beta", 0.5), 0.5) {
			return Activation{Func: HardSwish}, input(n, 0), 1
		}
	case "Clip": // max(0, min(6, x + 3)), of which x takes a sixth
		c := &call{Node: n, interpreter: f.in, in: []*value{nil, f.in.get(input(n, 1)), f.in.get(input(n, 2))}}
		lo, hi, known := c.clipBounds()
		if add := f.g.producer[input(n, 0)]; known && lo == 0 && hi == 6 && add != nil && opName(add) == "Add" && !f.in.functions["Add"] {
			if three, of := f.besides(add); three == 3 {
				return Activation{Func: HardSwish}, of, 1.0 / 6
			}
		}
	case "Add": // 1 + erf(x/√2), 1 + tanh(√(2/π)(x + 0.044715x³))
		one, of := f.besides(n)
		if of == "" || one != 1 {
			return Activation{}, "", 0
		}
		inner := f.g.producer[of]
		if inner == nil || f.in.functions[opName(inner)] {
			return Activation{}, "", 0
		}
		of, k := f.scaledTensor(input(inner, 0))
		switch {
		case opName(inner) == "Erf" && alike(k, math.Sqrt2/2):
			return Activation{Func: Gelu}, of, 0.5
		case opName(inner) == "Tanh" && alike(k, geluScale):
			return Activation{Func: GeluTanh}, f.cubed(of), 0.5
		}
	}
	return Activation{}, "", 0
}

// scaledTensor takes a tensor apart into another, which is not a multiple by a constant, and the constant.
func (f *finder) scaledTensor(name string) (of string, k float64) {
	k = 1
	const far = 4
	for range far {
		n := f.g.producer[name]
		if n == nil || f.in.functions[opName(n)] {
			break
		}
		c, x := f.besides(n)
		switch {
		case x == "":
			return name, k
		case opName(n) == "Mul":
			k *= c
		case opName(n) == "Div" && x == input(n, 0):
			k /= c
		default:
			return name, k
		}
		name = x
	}
	return name, k
}

// cubed returns x where a tensor is x + 0.044715x³, otherwise "".
func (f *finder) cubed(name string) string {
	n := f.g.producer[name]
	if n == nil || opName(n) != "Add" || f.in.functions["Add"] || len(n.GetInput()) != 2 {
		return ""
	}
	for i := range 2 {
		x := input(n, i)
		k, of := f.product(input(n, 1-i), x)
		if !alike(k, geluCube) {
			continue
		}
		if len(of) == 3 && of[0] == x && of[1] == x && of[2] == x {
			return x
		}
		if len(of) != 1 {
			continue
		}
		if p := f.g.producer[of[0]]; p != nil && opName(p) == "Pow" && !f.in.functions["Pow"] && input(p, 0) == x && f.is(input(p, 1), 3) {
			return x
		}
	}
	return ""
}

// product takes a tensor apart into a constant number and other tensors that are multiplied; atom is not taken apart.
func (f *finder) product(name, atom string) (k float64, of []string) {
	return f.productTo(name, atom, 4)
}

func (f *finder) productTo(name, atom string, depth int) (k float64, of []string) {
	n := f.g.producer[name]
	if k, ok := f.scalar(name); ok {
		return k, nil
	}
	if name == atom || n == nil || depth == 0 || f.in.functions[opName(n)] || len(n.GetInput()) != 2 {
		return 1, []string{name}
	}
	switch opName(n) {
	case "Mul":
		k1, of1 := f.productTo(input(n, 0), atom, depth-1)
		k2, of2 := f.productTo(input(n, 1), atom, depth-1)
		return k1 * k2, append(of1, of2...)
	case "Div":
		if by, ok := f.scalar(input(n, 1)); ok {
			k, of = f.productTo(input(n, 0), atom, depth-1)
			return k / by, of
		}
	}
	return 1, []string{name}
}

// besides returns the constant number and the tensor that an operator of two inputs combines; "" if it has no such.
func (f *finder) besides(n *onnxpb.Node) (c float64, of string) {
	if len(n.GetInput()) != 2 {
		return 0, ""
	}
	for i := range 2 {
		if c, ok := f.scalar(input(n, i)); ok {
			return c, input(n, 1-i)
		}
	}
	return 0, ""
}

// scalar returns a constant of one number.
func (f *finder) scalar(name string) (float64, bool) {
	v := f.in.get(name)
	if name == "" || !v.constant || len(v.data) != 1 {
		return 0, false
	}
	return v.data[0], true
}

// is reports whether a tensor is the constant x.
func (f *finder) is(name string, x float64) bool {
	c, ok := f.scalar(name)
	return ok && c == x
}

// alike reports whether a constant of a formula is x, as far as half precision tells.
func alike(k, x float64) bool { return math.Abs(k-x) <= 1e-3*math.Abs(x) }
