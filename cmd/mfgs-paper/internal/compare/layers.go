package compare

import (
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods/layers"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/wrap/bench"
)

// openDense finds the layers and cuts the network below them.
func (b *comparison) openDense() (*dense, error) {
	if b.denseLayers != nil {
		return b.denseLayers, nil
	}
	model, head := b.model, b.modelHead
	found, err := onnxlayers.Find(model, head, b.Layers)
	if err != nil {
		return nil, err
	}
	var all []layers.Layer
	for _, d := range found.Layers {
		w, bias, err := d.Weights()
		if err != nil {
			return nil, err
		}
		all = append(all, layers.Layer{In: d.In, Out: d.Out, Weights: w, Bias: bias, Activation: d.Activation.Apply})
	}
	t := &dense{posteriors: map[calibrate.Covariance]*layers.Posterior{}, sets: map[*bench.Set]*rows.Batch{}}
	if t.network, err = layers.NewNetwork(all, b.product); err != nil {
		return nil, err
	}
	cut, err := onnxlayers.Cut(model, head, found)
	if err != nil {
		return nil, err
	}
	if t.cut, err = b.session.OpenNetwork(cut, b.Runtime.Batch); err != nil {
		return nil, err
	}
	b.denseLayers = t
	return t, nil
}

// inputs returns a set's inputs to the layers, as features.
func (t *dense) inputs(ctx context.Context, b *comparison, s *bench.Set) (*rows.Batch, error) {
	if x := t.sets[s]; x != nil {
		return x, nil
	}
	if whole := s.Whole(); whole != nil {
		x, err := t.inputs(ctx, b, whole)
		if err != nil {
			return nil, err
		}
		return bench.Subsample(x, s.Data().N), nil
	}
	if err := b.session.Read(ctx, s); err != nil {
		return nil, err
	}
	columns, err := t.cut.Outputs(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	x := &rows.Batch{N: s.Data().N, Features: columns[0], Logits: columns[1], Labels: s.Data().Labels}
	if err := t.check(x); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	t.sets[s] = x
	return x, nil
}

// check compares the layers' logits with the network's on the first examples.
func (t *dense) check(x *rows.Batch) error {
	d, k := t.network.Inputs(), t.network.Logits()
	n := min(32, len(x.Logits)/k)
	got := make([]float64, n*k)
	if err := t.network.Forward(got, x.Features[:n*d]); err != nil {
		return err
	}
	var worst, size float64
	for i, v := range x.Logits[:n*k] {
		worst = math.Max(worst, math.Abs(got[i]-float64(v)))
		size = math.Max(size, math.Abs(float64(v)))
	}
	if !(worst <= attach.LogitTolerance*math.Max(size, 1e-30)) {
		return fmt.Errorf("the dense layers do not give the network's logits: they differ by %.2g of the largest, want at most %.2g; take fewer --layers", worst/size, attach.LogitTolerance)
	}
	return nil
}

// fitLayers is fit for posteriors over several layers.
func (b *comparison) fitLayers(ctx context.Context, r *request) (predictor, string, error) {
	t, err := b.openDense()
	if err != nil {
		return nil, "", err
	}
	cov := b.likelihoodCovariance()
	if r.covariance != "" {
		cov = calibrate.Covariance(r.covariance)
	}
	p, damping, err := b.posteriorOf(ctx, t, cov)
	if err != nil {
		return nil, "", err
	}
	note := fmt.Sprintf("%d layers, damping %s", b.Layers, damping)
	if b.manifest.Damping.Rule == (calibrate.Damping{}).String() {
		note += " as chosen for the last layer"
	}
	if r.method == bnnKFAC {
		if n := b.val.Data().N; n > costlyVal {
			note += fmt.Sprintf("; tuned on %d of %d validation examples and nine T_ens", costlyVal, n)
		}
		draws, err := p.Draw(r.samples, r.seed)
		return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
			x, err := t.inputs(ctx, b, s)
			if err != nil {
				return nil, err
			}
			return draws.Predictive(ctx, x.Features)
		}, note, err
	}
	inputs := func(ctx context.Context, s *bench.Set) (*rows.Batch, error) { return t.inputs(ctx, b, s) }
	return b.integrate(r, p, inputs), note, nil
}

// posteriorOf returns a posterior damped as the bundle's: with the same ε or, if that was relative, the same
// fraction of each layer's mean eigenvalue.
func (b *comparison) posteriorOf(
	ctx context.Context, t *dense, cov calibrate.Covariance,
) (*layers.Posterior, calibrate.Damping, error) {
	d := b.manifest.Damping
	damping, err := calibrate.ParseDamping(d.Rule)
	if err != nil {
		return nil, damping, err
	}
	if damping == (calibrate.Damping{}) {
		damping.Relative = d.Rho
	}
	if p := t.posteriors[cov]; p != nil {
		return p, damping, nil
	}
	x, err := t.inputs(ctx, b, b.train)
	if err != nil {
		return nil, damping, err
	}
	c, err := layers.NewCurvature(t.network, cov)
	if err != nil {
		return nil, damping, err
	}
	if err := c.Add(ctx, x.Features, x.Labels); err != nil {
		return nil, damping, fmt.Errorf("train: %w", err)
	}
	p, err := c.Posterior(ctx, damping)
	if err != nil {
		return nil, damping, err
	}
	delete(t.sets, b.train)
	t.posteriors[cov] = p
	return p, damping, nil
}
