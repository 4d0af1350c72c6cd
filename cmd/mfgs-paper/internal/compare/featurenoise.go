package compare

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Methods that lower the confidence under shift. They set their temperatures as they are fitted.
var (
	hot = &method{
		name: "hot", doc: "temperature scaling with T raised by a tenth", fit: fitHot,
	}
	noise = &method{
		name: "noise", doc: "a temperature that rises with the distance and the leverage, fitted to noise on features",
		train: true, check: checkWeights, fit: fitNoise,
	}
	noiseWithin = &method{
		name: "noise_within", doc: "the same, fitted to noise with the covariance of features within classes",
		train: true, within: true, check: checkWeights, fit: fitNoise,
	}
	mf0Noise = &method{
		name: "mf0_noise", doc: "mf0 with temperatures fitted to noise on features",
		train: true, check: checkWeights, fit: fitMF0Noise,
	}
)

const raised = 1.1

func fitHot(_ context.Context, b *comparison, r *request) (predictor, string, error) {
	b.setTuned(r, layer.Temperatures{Act: raised * b.calibration.TS, Ens: 1})
	return func(_ context.Context, s *bench.Set) (calibrate.Predictive, error) {
		return methods.NewScaled(s.Data().Logits, b.head.Logits), nil
	}, "", nil
}

// setTuned sets the temperatures of a method, for which they are not searched.
func (b *comparison) setTuned(r *request, t layer.Temperatures) {
	b.tuned[r.text] = &calibrate.Tuned{NLL: t, OOD: t, Optimum: t}
}

// featureNoise returns the validation examples with noise on their features.
func (b *comparison) featureNoise(within bool) (*methods.FeatureNoise, error) {
	if f := b.noisy[within]; f != nil {
		return f, nil
	}
	w, err := b.headWeights()
	if err != nil {
		return nil, err
	}
	b.noisy[within], err = methods.NewFeatureNoise(b.train.Data(), b.val.Data(), b.head, w, methods.NoiseOptions{
		Product: b.product, Weight: methods.NoiseWeight, Within: within, Seed: b.Seed,
	})
	return b.noisy[within], err
}

func fitNoise(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	f, err := b.featureNoise(r.within)
	if err != nil {
		return nil, "", err
	}
	directions, err := methods.NewDirections(b.train.Data(), b.head, b.product)
	if err != nil {
		return nil, "", err
	}
	terms := func(s *rows.Batch) (methods.Terms, error) {
		distances, err := directions.Distances(s.Features, s.N)
		if err != nil {
			return methods.Terms{}, err
		}
		leverages := make([]float64, s.N)
		b.calibration.Posterior.Leverages(leverages, s.Features, s.N)
		return methods.NewTerms(distances, leverages), nil
	}
	val, err := terms(f.Val)
	if err != nil {
		return nil, "", err
	}
	noisy, err := terms(f.Noisy)
	if err != nil {
		return nil, "", err
	}
	t, err := f.FitTemperature(ctx, val, noisy, b.calibration.TS)
	if err != nil {
		return nil, "", err
	}
	b.setTuned(r, t.Temperatures())
	return func(_ context.Context, s *bench.Set) (calibrate.Predictive, error) {
		of, err := terms(s.Data())
		if err != nil {
			return nil, err
		}
		return t.Predictive(s.Data().Logits, b.head.Logits, of), nil
	}, fmt.Sprintf("log T = %.3f + %.3f g_D + %.3f g_h", t.B, t.C[0], t.C[1]), nil
}

func fitMF0Noise(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	f, err := b.featureNoise(false)
	if err != nil {
		return nil, "", err
	}
	field := func(s *rows.Batch) (calibrate.Predictive, error) {
		p := b.calibration.Predict(s.Features, s.Logits, s.N)
		return methods.NewMeanField(s.Logits, p.Variance, b.head.Logits)
	}
	val, err := field(f.Val)
	if err != nil {
		return nil, "", err
	}
	noisy, err := field(f.Noisy)
	if err != nil {
		return nil, "", err
	}
	t, err := f.FitPair(ctx, val, noisy, b.calibration.TS)
	if err != nil {
		return nil, "", err
	}
	b.setTuned(r, t)
	return func(_ context.Context, s *bench.Set) (calibrate.Predictive, error) { return field(s.Data()) }, "", nil
}
