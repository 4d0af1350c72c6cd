package serve

import (
	"context"
	"slices"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// infer answers a request of the protocol. Its tensors run together with those of other requests, and the session's
// outputs are the answer. What the session does not compute, decisions and overridden probabilities, comes from the
// predictions, which the metrics need in any case.
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
		if err := rev.metadataFor(o).Check(r); err != nil {
			return err
		}
		if err := c.add(r.Inputs[0].Shape[0] * rev.resultBytes); err != nil {
			return err
		}
		outputs, predictions, err := c.run(ctx, rev, p, r.Inputs, o)
		if err != nil {
			return err
		}
		outputs = slices.Clone(outputs)
		if !o.KeepsProbabilities() {
			outputs[0] = probabilitiesOf(outputs[0], predictions)
		}
		outputs, err = r.Select(append(outputs, decisionsOf(predictions)...), rev.classes)
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

// metadataFor describes the outputs of a request with an override, whose thresholds add the output abstain.
func (rev *revision) metadataFor(o wrap.Override) *oip.Metadata {
	abstains := func(t oip.TensorMetadata) bool { return t.Name == abstainOutput }
	if o.MaxUncertainty == nil && o.MaxOODScore == nil || slices.ContainsFunc(rev.metadata.Outputs, abstains) {
		return rev.metadata
	}
	m := *rev.metadata
	m.Outputs = append(slices.Clone(m.Outputs), abstainMetadata)
	return &m
}

// run has the engine run inputs that fit the model, and returns the session's outputs, which are read-only, and the
// predictions. It refuses results that are not finite. Metrics observe the predictions if their probabilities are
// the bundle's own.
func (c *call) run(ctx context.Context, rev *revision, p *wrap.Predictor, inputs []tensor.Tensor, o wrap.Override) (
	[]tensor.Tensor, []wrap.Prediction, error) {
	c.revision = rev
	a, err := rev.engine.Do(ctx, inputs)
	if err != nil {
		return nil, nil, runError(ctx, err)
	}
	predictions, err := p.Predictions(a.Outputs, o)
	if err != nil {
		return nil, nil, asInvalid(err)
	}
	c.answer, c.examples = a, len(predictions)
	c.span.Inference(ctx, a.Queue, a.Compute, a.Batch)
	if o.KeepsProbabilities() {
		rev.observer.Predictions(predictions)
	}
	return a.Outputs, predictions, nil
}

// decisionsOf returns the decisions of predictions as outputs: abstain [N] and prediction_set [N,C], if they have any.
func decisionsOf(predictions []wrap.Prediction) (outputs []tensor.Tensor) {
	n := len(predictions)
	if predictions[0].Abstain != nil {
		abstain := make([]bool, n)
		for i, one := range predictions {
			abstain[i] = *one.Abstain
		}
		outputs = append(outputs, tensor.Tensor{Name: abstainOutput, Shape: []int64{int64(n)}, Data: abstain})
	}
	if predictions[0].PredictionSet != nil {
		c := len(predictions[0].Probabilities)
		set := make([]bool, n*c)
		for i, one := range predictions {
			for _, k := range one.PredictionSet {
				set[i*c+k] = true
			}
		}
		outputs = append(outputs, tensor.Tensor{Name: setOutput, Shape: []int64{int64(n), int64(c)}, Data: set})
	}
	return outputs
}

// probabilitiesOf returns the probabilities of predictions in the form of the session's output.
func probabilitiesOf(output tensor.Tensor, predictions []wrap.Prediction) tensor.Tensor {
	data := make([]float32, 0, output.Len())
	for _, one := range predictions {
		for _, v := range one.Probabilities {
			data = append(data, float32(v))
		}
	}
	output.Data = data
	return output
}

// overrideOf reads the override in the parameters of a request.
func overrideOf(p oip.Parameters) (o wrap.Override, err error) {
	if o.Method, err = p.Text("method"); err != nil {
		return o, err
	}
	numbers := map[string]*float64{}
	for _, name := range []string{"t_act", "t_ens", "max_doubt", "max_ood_score"} {
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
	o.MaxUncertainty, o.MaxOODScore = numbers["max_doubt"], numbers["max_ood_score"]
	return o, nil
}
