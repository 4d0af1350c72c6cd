package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// maxWaiting bounds the numbers in the lines that wait for the network: beyond these a
// larger batch gains nothing.
const maxWaiting = 2_500_000

// PredictLines evaluates JSON lines as they come, as [Predictor.PredictDataset] does those of a
// file, from a source that may never end: r is read on while the network runs, a line that comes
// alone is answered at once, and lines that wait are run together. yield is called in order, once
// for each line that is not blank: with its prediction or, where the line is none or its inputs do
// not suit the model, with an error that says why and a Prediction of nothing but the line's name,
// which is -[0], -[1] and so on. Lines need not have labels; those that mean nothing are left out.
//
// The call ends with nil at the end of r, else with r's error, yield's or ctx's. A Read
// that is waiting outlives it, and what that reads is lost.
func (p *Predictor) PredictLines(ctx context.Context, r io.Reader, yield func(Prediction, error) error) error {
	if p.network == nil {
		return errors.New("the bundle was made of ready-made features and runs no model: lines of its inputs mean nothing; give features as an .npz")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := dataset.Options{
		LabelClasses: p.Classes(), Classes: p.head.Classes(), MultiLabel: p.head.MultiLabel(),
		IgnoreUnknownLabels: true, Unlabelled: p.unlabelled, Inputs: p.network.InputNames(),
	}
	read, waiting := make(chan line), make(chan []line)
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
	go gather(ctx, read, waiting, p.network.Batch())
	for {
		select {
		case lines, ok := <-waiting:
			if !ok { // the end of r or of ctx
				return context.Cause(ctx)
			}
			if err := p.predictLines(ctx, lines, yield); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A line is what one was read as.
type line struct {
	example dataset.Example
	err     error
}

// gather hands on what was read as soon as it is wanted, most lines at a time.
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

// predictLines answers some lines.
func (p *Predictor) predictLines(ctx context.Context, lines []line, yield func(Prediction, error) error) error {
	var examples []dataset.Example
	for _, l := range lines {
		if l.err == nil {
			examples = append(examples, l.example)
		}
	}
	results, errs := p.network.RunExamples(ctx, examples)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	at := 0
	for _, l := range lines {
		one := Prediction{Input: l.example.Name}
		var bad *dataset.RecordError
		err := l.err
		switch {
		case errors.As(err, &bad):
			err = bad.Err
		case err != nil:
			return err
		default:
			if err = errs[at]; err == nil {
				one, err = p.predictLine(results[at], &l.example)
			}
			at++
		}
		if err := yield(one, err); err != nil {
			return err
		}
	}
	return nil
}

// predictLine makes the prediction of what the network gave for an example.
func (p *Predictor) predictLine(r featurize.Results, e *dataset.Example) (Prediction, error) {
	b := &rows.Batch{N: 1, Labels: []int{e.Label}, Targets: e.Targets, Names: []string{e.Name}}
	predictions, err := p.predictions(p.tensors(r), b)
	if err != nil {
		return Prediction{Input: e.Name}, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), e.Name+": "))
	}
	return predictions[0], nil
}
