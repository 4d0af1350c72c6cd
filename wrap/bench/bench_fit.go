package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

type curvatureKey struct {
	structure calibrate.Structure
	fisher    bool
}

type dampedKey struct {
	structure  calibrate.Structure
	covariance calibrate.Covariance
}

// fit makes a method ready to predict. The note tells what was decided.
func (b *bench) fit(ctx context.Context, m method) (p predictor, note string, err error) {
	if b.needsTrain(m) && !b.overLayers(m) {
		if err := b.collect(ctx, b.train); err != nil {
			return nil, "", err
		}
	}
	switch {
	case b.overLayers(m):
		return b.fitLayers(ctx, m)
	case m.gaussian:
		p, err = b.fitGaussian(ctx, m)
		return p, "", err
	}
	switch m.name {
	case "ensemble":
		p, err = b.fitNetworks(b.Ensemble)
	case "jackknife":
		p, err = b.fitNetworks(b.Jackknife)
	case "bnn-vi":
		p, err = b.fitStochastic(m)
	case "dropout":
		return b.fitDropout(ctx, m)
	case "edl":
		return b.fitEvidential(ctx)
	default:
		p, err = b.fitLast(ctx, m)
	}
	return p, "", err
}

// fitLast is fit for methods that draw or fit last layers.
func (b *bench) fitLast(ctx context.Context, m method) (predictor, error) {
	h, train := b.head, b.train.data
	options := methods.FitOptions{Product: b.product, Seed: b.Seed, Progress: func(done, total int) {
		b.notes.Step(m.text+": fit", "epochs", done, total)
	}}
	type predictive interface {
		Predictive(ctx context.Context, s *rows.Batch) (calibrate.Predictive, error)
	}
	var made predictive
	switch m.name {
	case "bnn-kfac":
		key := dampedKey{calibrate.Kronecker, b.likelihoodCovariance()}
		c, epsilon, err := b.dampingOf(ctx, key)
		if err != nil {
			return nil, err
		}
		p, err := c.Posterior(key.covariance, epsilon)
		if err != nil {
			return nil, err
		}
		if made, err = methods.NewWeightSamples(ctx, p, b.product, m.samples, b.Seed); err != nil {
			return nil, err
		}
	case "rue":
		c, err := b.covarianceOf(ctx, dampedKey{b.manifest.Structure, calibrate.Hessian})
		if err != nil {
			return nil, err
		}
		if made, err = methods.NewBootstrap(ctx, train, h, c, b.product, m.samples, b.Seed); err != nil {
			return nil, err
		}
	case "ensemble-ll":
		l, err := methods.FitEnsemble(ctx, train, h, m.samples, options)
		if err != nil {
			return nil, err
		}
		made = l
	case "jackknife-ll":
		l, err := methods.FitJackknife(ctx, train, h, m.samples, 0, options)
		if err != nil {
			return nil, err
		}
		made = l
	case "bnn-ll-vi":
		w, err := b.headWeights()
		if err != nil {
			return nil, err
		}
		v, err := methods.FitVariational(ctx, train, h, w, methods.VariationalOptions{FitOptions: options})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
			return v.Predictive(ctx, s.data, m.samples, b.seedOf(s))
		}, nil
	default:
		panic("wrap: no such method: " + m.name)
	}
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		return made.Predictive(ctx, s.data)
	}, nil
}

// likelihoodCovariance is the bundle's, where it is an inverse curvature.
func (b *bench) likelihoodCovariance() calibrate.Covariance {
	if b.manifest.Covariance == calibrate.Fisher {
		return calibrate.Fisher
	}
	return calibrate.Hessian
}

