package score

import "github.com/mfgs/mfgs/calibrate/layer"

var maxLogit = Score{
	Name:     "max_logit",
	Baseline: true,
	reads:    onlyLogits,
	Doc:      "the largest logit",
	Source:   "Hendrycks et al. 2022, section 3",
	rows:     maxLogitOf[Rows],
	graph:    maxLogitOf[string],
}

// maxLogitOf is -max a. A single logit a is that of a softmax over ±a/2.
func maxLogitOf[V any](t Terms[V], _ Tensors) V {
	a := t.Logits()
	if single(t) {
		return t.Mul(t.Abs(a), t.Number(-0.5))
	}
	return t.Neg(t.Max(a))
}

var energy = Score{
	Name:     "energy",
	Baseline: true,
	reads:    onlyLogits,
	Doc:      "the free energy of the logits",
	Source:   "Liu et al. 2020, eq. 4; of labels: Wang et al. 2021, eq. 5",
	rows:     energyOf[Rows],
	graph:    energyOf[string],
}

func energyOf[V any](t Terms[V], _ Tensors) V { return energyFrom(t, t.Logits()) }

// energyFrom is -log Σ exp a at temperature 1; for independent sigmoids the joint energy -Σ log(1+exp a). A single
// logit a is that of a softmax over ±a/2.
func energyFrom[V any](t Terms[V], a V) V {
	switch {
	case single(t):
		y := t.Abs(a)
		return t.Neg(t.Add(t.Mul(y, t.Number(0.5)), t.Log1p(t.Exp(t.Neg(y)))))
	case t.Link() == layer.Softmax:
		return t.Neg(logSumExp(t, a))
	}
	return t.Neg(t.Sum(t.Add(t.MaxOf(a, t.Number(0)), t.Log1p(t.Exp(t.Neg(t.Abs(a)))))))
}

var studentizedEnergy = Score{
	Name:   "studentized_energy",
	Doc:    "the free energy over √leverage",
	Source: "docs/methods.md; energy: Liu et al. 2020, eq. 4",
	rows:   studentizedEnergyOf[Rows],
	graph:  studentizedEnergyOf[string],
}

// studentizedEnergyOf is the energy over √h.
func studentizedEnergyOf[V any](t Terms[V], _ Tensors) V {
	return t.Div(energyOf(t, nil), t.Sqrt(t.Leverage()))
}

// single reports whether the head has one logit for two classes.
func single[V any](t Terms[V]) bool { return t.Link() == layer.Sigmoid && t.K() == 1 }
