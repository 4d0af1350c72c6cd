package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Predictive is the predictions of a method for a set of examples, as functions of the temperatures.
type Predictive interface {
	Len() int           // N, the number of examples
	Probabilities() int // C, the number of probabilities per example
	// MedianVariance is the median variance of a logit at T_ens = 1, the unit of T_ens. It is zero for a
	// method without T_ens, which is then 1.
	MedianVariance() float64
	// Predictor returns a function for one goroutine, which writes the log-probabilities of example i to
	// logp [C] and returns the margin: see meanfield.OneMinusMax.
	Predictor() func(logp []float64, i int, t layer.Temperatures) (margin float64)
}

// Resampled is a Predictive that must redo its work for each T_ens. The work is so much that only nine T_ens are
// tried.
type Resampled interface {
	Predictive
	// SetEns does that work. The functions of Predictor are then called with this T_ens only.
	SetEns(ens float64) error
}

// Drawn is a Predictive that averages over classifiers drawn at random. Fewer returns one that averages over at
// most the first few of them.
type Drawn interface {
	Predictive
	Fewer(most int) Predictive
}

// PredictAll returns log-probabilities [N,C] and margins [N] of all examples. It ends early with ctx.
func PredictAll(ctx context.Context, p Predictive, t layer.Temperatures) (logp, margin []float64, err error) {
	if r, ok := p.(Resampled); ok {
		if err := r.SetEns(t.Ens); err != nil {
			return nil, nil, err
		}
	}
	c := p.Probabilities()
	logp, margin = make([]float64, p.Len()*c), make([]float64, p.Len())
	parallel.For(p.Len(), func(first, last int) {
		predict := p.Predictor()
		for i := first; i < last && ctx.Err() == nil; i++ {
			margin[i] = predict(logp[i*c:(i+1)*c], i, t)
		}
	})
	return logp, margin, context.Cause(ctx)
}

// Tuned are the temperatures found by Tune; see Fitted.
type Tuned struct {
	NLL, OOD layer.Temperatures
	Optimum  layer.Temperatures
	OODTuned bool
	// Whether T_act is at a bound of the search, beyond which it may be better.
	NLLAtBound, OODAtBound bool
}

// Tune finds the temperatures of a method by the objectives, bounds, preferences and search that Fit uses for mf0.
// labels are val's; ood may be nil. A method without T_ens has T_act alone; a Resampled one is searched at nine
// T_ens. For a Drawn one, some dozens of draws show where to search.
//
// limit is [ScalingLimit] of val, at which the preference for a small T_ens ends; see Fit.
func Tune(ctx context.Context, val Predictive, labels []int, ood Predictive, limit float64) (*Tuned, error) {
	if len(labels) != val.Len() || val.Len() == 0 {
		return nil, fmt.Errorf("validation data: %d labels for %d examples, want at least one example and a label for each", len(labels), val.Len())
	}
	for i, y := range labels {
		if y < 0 || y >= val.Probabilities() {
			return nil, fmt.Errorf("validation data: example %d has label %d, want 0 to %d", i, y, val.Probabilities()-1)
		}
	}
	unit, err := unitOf(val)
	if err != nil {
		return nil, err
	}
	v := predicted(ctx, val, labels, 1, unit)
	var o *examples
	if ood != nil {
		if ood.Len() == 0 {
			return nil, fmt.Errorf("out-of-distribution data: no examples")
		}
		o = predicted(ctx, ood, nil, 1, unit)
	}
	find := tuneAct
	if spread := val.MedianVariance(); spread != 0 {
		if !(spread > 0) || math.IsInf(spread, 1) {
			return nil, fmt.Errorf("the median logit variance of the validation data is %v, want a positive number", spread)
		}
		search := tunePair
		if _, ok := val.(Resampled); ok {
			search = tuneCoarse
		}
		find = func(ctx context.Context, v, o *examples) (*Tuned, error) { return search(ctx, v, o, spread, limit) }
	}
	t, err := find(ctx, v, o)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	for _, e := range []*examples{v, o} {
		if e != nil && e.err != nil {
			return nil, e.err // the cause of a failed search
		}
	}
	if err != nil {
		return nil, err
	}
	bounds := search{least: minAct, most: maxAct}
	t.NLLAtBound, t.OODAtBound = bounds.atBound(t.NLL.Act), ood != nil && bounds.atBound(t.OOD.Act)
	for _, p := range []*layer.Temperatures{&t.NLL, &t.OOD, &t.Optimum} {
		p.Act *= unit
	}
	if t.OODTuned = ood != nil; !t.OODTuned {
		t.OOD = t.NLL
	}
	return t, nil
}

// unitOf returns the unit of T_act for a method: that of the logits, recovered from its probabilities where the
// covariance is negligible.
func unitOf(p Predictive) (float64, error) {
	t := layer.Temperatures{Act: 1, Ens: 1}
	if spread := p.MedianVariance(); spread > 0 {
		t.Ens = maxTau * spread
	}
	if r, ok := p.(Resampled); ok {
		if err := r.SetEns(t.Ens); err != nil {
			return 0, err
		}
	}
	predict := p.Predictor()
	return actUnit(p.Len(), p.Probabilities(), func(logp []float64, i int) { predict(logp, i, t) }), nil
}

