package methods

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// VariationalOptions configures FitVariational.
type VariationalOptions struct {
	FitOptions
	// Prior is the prior standard deviation of each weight. Zero: the root mean square of the network's weights.
	Prior float64
}

// Variational is a last layer with an independent Gaussian over each weight.
type Variational struct {
	Mean, Variance []float64 // [K,D], the bias in the last column

	mean, variance *layers
}

// FitVariational does variational inference for the last layer on the features of labelled training examples (Blundell
// et al. 2015; the paper's BNN(LL-VI)). Starting from the network's weights [K,D], with the bias in the last column,
// and a tenth of the prior's standard deviation, it minimises
//
//	1/N Σᵢ E[-log p(yᵢ)] + 1/N KL(N(mean, variance) ‖ N(0, Prior²))
//
// with one draw of the logits per example and epoch: independent weights give independent Gaussian logits (local
// reparametrisation, Kingma et al. 2015).
func FitVariational(ctx context.Context, train *rows.Batch, h layer.Head, weights []float64,
	o VariationalOptions) (*Variational, error) {
	t, err := newTrainer(train, h, o.FitOptions, FitOptions{Epochs: 30})
	if err != nil {
		return nil, err
	}
	if err := checkWeights(weights, h); err != nil {
		return nil, err
	}
	if o.Prior == 0 {
		for _, v := range weights {
			o.Prior += v * v / float64(len(weights))
		}
		o.Prior = math.Sqrt(o.Prior)
	}
	if !(o.Prior > 0) || math.IsInf(o.Prior, 1) {
		return nil, fmt.Errorf("the prior's standard deviation is %v, want a positive number", o.Prior)
	}
	v := &Variational{}
	if v.mean, err = newLayers(h, o.Product, 1); err != nil {
		return nil, err
	}
	if v.variance, err = newLayers(h, o.Product, 1); err != nil {
		return nil, err
	}
	v.mean.set(0, weights)
	d, k := h.Dim(), h.Logits
	mean := v.mean.weights
	logs := make([]float64, d*k) // of standard deviations
	for i := range logs {
		logs[i] = math.Log(o.Prior / 10)
	}
	f := newVariationalStep(t, o.Prior)
	ones := make([]float64, d)
	for i := range ones {
		ones[i] = 1
	}
	ruleMean, ruleLogs := newAdam(t.unit, k), newAdam(ones, k)
	rng := rand.New(rand.NewPCG(t.Seed, streamNoise))
	noise := make([]float64, t.Batch*k)
	progress := func(epochs int) { t.Progress(epochs, t.Epochs) }
	err = t.sweep(ctx, 0, progress, func(b *batch) error {
		noise := noise[:len(b.examples)*k]
		for i := range noise {
			noise[i] = rng.NormFloat64()
		}
		if err := f.gradients(b, mean, logs, noise); err != nil {
			return err
		}
		ruleMean.step(mean, f.mean, 1, b.rate)
		ruleLogs.step(logs, f.logs, 1, b.rate)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, l := range logs {
		v.variance.weights[i] = math.Exp(2 * l)
	}
	v.Mean, v.Variance = v.mean.layer(0), v.variance.layer(0)
	return v, nil
}

// variationalStep computes the gradients of a step.
type variationalStep struct {
	*trainer
	prior      float64
	mean, logs []float64 // gradients with respect to means and logarithms of standard deviations, [D,K]

	variance      []float64 // [D,K]
	squares, z, v []float64 // of a batch: x², logits and their variances
}

func newVariationalStep(t *trainer, prior float64) *variationalStep {
	d, k := t.head.Dim(), t.head.Logits
	return &variationalStep{
		trainer: t, prior: prior,
		mean: make([]float64, d*k), logs: make([]float64, d*k), variance: make([]float64, d*k),
		squares: make([]float64, t.Batch*d), z: make([]float64, t.Batch*k), v: make([]float64, t.Batch*k),
	}
}

// gradients computes the gradients of the batch mean of -log p_y at the logits z = xm + √v ⊙ noise, v = x²s², plus 1/N
// of the divergence.
func (f *variationalStep) gradients(b *batch, mean, logs, noise []float64) error {
	rows, d, k := len(b.examples), f.head.Dim(), f.head.Logits
	squares, z, v := f.squares[:rows*d], f.z[:rows*k], f.v[:rows*k]
	for i, x := range b.x {
		squares[i] = x * x
	}
	for i, l := range logs {
		f.variance[i] = math.Exp(2 * l)
	}
	if err := f.Product.Multiply(z, b.x, mean, rows, d, k); err != nil {
		return err
	}
	if err := f.Product.Multiply(v, squares, f.variance, rows, d, k); err != nil {
		return err
	}
	scale := 1 / float64(rows)
	parallel.For(rows, func(first, last int) {
		for r := first; r < last; r++ {
			z, v, noise := z[r*k:(r+1)*k], v[r*k:(r+1)*k], noise[r*k:(r+1)*k]
			for c := range z {
				v[c] = math.Sqrt(v[c])
				z[c] += v[c] * noise[c]
			}
			crossEntropy(z, f.train.Labels[b.examples[r]])
			for c := range z {
				z[c] *= scale
				if v[c] > 0 { // unless all features are zero
					v[c] = z[c] * noise[c] / (2 * v[c]) // derivative with respect to the variance
				}
			}
		}
	})
	// The divergence is Σ ½(s² + m²)/Prior² - log s, up to a constant.
	each, precision := 1/float64(f.n), 1/(f.prior*f.prior)
	for i, m := range mean {
		f.mean[i] = each * precision * m
	}
	if err := f.Product.AddTransposedProduct(f.mean, b.x, z, rows, d, k); err != nil {
		return err
	}
	clear(f.logs)
	if err := f.Product.AddTransposedProduct(f.logs, squares, v, rows, d, k); err != nil {
		return err
	}
	for i, s2 := range f.variance {
		f.logs[i] = 2*s2*f.logs[i] + each*(precision*s2-1)
	}
	return nil
}

// Predictive prepares a set from its features: it draws samples of the logits, independent Gaussians around those
// of the mean weights.
func (v *Variational) Predictive(ctx context.Context, s *rows.Batch, samples int, seed uint64) (calibrate.Predictive,
	error) {
	if samples < 1 {
		return nil, fmt.Errorf("%d samples, want at least 1", samples)
	}
	logits, err := v.mean.outputs(ctx, s)
	if err != nil {
		return nil, err
	}
	h := v.mean.head
	squared := &rows.Batch{N: s.N, Logits: s.Logits, Features: make([]float32, len(s.Features))}
	for i, x := range s.Features {
		squared.Features[i] = x * x
	}
	variances, err := v.variance.outputs(ctx, squared)
	if err != nil {
		return nil, fmt.Errorf("squares: %w", err)
	}
	n, k := s.N, h.Logits
	if err := checkSize(n, samples*k, 4); err != nil {
		return nil, err
	}
	deviations := make([]float32, n*samples*k)
	parallel.For(n, func(first, last int) {
		for i := first; i < last && ctx.Err() == nil; i++ {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			own := deviations[i*samples*k : (i+1)*samples*k]
			for j := range own {
				own[j] = float32(math.Sqrt(float64(variances[i*k+j%k])) * rng.NormFloat64())
			}
		}
	})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return NewSamples(logits, deviations, n, samples, k)
}
