package calibrate

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Method is how logits become probabilities.
type Method string

const (
	MLE Method = "mle" // the network's own, softmax(a)
	TS  Method = "ts"  // temperature scaling, softmax(a/T)
	// Matrix is matrix scaling, softmax(Ma+b), of low rank and with a prior; for separate logits Platt scaling of each.
	Matrix Method = "matrix"
	// MF0 is the mean-field integral over the posterior (paper, eq. 9), of matrix scaling's logits if there are any.
	MF0 Method = "mf0"
)

// Methods are all methods, from the simplest on.
var Methods = []Method{MLE, TS, Matrix, MF0}

// Validate reports an unknown method.
func (m Method) Validate() error {
	if !slices.Contains(Methods, m) {
		return fmt.Errorf("method %.70q, want %s, %s, %s or %s", m, MF0, Matrix, TS, MLE)
	}
	return nil
}

// Calibration is all that prediction needs beside the network, and what a bundle holds. It must not change in use,
// and is safe for concurrent use.
type Calibration struct {
	Method    Method // of the probabilities; "" is MF0
	Posterior *Posterior
	NLL       layer.Temperatures // tuned for the likelihood of validation data: MF0's probabilities
	OOD       layer.Temperatures // tuned to detect out-of-distribution data: the margin of the score mf0
	TS        float64            // temperature scaling's T: probabilities of TS
	Smoothing float64            // temperature scaling's ε for a head without a linear layer, see [layer.Affine]
	TSOOD     float64            // temperature scaling's, tuned to detect out-of-distribution data; zero: TS
	Lambda0   float64            // zero: meanfield.Lambda0

	// Prior corrects the probabilities of all methods but MLE for the frequencies π of the C classes in use, where
	// those of the validation data are f: p is multiplied by π/f and normalised (Saerens, Latinne and Decaestecker,
	// Adjusting the Outputs of a Classifier to New a Priori Probabilities, 2002, eq. 4). It is log π - log f, [C];
	// nil if they are the same, and for a multi-label head.
	Prior []float64

	// Score is the out-of-distribution score; nil: mf0 with a median margin of 1.
	Score *score.Served

	// Product computes variances and scores. Where it is nil or fails, parallel.Go does.
	Product parallel.Product

	// Ratio is the largest T_max/T_min of a validation example, in or out of distribution, under either pair.
	// Graphs interpolate mf0 over that interval. It is at least 1, or 0 if unknown.
	Ratio float64
}

// Predictions are the results for n examples of C classes and K logits, row-major. C is K, or two for a sigmoid
// head with a single logit. For a multi-label head, max p is the mean over its labels of max(p_k, 1-p_k).
type Predictions struct {
	// LogP are the log-probabilities, [n,C]; for a multi-label head [n,K,2], log(1-p_k) and log p_k.
	LogP     []float64
	Variance []float64 // [n,K] logit variance s² at T_ens = 1; nil without a linear layer
	Margin   []float64 // [n] see meanfield.OneMinusMax

	// [n] each: the out-of-distribution score in (0,1], below ½ for half of the validation data; the fraction
	// of validation data that scores lower, and the p-value, see [score.Served.PValue], each nil if the calibration
	// does not know it; and the leverage, which is unbounded, nil without a linear layer.
	OODScore, OODPercentile, OODPValue, Leverage []float64
}

// Affine returns the map of the logits that a method has, nil for none.
func (c *Calibration) Affine(m Method) *layer.Affine {
	switch {
	case m == MLE || m == TS && c.Smoothing == 0:
		return nil
	case m == TS:
		return &layer.Affine{Smoothing: c.Smoothing}
	}
	return c.Posterior.Affine
}

// PlainTemperature returns T if the probabilities are softmax(a/T) of the logits or of matrix scaling's, and 0 if they
// are mf0's.
func (c *Calibration) PlainTemperature() float64 {
	switch c.Method {
	case MLE, Matrix:
		return 1
	case TS:
		return c.TS
	}
	return 0
}

// LeaveOneOut returns the calibration for examples that the curvature includes, see [Posterior.LeaveOneOut].
func (c *Calibration) LeaveOneOut() *Calibration {
	other := *c
	other.Posterior = c.Posterior.LeaveOneOut()
	return &other
}

