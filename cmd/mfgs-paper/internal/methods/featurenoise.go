package methods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"
	"gonum.org/v1/gonum/stat"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

const (
	// NoiseWeight is the weight of noisy examples in the objective.
	NoiseWeight = 0.15

	// mostNoise bounds the noise, in standard deviations of the features.
	mostNoise = 1.2

	// Bounds of τ = T_ens / median s², as in all tuning.
	leastTau, mostTau = 3e-7, 1e3

	// usual is the fraction of the validation examples at which the temperature does not depend on the features.
	usual = 0.9
)

// FeatureNoise fits temperatures to validation examples and to copies of them with noise on the features, which take
// the place of data under shift. A copy has the features φ + tε with t ~ U(0, 1.2) and ε ~ N(0, Cov φ), the logits
// that the last layer gives them, and the label of the example.
type FeatureNoise struct {
	Val, Noisy *rows.Batch

	weight float64 // of the noisy examples
	k      int
}

// NoiseOptions configures [NewFeatureNoise].
type NoiseOptions struct {
	Product parallel.Product // nil: Go's own
	Weight  float64          // of the noisy examples in the objective, such as NoiseWeight
	Within  bool             // the noise has the covariance of the features within classes, in place of that of all
	Seed    uint64
}

// NewFeatureNoise adds noise to the features of val. Their covariance is that of the training data. weights are the
// last layer's, [K,D] with the bias in the last column.
func NewFeatureNoise(
	train, val *rows.Batch, h layer.Head, weights []float64, o NoiseOptions,
) (*FeatureNoise, error) {
	if err := checkSoftmax(h); err != nil {
		return nil, err
	}
	if !(o.Weight >= 0 && o.Weight < 1) {
		return nil, fmt.Errorf("the weight of the noise is %v, want 0 to less than 1", o.Weight)
	}
	if len(weights) != h.Logits*h.Dim() {
		return nil, fmt.Errorf("%d weights, want %d for each of %d logits", len(weights), h.Dim(), h.Logits)
	}
	if err := calibrate.CheckBatch(h, train, train != nil && train.Labels != nil); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	if err := calibrate.CheckBatch(h, val, true); err != nil {
		return nil, fmt.Errorf("validation data: %w", err)
	}
	product := parallel.OrGo(o.Product)
	noise, err := featureNoise(train, val.N, h, o.Within, product, rand.New(rand.NewPCG(o.Seed, streamNoise)))
	if err != nil {
		return nil, err
	}
	d, k := h.Features, h.Logits
	linear := make([]float64, d*k) // without biases
	for c := range k {
		for j := range d {
			linear[j*k+c] = weights[c*h.Dim()+j]
		}
	}
	change := make([]float64, val.N*k)
	if err := product.Multiply(change, noise, linear, val.N, d, k); err != nil {
		return nil, err
	}
	noisy := &rows.Batch{
		N: val.N, Features: sum32(val.Features, noise), Logits: sum32(val.Logits, change), Labels: val.Labels,
	}
	return &FeatureNoise{Val: val, Noisy: noisy, weight: o.Weight, k: k}, nil
}

// featureNoise draws tε [n,d].
func featureNoise(
	train *rows.Batch, n int, h layer.Head, within bool, product parallel.Product, rng *rand.Rand,
) ([]float64, error) {
	d := h.Features
	class := func(int) int { return 0 }
	if within {
		class = classOf(train, h)
	}
	covariance, _, err := pooled(train, h, class, product, func(dst []float64, phi []float32) {
		for j, v := range phi {
			dst[j] = float64(v)
		}
	})
	if err != nil {
		return nil, err
	}
	packed := make([]float64, 0, PackedSize(d))
	for i := range d {
		packed = append(packed, math.Max(covariance.At(i, i), 0)) // rounding errors of a constant feature
		for j := i + 1; j < d; j++ {
			packed = append(packed, covariance.At(i, j))
		}
	}
	if err := cholesky(packed, d); err != nil {
		return nil, fmt.Errorf("features: %w", err)
	}
	root := make([]float64, d*d) // U of Cov φ = UᵀU
	for i := range d {
		copy(root[i*d+i:(i+1)*d], packed[packedRow(i, d):packedRow(i+1, d)])
	}
	z, noise := make([]float64, n*d), make([]float64, n*d)
	for i := range n {
		t := mostNoise * rng.Float64()
		for j := range d {
			z[i*d+j] = t * rng.NormFloat64()
		}
	}
	return noise, product.Multiply(noise, z, root, n, d, d)
}

func sum32(x []float32, y []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float64(v) + y[i])
	}
	return out
}

