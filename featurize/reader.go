package featurize

import (
	"context"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
)

const (
	// windowBatches is how many batches of examples are sorted by shape at a time: enough for common
	// shapes to fill some.
	windowBatches = 32
	// maxWindow and windowElements bound the examples in a window, and their numbers. A window ends
	// before each multiple of maxWindow.
	maxWindow      = 4096
	windowElements = 2_000_000
	// maxShapes bounds the shapes whose pipelines are kept.
	maxShapes = 4096
)

func newWindow(w *Network) *window {
	return &window{most: max(w.batch, min(windowBatches*w.batch, maxWindow)),
		shapes: map[string][]*preprocess.Pipeline{}}
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
		if n := len(r.job.records); n == cap(r.job.records) || n%r.batch() == 0 {
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

// batch returns how many examples run at once. It divides the batch of the network, so that batches are the same
// wherever reading begins.
func (r *reader) batch() int {
	size, most := r.network.batch, r.network.batch
	if r.pipes != nil {
		most = r.network.most(r.pipes)
	}
	for size > most {
		size /= 2
	}
	return size
}

// newJob returns a job with room for so many records.
func (r *reader) newJob(records int) *job {
	j := &job{reader: r, ready: make(chan struct{}), records: make([]record, 0, records)}
	j.pending.Store(1)
	return j
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
		size := r.batch()
		b, err := newBatch(r.network.inputs, r.pipes, min(cap(j.records), (len(j.records)+size-1)/size*size))
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
