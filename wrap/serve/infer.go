package serve

import (
	"context"

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
		if err := c.add(r.Inputs[0].Shape[0] * rev.resultBytes); err != nil {
			return err
		}
		results, err := c.run(ctx, rev, p, r.Inputs, o)
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
	c.revision = rev
	a, err := rev.engine.Do(ctx, inputs)
	if err != nil {
		return r, runError(ctx, err)
	}
	if err := c.addSteps(rev, a.Outputs); err != nil {
		return r, err
	}
	if r, err = p.Apply(a.Outputs, o); err != nil {
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
