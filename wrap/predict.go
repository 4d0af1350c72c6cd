package wrap

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Run evaluates model inputs: one tensor for each of the model's inputs, the first dimension of each being the
// number of examples, which may be any. It gives the outputs of an exported model but for decisions, as they come from
// the runtime: [Predictor.Apply] checks them and adds the decisions. The end of ctx ends the call within about 0.1 s.
func (p *Predictor) Run(ctx context.Context, inputs []Tensor) ([]Tensor, error) {
	if p.network == nil {
		return nil, errUseFeatures
	}
	r, err := p.network.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.tensors(r), nil
}

// tensors names the network's results, whose memory they share.
func (p *Predictor) tensors(r featurize.Results) []Tensor {
	out := make([]Tensor, len(p.outputs))
	numbers := p.outputs
	if p.decoding != nil {
		numbers = p.outputs[:len(p.outputs)-textOutputs]
		p.texts(out[len(numbers):], r.Texts)
	}
	for i, info := range numbers {
		out[i] = Tensor{Name: info.Name, Shape: []int64{int64(r.N)}}
		if len(r.Steps) > 0 {
			out[i].Shape = append(out[i].Shape, r.Steps[0]...)
		} else {
			out[i].Shape = append(out[i].Shape, make([]int64, p.steps())...)
		}
		for _, d := range info.Shape[1+p.steps():] {
			out[i].Shape = append(out[i].Shape, d.Value)
		}
		if out[i].Data = r.Columns[i]; r.Doubles[i] != nil {
			out[i].Data = r.Doubles[i]
		}
	}
	return out
}

// Predict evaluates model inputs, as Run takes them. It returns a prediction for each example or, for a model that
// answers for each step, for each step of each example.
func (p *Predictor) Predict(ctx context.Context, inputs []Tensor) ([]Prediction, error) {
	outputs, err := p.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.apply(outputs, Override{})
}

// PredictImages preprocesses images as the bundle says and evaluates them. At least one image must be given,
// and none may be nil. Images are taken as they are: package image's decoders drop the EXIF orientation of a
// file, which [Predictor.ImageInputs] applies.
func (p *Predictor) PredictImages(ctx context.Context, images ...image.Image) ([]Prediction, error) {
	if p.network == nil {
		return nil, errUseFeatures
	}
	inputs, err := p.network.Images(images)
	if err != nil {
		return nil, err
	}
	return p.Predict(ctx, inputs)
}

// PredictFeatures evaluates features [n,d] and logits [n,K] that the caller got from the network by other
// means, by the formulas in float64. If the bundle has a model, the first call reads the bundle once more.
func (p *Predictor) PredictFeatures(phi, logits []float32) ([]Prediction, error) {
	n := len(logits) / p.head.Logits
	if len(logits) != n*p.head.Logits || len(phi) != n*p.head.Features {
		return nil, fmt.Errorf("%d features and %d logits, want %d and %d for each example", len(phi), len(logits), p.head.Features, p.head.Logits)
	}
	b := &rows.Batch{N: n, Features: phi, Logits: slices.Clone(logits)}
	if err := source.CheckFinite(b); err != nil {
		return nil, err
	}
	c, err := p.formulas()
	if err != nil {
		return nil, err
	}
	return p.predictRows(c, b).all()
}

// formulas returns what computes in float64. The posterior of a thousand classes is half as large as their
// network and is in its graph already, so that it is read a second time only if it is asked for.
func (p *Predictor) formulas() (*calibrate.Calibration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calibration != nil {
		return p.calibration, nil
	}
	b, err := p.read(context.Background())
	if err != nil {
		return nil, err
	}
	if b.SHA256() != p.bundle.SHA256() {
		return nil, fmt.Errorf("%s: %w", cmp.Or(p.bundle.Dir(), bundle.ManifestName), ErrBundleChanged)
	}
	p.calibration = b.Calibration()
	return p.calibration, nil
}
