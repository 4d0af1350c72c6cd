package featurize

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
)

// StreamConfig says what Stream reads and what it tolerates. The zero value
// reads all of a dataset and tolerates nothing.
type StreamConfig struct {
	Limit    int    // at most so many examples, spread evenly over the dataset; 0 is all
	MaxBad   int    // records that may be unreadable
	Cache    *Cache // nil keeps nothing
	Progress func(done, total int)
}

// Block is a run of consecutive examples with their results.
type Block struct {
	Rows
	Positions []int    // in the source, rising
	Labels    []int    // -1 where there is none
	Targets   []uint8  // [N,K], each 0 or 1, of a dataset opened with MultiLabel that has labels; else nil
	Names     []string // for messages; nil when the rows come from a cache
}

// Stats tells what Stream met.
type Stats struct {
	Examples int      // that were handed over
	Bad      []string // one message for each record that was skipped
	Cached   bool     // the rows came from the cache
}

// TooManyBadError reports that more records were unreadable than allowed.
type TooManyBadError struct {
	Allowed int
	Bad     []string // one message each
}

func (e *TooManyBadError) Error() string {
	last := e.Bad[len(e.Bad)-1]
	if e.Allowed == 0 {
		return fmt.Sprintf("%s (use --max-bad N to skip up to N such records)", last)
	}
	return fmt.Sprintf("%s: that is %d unreadable records, --max-bad allows %d", last, len(e.Bad), e.Allowed)
}

// A job is a batch on its way through the pipeline.
type job struct {
	batch   batch
	records []record      // never grows beyond its capacity
	pending atomic.Int32  // records being prepared, and one more while it grows
	ready   chan struct{} // closed when none is
	block   Block
}

// A record is what is known of one of a job's records. The worker that prepares
// it sets bad and err, and nobody reads them before the job is ready.
type record struct {
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
	row     int
	example dataset.Example
}

func (j *job) release() {
	if j.pending.Add(-1) == 0 {
		close(j.ready)
	}
}

// Stream runs the network over a dataset and calls yield with the results, in
// order. yield runs in the caller's goroutine, while later batches are read,
// decoded and inferred; it owns the block.
//
// An error of yield, of the dataset or of the network ends the stream, as does
// the end of ctx. Records that cannot be read are skipped, up to c.MaxBad.
//
// Where the model leaves sizes of its input open, the first example settles
// them for all.
func (e *Extractor) Stream(ctx context.Context, ds *dataset.Dataset, c StreamConfig, yield func(*Block) error) (Stats, error) {
	if c.Limit < 0 || c.MaxBad < 0 {
		panic(fmt.Sprintf("featurize: StreamConfig has Limit %d and MaxBad %d", c.Limit, c.MaxBad))
	}
	total := ds.Len()
	if c.Limit > 0 && c.Limit < total {
		total = c.Limit
	}
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
	if c.Cache != nil {
		return e.streamCached(ctx, ds, c, total, yield)
	}
	return e.stream(ctx, ds, c, total, yield)
}

func (e *Extractor) stream(ctx context.Context, ds *dataset.Dataset, c StreamConfig, total int, yield func(*Block) error) (Stats, error) {
	// A context of our own, so that every stage ends before we return.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group, ctx := errgroup.WithContext(ctx)

	// The channels' capacities bound what is in memory: some examples as they
	// were read, and some batches, at least as many as keep the workers busy.
	workers := runtime.GOMAXPROCS(0)
	tasks := make(chan task, workers)
	jobs := make(chan *job, max(2, (2*workers+e.batch-1)/e.batch))
	results := make(chan *job, 2)

	group.Go(func() error {
		defer close(tasks)
		defer close(jobs)
		r := reader{extractor: e, tasks: tasks, jobs: jobs}
		return r.read(ctx, ds, total)
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
			if err := e.inferJob(ctx, j); err != nil {
				return err
			}
			if err := send(ctx, results, j); err != nil {
				return err
			}
		}
		return nil
	})

	var stats Stats
	var failed error
	done := 0
	c.Progress(0, total)
	for j := range results {
		if failed != nil {
			continue // drain, so that the stages end
		}
		if failed = stats.take(ctx, j, c.MaxBad, yield); failed != nil {
			cancel(failed)
			continue
		}
		done += len(j.records)
		c.Progress(done, total)
	}
	err := group.Wait()
	if failed != nil {
		err = failed
	}
	if err == nil && stats.Examples == 0 {
		err = fmt.Errorf("%s: no examples could be read", ds.Spec())
	}
	return stats, err
}