// Objective is the mean loss at a pair of temperatures: (1-w) times that of the validation examples, with half an
// example more that is wrong as everywhere in tuning, plus w times the mean NLL of the noisy ones.
func (f *FeatureNoise) Objective(
	ctx context.Context, val, noisy calibrate.Predictive, t layer.Temperatures,
) (float64, error) {
	return f.objective(ctx, val, noisy, t, 1)
}

// objective is Objective of every step-th example.
func (f *FeatureNoise) objective(
	ctx context.Context, val, noisy calibrate.Predictive, t layer.Temperatures, step int,
) (float64, error) {
	nll, margin, err := f.losses(ctx, val, t, step)
	if err != nil {
		return 0, err
	}
	clean := calibrate.ScalingLimit(nll, margin, f.k)
	if f.weight == 0 {
		return clean, nil
	}
	if nll, _, err = f.losses(ctx, noisy, t, step); err != nil {
		return 0, err
	}
	return (1-f.weight)*clean + f.weight*stat.Mean(nll, nil), nil
}

// losses returns -log p of each label, and the margins.
func (f *FeatureNoise) losses(
	ctx context.Context, p calibrate.Predictive, t layer.Temperatures, step int,
) (nll, margin []float64, err error) {
	nll, margin, err = calibrate.PredictAll(ctx, thinned{p, step}, t)
	if err != nil {
		return nil, nil, err
	}
	for i := range margin {
		nll[i] = -nll[i*f.k+f.Val.Labels[i*step]]
	}
	return nll[:len(margin)], margin, nil
}

// thinned are every step-th of the examples.
type thinned struct {
	calibrate.Predictive
	step int
}

func (t thinned) Len() int { return (t.Predictive.Len() + t.step - 1) / t.step }

func (t thinned) Predictor() func(logp []float64, i int, at layer.Temperatures) (margin float64) {
	predict := t.Predictive.Predictor()
	return func(logp []float64, i int, at layer.Temperatures) float64 { return predict(logp, i*t.step, at) }
}

const (
	few       = 1000 // about how many examples show where to search
	undecided = 5e-4 // the difference in the objective up to which few examples do not decide
)

// minimise returns the least point that is found of the objective, a function of every step-th example. Searches from
// the starts on few examples show where to start on all.
func (f *FeatureNoise) minimise(
	ctx context.Context, objective func(x []float64, step int) (float64, error), starts ...[]float64,
) ([]float64, error) {
	var failed error
	search := func(start []float64, step int, gain float64) (*optimize.Result, error) {
		p := optimize.Problem{Func: func(x []float64) float64 {
			v, err := objective(x, step)
			if failed = cmp.Or(failed, err); failed != nil || math.IsNaN(v) {
				return math.Inf(1)
			}
			return v
		}}
		r, err := optimize.Minimize(p, start, &optimize.Settings{
			Converger: &optimize.FunctionConverge{Absolute: gain, Iterations: 20},
		}, &optimize.NelderMead{SimplexSize: 0.2})
		return r, cmp.Or(context.Cause(ctx), failed, err)
	}
	step := max(1, f.Val.N/few)
	var ends []*optimize.Location // starts and ends, by their values on few examples
	for _, start := range starts {
		r, err := search(start, step, 1e-6)
		if err != nil {
			return nil, err
		}
		v, err := objective(start, step)
		if err != nil {
			return nil, err
		}
		ends = append(ends, &r.Location, &optimize.Location{X: start, F: v})
	}
	slices.SortFunc(ends, func(a, b *optimize.Location) int { return cmp.Compare(a.F, b.F) })
	var best *optimize.Result
	for i, end := range ends {
		again := func(other *optimize.Location) bool { return floats.Distance(other.X, end.X, math.Inf(1)) < 0.3 }
		if end.F > ends[0].F+undecided || slices.ContainsFunc(ends[:i], again) {
			continue
		}
		r, err := search(end.X, 1, 1e-8)
		if err != nil {
			return nil, err
		}
		if best == nil || r.F < best.F {
			best = r
		}
	}
	if math.IsInf(best.F, 1) {
		return nil, errors.New("the objective is not a number")
	}
	return best.X, nil
}

// FitPair returns the pair of temperatures of a method with the least objective that is found from several T_ens.
// scaling is the temperature of temperature scaling.
func (f *FeatureNoise) FitPair(
	ctx context.Context, val, noisy calibrate.Predictive, scaling float64,
) (t layer.Temperatures, err error) {
	spread := val.MedianVariance()
	if !(spread > 0) || !(scaling > 0) {
		return t, fmt.Errorf("median variance %v and temperature %v, want positive numbers", spread, scaling)
	}
	// The temperature at the median variance, and τ: along the valley the former is nearly constant.
	pair := func(x []float64) layer.Temperatures {
		tau := math.Exp(math.Max(math.Log(leastTau), math.Min(x[1], math.Log(mostTau))))
		return layer.Temperatures{Act: math.Exp(x[0]) / math.Sqrt(1+meanfield.Lambda0/tau), Ens: tau * spread}
	}
	var starts [][]float64
	for _, tau := range []float64{1e-4, 0.01, 1, 10} {
		starts = append(starts, []float64{math.Log(scaling), math.Log(tau)})
	}
	x, err := f.minimise(ctx, func(x []float64, step int) (float64, error) {
		return f.objective(ctx, val, noisy, pair(x), step)
	}, starts...)
	if err != nil {
		return t, err
	}
	return pair(x), nil
}

