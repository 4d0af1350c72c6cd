package wrap

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// An Override replaces the bundle's method, temperatures and thresholds in one call. The zero value replaces
// nothing.
type Override struct {
	// Method gives the probabilities: mf0, ts or mle; "" keeps the bundle's.
	Method string
	// TAct and TEns are the temperatures by which mf0 divides logits and their variances; zero keeps the
	// bundle's. They need the method mf0.
	TAct, TEns float64
	// MaxUncertainty and MaxOODScore are the largest 1 - Confidence, and the largest OODScore, that are
	// answered; nil keeps the bundle's threshold, if it has one.
	MaxUncertainty, MaxOODScore *float64
}

// Results are the results of Run for some examples, with decisions and an override applied.
type Results struct {
	// Outputs have the form of an exported model's: those of Run, and then the decisions.
	Outputs     []Tensor
	Predictions []Prediction
}

// The outputs of decisions, as in an exported model.
const (
	abstainOutput = "abstain"        // [N]
	setOutput     = "prediction_set" // [N,C]
)

// Outputs describes the outputs of Apply with an override, those of an exported model for the empty one: probabilities
// [N,C], logits [N,K] and logit_variance [N,K] as float32, ood_score and ood_percentile, [N], as float64, and leverage,
// [N], as float32, which are those of Run; and then, if there are decisions of these kinds, abstain [N] and
// prediction_set [N,C], as bool. It is nil if there is no model.
func (p *Predictor) Outputs(o Override) []onnx.ValueInfo {
	outputs := cloned(p.outputs)
	_, other, err := o.resolve(&p.bundle.Manifest)
	d := o.decisions(p.bundle.Manifest.Decisions, other)
	if outputs == nil || err != nil || d == nil {
		return outputs
	}
	shape := slices.Clone(outputs[fuse.Probabilities].Shape)
	if d.Abstains() {
		outputs = append(outputs, onnx.ValueInfo{Name: abstainOutput, Type: tensor.Bool, Shape: shape[:1:1]})
	}
	if d.Set != nil {
		outputs = append(outputs, onnx.ValueInfo{Name: setOutput, Type: tensor.Bool, Shape: shape})
	}
	return outputs
}

// Apply applies decisions and an override to the results of Run, which it does not change. The bundle's thresholds are
// for its own probabilities: with others there is no prediction set, and no threshold of uncertainty but
// MaxUncertainty.
func (p *Predictor) Apply(outputs []Tensor, o Override) (r Results, err error) {
	if r.Predictions, err = p.apply(outputs, o); err != nil || len(r.Predictions) == 0 {
		return Results{Outputs: outputs}, err
	}
	r.Outputs = slices.Clone(outputs)
	if !o.KeepsProbabilities() {
		r.Outputs[fuse.Probabilities] = probabilitiesOf(outputs[fuse.Probabilities], r.Predictions)
	}
	r.Outputs = append(r.Outputs, decisionsOf(r.Predictions)...)
	return r, nil
}

func (p *Predictor) apply(outputs []Tensor, o Override) ([]Prediction, error) {
	m := p.bundle.Manifest
	method, other, err := o.resolve(&m)
	if err != nil {
		return nil, err
	}
	if len(outputs) != len(p.outputs) {
		return nil, fmt.Errorf("%d tensors, want the %d that Run gives", len(outputs), len(p.outputs))
	}
	x := &rows.Batch{N: int(outputs[fuse.Logits].Shape[0])}
	if !other {
		return p.predictions(outputs, nil, o.decisions(m.Decisions, false), x)
	}
	logits, temperatures := outputs[fuse.Logits].Data.([]float32), m.Temperatures.NLL.Temperatures
	if o.TAct != 0 {
		temperatures.Act = o.TAct
	}
	if o.TEns != 0 {
		temperatures.Ens = o.TEns
	}
	var logp []float64
	switch method {
	case calibrate.MF0:
		variance := widened(outputs[fuse.LogitVariance].Data.([]float32))
		logp, _ = calibrate.MeanField(p.head, logits, variance, x.N, temperatures, m.MeanField.Lambda0)
	case calibrate.TS:
		logp, _ = calibrate.Plain(p.head, logits, x.N, m.Temperatures.TS)
	default:
		logp, _ = calibrate.Plain(p.head, logits, x.N, 1)
	}
	return p.predictions(outputs, measure.ClassProbabilities(p.head, logp), o.decisions(m.Decisions, true), x)
}