// take counts a job's records and hands its examples over.
func (s *Stats) take(ctx context.Context, j *job, maxBad int, yield func(*Block) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, r := range j.records {
		if r.bad == "" {
			continue
		}
		if s.Bad = append(s.Bad, r.bad); len(s.Bad) > maxBad {
			return &TooManyBadError{Allowed: maxBad, Bad: s.Bad}
		}
	}
	if j.block.N == 0 {
		return nil
	}
	s.Examples += j.block.N
	return yield(&j.block)
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
	extractor *Extractor
	tasks     chan<- task
	jobs      chan<- *job // in order

	job   *job
	pipes []*preprocess.Pipeline // one for each input, nil while sizes are open
}

// read reads total of the dataset's examples. Fewer than all are spread evenly,
// since folders come class by class.
func (r *reader) read(ctx context.Context, ds *dataset.Dataset, total int) error {
	all, seen, taken := ds.Len(), 0, 0
	for example, err := range ds.Examples(ctx) {
		at := seen
		seen++
		var bad *dataset.RecordError
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		if at*total/all == (at+1)*total/all {
			continue // not one of those wanted
		}
		if r.job == nil {
			r.job = &job{ready: make(chan struct{}), records: make([]record, 0, max(1, min(r.extractor.batch, total-taken)))}
			r.job.pending.Store(1)
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
	return r.flush(ctx)
}

// add puts a record into the job and has it prepared.
func (r *reader) add(ctx context.Context, ex *dataset.Example, bad *dataset.RecordError) error {
	j := r.job
	row := len(j.records)
	j.records = append(j.records, record{position: ex.Index, label: ex.Label, targets: ex.Targets, name: ex.Name})
	rec := &j.records[row]
	if bad == nil && r.pipes == nil {
		// Sizes may be open: the first example that can be read settles them.
		err := ex.Decode()
		if err == nil {
			if r.pipes, err = r.extractor.resolve(ex); err != nil {
				return fmt.Errorf("%s: %w", ex.Name, err)
			}
		} else if !errors.As(err, &bad) {
			return err
		}
	}
	if bad != nil {
		rec.bad = bad.Error()
		return nil
	}
	if j.batch == nil {
		var err error
		if j.batch, err = newBatch(r.extractor.inputs, r.pipes, cap(j.records)); err != nil {
			return err
		}
	}
	j.pending.Add(1)
	if err := send(ctx, r.tasks, task{j, rec, row, *ex}); err != nil {
		j.release()
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
	if err := t.job.batch.set(t.row, &t.example); err != nil {
		t.record.err = fmt.Errorf("%s: %w", t.example.Name, err)
	}
}

// inferJob runs the network on those of a job's records that could be read.
func (e *Extractor) inferJob(ctx context.Context, j *job) error {
	b := &j.block
	for row, r := range j.records {
		if r.err != nil {
			return r.err
		}
		if r.bad != "" {
			continue
		}
		j.batch.move(b.N, row)
		b.Positions, b.Labels, b.Names = append(b.Positions, r.position), append(b.Labels, r.label), append(b.Names, r.name)
		b.Targets = append(b.Targets, r.targets...)
		b.N++
	}
	if b.N == 0 {
		return nil
	}
	var err error
	b.Rows, err = e.infer(ctx, j.batch.tensors(b.N), b.N)
	j.batch = nil
	return err
}
