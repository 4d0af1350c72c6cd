package featurize

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/head"
)

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
	if w.steps > 0 && c.From > 0 {
		panic("featurize: the results of all steps begin with the first example")
	}
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

// inferJob runs the network, passes times, on the records of a job that could be read.
func (w *Network) inferJob(ctx context.Context, j *job, passes int) error {
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
		r.part.steps = append(r.part.steps, int64(r.steps.drawn))
	}
	if w.steps > 0 {
		return w.inferSteps(ctx, j)
	}
	for _, p := range j.parts {
		if p.n == 0 {
			continue
		}
		p.results = w.results(p.n, passes)
		inputs := p.batch.tensors(p.n)
		if w.drawsSteps() {
			inputs = append(inputs, w.stepInput(p.steps))
		}
		if err := w.inferPasses(ctx, inputs, p.results, passes); err != nil {
			return p.failed(ctx, j, err)
		}
		p.batch = nil
	}
	w.checkLabels(j)
	x := &rows.Batch{}
	for _, r := range j.records {
		if r.bad != "" {
			continue
		}
		x.Positions, x.Labels, x.Names = append(x.Positions, r.position), append(x.Labels, r.label), append(x.Names,
			r.name)
		x.Targets = append(x.Targets, r.targets...)
		if w.reads != nil {
			x.Readings = append(x.Readings, r.reading)
		}
		x.N++
	}
	if len(j.parts) == 1 && x.N > 0 && j.parts[0].n == x.N {
		j.results = j.parts[0].results
	} else {
		j.results = w.results(x.N, passes)
		w.gather(j, passes)
	}
	j.results.Examples = x
	return nil
}

// checkLabels skips the records whose labels do not suit what the network gave for them, or ignores the labels.
func (w *Network) checkLabels(j *job) {
	for i := range j.records {
		r := &j.records[i]
		if r.bad != "" {
			continue
		}
		var err error
		switch {
		case w.HasSteps():
			err = r.fits(r.part.results.Steps[r.row])
		case w.reads != nil:
			err = r.read(w.reads)
		}
		switch {
		case err != nil && j.reader.ignoreLabels:
			r.label, r.steps.labels, r.reading.WantTags = -1, nil, nil
		case err != nil:
			r.bad = fmt.Sprintf("%s: %v", r.name, err)
		}
	}
}

// read sets what was read in a record, and labels it by whether that is right.
func (r *record) read(d *head.Decoding) (err error) {
	text := &r.part.results.Texts[r.row]
	r.reading, err = text.Reading(d, &dataset.Example{Label: r.label, Text: r.text, Tags: r.tags})
	if err == nil && r.label >= 0 {
		r.label = r.reading.Label()
	}
	return err
}

// failed names an example of a part that the network failed on, where others have other shapes.
func (p *part) failed(ctx context.Context, j *job, err error) error {
	if len(j.parts) > 1 && ctx.Err() == nil { // the shape may be what is wrong
		first := slices.IndexFunc(j.records, func(r record) bool { return r.part == p && r.bad == "" })
		err = fmt.Errorf("%s and those of its shape: %w", j.records[first].name, err)
	}
	return err
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
		if r.bad != "" {
			continue
		}
		if w.texts {
			j.results.Texts[to] = r.part.results.Texts[r.row]
		}
		if w.drawsSteps() {
			j.results.Steps[to] = r.part.results.Steps[r.row]
		}
		to++
	}
}
