package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
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
	inputs, err := p.zeros()
	if err != nil {
		return err
	}
	if _, err := p.Predict(ctx, inputs); err != nil {
		return fmt.Errorf("probe of zeros: %w", err)
	}
	return ErrNoProbe
}

// zeros are the inputs of an example of zeros, for models whose inputs are numbers of known sizes.
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

// Latency is the time that the runtime takes for one example: the first of the bundle's probe, or zeros.
// It is the least of as many runs as a time has room for, one at least, since what else the machine does
// can only lengthen them. Where a bundle keeps no probe, and zeros are not known either, the error is an
// [ErrNoProbe].
func (p *Predictor) Latency(ctx context.Context, room time.Duration) (time.Duration, error) {
	if p.network == nil {
		return 0, errNoModel
	}
	inputs, err := p.firstOfProbe()
	if err != nil {
		return 0, err
	}
	least := time.Duration(math.MaxInt64)
	for end := time.Now().Add(room); ; {
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
