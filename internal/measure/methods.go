package measure

import (
	"cmp"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Method gives probabilities from nothing but a calibration. A score of the same name replaces its OOD scores.
type Method struct {
	Name, Doc string
	// meanField says that predict needs block.mf0.
	meanField bool
	predict   func(x *block) Scores
}

// block is what methods predict: a block of examples and mf0's predictions of it, nil unless a method needs them.
type block struct {
	c   *calibrate.Calibration
	b   *rows.Batch
	mf0 *calibrate.Predictions
}

// Pairwise is the name of mf1: no bundle serves it, but a model can be exported that does.
const Pairwise = "mf1"

// Methods are the methods with probabilities, in the order of tables.
var Methods = []Method{
	{Name: "mle", Doc: "the network's own probabilities", predict: func(x *block) Scores { return x.plain(1) }},
	{Name: "ts", Doc: "temperature scaling", predict: (*block).scaled},
	{Name: "matrix", Doc: "matrix scaling, if the bundle has it: else temperature scaling", predict: (*block).matrix},
	{Name: "mf0", Doc: "the mean-field approximation", meanField: true, predict: func(x *block) Scores {
		return Scores{LogP: x.mf0.LogP, NLL: negated(x.mf0.Margin)}
	}},
	{Name: Pairwise, Doc: "mean field with the variances of both logits of each pair; predict and serve do not offer it", meanField: true, predict: (*block).pairwise},
}

func find(name string) *Method {
	i := slices.IndexFunc(Methods, func(m Method) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &Methods[i]
}

// plain returns softmax(a/T).
func (x *block) plain(t float64) Scores {
	logp, margin := calibrate.Plain(x.c.Posterior.Head, x.b.Logits, x.b.N, t)
	return Scores{LogP: logp, OOD: negated(margin)}
}

func (x *block) scaled() Scores {
	logp, margin := x.c.Plain(calibrate.TS, x.b.Logits, x.b.N)
	s := Scores{LogP: logp, OOD: negated(margin)}
	if x.c.TSOOD != 0 && x.c.TSOOD != x.c.TS {
		of := calibrate.Calibration{Posterior: x.c.Posterior, TS: x.c.TSOOD, Smoothing: x.c.Smoothing}
		_, margin := of.Plain(calibrate.TS, x.b.Logits, x.b.N)
		s.NLL, s.OOD = s.OOD, negated(margin)
	}
	return s
}

// matrix returns softmax(Ma+b), or softmax(a/T) where there is no such map.
func (x *block) matrix() Scores {
	if x.c.Posterior.Affine == nil {
		return x.scaled()
	}
	logp, margin := x.c.Plain(calibrate.Matrix, x.b.Logits, x.b.N)
	return Scores{LogP: logp, OOD: negated(margin)}
}

// pairwise returns the probabilities of mf1 (paper, eq. 10) at the temperatures for likelihood, as an exported model
// computes them: for separate logits those of mf0.
func (x *block) pairwise() Scores {
	h, k := x.c.Posterior.Head, x.c.Posterior.Head.Logits
	if h.Link != layer.Softmax {
		return Scores{LogP: x.mf0.LogP, OOD: negated(x.mf0.Margin)}
	}
	lambda0 := cmp.Or(x.c.Lambda0, meanfield.Lambda0)
	logp, margin := make([]float64, x.b.N*k), make([]float64, x.b.N)
	parallel.For(x.b.N, func(first, last int) {
		mu, s2 := make([]float64, k), make([]float64, k)
		for i := first; i < last; i++ {
			x.c.Posterior.Affine.To(mu, x.b.Logits[i*k:(i+1)*k])
			for j := range k {
				mu[j], s2[j] = mu[j]/x.c.NLL.Act, x.mf0.Variance[i*k+j]/x.c.NLL.Ens
			}
			margin[i] = meanfield.MF1(logp[i*k:(i+1)*k], mu, s2, lambda0)
		}
	})
	x.c.ApplyPrior(logp)
	return Scores{LogP: logp, OOD: negated(margin)}
}

// negated returns scores, larger for what is more out-of-distribution, from margins.
func negated(margins []float64) []float64 {
	scores := slices.Clone(margins)
	Negate(scores)
	return scores
}

// Negate turns margins into scores, in place.
func Negate(margins []float64) {
	for i, m := range margins {
		margins[i] = -m
	}
}

// Served is the name of the score that a calibration serves, whichever it is.
const Served = "ood_score"

// Suits reports whether a method can be had with a head. Most need a linear layer.
func Suits(name string, h layer.Head) bool {
	if m := find(name); m != nil {
		return !m.meanField || !h.Nonlinear
	}
	s, is := score.Find(name)
	return !is || s.Suits(h)
}

// IsScore reports whether a method is a score alone, without probabilities. mf0 gives both.
func IsScore(name string) bool {
	_, is := score.Find(name)
	return (is || name == Served) && find(name) == nil
}

// Plain reports whether a method needs nothing but a calibration: it has probabilities, or it is a score that
// needs no training data or is served by c. c may be nil.
func Plain(name string, c *calibrate.Calibration) bool {
	if find(name) != nil || name == Served {
		return true
	}
	s, is := score.Find(name)
	return is && (!s.NeedsFitting() || c != nil && c.Served().Name == name)
}

// AddPlain adds a block of examples, whose features and logits are finite, to tallies of methods that are Plain.
// fitted are the fitted scores that c does not serve.
func AddPlain(tallies []*Tally, c *calibrate.Calibration, fitted []*score.Fitted, p SetID, b *rows.Batch) error {
	x := &block{c: c, b: b}
	var list []*score.Fitted
	meanField := false
	for _, t := range tallies {
		if s := scoreOf(t.Name, c, fitted); s != nil {
			list = append(list, s)
		}
		m := find(t.Name)
		meanField = meanField || m != nil && m.meanField
	}
	var values [][]float64
	if meanField {
		of := *c
		of.Method = calibrate.MF0
		x.mf0, values = of.PredictScores(list, b.Features, b.Logits, b.N)
	} else if len(list) > 0 { // variances, which take the time, are not needed otherwise
		values = c.Scores(list, b.Features, b.Logits, b.N)
	}
	for _, t := range tallies {
		var s Scores
		if m := find(t.Name); m != nil {
			s = m.predict(x)
		}
		if scoreOf(t.Name, c, fitted) != nil {
			s.OOD, values = values[0], values[1:]
		}
		if err := t.Add(p, s, b); err != nil {
			return err
		}
	}
	return nil
}

// scoreOf returns the score that a method uses, nil if it uses none.
func scoreOf(name string, c *calibrate.Calibration, fitted []*score.Fitted) *score.Fitted {
	for _, s := range fitted {
		if s.Name == name {
			return s
		}
	}
	if served := c.Served(); name == Served || name == served.Name {
		return &served.Fitted
	}
	if s, is := score.Find(name); is {
		return &score.Fitted{Score: s}
	}
	return nil
}