// fitGaussian is fit for Gaussians over the last layer's logits.
func (b *bench) fitGaussian(ctx context.Context, m method) (predictor, error) {
	var cov methods.Covariance
	var err error
	if m.covariance == swag {
		cov, err = b.swag()
	} else {
		manifest := b.manifest
		key := dampedKey{manifest.Structure, manifest.Covariance}
		if m.covariance != "" {
			key.covariance = calibrate.Covariance(m.covariance)
		}
		if m.structure != "" {
			key.structure = m.structure
		}
		cov, err = b.covarianceOf(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	return b.integrate(m, cov, func(_ context.Context, s *evalSet) (*rows.Batch, error) { return s.data, nil }), nil
}

// integrate predicts with a Gaussian over logits. inputs are what the covariance is a
// function of.
func (b *bench) integrate(m method, cov methods.Covariance, inputs func(context.Context, *evalSet) (*rows.Batch, error)) predictor {
	k := b.head.Logits
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		x, err := inputs(ctx, s)
		if err != nil {
			return nil, err
		}
		if m.name == "mc" {
			return methods.NewMonteCarlo(ctx, cov, x, k, m.samples, b.seedOf(s))
		}
		return methods.NewGaussian(ctx, methods.Kind(m.name), cov, x, k)
	}
}

// covarianceOf returns the covariance of logits.
func (b *bench) covarianceOf(ctx context.Context, key dampedKey) (*calibrate.LogitCovariance, error) {
	if c := b.damped[key]; c != nil {
		return c, nil
	}
	c, epsilon, err := b.dampingOf(ctx, key)
	if err != nil {
		return nil, err
	}
	b.damped[key], err = c.Covariance(key.covariance, epsilon)
	return b.damped[key], err
}

// dampingOf returns the curvature and ε: the bundle's own where it has this covariance,
// else what its rule gives.
func (b *bench) dampingOf(ctx context.Context, key dampedKey) (*calibrate.Curvature, float64, error) {
	if err := b.collect(ctx, b.train); err != nil {
		return nil, 0, err
	}
	c, err := b.curvatureOf(key)
	if err != nil {
		return nil, 0, err
	}
	manifest := b.manifest
	if key == (dampedKey{manifest.Structure, manifest.Covariance}) {
		return c, manifest.Damping.Epsilon, nil
	}
	rule, err := calibrate.ParseDamping(manifest.Damping.Rule)
	if err != nil {
		return nil, 0, err
	}
	fitted, err := calibrate.Fit(ctx, c, b.val.data, nil, calibrate.FitOptions{Covariance: key.covariance, Damping: rule, Lambda0: manifest.MeanField.Lambda0})
	if err != nil {
		return nil, 0, err
	}
	return c, fitted.Posterior.Epsilon, nil
}

// curvatureOf accumulates the training set.
func (b *bench) curvatureOf(key dampedKey) (*calibrate.Curvature, error) {
	k := curvatureKey{key.structure, key.covariance.NeedsFisher()}
	if c := b.curvatures[k]; c != nil {
		return c, nil
	}
	if c := b.curvatures[curvatureKey{key.structure, true}]; c != nil {
		return c, nil
	}
	h := b.head
	c, err := calibrate.NewCurvature(calibrate.CurvatureConfig{Head: h, Structure: k.structure, Fisher: k.fisher, Product: b.product})
	if err != nil {
		return nil, err
	}
	train := b.train.data
	for i := range train.N {
		label := -1
		if train.Labels != nil {
			label = int(train.Labels[i])
		}
		if err := c.Add(i, train.Features[i*h.Features:(i+1)*h.Features], train.Logits[i*h.Logits:(i+1)*h.Logits], label); err != nil {
			return nil, fmt.Errorf("train: %w", err)
		}
	}
	b.curvatures[k] = c
	return c, c.Flush()
}

// headWeights returns the last layer, [K,D] with the bias in the last column.
func (b *bench) headWeights() ([]float64, error) {
	if b.weights != nil {
		return b.weights, nil
	}
	if b.cut == nil {
		return nil, errors.New("the bundle was made of ready-made features and has no weights")
	}
	var err error
	b.weights, err = headWeights(b.cut.Head)
	return b.weights, err
}

func headWeights(h *head.Head) ([]float64, error) {
	w, bias, err := h.Weights()
	if err != nil {
		return nil, err
	}
	out := make([]float64, 0, len(w)+len(bias))
	for k := range h.Classes {
		for _, v := range w[k*h.FeatureDim : (k+1)*h.FeatureDim] {
			out = append(out, float64(v))
		}
		if bias != nil {
			out = append(out, float64(bias[k]))
		}
	}
	return out, nil
}

// swag reads the last layers of the checkpoints.
func (b *bench) swag() (methods.Covariance, error) {
	var trajectory [][]float64
	for _, path := range b.Checkpoints {
		_, head, err := b.openHead(path)
		if err != nil {
			return nil, err
		}
		if head.FeatureDim != b.head.Features || head.Bias != b.head.Bias {
			return nil, fmt.Errorf("%s: its last layer has %d features and bias %t, the bundle's %d and %t: is it of the same network?", path, head.FeatureDim, head.Bias, b.head.Features, b.head.Bias)
		}
		w, err := headWeights(head)
		if err != nil {
			return nil, err
		}
		trajectory = append(trajectory, w)
	}
	return methods.NewSWAG(trajectory, b.head, b.product)
}

// openHead opens another network for the bundle's classes.
func (b *bench) openHead(path string) (*onnx.Model, *head.Head, error) {
	model, err := onnx.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: no such file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	h, err := head.Find(model, head.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if h.Classes != b.head.Logits || h.Link != head.Softmax {
		return nil, nil, fmt.Errorf("%s: it has %d logits with link %s, want a softmax of %d as the bundle's", path, h.Classes, h.Link, b.head.Logits)
	}
	return model, h, nil
}
