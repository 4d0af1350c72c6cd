package wrap

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/jsontensor"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A Variant says what is made of the network's results. The zero value is what the bundle serves.
type Variant struct {
	// Method is whose probabilities are given: mf0, ts or mle; "" is the bundle's.
	Method string
	// TAct and TEns are the temperatures by which mf0 divides logits and their variances; zero is the
	// bundle's. They are for mf0 alone.
	TAct, TEns float64
	// MaxDoubt and MaxOODScore are the largest 1 - confidence, and the largest OODScore, of what is not
	// abstained from; nil is the bundle's, if it has one.
	MaxDoubt, MaxOODScore *float64
}

// Predictions turns what Run gave into predictions, as Predict does, of a variant. The decisions of a
// bundle are about its own probabilities: with others there is no prediction set, and no threshold of
// doubt but MaxDoubt.
func (p *Predictor) Predictions(outputs []Tensor, v Variant) ([]Prediction, error) {
	m := p.bundle.Manifest
	method, other, err := v.resolve(&m)
	if err != nil {
		return nil, err
	}
	if len(outputs) != len(p.outputs) {
		return nil, fmt.Errorf("%d tensors, want the %d that Run gives", len(outputs), len(p.outputs))
	}
	x := &rows.Batch{N: int(outputs[fuse.Logits].Shape[0])}
	if !other {
		return p.predictionsOf(outputs, nil, v.decisions(m.Decisions, false), x)
	}
	logits, temperatures := outputs[fuse.Logits].Data.([]float32), m.Temperatures.NLL.Temperatures
	if v.TAct != 0 {
		temperatures.Act = v.TAct
	}
	if v.TEns != 0 {
		temperatures.Ens = v.TEns
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
	return p.predictionsOf(outputs, measure.OfClasses(p.head, logp), v.decisions(m.Decisions, true), x)
}

// Served reports whether a variant has the probabilities that the bundle serves, whatever its thresholds.
func (v Variant) Served() bool { return v.Method == "" && v.TAct == 0 && v.TEns == 0 }

// CheckVariant reports a variant that cannot be meant, such as one with temperatures for the network's
// own probabilities.
func (p *Predictor) CheckVariant(v Variant) error {
	_, _, err := v.resolve(&p.bundle.Manifest)
	return err
}

// resolve returns whose probabilities are asked for, and whether these are others than the bundle serves.
func (v Variant) resolve(m *bundle.Manifest) (method calibrate.Method, other bool, err error) {
	served := calibrate.MF0
	if m.Probabilities != nil {
		served = m.Probabilities.Method
	}
	method = served
	if v.Method != "" {
		method = calibrate.Method(v.Method)
		if err := method.Validate(); err != nil {
			return "", false, err
		}
	}
	temperatures := v.TAct != 0 || v.TEns != 0
	if temperatures && method != calibrate.MF0 {
		return "", false, fmt.Errorf("t_act and t_ens are temperatures of mf0, and the probabilities are those of %s: ask for the method mf0 as well", method)
	}
	for _, t := range []struct {
		name     string
		v, limit float64
	}{{"t_act", v.TAct, bundle.MaxAct}, {"t_ens", v.TEns, bundle.MaxEns}} {
		if t.v != 0 && !(t.v >= 1/t.limit && t.v <= t.limit) {
			return "", false, fmt.Errorf("%s is %v, want a number from %g to %g", t.name, t.v, 1/t.limit, t.limit)
		}
	}
	for name, at := range map[string]*float64{"max_doubt": v.MaxDoubt, "max_ood_score": v.MaxOODScore} {
		if at != nil && !(*at >= 0 && *at <= 1) {
			return "", false, fmt.Errorf("%s is %v, want a number from 0 to 1", name, *at)
		}
	}
	return method, temperatures || method != served, nil
}

// decisions are those of a bundle with the variant's thresholds, of which nothing is promised, and
// without what was set on other probabilities.
func (v Variant) decisions(d *conformal.Decisions, other bool) *conformal.Decisions {
	if !other && v.MaxDoubt == nil && v.MaxOODScore == nil {
		return d
	}
	out := new(conformal.Decisions)
	if d != nil {
		*out = *d
	}
	out.Promises = nil
	if other {
		out.Doubt, out.Set = nil, nil
	}
	if v.MaxDoubt != nil {
		out.Doubt = &conformal.Rule{Threshold: *v.MaxDoubt}
	}
	if v.MaxOODScore != nil {
		out.Unfamiliar = &conformal.Rule{Threshold: *v.MaxOODScore}
	}
	return out
}

// TakesImages reports whether ImageInputs can have inputs for the model, of images of the right size. It
// cannot where the model has several inputs, or nothing says how pixels become its input.
func (p *Predictor) TakesImages() bool { return p.network != nil && p.network.TakesImages() }

// ImageInputs turns an image file, PNG or JPEG, into what Run takes: one example, as PredictDataset makes
// it of such a file.
func (p *Predictor) ImageInputs(file []byte) ([]Tensor, error) {
	if p.network == nil {
		return nil, errNoModel
	}
	return p.network.Ready(&dataset.Example{Name: "image", Encoded: file, Label: -1})
}

// JSONInputs turns a JSON object of the model's inputs into what Run takes: one example, as PredictLines
// makes it of a line.
func (p *Predictor) JSONInputs(object []byte) ([]Tensor, error) {
	if p.network == nil {
		return nil, errNoModel
	}
	text := jsontensor.Parser{Text: object} // which takes NaN and Infinity, as lines do
	if err := text.Object(func(string) error { return text.Skip(0) }); err != nil {
		return nil, err
	}
	line := bytes.ReplaceAll(object, []byte("\n"), []byte(" ")) // no string has a break: it is a blank
	options := dataset.Options{Unlabelled: true, Inputs: p.network.InputNames()}
	for e, err := range dataset.StreamJSONL(bytes.NewReader(line), "request", options) {
		var bad *dataset.RecordError
		if errors.As(err, &bad) {
			return nil, bad.Err
		}
		if err != nil {
			return nil, err
		}
		return p.network.Ready(&e)
	}
	return nil, errors.New("no JSON object")
}
