package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/featurize/tensor"
	"github.com/mfgs/mfgs/wrap/internal/probe"
)

// ErrNoProbe is what [Predictor.Probe] returns of a bundle that keeps no held-out inputs, when nothing
// else is wrong with it.
var ErrNoProbe = errors.New("the bundle keeps no held-out inputs to compare with")

// Probe runs the bundle's held-out inputs and compares the predictions with what the calibration had for
// them, by the float64 formulas: an error says what differs, and by how much. Another provider and
// another processor round otherwise, and pass; another network does not.
//
// Of a bundle that keeps no such inputs it runs zeros, which must give finite numbers, and returns
// [ErrNoProbe] if they do. Where sizes of the inputs are open, or they are strings, not even these are
// run, as the error then says.
func (p *Predictor) Probe(ctx context.Context) error {
	if p.probe == nil {
		return p.probeZeros(ctx)
	}
	err := p.probe.err
	var got []Prediction
	if err == nil {
		got, err = p.Predict(ctx, p.probe.inputs)
	}
	if err == nil {
		err = probe.Compare(outcomes(p.probe.predictions), outcomes(got))
	}
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// probeZeros runs zeros.
func (p *Predictor) probeZeros(ctx context.Context) error {
	if p.network == nil {
		_, err := p.PredictFeatures(make([]float32, p.head.Features), make([]float32, p.head.Logits))
		return cmp.Or(err, ErrNoProbe)
	}
	var inputs []Tensor
	for _, info := range p.network.Inputs() {
		t := Tensor{Name: info.Name, Shape: []int64{1}}
		for _, d := range info.Shape[1:] {
			t.Shape = append(t.Shape, d.Value)
		}
		n, err := tensor.Elements(t.Shape)
		if err != nil || n == 0 || info.Type == tensor.String {
			return fmt.Errorf("%w, and of its input %q, %v, not even zeros are known", ErrNoProbe, info.Name, info)
		}
		if t.Data, err = info.Type.Make(int(n)); err != nil {
			return err
		}
		inputs = append(inputs, t)
	}
	if _, err := p.Predict(ctx, inputs); err != nil {
		return fmt.Errorf("probe of zeros: %w", err)
	}
	return ErrNoProbe
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
