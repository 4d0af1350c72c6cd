package featurize

import (
	"context"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// RunExamples runs the network on examples of any shapes: results[i] is that of the i-th, with N = 1,
// or errs[i] says why there is none. Examples of one shape run together and, if that fails, one by
// one, so that a bad example fails alone. When ctx ends, the call returns with its error in errs.
func (w *Network) RunExamples(ctx context.Context, examples []dataset.Example) (results []Results, errs []error) {
	results, errs = make([]Results, len(examples)), make([]error, len(examples))
	type group struct {
		pipes   []*preprocess.Pipeline
		members []int
	}
	var groups []*group
	byShape := map[string]*group{}
	for i := range examples {
		ex := &examples[i]
		if errs[i] = ex.Decode(); errs[i] != nil {
			continue
		}
		key := string(appendShape(nil, ex))
		g := byShape[key]
		if g == nil {
			pipes, err := w.resolve(ex)
			if err != nil {
				errs[i] = err
				continue
			}
			g = &group{pipes: pipes}
			byShape[key], groups = g, append(groups, g)
		}
		g.members = append(g.members, i)
	}
	for _, g := range groups {
		for len(g.members) > 0 {
			n := min(len(g.members), w.most(g.pipes))
			w.runTogether(ctx, examples, g.pipes, g.members[:n], results, errs)
			g.members = g.members[n:]
		}
	}
	return results, errs
}

// runTogether runs the members that can be preprocessed, as one batch.
func (w *Network) runTogether(ctx context.Context, examples []dataset.Example, pipes []*preprocess.Pipeline,
	members []int, results []Results, errs []error) {
	b, err := newBatch(w.inputs, pipes, len(members))
	if err != nil {
		for _, i := range members {
			errs[i] = err
		}
		return
	}
	var in []int // those in the batch
	for _, i := range members {
		if errs[i] = b.set(len(in), &examples[i]); errs[i] == nil {
			in = append(in, i)
		}
	}
	if len(in) == 0 {
		return
	}
	inputs := b.tensors(len(in))
	all, err := w.inferAll(ctx, inputs, len(in))
	for row, i := range in {
		if errs[i] = err; err == nil {
			results[i] = w.only(all, b, row, &examples[i])
		}
		if err == nil || len(in) == 1 || ctx.Err() != nil {
			continue
		}
		alone := make([]tensor.Tensor, len(inputs))
		for k, t := range inputs {
			alone[k] = t.Slice(row, row+1)
		}
		var one Results
		if one, errs[i] = w.inferAll(ctx, alone, 1); errs[i] == nil {
			results[i] = w.only(one, b, 0, &examples[i])
		}
	}
}

// only returns the results of one of several examples.
func (w *Network) only(all Results, b batch, row int, ex *dataset.Example) Results {
	if w.steps == 0 {
		return w.slice(all, row, row+1)
	}
	r := record{part: &part{batch: b, results: all}, row: row, position: ex.Index, name: ex.Name}
	_ = w.draw(&r, ex) // as those whose geometry is not known
	if r.fits(all.Steps[row]) != nil {
		r.steps.labels = nil
	}
	one := w.noSteps()
	w.addCounted(&one, &r, false)
	return one
}
