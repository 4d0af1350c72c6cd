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
	s, err := p.openDataset(ctx, spec, !p.unlabelled, notes, report)
	if err != nil {
		return err
	}
	defer s.Close()
	report.Ignored = append(report.Ignored, notes.Ignored...)
	report.Total = max(s.Wanted(), 0)
	met := &rows.Stats{}
	s.Config.Stats = met
	bad := badRecords{met: met}
	yieldBad := func(err error) bool { return yield(Prediction{}, err) }
	foreign := foreignLabels{position: -1}
	defer func() {
		if n := foreign.count(); n > 0 && s.Labelled() {
			why := fmt.Sprintf("are outside [0,%d), the model's classes,", p.head.Classes())
			if p.decoding != nil || p.steps() > 0 {
				why = "are missing or do not suit what the model gives,"
			}
			report.Warnings = append(report.Warnings, fmt.Sprintf("input: %d of %d labels %s and are ignored", n, met.Examples, why))
		}
	}()
	for batch, err := range p.predictSet(ctx, s) {
		for i, one := range batch.predictions {
			err := batch.errs[i]
			if err != nil {
				err = &RecordError{batch.examples.Name(i), err}
			}
			foreign.add(batch.examples.Positions[i], err == nil && one.Label == nil && one.Targets == nil)
			if !bad.before(batch.examples.Positions[i], yieldBad) || !yield(one, err) {
				return nil
			}
		}
		if !bad.before(math.MaxInt, yieldBad) { // after the last prediction
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foreignLabels counts the examples whose labels are not the model's: those without one, or without one for any step.
type foreignLabels struct {
	n        int
	position int  // of the last example
	foreign  bool // whether it has no label so far
}

// add adds a prediction for an example, or for one of its steps. Positions ascend.
func (f *foreignLabels) add(position int, foreign bool) {
	if position != f.position {
		f.n, f.position, f.foreign = f.count(), position, true
	}
	f.foreign = f.foreign && foreign
}

// count returns the number so far.
func (f *foreignLabels) count() int {
	if f.foreign {
		return f.n + 1
	}
	return f.n
}

// badRecords yields the records of a dataset that cannot be read, in their order among the others.
type badRecords struct {
	met     *rows.Stats
	yielded int
}

// before yields those before a position, and reports whether yield wants more.
func (b *badRecords) before(position int, yield func(error) bool) bool {
	for ; b.yielded < len(b.met.Bad) && b.met.Bad[b.yielded].Position < position; b.yielded++ {
		name, reason, _ := strings.Cut(b.met.Bad[b.yielded].Message, ": ")
		if !yield(&RecordError{name, errors.New(reason)}) {
			return false
		}
	}
	return true
}

// openDataset opens a dataset, without its labels if these do not suit the model.
func (p *Predictor) openDataset(
	ctx context.Context, spec string, labels bool, notes *source.Notes, report *DatasetReport,
) (*source.Set, error) {
	opener := &source.Opener{
		Network: p.network, Classes: p.Classes(), Columns: p.bundle.Manifest.Columns,
		Kind: p.bundle.Manifest.Head.Kind, MultiLabel: p.head.MultiLabel(),
		MaxBad: math.MaxInt, IgnoreUnknownLabels: true, Notes: notes,
	}
	s, err := opener.Open(ctx, "input", spec, p.head.Classes(), labels)
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
