package featurize

import (
	"context"
	"errors"
	"strconv"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// hold adds an example to the window, and releases it when it is full.
func (r *reader) hold(ctx context.Context, ex *dataset.Example, bad *dataset.RecordError) error {
	if w := r.window; len(w.held) > 0 && w.held[0].example.Index/maxWindow != ex.Index/maxWindow {
		// Windows must be the same wherever reading begins.
		if err := r.release(ctx); err != nil {
			return err
		}
	}
	w, h := r.window, held{example: *ex, bad: bad}
	if bad == nil {
		w.key = appendShape(w.key[:0], ex)
		h.shape = string(w.key)
		var ok bool
		if h.pipes, ok = w.shapes[h.shape]; !ok {
			var err error
			if h.pipes, err = r.resolve(ex); errors.As(err, &h.bad) {
				h.pipes = nil
			} else if err != nil {
				return err
			} else {
				if len(w.shapes) == maxShapes {
					clear(w.shapes)
				}
				w.shapes[h.shape] = h.pipes
			}
		}
		for _, p := range h.pipes {
			w.elements += p.Len()
		}
	}
	w.held = append(w.held, h)
	if len(w.held) < w.most && w.elements < windowElements {
		return nil
	}
	return r.release(ctx)
}

// appendShape appends the shapes of an example's arrays, as a key.
func appendShape(key []byte, ex *dataset.Example) []byte {
	for _, a := range ex.Inputs {
		for _, d := range a.Shape {
			key = append(strconv.AppendInt(key, int64(d), 10), ',')
		}
		key = append(key, ';')
	}
	return key
}

// release turns the window into one job, with a part for each shape, or several if it has many
// examples. The parts depend on the examples alone, so every run has the same batches.
func (r *reader) release(ctx context.Context) error {
	w := r.window
	if len(w.held) == 0 {
		return nil
	}
	left := map[string]int{} // examples of a shape without a part
	for _, h := range w.held {
		if h.bad == nil {
			left[h.shape]++
		}
	}
	type open struct {
		*part
		rows, used int
	}
	parts := map[string]*open{}
	r.job = r.newJob(len(w.held))
	for i := range w.held {
		h := &w.held[i]
		rec := r.job.record(&h.example, h.bad)
		if h.bad != nil {
			continue
		}
		p := parts[h.shape]
		if p == nil || p.used == p.rows {
			rows := min(left[h.shape], r.network.most(h.pipes))
			left[h.shape] -= rows
			b, err := newBatch(r.network.inputs, h.pipes, rows)
			if err != nil {
				return err
			}
			p = &open{part: &part{batch: b}, rows: rows}
			parts[h.shape] = p
			r.job.parts = append(r.job.parts, p.part)
		}
		rec.part, rec.row = p.part, p.used
		p.used++
		if err := r.send(ctx, task{r.job, rec, h.example}); err != nil {
			return err
		}
		*h = held{} // the worker has it now
	}
	w.held, w.elements = w.held[:0], 0
	return r.flush(ctx)
}
