package calibrate

import (
	"context"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
)

// FitMaps fits what a head without a linear layer can have, see [layer.Head.Nonlinear]: the maps of its logits that
// [Fit] compares, and an out-of-distribution score. There is no damping, no variance and no mf0. Damping and
// covariance of the options are not used.
//
// TS has one more parameter here where classes exclude each other: the smoothing ε of log(p + ε), which takes the place
// of the logits before they are divided by T, and which matrix scaling begins with. It is used if the objective gains
// more than half a nat, see [Choice.TSGain].
func FitMaps(ctx context.Context, h layer.Head, val, ood *rows.Batch, o FitOptions) (*Fitted, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := checkData(h, val, ood, &o); err != nil {
		return nil, err
	}
	o.Progress("tuning", 0, 1)
	s, err := fitSimple(ctx, h, val, &o)
	if err != nil {
		return nil, err
	}
	s.ladder.NoPosterior = true
	f := &Fitted{Choice: s.ladder.Choice}
	f.Posterior, f.Method = &Posterior{Head: h}, f.Choice.Method
	if f.Choice.Matrix {
		f.Posterior.Affine = s.t.affine
	}
	f.TS, f.Smoothing, f.Lambda0, f.Ratio = s.temperature, s.smoothing, o.Lambda0, 1
	if ood != nil {
		if f.TSOOD, err = tuneTS(ctx, h, f.Affine(TS), val, ood, s.unit); err != nil {
			return nil, err
		}
		f.OODTuned = true
	}
	o.Progress("tuning", 1, 1)
	of := func(b *rows.Batch) *score.Examples {
		if b == nil {
			return nil
		}
		return &score.Examples{N: b.N, K: h.Logits, D: h.Features, Link: h.Link, Nonlinear: true,
			Correctness: h.Correctness, Features: b.Features, Logits: b.Logits}
	}
	held := score.ValidationData{Val: of(val), OOD: of(ood), Synthetic: of(o.Synthetic)}
	return f, f.selectScore(ctx, held, &o)
}

// leastSmoothing and mostSmoothing bound the smoothing ε that is tried, smoothings values a factor √10 apart: below,
// training does not separate such a probability from 0, and above, log(p + ε) is nearly linear in p.
const (
	leastSmoothing = 1e-5
	mostSmoothing  = 0.1
	smoothings     = 9
)

// scaleByTemperature tunes temperature scaling and, for a head without a linear layer, its smoothing.
func (s *simple) scaleByTemperature(ctx context.Context, h layer.Head, val *rows.Batch, o *FitOptions) (err error) {
	if s.temperature, s.limit, err = s.t.temperatureScaling(ctx); err != nil {
		return err
	}
	s.unit = s.t.unit
	s.temperature *= s.unit
	if !h.Nonlinear || h.Link != layer.Softmax {
		return nil
	}
	plain, needed := s.limit, leastEvidence/float64(val.N)
	for _, epsilon := range logSpace(leastSmoothing, mostSmoothing, smoothings) {
		f := &layer.Affine{Smoothing: epsilon}
		t := newTuningSet(h, mapped(f, h.Logits, val.Logits), val, true, o.Lambda0, 0)
		temperature, value, err := t.temperatureScaling(ctx)
		if err != nil {
			return err
		}
		if value < s.limit && plain-value > needed {
			t.affine = f
			s.t, s.limit, s.smoothing = t, value, epsilon
			s.unit, s.temperature = t.unit, temperature*t.unit
		}
	}
	return nil
}
