package wrap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// An Override replaces the bundle's method, temperatures and thresholds in one call. The zero value replaces
// nothing.
type Override struct {
	// Method gives the probabilities: mf0, matrix, ts or mle; "" keeps the bundle's.
	Method string
	// TAct and TEns are the temperatures by which mf0 divides logits and their variances; zero keeps the
	// bundle's. They need the method mf0.
	TAct, TEns float64
	// MaxUncertainty and MaxOODScore are the largest 1 - Confidence, and the largest OODScore, that are
	// answered; nil keeps the bundle's threshold, if it has one.
	MaxUncertainty, MaxOODScore *float64
}

// An OverrideError reports fields of an [Override] with values that make no sense.
type OverrideError struct {
	Fields []string // their names: TAct
	Reason string   // what follows the names in the message
}

func (e *OverrideError) Error() string { return strings.Join(e.Fields, " and ") + " " + e.Reason }

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

// Outputs describes the outputs of Apply with an override, those of an exported model for the empty one. First come
// those of Run: probabilities [N,C], logits [N,K] and logit_variance [N,K] as float32, ood_score, ood_percentile and
// ood_pvalue, [N], as float64, and leverage, [N], as float32; without a linear layer there are no logit_variance and
// leverage. Then follow, if there are decisions of these kinds, abstain [N] and prediction_set [N,C], as bool. It is
// nil if there is no model.
func (p *Predictor) Outputs(o Override) []onnx.ValueInfo {
	outputs := cloned(p.outputs)
	_, other, err := o.resolve(&p.bundle.Manifest)
	d := o.decisions(p.head, p.bundle.Manifest.Decisions, other)
	if outputs == nil || err != nil || d == nil {
		return outputs
	}
	shape := slices.Clone(outputs[fuse.Probabilities].Shape)
	if d.Abstains() {
		axes := 1 + p.steps()
		outputs = append(outputs, onnx.ValueInfo{Name: abstainOutput, Type: tensor.Bool, Shape: shape[:axes:axes]})
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
	if r.Predictions, err = p.apply(outputs, o); err != nil {
		return Results{}, err
	}
	r.Outputs = slices.Clone(outputs)
	if !o.KeepsProbabilities() {
		r.Outputs[fuse.Probabilities] = probabilitiesOf(outputs[fuse.Probabilities], r.Predictions)
	}
	for _, info := range p.Outputs(o)[len(outputs):] {
		shape := outputs[fuse.Probabilities].Shape[:1+p.steps()]
		r.Outputs = append(r.Outputs, decisionOf(info, shape, r.Predictions))
	}
	return r, nil
}

// examples returns the number of examples in the results of Run. It refuses tensors that Run cannot have given.
func (p *Predictor) examples(outputs []Tensor) (n int, err error) {
	if p.network == nil {
		return 0, errUseFeatures
	}
	if len(outputs) != len(p.outputs) {
		return 0, fmt.Errorf("%d tensors, want the %d that Run gives", len(outputs), len(p.outputs))
	}
	for i, info := range p.outputs {
		t := outputs[i]
		if i == 0 && len(t.Shape) > 0 {
			n = int(t.Shape[0])
		}
		shape, elements := []int64{int64(n)}, n
		for j, d := range info.Shape[1:] {
			if d.Value < 0 && j+1 < len(t.Shape) { // of texts
				d.Value = t.Shape[j+1]
			}
			shape, elements = append(shape, d.Value), elements*int(d.Value)
		}
		if n < 0 || t.Type() != info.Type || !slices.Equal(t.Shape, shape) || t.Len() != elements {
			return 0, fmt.Errorf("tensor %d is %v%v with %d numbers, want %s as Run gives it: %v%v", i, t.Type(), t.Shape, t.Len(), info.Name, info.Type, shape)
		}
	}
	return n, nil
}

func (p *Predictor) apply(outputs []Tensor, o Override) ([]Prediction, error) {
	m := p.bundle.Manifest
	method, other, err := o.resolve(&m)
	if err != nil {
		return nil, err
	}
	n, err := p.examples(outputs)
	if err != nil {
		return nil, err
	}
	x := stepsOf(outputs[fuse.Probabilities], p.steps(), n)
	if !other {
		return p.predictions(outputs, nil, o.decisions(p.head, m.Decisions, false), x).all()
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
		logp, _ = p.bundle.Calibration().MeanField(logits, variance, x.N, temperatures)
	default:
		logp, _ = p.bundle.Calibration().Plain(method, logits, x.N)
	}
	probabilities := measure.ClassProbabilities(p.head, logp)
	return p.predictions(outputs, probabilities, o.decisions(p.head, m.Decisions, true), x).all()
}

// decisionOf returns the decisions of predictions as the output abstain or prediction_set that info describes.
func decisionOf(info onnx.ValueInfo, shape []int64, predictions []Prediction) Tensor {
	t := Tensor{Name: info.Name, Shape: slices.Clone(shape)}
	if info.Name == abstainOutput {
		abstain := make([]bool, len(predictions))
		for i, one := range predictions {
			abstain[i] = *one.Abstain
		}
		t.Data = abstain
		return t
	}
	c := int(info.Shape[len(shape)].Value)
	set := make([]bool, len(predictions)*c)
	for i, one := range predictions {
		for _, k := range one.PredictionSet {
			set[i*c+k] = true
		}
	}
	t.Shape, t.Data = append(t.Shape, int64(c)), set
	return t
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
		if method.Validate() != nil {
			return "", false, &OverrideError{[]string{"Method"}, fmt.Sprintf("is %.70q, want %s, %s, %s or %s",
				o.Method, calibrate.MF0, calibrate.Matrix, calibrate.TS, calibrate.MLE)}
		}
		if method == calibrate.MF0 && m.Head.Nonlinear {
			return "", false, &OverrideError{[]string{"Method"}, "is mf0, which needs a linear last layer, and the bundle was calibrated without one"}
		}
		if method == calibrate.Matrix && (m.Probabilities == nil || !m.Probabilities.Matrix) {
			reason := "its validation data did not support any"
			if m.Settings != nil && m.Settings.KeepClass {
				reason = "it was calibrated to keep the predicted class"
			}
			return "", false, &OverrideError{[]string{"Method"},
				"is matrix, and the bundle has no matrix scaling: " + reason}
		}
	}
	temperatures := o.TAct != 0 || o.TEns != 0
	if temperatures && method != calibrate.MF0 {
		return "", false, &OverrideError{[]string{"TAct", "TEns"}, fmt.Sprintf(
			"are temperatures of mf0, and the probabilities are those of %s: ask for the method mf0 as well", method)}
	}
	for _, t := range []struct {
		field    string
		v, limit float64
	}{{"TAct", o.TAct, bundle.MaxAct}, {"TEns", o.TEns, bundle.MaxEns}} {
		if t.v != 0 && !(t.v >= 1/t.limit && t.v <= t.limit) {
			return "", false, &OverrideError{[]string{t.field},
				fmt.Sprintf("is %v, want a number from %g to %g", t.v, 1/t.limit, t.limit)}
		}
	}
	for _, t := range []struct {
		field string
		at    *float64
	}{{"MaxUncertainty", o.MaxUncertainty}, {"MaxOODScore", o.MaxOODScore}} {
		if t.at != nil && !(*t.at >= 0 && *t.at <= 1) {
			return "", false, &OverrideError{[]string{t.field}, fmt.Sprintf("is %v, want a number from 0 to 1", *t.at)}
		}
	}
	return method, temperatures || method != own, nil
}

// decisions returns the bundle's with the override's thresholds, which guarantee nothing. Of other probabilities
// than the bundle's, those that were set on the bundle's are left out.
func (o Override) decisions(h layer.Head, d *conformal.Decisions, other bool) *conformal.Decisions {
	if !other && o.MaxUncertainty == nil && o.MaxOODScore == nil {
		return d
	}
	out := &conformal.Decisions{MultiLabel: h.MultiLabel(), Correctness: h.Correctness}
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
