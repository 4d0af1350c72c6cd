package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/head"
)

// maxWaiting bounds the numbers in the lines that wait for the network: larger batches gain nothing.
const maxWaiting = 2_500_000

// PredictLines evaluates JSON lines as they come, as [Predictor.PredictDataset] does those of a file, from a
// source that may never end: r is read on while the network runs, a line that comes alone is answered at once,
// and lines that wait are run together. It yields, in order and once for each line that is not blank, the
// prediction or, if the line cannot be read or its inputs do not suit the model, a [*RecordError]; lines are
// called -[0], -[1] and so on. Lines need no labels; those that are not the model's are left out.
//
// Of a network that runs over streams, each line is a whole stream, unless it names the one that it continues, as in
// {"input": [[…], …], "stream": "a"}: its steps follow those of the last line of that name. "stream_end": true in the
// last line of a stream drops its state. A line that fails leaves the state as it was.
//
// The iteration ends at the end of r, or with an error of r or ctx, which is the last that it yields. A Read that
// is waiting outlives the iteration, and what it reads is lost.
func (p *Predictor) PredictLines(ctx context.Context, r io.Reader) iter.Seq2[Prediction, error] {
	return func(yield func(Prediction, error) bool) {
		if p.network == nil {
			yield(Prediction{}, fmt.Errorf("%w: it has no inputs for JSON lines; give features as an .npz", ErrNoModel))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		waiting := make(chan []line)
		streams := streams{}
		go gather(ctx, p.readLines(ctx, r), waiting, p.network.Batch())
		for {
			var lines []line
			open := false
			select {
			case lines, open = <-waiting:
			case <-ctx.Done():
			}
			if !open { // the end of r or of ctx
				if err := context.Cause(ctx); err != nil {
					yield(Prediction{}, err)
				}
				return
			}
			if !p.predictLines(ctx, lines, streams, yield) {
				return
			}
		}
	}
}

// A line is an example, or the reason why there is none.
type line struct {
	example dataset.Example
	err     error
}

// readLines reads lines until the end of r or ctx.
func (p *Predictor) readLines(ctx context.Context, r io.Reader) <-chan line {
	kind := p.bundle.Manifest.Head.Kind
	options := dataset.Options{
		LabelClasses: p.Classes(), Classes: p.head.Classes(), MultiLabel: p.head.MultiLabel(),
		Texts: kind == head.CTC, Tags: kind == head.Tags, Steps: p.network.HasSteps(), Streams: p.network.Streams(),
		IgnoreUnknownLabels: true, Unlabelled: p.unlabelled, Inputs: p.network.InputNames(),
	}
	read := make(chan line)
	go func() {
		defer close(read)
		for e, err := range dataset.StreamJSONL(r, "-", options) {
			select {
			case read <- line{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return read
}

// gather hands on the lines that were read as soon as they are wanted, at most so many at a time.
func gather(ctx context.Context, read <-chan line, waiting chan<- []line, most int) {
	defer close(waiting)
	var lines []line
	numbers := 0
	for read != nil || lines != nil {
		from, to := read, waiting
		if len(lines) >= most || numbers >= maxWaiting {
			from = nil
		}
		if lines == nil {
			to = nil
		}
		select {
		case l, ok := <-from:
			if !ok {
				read = nil
				continue
			}
			lines = append(lines, l)
			for _, a := range l.example.Inputs {
				n := 1
				for _, d := range a.Shape {
					n *= d
				}
				numbers += n
			}
		case to <- lines:
			lines, numbers = nil, 0
		case <-ctx.Done():
			return
		}
	}
}

// predictLines answers some lines, and reports whether the iteration goes on. Those that continue streams run alone, in
// their order.
func (p *Predictor) predictLines(
	ctx context.Context, lines []line, streams streams, yield func(Prediction, error) bool,
) bool {
	var whole []dataset.Example
	for _, l := range lines {
		if l.err == nil && l.example.Stream == "" {
			whole = append(whole, l.example)
		}
	}
	results, errs := p.network.RunExamples(ctx, whole)
	for i := range lines {
		e, err := &lines[i].example, lines[i].err
		var all []Prediction
		var bad *dataset.RecordError
		switch {
		case errors.As(err, &bad):
			err = bad.Err
		case err != nil: // of the reader
			yield(Prediction{}, err)
			return false
		case e.Stream != "":
			all, err = p.predictChunk(ctx, e, streams)
		default:
			if err = errs[0]; err == nil {
				all, err = p.predictLine(results[0], e)
			}
			results, errs = results[1:], errs[1:]
		}
		if ctx.Err() != nil {
			yield(Prediction{}, context.Cause(ctx))
			return false
		}
		if err != nil {
			all, err = make([]Prediction, 1), &RecordError{e.Name, err}
		}
		for _, one := range all {
			if !yield(one, err) {
				return false
			}
		}
	}
	return true
}

// predictLine makes the prediction of one example, or those of its steps.
func (p *Predictor) predictLine(r featurize.Results, e *dataset.Example) ([]Prediction, error) {
	b := &rows.Batch{N: 1, Labels: []int{e.Label}, Targets: e.Targets, Names: []string{e.Name}}
	if p.decoding != nil && e.Label >= 0 {
		reading, err := r.Texts[0].Reading(p.decoding, e)
		if err != nil {
			return nil, err
		}
		b.Labels[0] = reading.Label()
	}
	if p.steps() > 0 {
		b = r.Examples
	}
	all := p.predictions(p.tensors(r), nil, p.bundle.Manifest.Decisions, b)
	return all.predictions, cmp.Or(all.errs...)
}
