package featurize

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

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
	n       int // its examples that could be read
	results Results
}

// A record is one record of a job. The worker that prepares it sets bad and err, which are read once
// the job is ready.
type record struct {
	part     *part // nil for one that could not be read
	row      int   // in the part
	position int
	label    int
	text     string   // the label of a line of text
	tags     []string // the labels of a sequence's steps
	targets  []uint8
	name     string
	bad      string // why it is skipped
	err      error  // why the stream ends
}

// A task is to prepare one record of a job.
type task struct {
	job     *job
	record  *record
	example dataset.Example
}

func (j *job) release() {
	if j.pending.Add(-1) == 0 {
		close(j.ready)
	}
}

// Results runs the network over a dataset and yields its results in order, batch by batch, with their
// examples. The caller owns a batch. While it is busy with one, later ones are read, decoded and
// inferred; all of that has ended when the loop has.
//
// Up to c.MaxBad records that cannot be read are skipped. A batch all of whose records were skipped comes with
// N = 0, so that the caller finds them in c.Stats before more are read. An error, of the dataset, of the network
// or of ctx, is the last.
//
// Where the model leaves sizes of its input open, the first example settles them for all. Examples of
// a ragged dataset are each run at their own size, together with others of the same size and never
// padded: an example's results do not depend on the examples beside it.
func (w *Network) Results(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[Results, error] {
	if c.Cache != nil {
		panic("featurize: a cache keeps Rows, not Results")
	}
	c.check()
	return func(yield func(Results, error) bool) {
		want := c.selects(ds)
		if want.all < 0 && c.Limit > 0 {
			yield(Results{}, fmt.Errorf("%s: a stream cannot be subsampled, since its length is not known: leave out the limit, or give a file",
				ds.Spec()))
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		group, ctx := errgroup.WithContext(ctx)
		jobs := w.start(ctx, group, ds, want, c)
		defer func() {
			cancel(nil)
			for range jobs { // so that the stages end
			}
			group.Wait()
		}()
		done := c.Stats.Examples + len(c.Stats.Bad)
		total := want.total(done)
		c.report(done, total)
		for j := range jobs {
			w.skip(j, want.from)
			err := context.Cause(ctx)
			if err == nil {
				err = c.count(j)
			}
			if err != nil {
				yield(Results{}, err)
				return
			}
			if len(j.records) > 0 && !yield(j.results, nil) {
				return
			}
			done += len(j.records)
			c.report(done, total)
		}
		err := group.Wait()
		if err == nil && total == 0 {
			c.report(done, done)
		}
		if err == nil && want.missing(c.Stats.Examples) {
			err = fmt.Errorf("%s %w", ds.Spec(), ErrNoExamples)
			if len(c.Stats.Bad) > 0 {
				err = fmt.Errorf("%w that can be read (first: %s)", err, c.Stats.Bad[0].Message)
			}
		}
		if err != nil {
			yield(Results{}, err)
		}
	}
}

// start starts the stages of the pipeline, and returns the jobs that leave the last.
func (w *Network) start(ctx context.Context, group *errgroup.Group, ds *dataset.Dataset, want selection,
	c StreamConfig) <-chan *job {
	// The channels' capacities bound memory: to a few encoded examples, and to as many batches as keep
	// the workers busy.
	workers := runtime.GOMAXPROCS(0)
	tasks := make(chan task, workers)
	jobs := make(chan *job, max(2, (2*workers+w.batch-1)/w.batch))
	results := make(chan *job, 2)

	group.Go(func() error {
		defer close(tasks)
		defer close(jobs)
		r := &reader{network: w, tasks: tasks, jobs: jobs, lenient: ds.IsText(), synthetic: c.Synthetic,
			ignoreLabels: ds.IgnoresUnknownLabels()}
		if ds.Ragged() && w.open() {
			r.window = newWindow(w)
		}
		return r.read(ctx, ds, want)
	})
	for range workers {
		group.Go(func() error {
			for t := range tasks {
				if ctx.Err() == nil {
					t.prepare()
				}
				t.job.release()
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(results)
		for j := range jobs {
			select {
			case <-j.ready:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := w.inferJob(ctx, j, max(1, c.Passes)); err != nil {
				return err
			}
			if err := send(ctx, results, j); err != nil {
				return err
			}
		}
		return nil
	})
	return results
}

// skip drops the records of a job that are before a position.
func (w *Network) skip(j *job, from int) {
	records := slices.IndexFunc(j.records, func(r record) bool { return r.position >= from })
	if records == 0 {
		return
	}
	if records < 0 {
		records = len(j.records)
	}
	examples := 0
	for _, r := range j.records[:records] {
		if r.bad == "" {
			examples++
		}
	}
	j.records = j.records[records:]
	j.results = w.slice(j.results, examples, j.results.N)
}

// count counts a job's records.
func (c *StreamConfig) count(j *job) error {
	for _, r := range j.records {
		if r.bad == "" {
			continue
		}
		c.Stats.Bad = append(c.Stats.Bad, rows.Bad{Position: r.position, Message: r.bad})
		if len(c.Stats.Bad) > c.MaxBad {
			return &TooManyBadError{Allowed: c.MaxBad, Bad: c.Stats.Messages()}
		}
	}
	c.Stats.Examples += j.results.N
	return nil
}

func send[T any](ctx context.Context, to chan<- T, v T) error {
	select {
	case to <- v:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// read reads the selected examples of the dataset.
func (r *reader) read(ctx context.Context, ds *dataset.Dataset, want selection) error {
	from := r.network.lead(want, r.window != nil)
	if err := ds.Skip(ctx, from); err != nil {
		return err
	}
	next, taken, count := from, 0, want.before(want.to)-want.before(from)
	for example, err := range ds.Between(ctx, from, want.to) {
		at := next
		next++
		var bad *dataset.RecordError
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		if !want.wants(at) {
			continue
		}
		if r.window != nil {
			if err := r.hold(ctx, &example, bad); err != nil {
				return err
			}
			continue
		}
		if r.network.aligned(want) && at%rows.BlockSize == 0 {
			if err := r.flush(ctx); err != nil {
				return err
			}
		}
		if r.job == nil {
			r.job = r.newJob(max(1, min(r.network.batch, count-taken)))
		}
		taken++
		if err := r.add(ctx, &example, bad); err != nil {
			return err
		}
		if len(r.job.records) == cap(r.job.records) {
			if err := r.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if r.window != nil {
		return r.release(ctx)
	}
	return r.flush(ctx)
}

// aligned reports whether batches end where blocks do, because that is free: then an example is
// batched with the same others wherever reading begins.
func (w *Network) aligned(want selection) bool {
	return want.limit == want.all && rows.BlockSize%w.batch == 0
}

// lead returns where to begin reading so that the examples from want.from on are batched as if reading
// began at want.begin.
func (w *Network) lead(want selection, window bool) int {
	from, origin := want.from, want.begin
	if window {
		return max(origin, from-from%maxWindow)
	}
	if w.aligned(want) {
		origin = max(origin, from-from%rows.BlockSize)
	}
	over := (want.before(from) - want.before(origin)) % w.batch
	for at := want.before(from) - over; want.before(from) > at; {
		from--
	}
	return from
}

// newJob returns a job with room for so many records.
func (r *reader) newJob(records int) *job {
	j := &job{reader: r, ready: make(chan struct{}), records: make([]record, 0, records)}
	j.pending.Store(1)
	return j
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

// add adds a record to the job and sends it to the workers.
func (r *reader) add(ctx context.Context, ex *dataset.Example, bad *dataset.RecordError) error {
	j := r.job
	if bad == nil && r.pipes == nil {
		// The first readable example settles the sizes that the model leaves open.
		err := ex.Decode()
		if err == nil {
			r.pipes, err = r.resolve(ex)
		}
		if err != nil && !errors.As(err, &bad) {
			return err
		}
	}
	rec := j.record(ex, bad)
	if bad != nil {
		return nil
	}
	if j.parts == nil {
		b, err := newBatch(r.network.inputs, r.pipes, cap(j.records))
		if err != nil {
			return err
		}
		j.parts = []*part{{batch: b}}
	}
	rec.part, rec.row = j.parts[0], len(j.records)-1
	return r.send(ctx, task{j, rec, *ex})
}

// resolve returns the pipelines for an example's sizes.
func (r *reader) resolve(ex *dataset.Example) ([]*preprocess.Pipeline, error) {
	pipes, err := r.network.resolve(ex)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ex.Name, err)
	}
	return pipes, nil
}

// send sends a record to the workers.
func (r *reader) send(ctx context.Context, t task) error {
	t.job.pending.Add(1)
	if err := send(ctx, r.tasks, t); err != nil {
		t.job.release()
		return err
	}
	return nil
}

// flush sends the current job on to inference.
func (r *reader) flush(ctx context.Context) error {
	j := r.job
	if j == nil {
		return nil
	}
	r.job = nil
	j.release()
	return send(ctx, r.jobs, j)
}

// prepare decodes and preprocesses a record into its row of the batch.
func (t *task) prepare() {
	if err := t.example.Decode(); err != nil {
		t.record.bad = err.Error()
		return
	}
	if t.job.reader.synthetic {
		if t.record.err = synthetic.Replace(&t.example); t.record.err != nil {
			return
		}
	}
	err := t.record.part.batch.set(t.record.row, &t.example)
	if err == nil {
		return
	}
	var shape *preprocess.ShapeError
	var bad *dataset.RecordError
	switch {
	case errors.As(err, &bad):
		t.record.bad = bad.Error()
	case t.job.reader.lenient && !errors.As(err, &shape):
		t.record.bad = fmt.Sprintf("%s: %v", t.example.Name, err)
	default:
		t.record.err = fmt.Errorf("%s: %w", t.example.Name, err)
	}
}

// inferJob runs the network, passes times, on the records of a job that could be read.
func (w *Network) inferJob(ctx context.Context, j *job, passes int) error {
	x := &rows.Batch{}
	for i := range j.records {
		r := &j.records[i]
		if r.err != nil {
			return r.err
		}
		if r.bad != "" {
			continue
		}
		// Close the gaps that bad records leave in the batch. A part's records have ascending rows.
		r.part.batch.move(r.part.n, r.row)
		r.row = r.part.n
		r.part.n++
		x.Positions, x.Labels, x.Names = append(x.Positions, r.position), append(x.Labels, r.label), append(x.Names,
			r.name)
		x.Targets = append(x.Targets, r.targets...)
		x.N++
	}
	j.results = w.results(x.N, passes)
	j.results.Examples = x
	for _, p := range j.parts {
		if p.n == 0 {
			continue
		}
		if p.results = j.results; len(j.parts) > 1 {
			p.results = w.results(p.n, passes)
		}
		if err := w.inferPasses(ctx, p.batch.tensors(p.n), p.results, passes); err != nil {
			if len(j.parts) > 1 && ctx.Err() == nil { // the shape may be what is wrong
				first := slices.IndexFunc(j.records, func(r record) bool { return r.part == p && r.bad == "" })
				err = fmt.Errorf("%s and those of its shape: %w", j.records[first].name, err)
			}
			return err
		}
		p.batch = nil
	}
	if len(j.parts) > 1 {
		w.gather(j, passes)
	}
	if w.reads != nil {
		return w.labelTexts(j)
	}
	return nil
}

// labelTexts keeps what was read in each example, and labels it by whether that is right.
func (w *Network) labelTexts(j *job) error {
	x := j.results.Examples
	for i := range j.records {
		r := &j.records[i]
		if r.bad != "" {
			continue
		}
		at := len(x.Readings)
		one, err := j.results.Texts[at].Reading(w.reads, &dataset.Example{Label: r.label, Text: r.text, Tags: r.tags})
		switch {
		case err != nil && j.reader.ignoreLabels:
			x.Labels[at], one.WantTags = -1, nil
		case err != nil:
			return fmt.Errorf("%s: %w", r.name, err)
		case r.label >= 0:
			x.Labels[at] = one.Label()
		}
		x.Readings = append(x.Readings, one)
	}
	return nil
}

// gather brings the results of a job's parts into the order of its records.
func (w *Network) gather(j *job, passes int) {
	for c, o := range w.outputs {
		to, width := 0, o.width*passes
		for _, r := range j.records {
			if r.bad == "" {
				j.results.copyFrom(r.part.results, c, r.row*width, to, width)
				to += width
			}
		}
	}
	to := 0
	for _, r := range j.records {
		if r.bad == "" && w.texts {
			j.results.Texts[to] = r.part.results.Texts[r.row]
			to++
		}
	}
}
