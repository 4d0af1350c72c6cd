package compare

import (
	"context"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Methods that draw last layers, from a posterior or by resampling, or fit them.
var (
	bnnKFAC = &method{
		name: "bnn-kfac", doc: "sampling weights from the Kronecker-factored posterior",
		sampled: true, layered: true, train: true, fit: fitKFAC,
	}
	rue = &method{
		name: "rue", doc: "the infinitesimal bootstrap", sampled: true, train: true, fit: fitBootstrap,
	}
	ensembleLL = &method{
		name: "ensemble-ll", doc: "last layers fitted from random initial weights", sampled: true, train: true, fit: fitEnsembleLL,
	}
	jackknifeLL = &method{
		name: "jackknife-ll", doc: "last layers fitted on parts of the data", sampled: true, train: true, fit: fitJackknifeLL,
	}
)

func fitKFAC(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	key := dampedKey{calibrate.Kronecker, b.likelihoodCovariance()}
	c, epsilon, err := b.dampingOf(ctx, key)
	if err != nil {
		return nil, "", err
	}
	p, err := c.Posterior(key.covariance, epsilon)
	if err != nil {
		return nil, "", err
	}
	w, err := methods.NewWeightSamples(ctx, p, b.product, r.samples, r.seed)
	return ofRows(w), "", err
}

func fitBootstrap(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	c, err := b.covarianceOf(ctx, dampedKey{b.manifest.Structure, calibrate.Hessian})
	if err != nil {
		return nil, "", err
	}
	boot, err := methods.NewBootstrap(ctx, b.train.Data(), b.head, c, b.product, r.samples, r.seed)
	return ofRows(boot), "", err
}

func fitEnsembleLL(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	l, err := methods.FitEnsemble(ctx, b.train.Data(), b.head, r.samples, b.fitOptions(r))
	return ofRows(l), "", err
}

func fitJackknifeLL(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	l, err := methods.FitJackknife(ctx, b.train.Data(), b.head, r.samples, 0, b.fitOptions(r))
	return ofRows(l), "", err
}

// predictive is a method that depends on features and logits only.
type predictive interface {
	Predictive(ctx context.Context, s *rows.Batch) (calibrate.Predictive, error)
}

// ofRows predicts from a set's features and logits.
func ofRows(p predictive) predictor {
	return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
		return p.Predictive(ctx, s.Data())
	}
}

func (b *comparison) fitOptions(r *request) methods.FitOptions {
	return methods.FitOptions{Product: b.product, Seed: r.seed, Progress: func(done, total int) {
		b.session.Step(r.text+": fit", "epochs", done, total)
	}}
}
