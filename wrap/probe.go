package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/probe"
)

// expect prepares the comparison of [Predictor.Probe], if the bundle has a probe.
func (p *Predictor) expect(kept *bundle.Probe, infos []onnx.ValueInfo) error {
	if kept == nil {
		return nil
	}
	inputs, err := probe.Inputs(kept, infos)
	if err != nil {
		return err
	}
	p.probe = &expected{inputs: inputs}
	b := &rows.Batch{N: kept.N, Features: kept.Features, Logits: kept.Logits}
	predictions, err := p.predictRows(p.calibration, b).all()
	p.probe.outcomes, p.probe.err = outcomes(predictions), err
	return nil
}

// ErrNoProbe is the error of [Predictor.Probe] for a bundle without validation inputs, if nothing else is wrong
// with it.
var ErrNoProbe = errors.New("the bundle has no validation inputs to compare with")

// Probe runs the validation inputs that the bundle keeps and compares the predictions with those of the
// calibration, by the float64 formulas: the error says what differs, and by how much. The rounding of another
// provider or processor passes; another network does not.
//
// For a bundle without such inputs it runs zeros, which must give finite numbers, and returns [ErrNoProbe] if
// they do. If the model leaves sizes of its inputs open, or takes strings, it cannot run zeros either, and the
// error says so.
func (p *Predictor) Probe(ctx context.Context) error {
	if p.probe == nil {
		return p.probeZeros(ctx)
	}
	err := p.probe.err
	var got []Prediction
	if err == nil {
		got, err = p.Predict(ctx, p.probe.inputs)
	}
	if p.steps() > 0 { // the calibration ran the first step of each
		got = slices.DeleteFunc(got, func(one Prediction) bool { return *one.Step > 0 })
	}
	if err == nil {
		err = probe.Compare(p.probe.outcomes, outcomes(got))
	}
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

func (p *Predictor) probeZeros(ctx context.Context) error {
	if p.network == nil {
		_, err := p.PredictFeatures(make([]float32, p.head.Features), make([]float32, p.head.Logits))
		return cmp.Or(err, ErrNoProbe)
	}
	inputs, err := p.zeros()
	if err != nil {
		return err
	}
	if _, err := p.Predict(ctx, inputs); err != nil {
		return fmt.Errorf("probe of zeros: %w", err)
	}
	return ErrNoProbe
}

// zeros returns the inputs of an example of zeros, for models whose inputs are numbers of known sizes.
func (p *Predictor) zeros() (inputs []Tensor, err error) {
	for _, info := range p.network.Inputs() {
		t := Tensor{Name: info.Name, Shape: []int64{1}}
		for _, d := range info.Shape[1:] {
			t.Shape = append(t.Shape, d.Value)
		}
		n, err := tensor.Elements(t.Shape)
		if err != nil || n == 0 || info.Type == tensor.String {
			return nil, fmt.Errorf("%w, and of its input %q, %v, not even zeros are known", ErrNoProbe, info.Name, info)
		}
		if t.Data, err = info.Type.Make(int(n)); err != nil {
			return nil, err
		}
		inputs = append(inputs, t)
	}
	return inputs, nil
}

// Latency measures the time of one example: the first of the bundle's probe, or zeros. It is the least over the
// runs that fit into the given time, at least one, since other work on the machine can only lengthen them. The
// error is an [ErrNoProbe] if the bundle has no probe and zeros cannot be run.
func (p *Predictor) Latency(ctx context.Context, within time.Duration) (time.Duration, error) {
	if p.network == nil {
		return 0, errUseFeatures
	}
	inputs, err := p.firstOfProbe()
	if err != nil {
		return 0, err
	}
	least := time.Duration(math.MaxInt64)
	for end := time.Now().Add(within); ; {
		begun := time.Now()
		if _, err := p.Run(ctx, inputs); err != nil {
			return 0, err
		}
		now := time.Now()
		if least = min(least, now.Sub(begun)); now.After(end) {
			return least, nil
		}
	}
}

func (p *Predictor) firstOfProbe() ([]Tensor, error) {
	if p.probe == nil {
		return p.zeros()
	}
	inputs := make([]Tensor, len(p.probe.inputs))
	for i, t := range p.probe.inputs {
		inputs[i] = t.Slice(0, 1)
	}
	return inputs, nil
}

func outcomes(list []Prediction) []probe.Outcome {
	out := make([]probe.Outcome, len(list))
	for i := range list {
		one := &list[i]
		out[i] = probe.Outcome{
			Logits: one.Logits, Probabilities: one.Probabilities, OODScore: one.OODScore, Leverage: one.Leverage,
		}
	}
	return out
}
