package featurize

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
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

// job is a batch on its way through the pipeline.
type job struct {
	examples []dataset.Example
	ready    chan struct{} // closed when prepared
	inputs   []ort.Tensor
	block    Block
	bad      []string
	err      error
}

// Stream runs the network over a dataset and calls yield with the results, in
// order. yield runs in the caller's goroutine, while later batches are read,
// decoded and inferred; it owns the block.
//
// An error of yield, of the dataset or of the network ends the stream, as does
// the end of ctx. Records that cannot be read are skipped, up to c.MaxBad.
func (e *Extractor) Stream(ctx context.Context, ds *dataset.Dataset, c StreamConfig, yield func(*Block) error) (Stats, error) {
	total := ds.Len()
	if c.Limit > 0 && c.Limit < total {
		total = c.Limit
	}
	report := c.Progress
	if report == nil {
		report = func(int, int) {}
	}
	if c.Cache != nil {
		return e.streamCached(ctx, ds, c, total, report, yield)
	}
	return e.stream(ctx, ds, c, total, report, yield)
}

func (e *Extractor) stream(ctx context.Context, ds *dataset.Dataset, c StreamConfig, total int, report func(int, int), yield func(*Block) error) (Stats, error) {
	var stats Stats
	// A group context of our own, so that every stage ends before we return.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group, ctx := errgroup.WithContext(ctx)

	workers := runtime.GOMAXPROCS(0)
	// The channels' capacities bound the batches in memory.
	work := make(chan *job, workers)
	queue := make(chan *job, workers+1) // the same jobs in order
	results := make(chan *job, 2)

	group.Go(func() error { // read
		defer close(work)
		defer close(queue)
		return e.read(ctx, ds, total, func(j *job) error {
			for _, ch := range []chan<- *job{queue, work} {
				select {
				case ch <- j:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
	})
	for range workers { // decode and preprocess
		group.Go(func() error {
			for j := range work {
				j.err = e.prepare(j)
				close(j.ready)
			}
			return nil
		})
	}
	group.Go(func() error { // infer
		defer close(results)
		for j := range queue {
			select {
			case <-j.ready:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if j.err != nil {
				return j.err
			}
			if j.block.N > 0 {
				rows, err := e.infer(ctx, j.inputs, j.block.N)
				if err != nil {
					return err
				}
				j.block.Rows, j.inputs = rows, nil
			}
			select {
			case results <- j:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})

	report(0, total)
	done := 0
	var failed error
	for j := range results {
		if failed != nil {
			continue // drain, so that the stages end
		}
		done += len(j.examples) + len(j.bad)
		for _, message := range j.bad {
			if stats.Bad = append(stats.Bad, message); len(stats.Bad) > c.MaxBad {
				failed = &TooManyBadError{Allowed: c.MaxBad, Bad: stats.Bad}
				break
			}
		}
		if failed == nil && j.block.N > 0 {
			stats.Examples += j.block.N
			failed = yield(&j.block)
		}
		if failed != nil {
			cancel(failed)
			continue
		}
		report(done, total)
	}
	err := group.Wait()
	if failed != nil {
		return stats, failed
	}
	if err != nil {
		return stats, err
	}
	if stats.Examples == 0 {
		return stats, fmt.Errorf("%s: no examples could be read", ds.Spec())
	}
	report(total, total)
	return stats, nil
}

// read gathers total of the dataset's examples into batches. Fewer than all are
// spread evenly, since folders come class by class.
func (e *Extractor) read(ctx context.Context, ds *dataset.Dataset, total int, send func(*job) error) error {
	all := ds.Len()
	seen := 0
	j := &job{ready: make(chan struct{})}
	for example, err := range ds.Examples(ctx) {
		at := seen
		seen++
		if at*total/all == (at+1)*total/all {
			continue // not one of those wanted
		}
		var bad *dataset.RecordError
		switch {
		case errors.As(err, &bad):
			j.bad = append(j.bad, bad.Error())
		case err != nil:
			return err
		default:
			j.examples = append(j.examples, example)
		}
		if len(j.examples)+len(j.bad) >= e.batch {
			if err := send(j); err != nil {
				return err
			}
			j = &job{ready: make(chan struct{})}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(j.examples)+len(j.bad) == 0 {
		return nil
	}
	return send(j)
}

// prepare decodes and preprocesses a batch's examples into input tensors.
// Records that do not decode are left out and noted.
func (e *Extractor) prepare(j *job) error {
	b := batch{extractor: e, capacity: len(j.examples)}
	for i := range j.examples {
		ex := &j.examples[i]
		if ex.Encoded != nil {
			if err := ex.Decode(); err != nil {
				var record *dataset.RecordError
				if !errors.As(err, &record) {
					err = &dataset.RecordError{Name: ex.Name, Index: ex.Index, Err: err}
				}
				j.bad = append(j.bad, err.Error())
				continue
			}
		}
		if err := b.add(ex); err != nil {
			return fmt.Errorf("%s: %w", ex.Name, err)
		}
		j.block.Positions = append(j.block.Positions, ex.Index)
		j.block.Labels = append(j.block.Labels, ex.Label)
		j.block.Names = append(j.block.Names, ex.Name)
	}
	j.block.N = b.n
	j.inputs = b.tensors()
	// What progress counts stays; the pixels need not.
	for i := range j.examples {
		j.examples[i].Encoded, j.examples[i].Inputs = nil, nil
	}
	j.examples = j.examples[:b.n]
	return nil
}

// batch gathers examples into one tensor for each input.
type batch struct {
	extractor *Extractor
	capacity  int
	n         int
	columns   []column
}

// column is one input's tensor being filled.
type column struct {
	pipe *preprocess.Pipeline
	data reflect.Value // a slice of capacity × size elements
	size int
	half []float32 // float16 inputs: one example before rounding
}

func (b *batch) add(ex *dataset.Example) error {
	inputs := b.extractor.inputs
	if b.columns == nil {
		b.columns = make([]column, len(inputs))
	}
	for i := range inputs {
		in, col := &inputs[i], &b.columns[i]
		array, err := find(ex, in, len(inputs))
		if err != nil {
			return err
		}
		img := image(*array)
		if col.pipe == nil {
			if err := col.open(in, img, b.capacity); err != nil {
				return err
			}
		}
		row := col.data.Slice(b.n*col.size, (b.n+1)*col.size).Interface()
		if half, ok := row.(ort.Float16Bits); ok {
			if err := col.pipe.Apply(img, col.half); err != nil {
				return err
			}
			for k, v := range col.half {
				half[k] = float16(v)
			}
			continue
		}
		if err := col.pipe.Apply(img, row); err != nil {
			return err
		}
	}
	b.n++
	return nil
}

// open allocates the column once the first example has settled its shape.
func (c *column) open(in *input, img preprocess.Image, capacity int) error {
	pipe, err := in.pipeline(img)
	if err != nil {
		return err
	}
	c.pipe, c.size = pipe, pipe.Len()
	data, err := alloc(in.info.Type.String(), capacity*c.size)
	if err != nil {
		return fmt.Errorf("input %q: %w", in.info.Name, err)
	}
	c.data = reflect.ValueOf(data)
	if _, ok := data.(ort.Float16Bits); ok {
		c.half = make([]float32, c.size)
	}
	return nil
}

// find returns the example's array for an input.
func find(ex *dataset.Example, in *input, inputs int) (*dataset.Array, error) {
	for i := range ex.Inputs {
		if a := &ex.Inputs[i]; a.Name == in.info.Name || (inputs == 1 && len(ex.Inputs) == 1) {
			return a, nil
		}
	}
	have := make([]string, len(ex.Inputs))
	for i, a := range ex.Inputs {
		have[i] = a.Name
	}
	return nil, fmt.Errorf("there is no array for the model's input %q among %q: name the arrays of an .npz after the model's inputs", in.info.Name, have)
}

func (b *batch) tensors() []ort.Tensor {
	if b.n == 0 {
		return nil
	}
	out := make([]ort.Tensor, len(b.columns))
	for i, col := range b.columns {
		shape := []int64{int64(b.n)}
		for _, d := range col.pipe.Shape() {
			shape = append(shape, int64(d))
		}
		out[i] = ort.Tensor{
			Name:  b.extractor.inputs[i].info.Name,
			Shape: shape,
			Data:  col.data.Slice(0, b.n*col.size).Interface(),
		}
	}
	return out
}