// Predict evaluates n examples, from features [n,d] and logits [n,K].
func (c *Calibration) Predict(phi, logits []float32, n int) *Predictions {
	p, _ := c.PredictScores(nil, phi, logits, n)
	return p
}

// Scores computes out-of-distribution scores of n examples, [n] for each of the list.
func (c *Calibration) Scores(list []*score.Fitted, phi, logits []float32, n int) [][]float64 {
	_, x := c.evaluate(phi, logits, n, slices.ContainsFunc(list, needsMargin))
	return valuesOf(list, x)
}

// PredictScores is Predict and Scores in one pass.
func (c *Calibration) PredictScores(list []*score.Fitted, phi, logits []float32, n int) (*Predictions, [][]float64) {
	served := c.Served()
	p, x := c.evaluate(phi, logits, n, served.Margin || slices.ContainsFunc(list, needsMargin))
	p.OODScore, p.OODPercentile, p.OODPValue = served.Values(x)
	return p, valuesOf(list, x)
}

func needsMargin(s *score.Fitted) bool { return s.Margin }

func valuesOf(list []*score.Fitted, x score.Examples) [][]float64 {
	values := make([][]float64, len(list))
	for i, s := range list {
		values[i] = s.Values(x)
	}
	return values
}

// Served returns Score, or the default for nil.
func (c *Calibration) Served() *score.Served {
	if c.Score != nil {
		return c.Score
	}
	mf0, _ := score.Find("mf0")
	return &score.Served{Fitted: score.Fitted{Score: mf0}, Median: 1, Scale: 1}
}

// evaluate computes all of Predictions but the scores, and the inputs of scores. margin says whether these include
// the margin under the pair OOD.
func (c *Calibration) evaluate(phi, logits []float32, n int, margin bool) (*Predictions, score.Examples) {
	h := c.Posterior.Head
	checkLogits(logits, n, h)
	p := &Predictions{LogP: make([]float64, n*h.Probabilities()), Margin: make([]float64, n)}
	if !h.Nonlinear {
		p.Variance, p.Leverage = make([]float64, n*h.Logits), make([]float64, n)
	}
	x := score.Examples{
		N: n, K: h.Logits, D: h.Features, Link: h.Link, Nonlinear: h.Nonlinear, Features: phi, Logits: logits,
		Variance: p.Variance, Leverage: p.Leverage, Product: c.Product,
	}
	if margin {
		x.Margin = make([]float64, n)
	}
	k, width := h.Logits, h.Probabilities()
	if !h.Nonlinear && (c.Product == nil || c.Posterior.forms(c.Product, p.Variance, p.Leverage, phi, n) != nil) {
		c.Posterior.Both(p.Variance, p.Leverage, phi, n)
	}
	plain := c.PlainTemperature()
	of, mapped := c.Affine(c.Method), c.Posterior.Affine
	parallel.For(n, func(first, last int) {
		e := newEvaluator(h, c.Lambda0)
		unused, logit := make([]float64, width), make([]float64, k)
		for i := first; i < last; i++ {
			a, v := logits[i*k:(i+1)*k], []float64(nil)
			if !h.Nonlinear {
				v = p.Variance[i*k : (i+1)*k]
			}
			if mapped.To(logit, a); margin {
				x.Margin[i] = e.mf0(unused, logit, v, c.OOD)
			}
			if of != mapped {
				of.To(logit, a)
			}
			if logp := p.LogP[i*width : (i+1)*width]; plain > 0 {
				p.Margin[i] = e.plain(logp, logit, plain)
			} else {
				p.Margin[i] = e.mf0(logp, logit, v, c.NLL)
			}
		}
	})
	c.correct(c.Method, p.LogP)
	return p, x
}

// correct applies Prior to log-probabilities of a method.
func (c *Calibration) correct(m Method, logp []float64) {
	if m != MLE {
		c.ApplyPrior(logp)
	}
}

// Plain evaluates softmax(a/T), or sigmoids, for n examples: the network's probabilities at T = 1, and temperature
// scaling's at its T. It returns log-probabilities and margins as in [Predictions].
func Plain(h layer.Head, logits []float32, n int, temperature float64) (logp, margin []float64) {
	return plainMapped(h, nil, logits, n, temperature)
}

