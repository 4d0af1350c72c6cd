package serve

import (
	"context"
	"slices"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// infer answers a request of the protocol: its tensors are run together with those of others, and what the session
// gives is the answer. Predictions are made of that for metrics, and for what the session does not compute: the
// decisions of the bundle, and what parameters override.
func (c *call) infer(ctx context.Context, r *oip.Request) (*oip.Response, error) {
	v, err := variantOf(r.Parameters)
	if err != nil {
		return nil, err
	}
	var response *oip.Response
	err = c.model.use(func(rev *revision, p *wrap.Predictor) error {
		if err := rev.metadataFor(v).Check(r); err != nil {
			return err
		}
		if err := c.add(r.Inputs[0].Shape[0] * rev.resultBytes); err != nil {
			return err
		}
		outputs, predictions, err := c.run(ctx, rev, p, r.Inputs, v)
		if err != nil {
			return err
		}
		if !v.Served() {
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

// metadataFor has the outputs of a request with parameters.
func (rev *revision) metadataFor(v wrap.Variant) *oip.Metadata {
	decides := func(t oip.TensorMetadata) bool { return t.Name == abstainOutput }
	if v.MaxDoubt == nil && v.MaxOODScore == nil || slices.ContainsFunc(rev.metadata.Outputs, decides) {
		return rev.metadata
	}
	m := *rev.metadata
	m.Outputs = append(slices.Clone(m.Outputs), abstainMetadata)
	return &m
}

// run has the engine run inputs that fit the model, and makes predictions of what it gives, which are observed
// where they are those that the bundle serves. It refuses results that are not finite.
func (c *call) run(ctx context.Context, rev *revision, p *wrap.Predictor, inputs []tensor.Tensor, v wrap.Variant) (
	[]tensor.Tensor, []wrap.Prediction, error) {
	if err := p.CheckVariant(v); err != nil {
		return nil, nil, asInvalid(err)
	}
	c.serving = rev
	a, err := rev.engine.Do(ctx, inputs)
	if err != nil {
		return nil, nil, runError(ctx, err)
	}
	predictions, err := p.Predictions(a.Outputs, v)
	if err != nil {
		return nil, nil, asInvalid(err)
	}
	c.answer, c.examples = a, len(predictions)
	c.span.Inference(ctx, a.Queue, a.Compute, a.Batch)
	if v.Served() {
		rev.observer.Predictions(predictions)
	}
	return slices.Clone(a.Outputs), predictions, nil
}

// decisionsOf are the decisions of predictions as outputs: abstain [N] and prediction_set [N,C], where there are any.
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

// probabilitiesOf are those of predictions, in the form of the model's own output.
func probabilitiesOf(own tensor.Tensor, predictions []wrap.Prediction) tensor.Tensor {
	data := make([]float32, 0, own.Len())
	for _, one := range predictions {
		for _, v := range one.Probabilities {
			data = append(data, float32(v))
		}
	}
	own.Data = data
	return own
}

// variantOf reads the parameters of a request that choose what is made of its results.
func variantOf(p oip.Parameters) (v wrap.Variant, err error) {
	if v.Method, err = p.Text("method"); err != nil {
		return v, err
	}
	numbers := map[string]*float64{}
	for _, name := range []string{"t_act", "t_ens", "max_doubt", "max_ood_score"} {
		x, ok, err := p.Number(name)
		if err != nil {
			return v, err
		}
		if ok {
			numbers[name] = &x
		}
	}
	for name, to := range map[string]*float64{"t_act": &v.TAct, "t_ens": &v.TEns} {
		if x := numbers[name]; x != nil {
			if *to = *x; *x == 0 {
				return v, invalid("parameter %s is 0, want a positive number", name)
			}
		}
	}
	v.MaxDoubt, v.MaxOODScore = numbers["max_doubt"], numbers["max_ood_score"]
	return v, nil
}
