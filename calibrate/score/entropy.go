package score

var entropy = Score{
	Name:   "entropy",
	Doc:    "of the network's own probabilities",
	Source: "Hendrycks and Gimpel 2017, section 2; Shannon 1948",
	rows:   entropyOf[Rows],
	graph:  entropyOf[string],
}

// entropyOf is -Σ p log p in nats, and the sum of the entropies of sigmoids where labels are told
// apart. With x = max l - l_k of logarithms l of what is proportional to p, and S = Σ exp(-x), it is
// log S + Σ x exp(-x) / S, in which nothing cancels.
func entropyOf[V any](t Terms[V], _ Tensors) V {
	if t.Link() == Sigmoid {
		y := t.Abs(t.Logits())
		e := t.Exp(t.Neg(y))
		return t.Sum(t.Add(log1p(t, e), t.Div(t.Mul(y, e), t.Add(e, t.Number(1)))))
	}
	x, others := gaps(t)
	o := t.Exp(others)
	return t.Add(log1p(t, o), t.Div(t.Sum(t.Mul(x, t.Exp(t.Neg(x)))), t.Add(o, t.Number(1))))
}

var gen = Score{
	Name:   "gen",
	Doc:    "generalised entropy of the 100 most probable classes",
	Source: "Liu, Lochman and Zach 2023, eq. 4, with γ = 0.1 and M = 100",
	rows:   genOf[Rows],
	graph:  genOf[string],
}

const (
	genGamma   = 0.1
	genClasses = 100
)

// genOf is Σ p^γ (1-p)^γ over the M most probable classes, of the network's own probabilities; where
// labels are told apart the sum over them of that of two classes.
//
// With x and S as in entropyOf, p (1-p) is exp(-x) (S - exp(-x)) / S², and S - exp(-x) of the most
// probable class is what the others have.
func genOf[V any](t Terms[V], _ Tensors) V {
	gamma := t.Number(genGamma)
	if t.Link() == Sigmoid {
		y := t.Abs(t.Logits())
		log := t.Add(y, t.Mul(t.Number(2), log1p(t, t.Exp(t.Neg(y))))) // -log p(1-p)
		return t.Mul(t.Number(2), t.Sum(t.Exp(t.Mul(t.Neg(gamma), log))))
	}
	x, others := gaps(t)
	if t.K() > genClasses {
		x = t.Neg(t.Largest(t.Neg(x), genClasses))
	}
	logS := log1p(t, t.Exp(others))
	// log(S - exp(-x)): log o for x = 0, else of 1 + o - exp(-x).
	less := t.Greater(x, t.Number(0))
	rest := t.Log(t.Add(t.Exp(others), t.Mul(less, t.Sub(t.Number(1), t.Exp(t.Neg(x))))))
	rest = t.Add(t.Mul(less, t.MaxOf(rest, others)), t.Mul(t.Sub(t.Number(1), less), others))
	return t.Sum(t.Exp(t.Mul(gamma, t.Sub(t.Sub(rest, x), t.Add(logS, logS)))))
}

// gaps are x = max l - l_k, [N,K], of the logarithms l of what the probabilities of classes that
// exclude each other are in proportion to, and log Σ exp(-x) over all classes but the most probable,
// [N,1], which has digits where that sum is next to nothing.
func gaps[V any](t Terms[V]) (x, others V) {
	l := t.Logits()
	if t.Link() == OneVsRest { // log σ
		l = t.Sub(t.MinOf(l, t.Number(0)), log1p(t, t.Exp(t.Neg(t.Abs(l)))))
	}
	x = t.Sub(t.Max(l), l)
	least := t.Min(t.Largest(t.Neg(x), 2)) // -x of the second
	below := t.Greater(x, t.Number(0))
	// Of those as probable as the first all but one count.
	tied := t.Sub(t.Number(float64(t.K()-1)), t.Sum(below))
	sum := t.Sum(t.Mul(below, t.Exp(t.MinOf(t.Sub(t.Neg(x), least), t.Number(0)))))
	return x, t.Add(least, t.Log(t.Add(sum, tied)))
}

// log1p is log(1+y) for y ≥ 0, to all digits: log u · y/(u-1) with u = 1+y as it is rounded, whose
// error the fraction takes back (Goldberg 1991, theorem 4).
func log1p[V any](t Terms[V], y V) V {
	one := t.Number(1)
	u := t.Add(y, one)
	d := t.Sub(u, one)
	some := t.Greater(d, t.Number(0))
	with := t.Mul(t.Log(u), t.Div(y, t.MaxOf(d, t.Number(0x1p-52))))
	return t.Add(t.Mul(some, with), t.Mul(t.Sub(one, some), y))
}
