package layer

import "math"

// Arithmetic computes element by element, with numbers or in a graph: formulas written in it are the same for
// both. V is a value, such as a slice of float64 or the name of a tensor.
type Arithmetic[V any] interface {
	Number(x float64) V
	Add(x, y V) V
	Sub(x, y V) V
	Mul(x, y V) V
	Greater(x, y V) V // 1 where x > y, else 0
	Neg(x V) V
	Abs(x V) V
	Exp(x V) V
	Log(x V) V
}

// LogWeights returns for each logit y the logarithm, up to a constant, of what its probability is proportional
// to under a [Link.Normalised] link. For [Softmax] that is the logit itself.
func LogWeights[V any](a Arithmetic[V], l Link, y V) V {
	switch l {
	case Softmax:
		return y
	case OneVsRest:
		return logSigmoid(a, y)
	}
	panic("layer: the link " + string(l) + " does not normalise")
}

// logSigmoid returns log 2σ(y). Near y = 0, where its values would lose their digits to rounding, it is the
// series y/2 - y²/8 + y⁴/192.
func logSigmoid[V any](a Arithmetic[V], y V) V {
	const small = 1e-2 // the series omits y⁶/2880
	size := a.Abs(y)
	one := a.Add(a.Exp(a.Neg(size)), a.Number(1))
	negative := a.Mul(a.Sub(y, size), a.Number(0.5)) // min(y, 0)
	full := a.Add(a.Sub(negative, a.Log(one)), a.Number(math.Ln2))
	near := a.Greater(a.Number(small), size)
	z := a.Mul(y, near)
	square := a.Mul(z, z)
	tail := a.Sub(a.Mul(square, a.Number(1./192)), a.Number(1./8))
	series := a.Add(a.Mul(z, a.Number(0.5)), a.Mul(square, tail))
	return a.Add(series, a.Mul(full, a.Sub(a.Number(1), near)))
}
