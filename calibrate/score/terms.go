package score

import "github.com/mfgs/mfgs/calibrate/layer"

// Terms are what formulas are made of: the values that an example has and operations on them. A
// value has a row for each of the N examples: one number, or one for each of the K logits, or d
// features, or as many as a matrix has columns. Operations on two values act element by element; a
// single number stands for all of its row, and a [Terms.Constant] of one row for all examples.
//
// Numbers are float64. What is not finite may pass through any operation: it need not be caught, as
// a score of what is not finite is not looked at. But see [Terms.Greater].
type Terms[V any] interface {
	Link() layer.Link
	K() int // logits
	D() int // features

	Features() V // [N,d]
	Logits() V   // [N,K], the network's own
	Variance() V // [N,K], of the logits under the posterior, at T_ens = 1
	Leverage() V // [N,1], h = φᵀ(A+δI)⁻¹φ
	Margin() V   // [N,1], of 1 - max p under the temperatures for out-of-distribution data (package meanfield)

	// Constant is a matrix of fixed numbers, row-major with so many columns. The name is for who
	// reads the graph. A formula makes each once and keeps the value.
	Constant(name string, data []float64, width int) V
	Number(x float64) V

	Add(x, y V) V
	Sub(x, y V) V
	Mul(x, y V) V
	Div(x, y V) V
	Pow(x, y V) V // with x⁰ = 1 of any x, NaN included
	MinOf(x, y V) V
	MaxOf(x, y V) V
	Greater(x, y V) V // 1 where x > y, else 0: where one of them is NaN, too

	Neg(x V) V
	Abs(x V) V
	Exp(x V) V
	Log(x V) V
	Sqrt(x V) V

	// Over a row: [N,1] of [N,n].
	Max(x V) V
	Min(x V) V
	Sum(x V) V
	Mean(x V) V

	// Largest are the k largest of each row, the largest first: [N,k] of [N,n] with k ≤ n. The k-th
	// is Min of it, and the k smallest are those of Neg.
	Largest(x V, k int) V

	// MatMul is x·m, [N,b] of [N,a] and a Constant [a,b].
	MatMul(x, m V) V
}

// constant is a tensor that was learned, of one dimension as a row and of two as a matrix.
func constant[V any](t Terms[V], learned Tensors, name string) V {
	x := learned.Of(name)
	return t.Constant(name, x.Data, x.Shape[len(x.Shape)-1])
}

// logSumExp is log Σ exp x over each row, [N,1].
func logSumExp[V any](t Terms[V], x V) V {
	top := t.Max(x)
	return t.Add(top, t.Log(t.Sum(t.Exp(t.Sub(x, top)))))
}