// decisionsOf returns the decisions of predictions as outputs: abstain [N] and prediction_set [N,C], if they have any.
func decisionsOf(predictions []Prediction) (outputs []Tensor) {
	n := len(predictions)
	if predictions[0].Abstain != nil {
		abstain := make([]bool, n)
		for i, one := range predictions {
			abstain[i] = *one.Abstain
		}
		outputs = append(outputs, Tensor{Name: abstainOutput, Shape: []int64{int64(n)}, Data: abstain})
	}
	if predictions[0].PredictionSet != nil {
		c := len(predictions[0].Probabilities)
		set := make([]bool, n*c)
		for i, one := range predictions {
			for _, k := range one.PredictionSet {
				set[i*c+k] = true
			}
		}
		outputs = append(outputs, Tensor{Name: setOutput, Shape: []int64{int64(n), int64(c)}, Data: set})
	}
	return outputs
}

// probabilitiesOf returns the probabilities of predictions in the form of Run's output.
func probabilitiesOf(output Tensor, predictions []Prediction) Tensor {
	data := make([]float32, 0, output.Len())
	for _, one := range predictions {
		for _, v := range one.Probabilities {
			data = append(data, float32(v))
		}
	}
	output.Data = data
	return output
}

// KeepsProbabilities reports whether the probabilities stay those of the bundle, whatever the thresholds.
func (o Override) KeepsProbabilities() bool { return o.Method == "" && o.TAct == 0 && o.TEns == 0 }

// CheckOverride reports an override that Apply would refuse, such as temperatures for the network's own
// probabilities.
func (p *Predictor) CheckOverride(o Override) error {
	_, _, err := o.resolve(&p.bundle.Manifest)
	return err
}

// resolve returns the method that gives the probabilities, and whether these are others than the bundle's.
func (o Override) resolve(m *bundle.Manifest) (method calibrate.Method, other bool, err error) {
	own := calibrate.MF0
	if m.Probabilities != nil {
		own = m.Probabilities.Method
	}
	method = own
	if o.Method != "" {
		method = calibrate.Method(o.Method)
		if err := method.Validate(); err != nil {
			return "", false, err
		}
	}
	temperatures := o.TAct != 0 || o.TEns != 0
	if temperatures && method != calibrate.MF0 {
		return "", false, fmt.Errorf("t_act and t_ens are temperatures of mf0, and the probabilities are those of %s: ask for the method mf0 as well", method)
	}
	for _, t := range []struct {
		name     string
		v, limit float64
	}{{"t_act", o.TAct, bundle.MaxAct}, {"t_ens", o.TEns, bundle.MaxEns}} {
		if t.v != 0 && !(t.v >= 1/t.limit && t.v <= t.limit) {
			return "", false, fmt.Errorf("%s is %v, want a number from %g to %g", t.name, t.v, 1/t.limit, t.limit)
		}
	}
	for name, at := range map[string]*float64{"max_doubt": o.MaxUncertainty, "max_ood_score": o.MaxOODScore} {
		if at != nil && !(*at >= 0 && *at <= 1) {
			return "", false, fmt.Errorf("%s is %v, want a number from 0 to 1", name, *at)
		}
	}
	return method, temperatures || method != own, nil
}

// decisions returns the bundle's with the override's thresholds, which guarantee nothing. Of other probabilities
// than the bundle's, those that were set on the bundle's are left out.
func (o Override) decisions(d *conformal.Decisions, other bool) *conformal.Decisions {
	if !other && o.MaxUncertainty == nil && o.MaxOODScore == nil {
		return d
	}
	out := new(conformal.Decisions)
	if d != nil {
		*out = *d
	}
	out.Guarantees = nil
	if other {
		out.Uncertainty, out.Set = nil, nil
	}
	if o.MaxUncertainty != nil {
		out.Uncertainty = &conformal.Rule{Threshold: *o.MaxUncertainty}
	}
	if o.MaxOODScore != nil {
		out.OOD = &conformal.Rule{Threshold: *o.MaxOODScore}
	}
	return out
}