func plainMapped(h layer.Head, f *layer.Affine, logits []float32, n int, temperature float64) (logp, margin []float64) {
	return evaluated(h, f, logits, n, 0, func(e *evaluator, logp, a []float64, _ int) float64 {
		return e.plain(logp, a, temperature)
	})
}

// MeanField evaluates mf0 for n examples from their logits [n,K] and variances [n,K] at T_ens = 1, at any
// temperatures. It returns log-probabilities and margins as in [Predictions].
func (c *Calibration) MeanField(logits []float32, variance []float64, n int, t layer.Temperatures) (
	logp, margin []float64,
) {
	if len(variance) != len(logits) {
		panic(fmt.Sprintf("calibrate: %d variances of %d logits", len(variance), len(logits)))
	}
	h := c.Posterior.Head
	k := h.Logits
	one := func(e *evaluator, logp, a []float64, i int) float64 {
		return e.mf0(logp, a, variance[i*k:(i+1)*k], t)
	}
	logp, margin = evaluated(h, c.Posterior.Affine, logits, n, c.Lambda0, one)
	c.correct(MF0, logp)
	return logp, margin
}

// Plain evaluates a method other than MF0 for n examples. It returns log-probabilities and margins as in [Predictions].
func (c *Calibration) Plain(m Method, logits []float32, n int) (logp, margin []float64) {
	of := Calibration{Method: m, TS: c.TS}
	logp, margin = plainMapped(c.Posterior.Head, c.Affine(m), logits, n, of.PlainTemperature())
	c.correct(m, logp)
	return logp, margin
}

// evaluated calls f for every example, with the images of its logits.
func evaluated(h layer.Head, m *layer.Affine, logits []float32, n int, lambda0 float64,
	f func(e *evaluator, logp, logits []float64, i int) (margin float64),
) (logp, margin []float64) {
	checkLogits(logits, n, h)
	k, width := h.Logits, h.Probabilities()
	logp, margin = make([]float64, n*width), make([]float64, n)
	parallel.For(n, func(first, last int) {
		e, a := newEvaluator(h, lambda0), make([]float64, k)
		for i := first; i < last; i++ {
			m.To(a, logits[i*k:(i+1)*k])
			margin[i] = f(e, logp[i*width:(i+1)*width], a, i)
		}
	})
	return logp, margin
}

func checkLogits(logits []float32, n int, h layer.Head) {
	if len(logits) != n*h.Logits {
		panic(fmt.Sprintf("calibrate: %d logits for %d examples, want %d each", len(logits), n, h.Logits))
	}
}

// evaluator computes log-probabilities and margins for one head, without allocating.
type evaluator struct {
	formulas
	separate bool // of layer.Link
	lambda0  float64
	w        *meanfield.Workspace
	mu, s2   []float64
}

func newEvaluator(h layer.Head, lambda0 float64) *evaluator {
	if lambda0 == 0 {
		lambda0 = meanfield.Lambda0
	}
	return &evaluator{
		formulas: links[h.Link],
		separate: h.Link.Separate(),
		lambda0:  lambda0,
		w:        meanfield.NewWorkspace(h.Logits, lambda0),
		mu:       make([]float64, h.Logits),
		s2:       make([]float64, h.Logits),
	}
}

func (e *evaluator) mf0(logp, logits, s2 []float64, t layer.Temperatures) (margin float64) {
	if e.separate {
		inverseT := e.s2
		meanfield.InverseTemperaturesTo(inverseT, s2, 1/t.Ens, e.lambda0)
		for k, a := range logits {
			e.mu[k] = a / t.Act * inverseT[k]
		}
		return e.predict(logp, e.mu)
	}
	for k, a := range logits {
		e.mu[k] = a / t.Act
		e.s2[k] = s2[k] / t.Ens
	}
	return e.w.MF0(logp, e.mu, e.s2)
}

func (e *evaluator) plain(logp, logits []float64, temperature float64) (margin float64) {
	for k, a := range logits {
		e.mu[k] = a / temperature
	}
	return e.predict(logp, e.mu)
}
