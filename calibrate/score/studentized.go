package score

import "github.com/mfgs/mfgs/calibrate/layer"

var studentized = Score{
	Name:       "studentized",
	Doc:        "margin of the logits divided by √leverage; ranks like mf0 as T_ens goes to 0",
	Source:     "docs/methods.md; of residuals: Cook and Weisberg 1982, eq. 2.1.12",
	Similarity: true,
	rows:       studentizedOf[Rows],
	graph:      studentizedOf[string],
}

// studentizedOf is -(max a - mean a)/√h, or -mean |a|/√h for independent sigmoids: the order of mf0's 1 - max p for
// Σ = (A+δI)⁻¹ ⊗ I, where every logit has the variance h, as T_ens goes to zero and T_act is large.
func studentizedOf[V any](t Terms[V], _ Tensors) V {
	return t.Neg(t.Div(margin(t), t.Sqrt(t.Leverage())))
}

var marginLeverage = Score{
	Name:       "margin_leverage",
	Doc:        "margin of the logits divided by the leverage",
	Source:     "docs/methods.md",
	Similarity: true,
	rows:       marginLeverageOf[Rows],
	graph:      marginLeverageOf[string],
}

// marginLeverageOf is studentizedOf with h in place of √h.
func marginLeverageOf[V any](t Terms[V], _ Tensors) V {
	return t.Neg(t.Div(margin(t), t.Leverage()))
}

// margin is max a - mean a, or mean |a| for independent sigmoids.
func margin[V any](t Terms[V]) V {
	a := t.Logits()
	if t.Link() == layer.Sigmoid {
		return t.Mean(t.Abs(a))
	}
	return t.Mean(t.Sub(t.Max(a), a))
}
