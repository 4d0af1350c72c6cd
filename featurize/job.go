package featurize

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/synthetic"
)

// A pass is a pipeline of three stages, connected by channels:
//
//	reader ──task──▶ workers      prepare: decode and preprocess one example
//	  └─────job────▶ inference    inferJob: wait for the job's tasks, run the network
//	                   └──job──▶  Results: count, skip, yield
//
// A job is usually one batch. For a ragged dataset it is a window of examples (window.go), with one
// part for every batch of examples of the same shape.

// A job is consecutive examples on their way through the pipeline.
type job struct {
	reader  *reader
	parts   []*part
	records []record      // never grows beyond its capacity
	pending atomic.Int32  // records being prepared, plus one until the job is complete
	ready   chan struct{} // closed when pending is 0

	results Results // of the records that could be read
}

// A part is the examples of a job that are inferred together: they have the same shapes.
type part struct {
	batch   batch
	steps   []int64 // of its examples, the one that is wanted, where the network gives one
	n       int     // its examples that could be read
	results Results
}

// A record is one record of a job. The worker that prepares it sets bad and err, which are read once
// the job is ready. Bad is also set after inference, for labels that do not suit what the network gave.
type record struct {
	part     *part // nil for one that could not be read
	row      int   // in the part
	position int
	label    int
	text     string       // the label of a line of text
	tags     []string     // the labels of a sequence's steps
	reading  rows.Reading // of a network that reads text or tags
	steps    recordSteps
	targets  []uint8
	name     string
	bad      string // why it is skipped
	err      error  // why the stream ends
}

// recordSteps is what is known of the steps of a record before the network runs.
type recordSteps struct {
	labels []int32 // their classes, -1 for none; nil for a record without labels
	sides  []int64 // of the map whose pixels the labels are of; nil of a sequence
	given  int     // how many labels there are
	counts []bool  // which count; nil for all, as where a mask of samples has another length
	drawn  int     // the one that is wanted, modulo their number
}

// A task is to prepare one record of a job.
type task struct {
	job     *job
	record  *record
	example dataset.Example
}

// A reader gathers examples into jobs.
type reader struct {
	network   *Network
	tasks     chan<- task
	jobs      chan<- *job // in order
	lenient   bool        // a value that does not fit the model makes its record bad, and is no error
	synthetic bool        // replace examples by synthetic OOD images

	ignoreLabels bool // those that do not suit what the network gives; else they are an error

	job    *job
	pipes  []*preprocess.Pipeline // one per input; nil while sizes are open
	window *window                // nil if all examples have the sizes of the first
}

// A window is consecutive examples of different shapes, held until there are enough to run those of
// the same shape together.
type window struct {
	most     int // examples
	held     []held
	elements int
	shapes   map[string][]*preprocess.Pipeline
	key      []byte
}

// held is one example of a window.
type held struct {
	example dataset.Example
	bad     *dataset.RecordError
	pipes   []*preprocess.Pipeline // nil if bad
	shape   string                 // key of the pipes
}

func (j *job) release() {
	if j.pending.Add(-1) == 0 {
		close(j.ready)
	}
}

// record adds a record to the job.
func (j *job) record(ex *dataset.Example, bad *dataset.RecordError) *record {
	j.records = append(j.records, record{
		position: ex.Index, label: ex.Label, text: ex.Text, tags: ex.Tags, targets: ex.Targets, name: ex.Name,
	})
	rec := &j.records[len(j.records)-1]
	if bad != nil {
		rec.bad = bad.Error()
	}
	return rec
}

// prepare decodes and preprocesses a record into its row of the batch.
func (t *task) prepare() {
	var bad *dataset.RecordError
	switch err := t.example.Decode(); {
	case errors.As(err, &bad):
		t.record.bad = err.Error()
		return
	case err != nil:
		t.record.err = err
		return
	}
	if t.job.reader.synthetic {
		if t.record.err = synthetic.Replace(&t.example); t.record.err != nil {
			return
		}
	}
	err := t.record.part.batch.set(t.record.row, &t.example)
	if err == nil {
		if err = t.job.reader.network.draw(t.record, &t.example); t.job.reader.ignoreLabels {
			err = nil
		}
	}
	var shape *preprocess.ShapeError
	switch {
	case err == nil:
	case errors.As(err, &bad):
		t.record.bad = bad.Error()
	case t.job.reader.lenient && !errors.As(err, &shape):
		t.record.bad = fmt.Sprintf("%s: %v", t.example.Name, err)
	default:
		t.record.err = fmt.Errorf("%s: %w", t.example.Name, err)
	}
}

func send[T any](ctx context.Context, to chan<- T, v T) error {
	select {
	case to <- v:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
