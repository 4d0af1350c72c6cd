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
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/synthetic"
)

// StreamConfig says what a pass reads and what it tolerates. The zero value
// reads all of a dataset and tolerates nothing.
type StreamConfig struct {
	// From is the position of the source to begin with. A Network gives the examples from there on as
	// it does without it: it runs the whole batch in which the first lies.
	From int
	// Limit is at most how many examples are read, spread evenly over the dataset; 0 is all. A shard
	// has those of them that lie in it.
	Limit  int
	MaxBad int    // records that may be unreadable
	Cache  *Cache // where Rows keeps what it computes; nil keeps nothing
	// Stats counts what is met, on top of what an earlier pass met before From: an unreadable record is
	// in it before an example behind it is handed over. Nil counts from nothing.
	Stats *rows.Stats
	// Passes is how often a Network runs each batch, 0 being once. Of one that draws
	// random numbers every pass gives other results, which stand one after another for
	// each example: [n,Passes,width].
	Passes    int
	Synthetic bool // run on synthetic OOD images made from the examples, see package synthetic
	Progress  func(done, total int)
}

// ErrNoExamples says that a dataset gave none, or none that could be read.
var ErrNoExamples = errors.New("no examples could be read")

// TooManyBadError reports that more records were unreadable than allowed.
type TooManyBadError struct {
	Allowed int
	Bad     []string // one message each
}

func (e *TooManyBadError) Error() string { return e.Unwrap().Error() }

// Unwrap returns an error of the same message, which names the option.
func (e *TooManyBadError) Unwrap() error {
	last := e.Bad[len(e.Bad)-1]
	if e.Allowed == 0 {
		return option.Errorf("%s (use %s N to skip up to N such records)", last, option.MaxBad)
	}
	return option.Errorf("%s: that is %d unreadable records, %s allows %d", last, len(e.Bad), option.MaxBad, e.Allowed)
}

// check panics at numbers that make no sense, and sees that there is something to count with.
func (c *StreamConfig) check() {
	if c.From < 0 || c.Limit < 0 || c.MaxBad < 0 || c.Passes < 0 {
		panic(fmt.Sprintf("featurize: StreamConfig has From %d, Limit %d, MaxBad %d and Passes %d",
			c.From, c.Limit, c.MaxBad, c.Passes))
	}
	if c.Stats == nil {
		c.Stats = &rows.Stats{}
	}
}

// A selection is what a StreamConfig wants of a source.
type selection struct {
	begin      int  // of what the source has: of its shard
	from, to   int  // positions that are read
	first      int  // of all: of the source's slice
	all, limit int  // of all, how many there are and how many are wanted; both -1 of a stream
	count      int  // wanted of those that are read, or more: of a stream, as many as it has room for
	whole      bool // all of its slice is read, whatever the shard
	synthetic  bool // images are made from them
}

// A Sliced is a source of which a shard may be read: a dataset, or a file of precomputed features.
type Sliced interface {
	Len() int
	Slice() (from, to int)
	Range() (from, to int)
}

// selects returns what is wanted of a source.
func (c *StreamConfig) selects(s Sliced) selection {
	first, last := s.Slice()
	from, to := s.Range()
	w := selection{
		first: first, begin: from, from: min(max(from, c.From), to), to: to, all: s.Len(), limit: s.Len(),
		synthetic: c.Synthetic,
	}
	w.whole = w.from == first && w.to == last
	if c.Limit > 0 && w.all >= 0 {
		w.limit = min(c.Limit, w.all)
	}
	if w.from < w.to {
		w.count = w.before(w.to) - w.before(w.from)
	}
	return w
}

// Count returns how many examples are read of a source, unreadable ones included; -1 of a stream.
func (c *StreamConfig) Count(s Sliced) int {
	if w := c.selects(s); w.all >= 0 {
		return w.count
	}
	return -1
}

// total is for reports: how many examples are done at the end of so many and the wanted, 0 where
// nobody knows.
func (w *selection) total(done int) int {
	if w.all < 0 {
		return 0
	}
	return done + w.count
}

// wants reports whether the example at a position is among those wanted. All of a stream are, since
// both of its numbers are -1.
func (w *selection) wants(position int) bool { return rows.InSubsample(position-w.first, w.all, w.limit) }

// before returns how many of all that are wanted lie before a position.
func (w *selection) before(position int) int {
	return rows.SubsampledBefore(position-w.first, w.all, w.limit)
}

// missing reports whether a stream that gave no examples has failed: of a part of a source there may
// be none.
func (w *selection) missing(examples int) bool { return examples == 0 && w.whole }

func (c *StreamConfig) report(done, total int) {
	if c.Progress != nil {
		c.Progress(done, total)
	}
}

// A job is consecutive examples on their way through the pipeline.
type job struct {
	parts     []*part
	records   []record      // never grows beyond its capacity
	lenient   bool          // a value that does not suit the model is its record's trouble
	synthetic bool          // images are made from the examples
	pending   atomic.Int32  // records being prepared, and one more while it grows
	ready     chan struct{} // closed when none is

	results Results // of those that could be read
}

// A part is those of a job's examples that are inferred at once. They have the
// same shapes, and nothing but that in common with each other.
type part struct {
	batch   batch
	n       int // its examples that could be read
	results Results
}

