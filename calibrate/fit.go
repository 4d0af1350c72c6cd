package calibrate

import (
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Fitted is the result of Fit.
type Fitted struct {
	Calibration
	Choice      Choice          // of Method
	ScoreChoice score.Selection // of Score
	// Scores are the candidates compared on out-of-distribution data, nil without such data: see score.Select.
	Scores []score.Candidate
	// SyntheticScores are the scores on synthetic OOD data, nil without such data: see score.CompareOnSynthetic.
	SyntheticScores []score.Candidate
	// Optimum are the temperatures of the least objective. The pair NLL is preferred where it is not
	// significantly worse.
	Optimum        layer.Temperatures
	Rho            float64     // ε over the mean eigenvalue; zero if that is too small
	Candidates     []Candidate // more than one if the damping was chosen
	MedianVariance float64     // of s² at T_ens = 1, on validation data
	OODTuned       bool        // else the pair OOD is the pair NLL
	NLLGrid        Grid
	AUROCGrid      Grid // empty without out-of-distribution data
	Warnings       []string
}

// Fit chooses damping and temperatures for a curvature.
//
// val is labelled validation data; ood, which may be nil, is out-of-distribution data, with or without labels.
//
//   - TS is the T that minimises the mean -log p of val's labels under softmax(a/T), with half a wrong example added.
//   - Matrix scaling, a ↦ Ma+b of low rank, has a normal prior around it, whose precisions maximise the evidence. It
//     is kept if the evidence is greater by half a nat than that of temperature scaling and the NLL in
//     cross-validation is lower. Its logits then take the place of the network's in what follows.
//   - Damping: automatic damping tries ρ = 1, 10, 0.1 and 0.01 mean eigenvalues, and keeps 1 unless another has an
//     NLL that is lower by more than one standard error of the paired differences between examples.
//   - Optimum minimises the mean -log p of val's labels under mf0, with half a wrong example added, over T_act from
//     1/1000 of the median of max a - mean a to that median, and τ = T_ens / median s² in [3e-7, 1e3]. With
//     thousands of examples, some hundreds of them show where to search.
//   - NLL is the pair with the smallest τ ≥ 0.01 whose objective is higher by no more than one standard error of
//     the paired differences, nor by more than 0.5 %, and not above that of temperature scaling. Where the
//     likelihood does not decide, the posterior gets the larger share of the spread.
//   - OOD maximises the AUROC of 1 - max p over the same temperatures, with the larger τ among near equals. TSOOD is
//     the temperature that maximises that of softmax(a/T).
//   - Method is mf0 if it is significantly better than simpler methods; see Choice.
//   - Score is the guarded margin unless another is asked for or detects ood better; see score.Selection.
//
// When ctx ends, Fit returns, at the latest after the inversion in progress.
func Fit(ctx context.Context, c *Curvature, val, ood *rows.Batch, o FitOptions) (*Fitted, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := checkData(c.head, val, ood, &o); err != nil {
		return nil, err
	}
	unit, err := c.MeanEigenvalue(o.Covariance)
	if err != nil {
		return nil, err
	}
	if unit <= 0 && o.Damping.Absolute == 0 {
		return nil, fmt.Errorf("the curvature is zero in float64, since every training probability is exactly 0 or 1: give an absolute damping, such as 1")
	}
	damped := func(rho float64, f *layer.Affine) (*Posterior, error) {
		return c.mappedPosterior(o.Covariance, o.Damping.epsilon(rho, unit), f)
	}
	return fitChoices(ctx, &choices{c.head, c.product, o.Damping.candidates(unit), damped}, val, ood, o)
}

// A Gaussian over the last layer's weights that another program computed, such as package external reads.
type Gaussian interface {
	Head() layer.Head
	// Posterior returns the posterior, of [External] covariance and without leverages. Its variances are those of
	// logits that f, unless nil, maps.
	Posterior(f *layer.Affine) (*Posterior, error)
}

// FitExternal is [Fit] for a posterior from elsewhere, which is not damped: temperatures and all that follows are tuned
// as by Fit. Leverages are those of the features of c, whose curvature does not count.
func FitExternal(ctx context.Context, g Gaussian, c *Curvature, val, ood *rows.Batch, o FitOptions) (*Fitted, error) {
	o.Covariance, o.Damping = External, Damping{}
	if err := o.complete(); err != nil {
		return nil, err
	}
	if g.Head() != c.head {
		return nil, fmt.Errorf("the posterior is of the head %+v, the features of %+v", g.Head(), c.head)
	}
	if err := checkData(c.head, val, ood, &o); err != nil {
		return nil, err
	}
	if err := c.ready(Hessian); err != nil {
		return nil, err
	}
	var leverages Posterior
	if err := c.setLeverageFull(&leverages); err != nil {
		return nil, err
	}
	one := func(_ float64, f *layer.Affine) (*Posterior, error) {
		p, err := g.Posterior(f)
		if err == nil {
			p.Leverage = leverages.Leverage
		}
		return p, err
	}
	f, err := fitChoices(ctx, &choices{c.head, c.product, []float64{0}, one}, val, ood, o)
	if err == nil {
		f.Candidates = nil // of damping
	}
	return f, err
}

// fitChoices is Fit for complete options.
func fitChoices(ctx context.Context, c *choices, val, ood *rows.Batch, o FitOptions) (*Fitted, error) {
	h := c.head
	steps, done := len(c.rhos)+1, 0
	if ood != nil {
		steps++
	}
	step := func() {
		done++
		o.Progress("tuning", done, steps)
	}
	o.Progress("tuning", 0, steps)

	s, err := fitSimple(ctx, h, val, &o)
	if err != nil {
		return nil, err
	}
	t, limit := s.t, s.limit
	step()

	chosen, tried, warnings, err := t.tuneDamping(ctx, c, val, o, step)
	if err != nil {
		return nil, err
	}
	f := &Fitted{Rho: chosen.Rho, Candidates: tried, MedianVariance: chosen.median, Warnings: warnings}
	f.Posterior, f.Product, f.Lambda0, f.TS = chosen.posterior, c.product, o.Lambda0, s.temperature
	act := t.unit
	f.NLLGrid = chosen.grid
	scaleTo(f.NLLGrid.Act, act, f.NLLGrid.Act)

	t.evaluate([]float64{chosen.best.act}, chosen.best.tau*chosen.median)
	f.Choice = s.ladder.mf0(t.trial(0))
	if f.Method = f.Choice.Method; f.Method == MF0 {
		// The gain for which mf0 was chosen is kept.
		limit = chosen.best.value + f.Choice.MF0Gain - f.Choice.MF0Needed
	}
	pair := prefer(&t.examples, chosen.best, limit, chosen.median, o.Lambda0)
	f.Optimum, f.NLL = f.temperatures(chosen.best, act), f.temperatures(pair, act)
	f.OOD = f.NLL
	var outside *score.Examples
	if ood != nil {
		out, err := f.tuneOOD(ctx, c.product, t, val, ood, s.unit)
		if err != nil {
			return nil, err
		}
		outside = f.examples(c.product, out, ood)
		step()
	}
	f.Ratio = math.Max(f.Ratio, maxRatio(t, o.Lambda0, f.NLL, f.OOD))
	held := score.ValidationData{Val: f.examples(c.product, t, val), OOD: outside}
	if err := f.chooseScore(ctx, c.product, t, held, o); err != nil {
		return nil, err
	}
	return f, nil
}

// checkData reports batches that do not fit a head.
func checkData(h layer.Head, val, ood *rows.Batch, o *FitOptions) error {
	if err := CheckBatch(h, val, true); err != nil {
		return fmt.Errorf("validation data: %w", err)
	}
	for what, b := range map[string]*rows.Batch{"out-of-distribution data": ood, "synthetic OOD data": o.Synthetic} {
		if b == nil {
			continue
		}
		if err := CheckBatch(h, b, false); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// simple is the methods without variances, fitted to validation data.
type simple struct {
	ladder      *ladder
	temperature float64    // T of temperature scaling
	smoothing   float64    // ε of temperature scaling
	unit        float64    // of T_act for the logits that temperature scaling divides
	t           *tuningSet // of the logits that mf0 begins with: the network's or matrix scaling's
	limit       float64    // the objective that mf0 should not exceed: of temperature or matrix scaling
}

func fitSimple(ctx context.Context, h layer.Head, val *rows.Batch, o *FitOptions) (s simple, err error) {
	s.t = newTuningSet(h, nil, val, true, o.Lambda0, 0)
	s.t.plain(1 / s.t.unit)
	network := s.t.trial(0)
	if err := s.scaleByTemperature(ctx, h, val, o); err != nil {
		return s, err
	}
	s.ladder = climb(network, s.t.trial(0))
	if s.ladder.KeepClass = o.KeepClass; !o.KeepClass {
		if err := s.scaleByMatrix(ctx, h, val, o.Lambda0); err != nil {
			return s, err
		}
	}
	s.t.trained = o.ValTrained
	return s, nil
}

// scaleByMatrix replaces the logits by those of matrix scaling if it is chosen. Validation examples have the logits of
// maps that were fitted without them: else the temperatures of mf0 would be those of a set that the map knows.
func (s *simple) scaleByMatrix(ctx context.Context, h layer.Head, val *rows.Batch, lambda0 float64) error {
	f, err := FitMatrix(ctx, h, smoothed(h, val, s.smoothing), s.temperature)
	if err != nil || f.Logits == nil {
		s.ladder.matrix(f, trial{})
		return err
	}
	t := newTuningSet(h, f.Logits, val, true, lambda0, 0)
	temperature, _, err := t.temperatureScaling(ctx)
	if err != nil {
		return err
	}
	temperature *= t.unit
	f.Affine.Divide(temperature)
	scaleTo(f.Logits, 1/temperature, f.Logits)
	t = newTuningSet(h, f.Logits, val, true, lambda0, 0)
	t.plain(1 / t.unit)
	if f.Affine.Smoothing = s.smoothing; s.ladder.matrix(f, t.trial(0)) {
		t.affine = f.Affine
		s.t, s.limit = t, t.objective(0)
	}
	return nil
}

// chooseScore is selectScore with the variances of synthetic OOD data.
func (f *Fitted) chooseScore(
	ctx context.Context, product parallel.Product, t *tuningSet, held score.ValidationData, o FitOptions,
) (err error) {
	if b := o.Synthetic; b != nil {
		s := newTuningSet(t.head, mapped(t.affine, t.head.Logits, b.Logits), b, false, f.Lambda0, t.unit)
		if err := f.Posterior.forms(product, s.s2, s.leverage, b.Features, s.n); err != nil {
			return err
		}
		held.Synthetic = f.examples(product, s, b)
	}
	return f.selectScore(ctx, held, &o)
}

// selectScore chooses the out-of-distribution score, and tries the scores on synthetic OOD data.
func (f *Fitted) selectScore(ctx context.Context, held score.ValidationData, o *FitOptions) (err error) {
	o.Progress("scores", 0, 1)
	if held.Synthetic != nil {
		if f.SyntheticScores, err = score.CompareOnSynthetic(ctx, o.Training, held); err != nil {
			return err
		}
	}
	f.Calibration.Score, f.ScoreChoice, f.Scores, err = score.Select(ctx, o.Score, o.Training, held)
	o.Progress("scores", 1, 1)
	return err
}

// temperatures returns the temperatures of a point of the search. act is the unit of T_act.
func (f *Fitted) temperatures(p point, act float64) layer.Temperatures {
	return layer.Temperatures{Act: p.act * act, Ens: p.tau * f.MedianVariance}
}

// tuneOOD tunes the pair OOD and TSOOD on out-of-distribution data, and returns it as a tuning set. t is that of
// val, and plainUnit the unit of T_act for the network's logits.
func (f *Fitted) tuneOOD(
	ctx context.Context, product parallel.Product, t *tuningSet, val, ood *rows.Batch, plainUnit float64,
) (*tuningSet, error) {
	o := newTuningSet(t.head, mapped(t.affine, t.head.Logits, ood.Logits), ood, false, f.Lambda0, t.unit)
	if err := f.Posterior.forms(product, o.s2, o.leverage, ood.Features, o.n); err != nil {
		return nil, err
	}
	grid, best, err := tuneAUROC(ctx, &t.examples, &o.examples, f.MedianVariance, f.Lambda0)
	if err != nil {
		return nil, err
	}
	if f.TSOOD, err = tuneTS(ctx, t.head, nil, val, ood, plainUnit); err != nil {
		return nil, err
	}
	f.OOD = f.temperatures(best, t.unit)
	f.AUROCGrid, f.OODTuned = grid, true
	scaleTo(f.AUROCGrid.Act, t.unit, f.AUROCGrid.Act)
	f.Ratio = maxRatio(o, f.Lambda0, f.NLL, f.OOD)
	return o, nil
}

// maxRatio returns the largest T_max/T_min of an example under one of the pairs.
func maxRatio(t *tuningSet, lambda0 float64, pairs ...layer.Temperatures) float64 {
	k := t.head.Logits
	ratio := 1.0
	for i := range t.n {
		lo, hi := math.Inf(1), 0.0
		for _, v := range t.s2[i*k : (i+1)*k] {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
		for _, p := range pairs {
			ratio = math.Max(ratio, math.Sqrt((1+lambda0*hi/p.Ens)/(1+lambda0*lo/p.Ens)))
		}
	}
	return ratio
}

// examples returns the examples of a tuning set as the input of scores.
func (f *Fitted) examples(product parallel.Product, t *tuningSet, s *rows.Batch) *score.Examples {
	x := &score.Examples{
		N: s.N, K: t.head.Logits, D: t.head.Features, Link: t.head.Link, Features: s.Features,
		Logits: s.Logits, Variance: t.s2, Leverage: t.leverage, Margin: make([]float64, s.N),
		Product: product,
	}
	parallel.For(s.N, func(first, last int) {
		e, logp, a := newEvaluator(t.head, f.Lambda0), make([]float64, t.head.Probabilities()), make([]float64, x.K)
		for i := first; i < last; i++ {
			t.affine.To(a, s.Logits[i*x.K:(i+1)*x.K])
			x.Margin[i] = e.mf0(logp, a, t.s2[i*x.K:(i+1)*x.K], f.OOD)
		}
	})
	return x
}
