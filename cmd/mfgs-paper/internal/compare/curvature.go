package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods/layers"
	"github.com/mfgs/mfgs/onnx/head"
)

// likelihoodCovariance returns the bundle's covariance if it is an inverse curvature, else the Hessian.
func (b *comparison) likelihoodCovariance() calibrate.Covariance {
	if b.manifest.Covariance == calibrate.Fisher {
		return calibrate.Fisher
	}
	return calibrate.Hessian
}

// covarianceOf returns the covariance of logits.
func (b *comparison) covarianceOf(ctx context.Context, key dampedKey) (*layers.LastLayer, error) {
	if c := b.logitVariances[key]; c != nil {
		return c, nil
	}
	c, epsilon, err := b.dampingOf(ctx, key)
	if err != nil {
		return nil, err
	}
	b.logitVariances[key], err = layers.NewLastLayer(c, key.covariance, epsilon, b.product)
	return b.logitVariances[key], err
}

// dampingOf returns the curvature and ε: the bundle's own if it has this covariance, else from its rule.
func (b *comparison) dampingOf(ctx context.Context, key dampedKey) (*calibrate.Curvature, float64, error) {
	c, err := b.curvatureOf(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	if key == (dampedKey{b.manifest.Structure, b.manifest.Covariance}) {
		return c, b.manifest.Damping.Epsilon, nil
	}
	if epsilon, known := b.dampings[key]; known {
		return c, epsilon, nil
	}
	rule, err := calibrate.ParseDamping(b.manifest.Damping.Rule)
	if err != nil {
		return nil, 0, err
	}
	fitted, err := calibrate.Fit(ctx, c, b.val.Data(), nil, calibrate.FitOptions{
		Covariance: key.covariance, Damping: rule, Lambda0: b.manifest.MeanField.Lambda0,
	})
	if err != nil {
		return nil, 0, err
	}
	b.dampings[key] = fitted.Posterior.Epsilon
	return c, b.dampings[key], nil
}

// curvatureOf returns the curvature stored in the bundle or, without one, that of the training set.
func (b *comparison) curvatureOf(ctx context.Context, key dampedKey) (*calibrate.Curvature, error) {
	k := key.curvature()
	if c := b.curvatures[k]; c != nil {
		return c, nil
	}
	if c := b.curvatures[curvatureKey{key.structure, true}]; c != nil {
		return c, nil
	}
	if b.keeps(k) {
		sums, err := b.session.Bundle().Sums(b.product)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Bundle, err)
		}
		k.fisher = sums.Fisher()
		b.curvatures[k], err = sums.Finish()
		return b.curvatures[k], err
	}
	if err := b.session.Read(ctx, b.train); err != nil {
		return nil, err
	}
	c, err := calibrate.NewCurvature(calibrate.CurvatureConfig{
		Head: b.head, Structure: k.structure, Fisher: k.fisher, Product: b.product,
	}, b.train.Data())
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	b.curvatures[k] = c
	return c, nil
}

// headWeights returns the last layer, [K,D] with the bias in the last column.
func (b *comparison) headWeights() ([]float64, error) {
	if b.weightsOfHead != nil {
		return b.weightsOfHead, nil
	}
	if b.modelHead == nil {
		return nil, errors.New("the bundle was calibrated on precomputed features and has no weights")
	}
	var err error
	b.weightsOfHead, err = lastLayer(b.modelHead)
	return b.weightsOfHead, err
}

func checkWeights(b *comparison, _ *request) error {
	_, err := b.headWeights()
	return err
}

func lastLayer(h *head.Head) ([]float64, error) {
	w, bias, err := h.Weights()
	if err != nil {
		return nil, err
	}
	out := make([]float64, 0, len(w)+len(bias))
	for k := range h.Logits {
		for _, v := range w[k*h.Features : (k+1)*h.Features] {
			out = append(out, float64(v))
		}
		if bias != nil {
			out = append(out, float64(bias[k]))
		}
	}
	return out, nil
}
