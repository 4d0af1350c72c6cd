package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap/bench"
)

// stochasticBatch is the batch of networks that draw their weights in each run, which costs as much as many examples.
const stochasticBatch = 512

var (
	bnnVI = &method{
		name: "bnn-vi", doc: "a network with random weights: --with bnn-vi=FILE", sampled: true, fit: fitStochastic,
		check: func(b *comparison, _ *request) error { _, err := b.stochastic(); return err },
		files: &files{name: "bnn-vi", least: 1, most: 1, of: "method bnn-vi", run: true},
	}
	bnnLLVI = &method{name: "bnn-ll-vi", doc: "a last layer fitted by variational inference", sampled: true, train: true, check: checkWeights, fit: fitLastLayerVI}
)

// stochastic opens the network that draws its weights.
func (b *comparison) stochastic() (*onnx.Model, error) {
	path := b.With["bnn-vi"][0]
	model, err := onnx.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file", path)
	}
	if err != nil {
		return nil, err
	}
	if len(onnxlayers.Random(model)) == 0 {
		return nil, fmt.Errorf("%s: the network draws no random numbers: export it with weights from RandomNormal or RandomNormalLike", path)
	}
	out := model.Outputs()
	if len(out) != 1 || len(out[0].Shape) != 2 || out[0].Shape[1].Value != int64(b.head.Logits) {
		return nil, fmt.Errorf("%s: its outputs are %v, want logits [N,%d] alone", path, out, b.head.Logits)
	}
	if _, err := onnxlayers.Seeded(model, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return model, nil
}

// fitStochastic predicts with a network that draws its weights.
func fitStochastic(_ context.Context, b *comparison, r *request) (predictor, string, error) {
	model, err := b.stochastic()
	if err != nil {
		return nil, "", err
	}
	batch := cmp.Or(b.Runtime.Batch, stochasticBatch)
	predict := b.passes(r, batch, func(seed int) (*onnx.Model, error) { return onnxlayers.Seeded(model, seed) })
	return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
		p, err := predict(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.given(r)[0], err)
		}
		return p, nil
	}, "", nil
}

// fitLastLayerVI fits a last layer by variational inference.
func fitLastLayerVI(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	w, err := b.headWeights()
	if err != nil {
		return nil, "", err
	}
	v, err := methods.FitVariational(ctx, b.train.Data(), b.head, w, methods.VariationalOptions{
		FitOptions: b.fitOptions(r),
	})
	if err != nil {
		return nil, "", err
	}
	return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
		return v.Predictive(ctx, s.Data(), r.samples, s.Seed(r.seed))
	}, "", nil
}
