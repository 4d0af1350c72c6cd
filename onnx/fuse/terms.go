package fuse

import (
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Score is an output of one number an example.
type Score struct {
	Name   string
	Double bool // as the head computes it, else float32
	// Emit writes the formula over the terms, and returns what holds the result, [N,1].
	Emit func(*Terms) string
}

// Terms are what scores are computed from: tensors of the graph by their names, and operators on them,
// which compute in float64, or in float32 for [MeanField.Single]. Values are [N,1] or [N,K]; a number stands for all.
type Terms struct {
	f                                            *fuser
	features, logits, variance, leverage, margin string
	casts                                        map[string]string // of float32 terms, "" until one is cast
	numbers                                      map[string]string // of rows, as At takes them, [N]
}

func newTerms(f *fuser, features, logits string) *Terms {
	return &Terms{f: f, features: features, logits: logits, casts: map[string]string{features: "", logits: ""},
		numbers: map[string]string{}}
}

// take adds what there is with a linear layer.
func (t *Terms) take(variance, leverage string) {
	t.variance, t.leverage = variance, leverage
	t.casts[variance], t.casts[leverage] = "", ""
}

// Link says how the head's logits become probabilities.
func (t *Terms) Link() layer.Link { return t.f.link }

// K returns how many logits there are.
func (t *Terms) K() int { return int(t.f.k) }

// D returns how many features there are.
func (t *Terms) D() int { return t.f.head.Features }

// Single reports whether numbers are float32.
func (t *Terms) Single() bool { return t.f.mf.Single }

// Nonlinear reports whether there is no linear layer, and so no variance, leverage and margin.
func (t *Terms) Nonlinear() bool { return t.f.head.Nonlinear }

// Features returns the features, [N,d].
func (t *Terms) Features() string { return t.features }

// Center returns the mean of the training features, [d], or nil.
func (t *Terms) Center() []float64 { return t.f.mf.Forms.Center }

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
	return t.f.reals(name, data, int64(len(data)/width), int64(width))
}

// Number returns a constant.
func (t *Terms) Number(x float64) string { return t.f.number(x) }

// The operators act element by element.

func (t *Terms) Add(x, y string) string { return t.f.binary("Add", t.real(x), t.real(y)) }
func (t *Terms) Sub(x, y string) string { return t.f.binary("Sub", t.real(x), t.real(y)) }
func (t *Terms) Mul(x, y string) string { return t.f.binary("Mul", t.real(x), t.real(y)) }
func (t *Terms) Div(x, y string) string { return t.f.binary("Div", t.real(x), t.real(y)) }

func (t *Terms) MinOf(x, y string) string { return t.f.extreme("Min", t.real(x), t.real(y), 2) }
func (t *Terms) MaxOf(x, y string) string { return t.f.extreme("Max", t.real(x), t.real(y), 2) }

// Greater is 1 where x > y, and 0 elsewhere: where one of them is not a number, too, for which some engines have the
// operator Greater hold.
func (t *Terms) Greater(x, y string) string {
	return t.f.compared("Less", t.real(y), t.real(x))
}

// OrOne is x where known is 1, and 1 where it is 0, even if x is not a number there. Before operator set 9, x⁰ is 1.
func (t *Terms) OrOne(x, known string) string {
	if t.f.opset < 9 {
		return t.f.binary("Pow", t.real(x), known)
	}
	return t.f.op("Where", []string{t.f.binary("Greater", known, t.f.number(0.5)), t.real(x), t.f.number(1)})
}

func (t *Terms) Neg(x string) string  { return t.f.unary("Neg", t.real(x)) }
func (t *Terms) Abs(x string) string  { return t.f.unary("Abs", t.real(x)) }
func (t *Terms) Exp(x string) string  { return t.f.unary("Exp", t.real(x)) }
func (t *Terms) Log(x string) string  { return t.f.unary("Log", t.real(x)) }
func (t *Terms) Sqrt(x string) string { return t.f.unary("Sqrt", t.real(x)) }

// Expm1 is exp x - 1 for x up to ½, and Log1p is log(1+x) for x from -½ on, to all digits.
func (t *Terms) Expm1(x string) string { return t.f.expm1(t.real(x)) }
func (t *Terms) Log1p(x string) string { return t.f.log1p(t.real(x)) }

// Max and the four below are over a row: [N,1] of [N,n].
func (t *Terms) Max(x string) string { return t.f.reduce("ReduceMax", t.real(x), 1, true) }
func (t *Terms) Min(x string) string { return t.f.reduce("ReduceMin", t.real(x), 1, true) }
func (t *Terms) Sum(x string) string { return t.f.reduce("ReduceSum", t.real(x), 1, true) }
func (t *Terms) SumSquares(x string) string {
	return t.f.sumSquares(t.real(x), 1, true)
}
func (t *Terms) Mean(x string) string { return t.f.reduce("ReduceMean", t.real(x), 1, true) }

// Largest returns the k largest of each row, the largest first: [N,k] of [N,n]. k became an input in
// operator set 10.
func (t *Terms) Largest(x string, k int) string {
	out, _ := t.largest(x, k)
	return out
}