// Terms say how far examples are from the training data: the logarithms [n] of the distance, see [Directions], and of
// the leverage.
type Terms [2][]float64

// NewTerms takes distances and leverages, both [n], and overwrites them.
func NewTerms(distances, leverages []float64) Terms {
	const least = 1e-30
	t := Terms{distances, leverages}
	for _, x := range t {
		for i, v := range x {
			x[i] = math.Log(math.Max(v, least))
		}
	}
	return t
}

// RisingTemperature is log T = B + Σ C_j g_j, with g_j the part of a term above its 90 % quantile on validation
// data, at most the largest on their noisy copies.
type RisingTemperature struct {
	B float64
	C [2]float64 // of the distance and of the leverage; not negative

	from, most [2]float64
}

// FitTemperature fits a temperature to the terms of Val and Noisy. scaling is the temperature of temperature scaling,
// where the search starts.
func (f *FeatureNoise) FitTemperature(
	ctx context.Context, val, noisy Terms, scaling float64,
) (*RisingTemperature, error) {
	if !(scaling > 0) {
		return nil, fmt.Errorf("temperature %v, want a positive number", scaling)
	}
	t := &RisingTemperature{}
	for j, x := range val {
		t.from[j] = stat.Quantile(usual, stat.Empirical, slices.Sorted(slices.Values(x)), nil)
		t.most[j] = math.Max(0, slices.Max(noisy[j])-t.from[j])
	}
	set := func(x []float64) { // a slope is a square, and so not negative
		t.B, t.C = x[0], [2]float64{x[1] * x[1], x[2] * x[2]}
	}
	x, err := f.minimise(ctx, func(x []float64, step int) (float64, error) {
		set(x)
		return f.objectiveOf(ctx, t, val, noisy, step)
	}, []float64{math.Log(scaling), 0.5, 0.5})
	if err != nil {
		return nil, err
	}
	set(x)
	return t, nil
}

// objectiveOf is the objective of every step-th example at a rising temperature.
func (f *FeatureNoise) objectiveOf(
	ctx context.Context, t *RisingTemperature, val, noisy Terms, step int,
) (float64, error) {
	v, n := t.Predictive(f.Val.Logits, f.k, val), t.Predictive(f.Noisy.Logits, f.k, noisy)
	return f.objective(ctx, v, n, t.Temperatures(), step)
}

// Temperatures returns T where both g are zero, as T_act.
func (t *RisingTemperature) Temperatures() layer.Temperatures {
	return layer.Temperatures{Act: math.Exp(t.B), Ens: 1}
}

// Predictive returns the predictions for logits [n,K] of examples with these terms.
func (t *RisingTemperature) Predictive(logits []float32, k int, terms Terms) *Scaled {
	s := &Scaled{logits: logits, k: k, scale: make([]float64, len(logits)/k)}
	for i := range s.scale {
		var log float64
		for j, c := range t.C {
			log += c * math.Min(math.Max(terms[j][i]-t.from[j], 0), t.most[j])
		}
		s.scale[i] = math.Exp(log)
	}
	return s
}

// Scaled is softmax(a/T_act), with a factor of T_act for each example.
type Scaled struct {
	logits []float32 // [n,K]
	k      int
	scale  []float64 // [n]; nil for 1
}

var _ calibrate.Predictive = (*Scaled)(nil)

// NewScaled takes logits [n,K], whose factors are 1.
func NewScaled(logits []float32, k int) *Scaled { return &Scaled{logits: logits, k: k} }

func (s *Scaled) Len() int { return len(s.logits) / s.k }

func (s *Scaled) Probabilities() int { return s.k }

func (s *Scaled) MedianVariance() float64 { return 0 }

func (s *Scaled) Predictor() func(logp []float64, i int, t layer.Temperatures) (margin float64) {
	mu := make([]float64, s.k)
	return func(logp []float64, i int, t layer.Temperatures) float64 {
		act := t.Act
		if s.scale != nil {
			act *= s.scale[i]
		}
		for c, a := range s.logits[i*s.k : (i+1)*s.k] {
			mu[c] = float64(a) / act
		}
		return meanfield.Softmax(logp, mu)
	}
}
