package score

import (
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
)

var entropy = Score{
	Name:     "entropy",
	Baseline: true,
	reads:    onlyLogits,
	Doc:      "entropy of the network's own probabilities",
	Source:   "Hendrycks and Gimpel 2017, section 2; Shannon 1948",
	rows:     entropyOf[Rows],
	graph:    entropyOf[string],
}

// entropyOf is log(-Σ p log p) in nats, for multi-label heads of the sum over labels. The logarithm keeps the order of
// entropies too small for a float64. With l the logarithms of unnormalised p, x = max l - l_k, and o = Σ exp(-x) over
// all classes but the first, it is log o + log(log(1+o)/o + Σ x exp(-x)/o / (1+o)), in which nothing cancels.
func entropyOf[V any](t Terms[V], _ Tensors) V {
	one := t.Number(1)
	if t.Link() == layer.Sigmoid {
		y := t.Abs(t.Logits())
		e := t.Exp(t.Neg(y))
		return logSumExp(t, t.Sub(t.Log(t.Add(log1pPart(t, e), t.Div(y, t.Add(e, one)))), y))
	}
	x, others := gaps(t)
	o := t.Exp(others)
	rest := t.Sum(t.Mul(x, t.Exp(t.MinOf(t.Neg(t.Add(x, others)), t.Number(0)))))
	return t.Add(others, t.Log(t.Add(log1pPart(t, o), t.Div(rest, t.Add(o, one)))))
}

var gen = Score{
	Name:     "gen",
	Baseline: true,
	reads:    onlyLogits,
	Doc:      "generalised entropy of the 100 most probable classes",
	Source:   "Liu, Lochman and Zach 2023, eq. 4, with γ = 0.1 and M = 100",
	rows:     genOf[Rows],
	graph:    genOf[string],
}

const (
	genGamma   = 0.1
	genClasses = 100
)

// genOf is log Σ p^γ (1-p)^γ over the M most probable classes of the network's own probabilities; for multi-label heads
// over both outcomes of all labels. The logarithm has the reason of entropyOf.
//
// With x as in entropyOf and S = 1 + o, p (1-p) is exp(-x) (S - exp(-x)) / S², and S - exp(-x) of the most probable
// class is o.
func genOf[V any](t Terms[V], _ Tensors) V {
	gamma := t.Number(genGamma)
	if t.Link() == layer.Sigmoid {
		y := t.Abs(t.Logits())
		log := t.Add(y, t.Mul(t.Number(2), t.Log1p(t.Exp(t.Neg(y))))) // -log p(1-p)
		return t.Add(t.Number(math.Ln2), logSumExp(t, t.Mul(t.Neg(gamma), log)))
	}
	x, others := gaps(t)
	if t.K() > genClasses {
		x = t.Neg(t.Largest(t.Neg(x), genClasses))
	}
	logS := t.Log1p(t.Exp(others))
	// log(S - exp(-x)): log o for x = 0, else of 1 + o - exp(-x).
	less := t.Greater(x, t.Number(0))
	rest := t.Log(t.Add(t.Exp(others), t.Mul(less, t.Sub(t.Number(1), t.Exp(t.Neg(x))))))
	rest = t.Add(t.Mul(less, t.MaxOf(rest, others)), t.Mul(t.Sub(t.Number(1), less), others))
	return logSumExp(t, t.Mul(gamma, t.Sub(t.Sub(rest, x), t.Add(logS, logS))))
}

// gaps are x = max l - l_k, [N,K], for logarithms l of unnormalised probabilities of classes that exclude each other,
// and log Σ exp(-x) over all classes but the most probable, [N,1], which keeps its digits where the sum underflows.
func gaps[V any](t Terms[V]) (x, others V) {
	l := layer.LogWeights(t, t.Link(), t.Logits())
	x = t.Sub(t.Max(l), l)
	least := t.Min(t.Largest(t.Neg(x), 2)) // -x of the second
	below := t.Greater(x, t.Number(0))
	// All but one of the classes that tie for the most probable count.
	tied := t.Sub(t.Number(float64(t.K()-1)), t.Sum(below))
	sum := t.Sum(t.Mul(below, t.Exp(t.MinOf(t.Sub(t.Neg(x), least), t.Number(0)))))
	return x, t.Add(least, t.Log(t.Add(sum, tied)))
}

// log1pPart is log(1+y)/y for y ≥ 0, and 1 at zero.
func log1pPart[V any](t Terms[V], y V) V {
	y = t.MaxOf(y, t.Number(1e-30))
	return t.Div(t.Log1p(y), y)
}
