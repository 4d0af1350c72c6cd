package main

import (
	"context"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/oodscores"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// fieldScores measures the scores of package oodscores, and the guarded margin fitted to predicted classes, beside
// those of mfgs.
type fieldScores struct {
	session *bench.Session
	train   *bench.Set
	fitted  map[bool]*score.Training // with labels or, for true, predicted classes
}

// Takes implements bench.Comparators.
func (*fieldScores) Takes(name string) bool {
	return oodscores.Find(name) != nil || name == predictedScore
}

// Check implements bench.Comparators.
func (*fieldScores) Check([]string) error { return nil }

// Open implements bench.Comparators.
func (f *fieldScores) Open(ctx context.Context, s *bench.Session, names []string) (all []bench.Comparator, err error) {
	f.session, f.fitted = s, map[bool]*score.Training{}
	if f.train, err = s.Open(ctx, bundle.Train, ""); err != nil {
		return nil, err
	}
	for _, name := range names {
		all = append(all, bench.Comparator{Name: name, Measure: func(
			ctx context.Context, add func(*bench.Set, bench.Predictions) error,
		) (bench.Outcome, error) {
			return bench.Outcome{}, f.measure(ctx, name, add)
		}})
	}
	return all, nil
}

func (f *fieldScores) measure(ctx context.Context, name string, add func(*bench.Set, bench.Predictions) error) error {
	values, err := f.fit(ctx, name)
	if err != nil {
		return err
	}
	c := f.session.Calibration()
	h := c.Posterior.Head
	for i, s := range f.session.Sets() {
		data := s.Data()
		x := score.Examples{
			N: data.N, K: h.Logits, D: h.Features, Link: h.Link, Features: data.Features, Logits: data.Logits,
			Variance: make([]float64, data.N*h.Logits), Leverage: make([]float64, data.N), Product: c.Product,
		}
		if name == predictedScore {
			c.Posterior.Leverages(x.Leverage, data.Features, data.N)
		}
		p := bench.Predictions{OOD: values(x)}
		if i == 0 { // the test set, of which probabilities are measured
			p.LogP, _ = calibrate.Plain(h, data.Logits, data.N, 1)
		}
		if err := add(s, p); err != nil {
			return err
		}
	}
	return nil
}

// fit returns the function that computes a score.
func (f *fieldScores) fit(ctx context.Context, name string) (func(score.Examples) []float64, error) {
	t, err := f.training(ctx, name == predictedScore)
	if err != nil {
		return nil, err
	}
	if name == predictedScore {
		guarded, _ := score.Find(guardedScore)
		fitted, err := guarded.Fit(t)
		if err != nil {
			return nil, err
		}
		return fitted.Values, nil
	}
	fitted, err := oodscores.Find(name).Fit(t)
	if err != nil {
		return nil, err
	}
	return fitted.Values, nil
}

// training computes the sums and the sample of the training data.
func (f *fieldScores) training(ctx context.Context, predicted bool) (*score.Training, error) {
	if t := f.fitted[predicted]; t != nil {
		return t, nil
	}
	if err := f.session.Read(ctx, f.train); err != nil {
		return nil, err
	}
	data := *f.train.Data()
	if predicted {
		data.Labels = nil // the curvature then counts predicted classes
	}
	cal := f.session.Calibration()
	curvature, err := calibrate.NewCurvature(calibrate.CurvatureConfig{
		Head: cal.Posterior.Head, Structure: calibrate.Kronecker, Product: cal.Product,
	}, &data)
	if err != nil {
		return nil, err
	}
	sample := new(rows.Sample)
	sample.Add(&data)
	_, h := f.session.Model()
	w, b, err := h.Weights()
	if err != nil {
		return nil, err
	}
	f.fitted[predicted] = curvature.Training(w, b, sample.Rows())
	return f.fitted[predicted], nil
}
