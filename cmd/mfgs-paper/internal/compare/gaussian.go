package compare

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Methods that integrate a Gaussian over logits.
var (
	mf0 = gaussian("mf0", "the mean-field approximation", false)
	mf1 = gaussian("mf1", "mean field with the variances of both logits", false)
	mf2 = gaussian("mf2", "mean field with the variances and covariances of the logits", false)
	ukf = gaussian("ukf", "the unscented transform", false)
	mc  = gaussian("mc", "sampling logits", true)
)

func gaussian(name, doc string, sampled bool) *method {
	return &method{
		name: name, doc: doc, gaussian: true, sampled: sampled, layered: true, train: true,
		check: checkGaussian, fit: fitGaussian,
	}
}

func checkGaussian(b *comparison, r *request) (err error) {
	if r.covariance == swag {
		_, err = b.swag()
	}
	return err
}

// fitGaussian integrates a Gaussian over the last layer's logits.
func fitGaussian(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	var cov logitCovariance
	var err error
	if r.covariance == swag {
		cov, err = b.swag()
	} else {
		cov, err = b.covarianceOf(ctx, b.keyOf(r))
	}
	if err != nil {
		return nil, "", err
	}
	data := func(_ context.Context, s *bench.Set) (*rows.Batch, error) { return s.Data(), nil }
	return b.integrate(r, cov, data), "", nil
}

// inputs returns the inputs of the covariance of logits, as features.
type inputs func(context.Context, *bench.Set) (*rows.Batch, error)

// integrate predicts with a Gaussian over logits.
func (b *comparison) integrate(r *request, cov logitCovariance, inputs inputs) predictor {
	k := b.head.Logits
	return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
		x, err := inputs(ctx, s)
		if err != nil {
			return nil, err
		}
		cov := cov
		if s.Whole() == nil { // a subsample's features are a new copy each time
			cov = b.cached(cov)
		}
		if r.sampled {
			return methods.NewMonteCarlo(ctx, cov, x, k, r.samples, s.Seed(r.seed))
		}
		return methods.NewGaussian(ctx, methods.Kind(r.name), cov, x, k)
	}
}

// cached adds a cache to a covariance.
func (b *comparison) cached(cov logitCovariance) logitCovariance {
	if b.computed[cov] == nil {
		b.computed[cov] = &computed{cov, &b.room, map[*float32][]float64{}}
	}
	return b.computed[cov]
}

// swag is the covariance of the last layers along a training trajectory.
const swag = "swag"

var swagFiles = &files{name: swag, least: 2, of: "a method with @swag"}

// swag reads the last layers of the checkpoints.
func (b *comparison) swag() (*methods.SWAG, error) {
	if b.trajectory != nil {
		return b.trajectory, nil
	}
	var trajectory [][]float64
	for _, path := range b.With[swag] {
		_, h, err := b.openHead(path)
		if err != nil {
			return nil, err
		}
		if h.Features != b.head.Features || h.Bias != b.head.Bias {
			return nil, fmt.Errorf("%s: its last layer has %d features and bias %t, the bundle's %d and %t: want a checkpoint of the same network", path, h.Features, h.Bias, b.head.Features, b.head.Bias)
		}
		w, err := lastLayer(h)
		if err != nil {
			return nil, err
		}
		trajectory = append(trajectory, w)
	}
	var err error
	b.trajectory, err = methods.NewSWAG(trajectory, b.head, b.product)
	return b.trajectory, err
}
