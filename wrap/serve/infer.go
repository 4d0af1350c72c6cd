package serve

import (
	"context"
	"slices"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// infer answers a request of the protocol. Its tensors run together with those of other requests; package wrap applies
// decisions and overrides to the outputs, which are the answer.
func (c *call) infer(ctx context.Context, r *oip.Request) (*oip.Response, error) {
	o, err := overrideOf(r.Parameters)
	if err != nil {
		return nil, err
	}
	var response *oip.Response
	err = c.model.use(func(rev *revision, p *wrap.Predictor) error {
		if err := p.CheckOverride(o); err != nil {
			return asInvalid(err)
		}
		if err := rev.metadataFor(p, o).Check(r); err != nil {
			return err
		}
		if err := c.add(rowsOf(p, r.Inputs[0]) * rev.resultBytes); err != nil {
			return err
		}
		results, err := c.runRequest(ctx, rev, p, r, o)
		if err != nil {
			return err
		}
		outputs, err := r.Select(results.Outputs, rev.classes)
		if err != nil {
			return err
		}
		response = &oip.Response{
			Model: c.model.Name, Version: version, ID: r.ID, Outputs: outputs,
			Parameters: oip.Parameters{"bundle_sha256": rev.sha256},
		}
		return nil
	})
	return response, err
}

// metadataFor describes the model for a request with an override, whose thresholds may add the output abstain.
func (rev *revision) metadataFor(p *wrap.Predictor, o wrap.Override) *oip.Metadata {
	if o.MaxUncertainty == nil && o.MaxOODScore == nil {
		return rev.metadata
	}
	m := *rev.metadata
	m.Outputs = tensorsOf(p.Outputs(o))
	return &m
}

// run has the engine run inputs that fit the model, and applies decisions and the override. It refuses results that are
// not finite. Metrics observe the predictions if their probabilities are the bundle's own.
func (c *call) run(
	ctx context.Context, rev *revision, p *wrap.Predictor, inputs []tensor.Tensor, o wrap.Override,
) (r wrap.Results, err error) {
	return c.runFrom(ctx, rev, p, inputs, nil, o)
}

// runRequest runs a request: a chunk of a sequence from the state at which the chunk before it ended. States run
// through the engine with the inputs, so that chunks of several sequences are one batch.
func (c *call) runRequest(
	ctx context.Context, rev *revision, p *wrap.Predictor, r *oip.Request, o wrap.Override,
) (wrap.Results, error) {
	k, err := chunkOf(r.Parameters)
	switch {
	case err != nil:
		return wrap.Results{}, err
	case k.id == "":
		return c.run(ctx, rev, p, r.Inputs, o)
	case !p.Streams():
		return wrap.Results{}, invalid("parameter %s: the model does not run over streams: leave it out", sequenceID)
	case r.Inputs[0].Shape[0] != 1:
		return wrap.Results{}, invalid("a request with %s has %d examples, want 1", sequenceID, r.Inputs[0].Shape[0])
	}
	q, err := rev.sequences.find(ctx, k, p)
	if err != nil {
		return wrap.Results{}, err
	}
	state := q.state
	results, err := c.runFrom(ctx, rev, p, r.Inputs, &state, o)
	if err != nil {
		state = nil
	}
	rev.sequences.done(k, q, state)
	return results, err
}

// rowsOf is the number of results for an input: one for each example or, for streams, for each of their steps.
func rowsOf(p *wrap.Predictor, in tensor.Tensor) int64 {
	if p.Streams() {
		return in.Shape[0] * in.Shape[1]
	}
	return in.Shape[0]
}

// runFrom is run for a chunk of a stream that begins at a state, which it replaces by the one at its end; nil for none.
func (c *call) runFrom(
	ctx context.Context, rev *revision, p *wrap.Predictor, inputs []tensor.Tensor, state *[]tensor.Tensor,
	o wrap.Override,
) (r wrap.Results, err error) {
	c.revision = rev
	if state != nil {
		inputs = slices.Concat(inputs, *state)
	}
	a, err := rev.engine.Do(ctx, inputs)
	if err != nil {
		return r, runError(ctx, err)
	}
	outputs := a.Outputs
	if state != nil {
		own := len(outputs) - len(*state)
		*state, outputs = cloned(outputs[own:]), outputs[:own]
	}
	if err := c.addSteps(rev, outputs); err != nil {
		return r, err
	}
	if r, err = p.Apply(outputs, o); err != nil {
		return r, asInvalid(err)
	}
	c.answer, c.examples = a, int(inputs[0].Shape[0])
	c.span.Inference(ctx, a.Queue, a.Compute, a.Batch)
	if o.KeepsProbabilities() {
		rev.observer.Predictions(rev.observed(p, inputs, r.Predictions))
	}
	return r, nil
}

// overrideOf reads the override in the parameters of a request.
func overrideOf(p oip.Parameters) (o wrap.Override, err error) {
	if o.Method, err = p.Text("method"); err != nil {
		return o, err
	}
	numbers := map[string]*float64{}
	for _, name := range []string{"t_act", "t_ens", "max_uncertainty", "max_ood_score"} {
		x, ok, err := p.Number(name)
		if err != nil {
			return o, err
		}
		if ok {
			numbers[name] = &x
		}
	}
	for name, to := range map[string]*float64{"t_act": &o.TAct, "t_ens": &o.TEns} {
		if x := numbers[name]; x != nil {
			if *to = *x; *x == 0 {
				return o, invalid("parameter %s is 0, want a positive number", name)
			}
		}
	}
	o.MaxUncertainty, o.MaxOODScore = numbers["max_uncertainty"], numbers["max_ood_score"]
	return o, nil
}
