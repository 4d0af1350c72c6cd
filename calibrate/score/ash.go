package score

import "math"

// ashPercentile is the fraction of an example's features that is pruned: pytorch-ood's default for ASH-S. The paper's
// 90 for 2,048 features leaves too few of a ResNet-20's 64: AUROC for CIFAR-10 against Tiny-ImageNet is 52 with 90
// and 81 with 65.
const ashPercentile = 0.65

// mostSharpening bounds exponents, so that float32 holds their exponential times logits.
const mostSharpening = 60

var ash = Score{
	Name: "ash", Doc: "energy of the largest third of features after a ReLU",
	Source: "Djurisic et al. 2023 (ASH-S), with p = 65",
	rows:   ashOf[Rows], graph: ashOf[string],
	fitted: lastLayer,
	fit:    (*Training).layer,
}

// ashOf is the energy of W exp(s₁/s₂) φ′ + b: φ′ are the features without the smallest ones, s₁ and s₂ the sums of φ
// and φ′. Features equal to the bound are kept.
func ashOf[V any](t Terms[V], fitted Tensors) V {
	phi := t.Features()
	kept := t.D() - int(math.RoundToEven(ashPercentile*float64(t.D())))
	bound := t.Min(t.Largest(phi, max(1, kept)))
	pruned := t.Mul(phi, t.Sub(t.Number(1), t.Greater(bound, phi)))
	// After a ReLU the exponent is below 3; with negative features s₂ may be nearly 0.
	sharp := t.Exp(t.MinOf(t.Div(t.Sum(phi), t.Sum(pruned)), t.Number(mostSharpening)))
	return energyFrom(t, throughLayer(t, fitted, t.Mul(pruned, sharp)))
}
