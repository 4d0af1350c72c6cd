package wrap

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/source"
)

// A RecordError says why one record, such as an image file or a line, has no prediction. The records after it
// can still be predicted.
type RecordError struct {
	Input string // the name of the record
	Err   error
}

func (e *RecordError) Error() string { return e.Input + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// ErrNoExamples is the last error of [Predictor.PredictDataset] for a dataset without records, or without one that
// can be read.
var ErrNoExamples = featurize.ErrNoExamples

// DatasetReport lists what PredictDataset passed over.
type DatasetReport struct {
	Ignored  []string // files that are no records
	Warnings []string // such as labels that are not the model's
	// Total is the number of records, from the first prediction on; 0 if it is unknown, as that of a stream is.
	Total int
}

// PredictDataset evaluates a dataset, or a file of features and logits for a bundle without a model. It yields,
// in order, the prediction of each record or, if a record cannot be read or does not suit the model, a
// [*RecordError], after which it goes on. Any other error is the last that it yields.
//
// Predictions have the labels that the dataset has. Those that are not classes of the model are left out, with a
// warning in the report. The report, which may be nil, is reset when an iteration begins, and complete when it has
// ended.
func (p *Predictor) PredictDataset(
	ctx context.Context, spec string, report *DatasetReport,
) iter.Seq2[Prediction, error] {
	return func(yield func(Prediction, error) bool) {
		if report == nil {
			report = new(DatasetReport)
		}
		*report = DatasetReport{}
		if err := p.predictDataset(ctx, spec, report, yield); err != nil {
			yield(Prediction{}, err)
		}
	}
}

// predictDataset returns the error that ends the iteration; nil if there is none, or yield has ended it.
func (p *Predictor) predictDataset(
	ctx context.Context, spec string, report *DatasetReport, yield func(Prediction, error) bool,
) error {
	notes := &source.Notes{}
	s, err := p.openDataset(ctx, spec, notes, report)
	if err != nil {
		return err
	}
	defer s.Close()
	report.Ignored = append(report.Ignored, notes.Ignored...)
	report.Total = max(s.Wanted(), 0)
	met := &rows.Stats{}
	s.Config.Stats = met
	yielded := 0 // of the records that cannot be read
	yieldBad := func(before int) bool {
		for ; yielded < len(met.Bad) && met.Bad[yielded].Position < before; yielded++ {
			name, reason, _ := strings.Cut(met.Bad[yielded].Message, ": ")
			if !yield(Prediction{}, &RecordError{name, errors.New(reason)}) {
				return false
			}
		}
		return true
	}
	foreign := 0 // labels that are not the model's
	defer func() {
		if foreign > 0 {
			why := fmt.Sprintf("are outside [0,%d), the model's classes,", p.head.Classes())
			if p.decoding != nil {
				why = "are missing or do not suit what the model gives,"
			}
			report.Warnings = append(report.Warnings, fmt.Sprintf("input: %d of %d labels %s and are ignored", foreign, met.Examples, why))
		}
	}()
	for batch, err := range p.predictSet(ctx, s) {
		for i, one := range batch.predictions {
			err := batch.errs[i]
			switch {
			case err != nil:
				err = &RecordError{batch.examples.Name(i), err}
			case one.Label == nil && one.Targets == nil && s.Labelled():
				foreign++
			}
			if !yieldBad(batch.examples.Positions[i]) || !yield(one, err) {
				return nil
			}
		}
		if !yieldBad(math.MaxInt) { // after the last prediction
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openDataset opens a dataset, without its labels if these do not suit the model.
func (p *Predictor) openDataset(
	ctx context.Context, spec string, notes *source.Notes, report *DatasetReport,
) (*source.Set, error) {
	opener := &source.Opener{
		Network: p.network, Classes: p.Classes(), Columns: p.bundle.Manifest.Columns,
		Kind: p.bundle.Manifest.Head.Kind, MultiLabel: p.head.MultiLabel(),
		MaxBad: math.MaxInt, IgnoreUnknownLabels: true, Notes: notes,
	}
	s, err := opener.Open(ctx, "input", spec, p.head.Classes(), !p.unlabelled)
	if err != nil {
		var e error
		if s, e = opener.Open(ctx, "input", spec, p.head.Classes(), false); e != nil {
			return nil, err
		}
		report.Warnings = append(report.Warnings, fmt.Sprintf("%v; predicted without labels", err))
	}
	if err := s.Fits(p.head, "the bundle's head"); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// predictSet predicts an open set: by the graph, or from precomputed features by the formulas.
func (p *Predictor) predictSet(ctx context.Context, s *source.Set) iter.Seq2[predicted, error] {
	return func(yield func(predicted, error) bool) {
		if p.network == nil {
			for b, err := range s.Batches(ctx) {
				if err != nil {
					yield(predicted{}, err)
					return
				}
				if !yield(p.predictRows(p.calibration, b), nil) {
					return
				}
			}
			return
		}
		for r, err := range s.Results(ctx) {
			if err != nil {
				yield(predicted{}, err)
				return
			}
			if !yield(p.predictions(p.tensors(r), nil, p.bundle.Manifest.Decisions, r.Examples), nil) {
				return
			}
		}
	}
}
