package score

import "github.com/mfgs/mfgs/calibrate/layer"

// Terms are the building blocks of formulas: an example's values and operations on them. A value has a row for each of
// the N examples, of one number, of K logits, of d features, or of a matrix's columns. Operations on two values are
// elementwise; a single number of a row, and a [Terms.Constant] of one row, broadcast.
//
// Numbers are float64, and in some graphs float32, see [Terms.Single]. Formulas need not catch values that are not
// finite: [Served] replaces their scores. But see [Terms.Greater].
type Terms[V any] interface {
	Link() layer.Link
	K() int // logits
	D() int // features
	// Single says that numbers are float32: a difference of large numbers that nearly cancel is then to be avoided, at
	// a price if need be.
	Single() bool
	// Nonlinear says that there is no linear layer, and so no variance, leverage and margin.
	Nonlinear() bool

	Features() V       // [N,d]
	Center() []float64 // [d], the mean of the training features in float32; nil if that is not known
	Logits() V         // [N,K], the network's own
	Variance() V       // [N,K], of the logits under the posterior, at T_ens = 1
	Leverage() V       // [N,1], h = φᵀ(A+δI)⁻¹φ
	Margin() V         // [N,1], of 1 - max p under the temperatures for out-of-distribution data (package meanfield)

	// Constant is a matrix of fixed numbers, row-major with width columns. The name appears in the graph. A formula
	// calls it once for each matrix.
	Constant(name string, data []float64, width int) V
	Number(x float64) V

	Add(x, y V) V
	Sub(x, y V) V
	Mul(x, y V) V
	Div(x, y V) V
	MinOf(x, y V) V
	MaxOf(x, y V) V
	Greater(x, y V) V   // 1 where x > y, else 0, also for NaN
	OrOne(x, known V) V // x where known is 1, and 1 where it is 0, even if x is NaN

	Neg(x V) V
	Abs(x V) V
	Exp(x V) V
	Log(x V) V
	Sqrt(x V) V
	Expm1(x V) V // exp x - 1, for x up to ½
	Log1p(x V) V // log(1+x), for x from -½ on

	// Over a row: [N,1] of [N,n].
	Max(x V) V
	Min(x V) V
	Sum(x V) V
	SumSquares(x V) V
	Mean(x V) V

	// Largest is the k largest of each row, descending: [N,k] of [N,n] with k ≤ n.
	Largest(x V, k int) V

	// MatMul is x·m, [N,b] of [N,a] and a Constant [a,b].
	MatMul(x, m V) V
	// Project is MatMul with the matrix of that name, in float32 in graphs: several times as fast. Use it where nothing
	// is subtracted from the result.
	Project(x V, name string, data []float64, width int) V

	// Distances are the squared distances of x, [N,w], to the k of a matrix's rows, [n,w], whose rough distances
	// are the least, [N,k] of [N,n].
	Distances(x, rough V, k int, name string, data []float64, width int) V

	// OfLargest is the row of a matrix [n,width] at the largest of x, [N,width] of [N,n].
	OfLargest(x V, name string, data []float64, width int) V

	// OfClass is the row of the most probable class of a matrix [C,width], [N,width]: C is K, or 2 for a single logit.
	OfClass(name string, data []float64, width int) V
	// At is the row of a matrix at a number of it, [N,width] of [N,1].
	At(number V, name string, data []float64, width int) V
}

// constant is a fitted tensor: one dimension as a row, two as a matrix.
func constant[V any](t Terms[V], fitted Tensors, name string) V {
	x := fitted.Of(name)
	return t.Constant(name, x.Data, x.Shape[len(x.Shape)-1])
}

// logSumExp is log Σ exp x over each row, [N,1].
func logSumExp[V any](t Terms[V], x V) V {
	top := t.Max(x)
	return t.Add(top, t.Log(t.Sum(t.Exp(t.Sub(x, top)))))
}