func (t *Terms) largest(x string, k int) (out, places string) {
	out, places = t.f.Names.Fresh("mfgs_largest"), t.f.Names.Fresh("mfgs_places")
	if t.f.opset < 10 {
		t.f.op("TopK", []string{t.real(x)}, onnxpb.IntAttribute("k", int64(k)), onnxpb.IntAttribute("axis", 1))
	} else {
		t.f.op("TopK", []string{t.real(x), t.f.list(int64(k))}, onnxpb.IntAttribute("axis", 1))
	}
	t.f.Nodes[len(t.f.Nodes)-1].Output = []string{out, places}
	return out, places
}

// Distances are the squared distances of x, [N,w], to the k rows of a constant matrix [n,w] whose rough distances
// [N,n] are the least: [N,k].
func (t *Terms) Distances(x, rough string, k int, name string, data []float64, width int) string {
	_, places := t.largest(t.Neg(rough), k)
	near := t.f.op("Gather", []string{t.Constant(name, data, width), places}) // [N,k,w]
	apart := t.f.binary("Sub", near, t.f.reshape(t.real(x), 0, 1, int64(width)))
	return t.f.sumSquares(apart, 2, false)
}

// MatMul is the product with a constant matrix, [N,b] of [N,a].
func (t *Terms) MatMul(x, m string) string { return t.f.binary("MatMul", t.real(x), t.real(m)) }

// Project is MatMul in float32 with the matrix of that name: ONNX Runtime packs a float32 constant once, and a float64
// one for each run.
func (t *Terms) Project(x, name string, data []float64, width int) string {
	single := t.f.narrowed(t.real(x))
	m := t.f.float(name, data, int64(len(data)/width), int64(width))
	return t.f.widened(t.f.binary("MatMul", single, m))
}

// OfLargest is the row of a constant matrix with a row for each of the numbers x of an example, [N,width] of [N,n]:
// that of the largest.
func (t *Terms) OfLargest(x, name string, data []float64, width int) string {
	at := t.f.op("ArgMax", []string{t.real(x)}, onnxpb.IntAttribute("axis", 1), onnxpb.IntAttribute("keepdims", 0))
	return t.f.op("Gather", []string{t.Constant(name, data, width), at})
}

// OfClass is the row of the most probable class of a constant matrix with a row a class, [N,width]. Its numbers are
// rounded to float32.
func (t *Terms) OfClass(name string, data []float64, width int) string {
	rows := t.f.float(name, data, int64(len(data)/width), int64(width))
	if t.f.k == 1 {
		return t.f.widened(t.f.row(rows, t.f.index(t.f.binary("Greater", t.real(t.logits), t.f.number(0))), width))
	}
	class := t.f.op("ArgMax", []string{t.logits}, onnxpb.IntAttribute("axis", 1), onnxpb.IntAttribute("keepdims", 0))
	return t.f.widened(t.f.op("Gather", []string{rows, class}))
}

// index is numbers as Gather takes them: of int32 for engines that have no int64.
func (f *fuser) index(x string) string {
	if f.mf.Single {
		return f.cast(x, tensor.Int32)
	}
	return f.cast(x, tensor.Int64)
}

// row is the row of a matrix at an index, [N,width] of [N,1]. The index keeps its rank, as onnx2tf takes int32 [N] for
// a shape.
func (f *fuser) row(matrix, index string, width int) string {
	return f.reshape(f.op("Gather", []string{matrix, index}), 0, int64(width))
}

// At is the row of a constant matrix at a number of it, [N,width] of [N,1].
func (t *Terms) At(number, name string, data []float64, width int) string {
	at := t.numbers[number]
	if at == "" {
		at = t.f.index(number)
		t.numbers[number] = at
	}
	return t.f.row(t.Constant(name, data, width), at, width)
}

// extreme is Min or Max of two, of which one at least has that rank. Before operator set 8 these took no others than
// float32, of the same shape: there it is over an axis of its own.
func (f *fuser) extreme(kind, x, y string, rank int64) string {
	if f.opset >= 8 {
		return f.binary(kind, x, y)
	}
	zero := f.binary("Mul", f.compared("Greater", x, y), f.number(0)) // of the shape of both
	column := func(x string) string {
		return f.op("Unsqueeze", []string{f.binary("Add", x, zero)}, onnxpb.IntsAttribute("axes", rank))
	}
	both := f.op("Concat", []string{column(x), column(y)}, onnxpb.IntAttribute("axis", rank))
	return f.reduce("Reduce"+kind, both, rank, false)
}

// real casts a float32 term when it is first asked for.
func (t *Terms) real(x string) string {
	cast, single := t.casts[x]
	if !single {
		return x
	}
	if cast == "" {
		cast = t.f.widened(x)
		t.casts[x] = cast
	}
	return cast
}

// scores makes the outputs of the scores, [N] each.
func (f *fuser) scores(t *Terms, outputs Outputs) {
	for i, s := range f.mf.Scores {
		x := s.Emit(t)
		if _, single := t.casts[x]; s.Double {
			x = t.real(x)
		} else if !single {
			x = f.narrowed(x)
		}
		f.as(outputs[i].Name, func() string { return f.reshape(x, -1) })
	}
}
