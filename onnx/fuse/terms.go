package fuse

import (
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Score is an output of one number an example.
type Score struct {
	Name   string
	Double bool // float64, else float32
	// Emit writes the formula over the terms, and returns what holds the result, [N,1].
	Emit func(*Terms) string
}

// Terms are what scores are computed from: tensors of the graph by their names, and operators on them,
// which compute in float64. Values are [N,1] or [N,K]; a number stands for all.
type Terms struct {
	f                                            *fuser
	features, logits, variance, leverage, margin string
	doubles                                      map[string]string // of float32 terms, "" until one is cast
	numbers                                      map[string]string // of rows, as At takes them, [N]
}

func newTerms(f *fuser, features, logits string) *Terms {
	return &Terms{f: f, features: features, logits: logits, doubles: map[string]string{features: "", logits: ""},
		numbers: map[string]string{}}
}

// take adds what there is with a linear layer.
func (t *Terms) take(variance, leverage string) {
	t.variance, t.leverage = variance, leverage
	t.doubles[variance], t.doubles[leverage] = "", ""
}

// Link says how the head's logits become probabilities.
func (t *Terms) Link() layer.Link { return t.f.link }

// K returns how many logits there are.
func (t *Terms) K() int { return int(t.f.k) }

// D returns how many features there are.
func (t *Terms) D() int { return t.f.head.Features }

// Nonlinear reports whether there is no linear layer, and so no variance, leverage and margin.
func (t *Terms) Nonlinear() bool { return t.f.head.Nonlinear }

// Features returns the features, [N,d].
func (t *Terms) Features() string { return t.features }

// Logits returns the network's own logits, [N,K].
func (t *Terms) Logits() string { return t.logits }

// Variance returns the variances of the logits under the posterior, at T_ens = 1, [N,K].
func (t *Terms) Variance() string { return t.variance }

// Leverage returns the last of the quadratic forms, [N,1].
func (t *Terms) Leverage() string { return t.leverage }

// Margin returns the margin of 1 - max p under the pair OOD, [N,1], which must be there.
func (t *Terms) Margin() string {
	if t.margin == "" {
		panic("fuse: a score of margins in a graph that has no temperatures for them")
	}
	return t.margin
}

// Constant returns a matrix of fixed numbers, row-major with so many columns. One row stands for
// all examples.
func (t *Terms) Constant(name string, data []float64, width int) string {
	return t.f.double(name, data, int64(len(data)/width), int64(width))
}

// Number returns a constant.
func (t *Terms) Number(x float64) string { return t.f.number(x) }

// The operators act element by element.

func (t *Terms) Add(x, y string) string { return t.f.binary("Add", t.double(x), t.double(y)) }
func (t *Terms) Sub(x, y string) string { return t.f.binary("Sub", t.double(x), t.double(y)) }
func (t *Terms) Mul(x, y string) string { return t.f.binary("Mul", t.double(x), t.double(y)) }
func (t *Terms) Div(x, y string) string { return t.f.binary("Div", t.double(x), t.double(y)) }
func (t *Terms) Pow(x, y string) string { return t.f.binary("Pow", t.double(x), t.double(y)) }

func (t *Terms) MinOf(x, y string) string { return t.extreme("Min", x, y) }
func (t *Terms) MaxOf(x, y string) string { return t.extreme("Max", x, y) }

// Greater is 1 where x > y, and 0 elsewhere: where one of them is not a number, too.
func (t *Terms) Greater(x, y string) string {
	return t.f.cast(t.f.binary("Greater", t.double(x), t.double(y)), tensor.Float64)
}

func (t *Terms) Neg(x string) string  { return t.f.unary("Neg", t.double(x)) }
func (t *Terms) Abs(x string) string  { return t.f.unary("Abs", t.double(x)) }
func (t *Terms) Exp(x string) string  { return t.f.unary("Exp", t.double(x)) }
func (t *Terms) Log(x string) string  { return t.f.unary("Log", t.double(x)) }
func (t *Terms) Sqrt(x string) string { return t.f.unary("Sqrt", t.double(x)) }

// Max and the four below are over a row: [N,1] of [N,n].
func (t *Terms) Max(x string) string { return t.f.reduce("ReduceMax", t.double(x), 1, true) }
func (t *Terms) Min(x string) string { return t.f.reduce("ReduceMin", t.double(x), 1, true) }
func (t *Terms) Sum(x string) string { return t.f.reduce("ReduceSum", t.double(x), 1, true) }
func (t *Terms) SumSquares(x string) string {
	return t.f.reduce("ReduceSumSquare", t.double(x), 1, true)
}
func (t *Terms) Mean(x string) string { return t.f.reduce("ReduceMean", t.double(x), 1, true) }

// Largest returns the k largest of each row, the largest first: [N,k] of [N,n]. k became an input in
// operator set 10.
func (t *Terms) Largest(x string, k int) string {
	out, places := t.f.Names.Fresh("mfgs_largest"), t.f.Names.Fresh("mfgs_places")
	if t.f.opset < 10 {
		t.f.op("TopK", []string{t.double(x)}, onnxpb.IntAttribute("k", int64(k)), onnxpb.IntAttribute("axis", 1))
	} else {
		t.f.op("TopK", []string{t.double(x), t.f.list(int64(k))}, onnxpb.IntAttribute("axis", 1))
	}
	t.f.Nodes[len(t.f.Nodes)-1].Output = []string{out, places}
	return out
}

// MatMul is the product with a constant matrix, [N,b] of [N,a].
func (t *Terms) MatMul(x, m string) string { return t.f.binary("MatMul", t.double(x), t.double(m)) }

// Project is MatMul in float32 with the matrix of that name: ONNX Runtime packs a float32 constant once, and a float64
// one for each run.
func (t *Terms) Project(x, name string, data []float64, width int) string {
	single := t.f.cast(t.double(x), tensor.Float32)
	m := t.f.float(name, data, int64(len(data)/width), int64(width))
	return t.f.cast(t.f.binary("MatMul", single, m), tensor.Float64)
}

// OfClass is the row of the most probable class of a constant matrix with a row a class, [N,width]. Its numbers are
// rounded to float32.
func (t *Terms) OfClass(name string, data []float64, width int) string {
	var class string
	if t.f.k == 1 {
		class = t.f.reshape(t.f.cast(t.f.binary("Greater", t.double(t.logits), t.f.number(0)), tensor.Int64), -1)
	} else {
		class = t.f.op("ArgMax", []string{t.logits}, onnxpb.IntAttribute("axis", 1), onnxpb.IntAttribute("keepdims", 0))
	}
	rows := t.f.float(name, data, int64(len(data)/width), int64(width))
	return t.f.cast(t.f.op("Gather", []string{rows, class}), tensor.Float64)
}

// At is the row of a constant matrix at a number of it, [N,width] of [N,1].
func (t *Terms) At(number, name string, data []float64, width int) string {
	at := t.numbers[number]
	if at == "" {
		at = t.f.reshape(t.f.cast(number, tensor.Int64), -1)
		t.numbers[number] = at
	}
	return t.f.op("Gather", []string{t.Constant(name, data, width), at})
}

// extreme is Min or Max of two. Before operator set 8 these took no others than float32: there it is
// over an axis of its own.
func (t *Terms) extreme(kind, x, y string) string {
	x, y = t.double(x), t.double(y)
	if t.f.opset >= 8 {
		return t.f.binary(kind, x, y)
	}
	zero := t.f.binary("Mul", t.Greater(x, y), t.f.number(0)) // of the shape of both
	column := func(x string) string { return t.f.reshape(t.f.binary("Add", x, zero), 0, 0, 1) }
	both := t.f.op("Concat", []string{column(x), column(y)}, onnxpb.IntAttribute("axis", 2))
	return t.f.reduce("Reduce"+kind, both, 2, false)
}

// double casts a float32 term when it is first asked for.
func (t *Terms) double(x string) string {
	cast, single := t.doubles[x]
	if !single {
		return x
	}
	if cast == "" {
		cast = t.f.cast(x, tensor.Float64)
		t.doubles[x] = cast
	}
	return cast
}

// scores makes the outputs of the scores, [N] each.
func (f *fuser) scores(t *Terms, outputs Outputs) {
	for i, s := range f.mf.Scores {
		x := s.Emit(t)
		if _, single := t.doubles[x]; s.Double {
			x = t.double(x)
		} else if !single {
			x = f.cast(x, tensor.Float32)
		}
		f.as(outputs[i].Name, func() string { return f.reshape(x, -1) })
	}
}
