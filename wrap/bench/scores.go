package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// unserved lists the requested scores that must be fitted, as the bundle does not serve them.
func (b *bench) unserved() (list []*score.Score) {
	for _, r := range b.requests {
		if s, _ := score.Find(r.name); !r.taken && r.needsFitting() && !measure.Plain(r.name, b.calibration) {
			list = append(list, s)
		}
	}
	return list
}

// openScores opens the training data of the scores to fit.
func (b *bench) openScores(ctx context.Context) (err error) {
	if len(b.unserved()) == 0 {
		return nil
	}
	for _, s := range b.unserved() {
		if s.Name == "learned" {
			return fmt.Errorf("method learned is fitted to OOD data during calibration, "+
				"and this bundle does not have it: calibrate with %s learned", option.OODScore)
		}
	}
	_, err = b.openRole(ctx, bundle.Train, b.Train)
	return err
}

// fitScores fits the scores that the bundle does not serve, as a calibration would: to sums and a sample of the
// training data. It returns the seconds for each.
func (b *bench) fitScores(ctx context.Context) (map[string]float64, error) {
	list := b.unserved()
	if len(list) == 0 {
		return nil, nil
	}
	training, err := b.training(ctx)
	if err != nil {
		return nil, err
	}
	seconds := map[string]float64{}
	for i, s := range list {
		b.notes.Step("fit", "scores", i, len(list))
		start := time.Now()
		fitted, err := s.Fit(training)
		if err != nil {
			return nil, err
		}
		b.fitted = append(b.fitted, fitted)
		seconds[s.Name] = time.Since(start).Seconds()
	}
	b.notes.Step("fit", "scores", len(list), len(list))
	return seconds, nil
}

// training computes the sums and the sample of the training data.
func (b *bench) training(ctx context.Context) (*score.Training, error) {
	sums, err := calibrate.NewSums(calibrate.CurvatureConfig{
		Head: b.head, Structure: calibrate.Kronecker, Product: b.product,
	})
	if err != nil {
		return nil, err
	}
	sample := &rows.Sample{}
	for block, err := range rows.InBlocks(b.opened[bundle.Train].source.Batches(ctx)) {
		if err != nil {
			return nil, err
		}
		sample.Add(block)
		if err := sums.AddBlock(block); err != nil {
			return nil, fmt.Errorf("train: %w", err)
		}
	}
	curvature, err := sums.Finish()
	if err != nil {
		return nil, err
	}
	if b.cut == nil {
		return curvature.Training(nil, nil, sample.Rows()), nil
	}
	w, bias, err := b.cut.Head.Weights()
	if err != nil {
		return nil, err
	}
	return curvature.Training(w, bias, sample.Rows()), nil
}
