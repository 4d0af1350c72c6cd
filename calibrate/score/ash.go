package score

import "math"

// ashPercentile is that of the paper's ASH-S on ImageNet: the part of an example's features that is
// left out.
const ashPercentile = 0.9

var ash = Score{
	Name: "ash", Doc: "energy of the largest tenth of the features, sharpened; for features after a ReLU",
	Source: "Djurisic et al. 2023 (ASH-S), with p = 90",
	Double: true,
	rows:   ashOf[Rows], graph: ashOf[string],
	learns: layer,
	fit:    (*Training).layer,
}

// ashOf is the energy of W exp(s₁/s₂) φ′ + b: φ′ are the features that are not among the smallest, s₁
// and s₂ the sums of φ and of φ′. Of equal ones at the bound all are kept.
func ashOf[V any](t Terms[V], learned Tensors) V {
	phi := t.Features()
	kept := t.D() - int(math.RoundToEven(ashPercentile*float64(t.D())))
	bound := t.Min(t.Largest(phi, max(1, kept)))
	pruned := t.Mul(phi, t.Sub(t.Number(1), t.Greater(bound, phi)))
	sharp := t.Exp(t.Div(t.Sum(phi), t.Sum(pruned)))
	return energyFrom(t, throughLayer(t, learned, t.Mul(pruned, sharp)))
}