// A record is what is known of one of a job's records. The worker that prepares
// it sets bad and err, and nobody reads them before the job is ready.
type record struct {
	part     *part // nil for one that could not be read
	row      int   // in the part
	position int
	label    int
	targets  []uint8
	name     string
	bad      string // why it is left out
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

// Results runs the network over a dataset: its results, in order, batch by batch, with their examples.
// Whoever takes a batch owns it. While the caller is busy with one, later ones are read, decoded and
// inferred; all of that has ended when the loop has.
//
// Records that cannot be read are skipped, up to c.MaxBad. An error, of the dataset, of the network or
// of ctx when it ends, is the last.
//
// Where the model leaves sizes of its input open, the first example settles them for all. A ragged
// dataset's examples however are each run at their own size, together with others of the same size
// and never padded: an example's rows do not depend on those beside it.
func (w *Network) Results(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[Results, error] {
	if c.Cache != nil {
		panic("featurize: a cache keeps Rows, not Results")
	}
	c.check()
	return func(yield func(Results, error) bool) {
		want := c.selects(ds)
		if want.all < 0 && c.Limit > 0 {
			yield(Results{}, fmt.Errorf("%s: a limit is spread over the data, and how many examples a stream has is not known: leave it out, or give a file",
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
			if j.results.N > 0 && !yield(j.results, nil) {
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
			err = fmt.Errorf("%s: %w", ds.Spec(), ErrNoExamples)
			if len(c.Stats.Bad) > 0 {
				err = fmt.Errorf("%w (first: %s)", err, c.Stats.Bad[0].Message)
			}
		}
		if err != nil {
			yield(Results{}, err)
		}
	}
}

// start starts the stages that read, prepare and infer the wanted ones of a dataset's examples, and
// returns the jobs that leave the last.
func (w *Network) start(ctx context.Context, group *errgroup.Group, ds *dataset.Dataset, want selection,
	c StreamConfig) <-chan *job {
	// The channels' capacities bound what is in memory: some examples as they were read, and some
	// batches, at least as many as keep the workers busy.
	workers := runtime.GOMAXPROCS(0)
	tasks := make(chan task, workers)
	jobs := make(chan *job, max(2, (2*workers+w.batch-1)/w.batch))
	results := make(chan *job, 2)

	group.Go(func() error {
		defer close(tasks)
		defer close(jobs)
		r := reader{network: w, tasks: tasks, jobs: jobs, lenient: ds.IsText(), synthetic: c.Synthetic}
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

// skip leaves the records of a job out that lie before a position.
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

// count counts a job's records, whose examples are about to be handed over.
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
	network *Network
	tasks   chan<- task
	jobs    chan<- *job // in order
	lenient bool

	synthetic bool // images are wanted

	job    *job
	pipes  []*preprocess.Pipeline // one for each input, nil while sizes are open
	window *window                // nil where all examples have the first one's sizes
}

// read reads the wanted ones of the dataset's examples.
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

// aligned reports whether batches end with blocks, where it costs next to nothing: the examples
// beside one are then the same wherever reading begins.
func (w *Network) aligned(want selection) bool {
	return want.limit == want.all && rows.BlockSize%w.batch == 0
}

// lead returns where reading begins for the examples from want.from on to have the same beside them
// as if it began with want.begin.
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

// newJob returns a job for so many records.
func (r *reader) newJob(records int) *job {
	j := &job{
		ready: make(chan struct{}), records: make([]record, 0, records), lenient: r.lenient, synthetic: r.synthetic,
	}
	j.pending.Store(1)
	return j
}

// record adds one to the job.
func (j *job) record(ex *dataset.Example, bad *dataset.RecordError) *record {
	j.records = append(j.records, record{position: ex.Index, label: ex.Label, targets: ex.Targets, name: ex.Name})
	rec := &j.records[len(j.records)-1]
	if bad != nil {
		rec.bad = bad.Error()
	}
	return rec
}

// add puts a record into the job and has it prepared.
func (r *reader) add(ctx context.Context, ex *dataset.Example, bad *dataset.RecordError) error {
	j := r.job
	if bad == nil && r.pipes == nil {
		// Sizes may be open: the first example that can be read settles them.
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

// send has a record prepared.
func (r *reader) send(ctx context.Context, t task) error {
	t.job.pending.Add(1)
	if err := send(ctx, r.tasks, t); err != nil {
		t.job.release()
		return err
	}
	return nil
}

// flush sends the job on.
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
	if t.job.synthetic {
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
	case t.job.lenient && !errors.As(err, &shape):
		t.record.bad = fmt.Sprintf("%s: %v", t.example.Name, err)
	default:
		t.record.err = fmt.Errorf("%s: %w", t.example.Name, err)
	}
}

// inferJob runs the network so many times on those of a job's records that could be read.
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
		// The rows before it that are bad leave no gap. A part's records have rising rows.
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
	if len(j.parts) <= 1 {
		return nil
	}
	for c, o := range w.outputs {
		to, width := 0, o.width*passes
		for _, r := range j.records {
			if r.bad == "" {
				j.results.copyFrom(r.part.results, c, r.row*width, to, width)
				to += width
			}
		}
	}
	return nil
}