// predicted returns every step-th example, with T_act in the given unit. Once ctx ends, their values are NaN.
func predicted(ctx context.Context, p Predictive, labels []int, step int, unit float64) *examples {
	e := newExamples((p.Len()+step-1)/step, p.Probabilities())
	e.costly = true
	resampled, _ := p.(Resampled)
	e.evaluate = func(acts []float64, ens float64) {
		if resampled != nil && e.err == nil {
			e.err = resampled.SetEns(ens)
		}
		if e.err == nil {
			e.err = context.Cause(ctx)
		}
		if e.err != nil {
			for j := range acts {
				fill(e.nll[j], math.NaN())
				fill(e.margin[j], math.NaN())
			}
			return
		}
		parallel.For(e.n, func(first, last int) {
			predict, logp := p.Predictor(), make([]float64, p.Probabilities())
			for i := first; i < last && ctx.Err() == nil; i++ {
				for j, act := range acts {
					e.margin[j][i] = predict(logp, i*step, layer.Temperatures{Act: act * unit, Ens: ens})
					if labels != nil {
						e.nll[j][i] = -logp[labels[i*step]]
					}
				}
			}
		})
	}
	e.subsample = func() *examples {
		step := e.n / subsampleSize
		if step < 4 {
			return nil
		}
		few := p
		if d, ok := p.(Drawn); ok {
			few = d.Fewer(subsampleDraws)
		}
		return predicted(ctx, few, labels, step, unit)
	}
	return &e
}

// ScalingLimit returns the objective of temperature scaling, in nats, from the NLL of each validation example and
// its margin, as [Plain] returns it.
func ScalingLimit(nll, margin []float64, classes int) float64 {
	e := examples{n: len(nll), categories: classes}
	e.nll[0], e.margin[0] = nll, margin
	return e.objective(0)
}

func fill(x []float64, v float64) {
	for i := range x {
		x[i] = v
	}
}

// tunePair searches both temperatures.
func tunePair(ctx context.Context, val, ood *examples, spread, limit float64) (*Tuned, error) {
	_, best, err := tuneNLL(ctx, val, spread, meanfield.Lambda0)
	if err != nil {
		return nil, err
	}
	pair := prefer(val, best, limit, spread, meanfield.Lambda0)
	t := &Tuned{NLL: pair.temperatures(spread), Optimum: best.temperatures(spread)}
	if ood == nil {
		return t, nil
	}
	_, best, err = tuneAUROC(ctx, val, ood, spread, meanfield.Lambda0)
	t.OOD = best.temperatures(spread)
	return t, err
}

func (p point) temperatures(spread float64) layer.Temperatures {
	return layer.Temperatures{Act: p.act, Ens: p.tau * spread}
}

// tuneAct searches T_act alone.
func tuneAct(ctx context.Context, val, ood *examples) (*Tuned, error) {
	best, err := nllSearch(val, 1, 0).atTau(ctx, 1)
	if err != nil {
		return nil, err
	}
	t := &Tuned{NLL: best.temperatures(1), Optimum: best.temperatures(1)}
	if ood == nil {
		return t, nil
	}
	best, err = aurocSearch(val, ood, 1, 0).atTau(ctx, 1)
	t.OOD = best.temperatures(1)
	return t, err
}

// tuneCoarse searches T_act for each τ of the grid.
func tuneCoarse(ctx context.Context, val, ood *examples, spread, limit float64) (*Tuned, error) {
	var nlls, aurocs []point
	var loss [][]float64 // per example, at the best T_act of each τ
	for _, tau := range logSpace(minTau, maxTau, gridSize) {
		p, err := nllSearch(val, spread, 0).atTau(ctx, tau)
		if err != nil {
			return nil, err
		}
		nlls, loss = append(nlls, p), append(loss, val.losses(0))
		if ood == nil {
			continue
		}
		if p, err = aurocSearch(val, ood, spread, 0).atTau(ctx, tau); err != nil {
			return nil, err
		}
		aurocs = append(aurocs, p)
	}
	best := least(nlls)
	t := &Tuned{Optimum: best.temperatures(spread)}
	// As in prefer, among these points.
	chosen := best
	base := loss[slices.Index(nlls, best)]
	for i, p := range nlls {
		given, stdErr := pairedGain(loss[i], base)
		if p.tau >= leastTau && p.tau < chosen.tau &&
			given <= math.Min(stdErr, math.Min(maxGivenUp*best.value, limit-best.value)) {
			chosen = p
		}
	}
	t.NLL = chosen.temperatures(spread)
	if ood != nil {
		t.OOD = onRidge(aurocs).temperatures(spread)
	}
	return t, nil
}

// tuneTS returns the temperature T of softmax(a/T) that best detects ood, where f maps the logits a first.
func tuneTS(ctx context.Context, h layer.Head, f *layer.Affine, val, ood *rows.Batch, unit float64) (float64, error) {
	v, o := plainExamples(h, f, val, unit), plainExamples(h, f, ood, unit)
	best, err := aurocSearch(v, o, 1, 0).atTau(ctx, 1)
	return best.act * unit, err
}

// plainExamples are examples at softmax(a/T). They have no nll.
func plainExamples(h layer.Head, f *layer.Affine, s *rows.Batch, unit float64) *examples {
	k, logits := h.Logits, mapped(f, h.Logits, s.Logits)
	e := newExamples(s.N, h.Categories())
	e.subsample = func() *examples { return nil }
	e.evaluate = func(acts []float64, _ float64) {
		parallel.For(e.n, func(first, last int) {
			plain, logp := newEvaluator(h, 0), make([]float64, h.Probabilities())
			for i := first; i < last; i++ {
				for j, act := range acts {
					e.margin[j][i] = plain.plain(logp, logits[i*k:(i+1)*k], act*unit)
				}
			}
		})
	}
	return &e
}
