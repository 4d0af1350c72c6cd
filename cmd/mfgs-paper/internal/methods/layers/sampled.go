package layers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	geometry "github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Draws are M networks with weights drawn from the posterior: W + Δ/√T_ens. Each Δ has its own generator. Draws, and
// sets that they prepare, are not safe for concurrent use.
type Draws struct {
	posterior  *Posterior
	m          int
	seed       uint64
	transposed [][]float64 // Q_Bᵀ of each layer

	cached   [][][]float32 // Δ of the first samples, by layer, [dim,out]
	maxCache int           // how many samples may be cached
}

// Draw prepares samples, with generators seeded by seed and the sample's index.
func (p *Posterior) Draw(samples int, seed uint64) (*Draws, error) {
	if samples < 1 {
		return nil, fmt.Errorf("%d samples, want at least 1", samples)
	}
	d := &Draws{posterior: p, m: samples, seed: seed, maxCache: min(samples, maxCached/p.network.numbers())}
	for i, l := range p.network.layers {
		d.transposed = append(d.transposed, transpose(p.layers[i].qb, l.out, l.out))
	}
	return d, nil
}

// numbers is the number of weights.
func (n *Network) numbers() (all int) {
	for _, l := range n.layers {
		all += l.dim * l.out
	}
	return all
}

// Sampled predicts a set of examples by M networks with weights drawn from the posterior, N(θ, Σ/T_ens): the mean of
// softmax(a/T_act) over them. The logits a are not linear in the weights, so each T_ens takes M runs of all
// examples through all layers, and T_act divides all of a. With one layer, T_ens is that of methods.Samples divided by
// T_act².
type Sampled struct {
	ctx            context.Context // for SetEns, which Tune calls without one
	draws          *Draws
	x              []float32
	n              int
	medianVariance float64

	ens      float64   // of members; 0 if there are none
	members  []float32 // logits [n,M,K]
	ensemble *methods.Samples
}

var _ calibrate.Resampled = (*Sampled)(nil)

// Predictive prepares examples x [n,d₀]. All sets and all T_ens share the same draws. It and SetEns end with ctx.
func (d *Draws) Predictive(ctx context.Context, x []float32) (*Sampled, error) {
	network := d.posterior.network
	n, err := network.check(x)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("0 examples, want at least one")
	}
	k := network.Logits()
	if bytes := 4 * float64(n) * float64(d.m) * float64(k); bytes > methods.MaxBytes {
		return nil, fmt.Errorf("the logits of %d examples × %d samples would take %.1f GB of memory, want at most %.1f: take fewer with a limit, or fewer samples", n, d.m, bytes/1e9, methods.MaxBytes/1e9)
	}
	s := &Sampled{ctx: ctx, draws: d, x: x, n: n, members: make([]float32, n*d.m*k)}
	if s.medianVariance, err = d.posterior.medianVariance(ctx, x, n); err != nil {
		return nil, err
	}
	return s, nil
}

// medianOf bounds the examples for the median variance, which is only the unit of a search; each takes K backward
// passes.
const medianOf = 256

// medianVariance returns the median logit variance of evenly spaced examples of x [n,d₀].
func (p *Posterior) medianVariance(ctx context.Context, x []float32, n int) (float64, error) {
	k, d := p.network.Logits(), p.network.Inputs()
	some := min(n, medianOf)
	of, variances := make([]float32, some*d), make([]float64, some*k)
	for i := range some {
		copy(of[i*d:(i+1)*d], x[i*n/some*d:])
	}
	rows := p.network.blockRows(k)
	for first := 0; first < some; first += rows {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		end := min(some, first+rows)
		if err := p.Variances(variances[first*k:end*k], of[first*d:end*d], end-first); err != nil {
			return 0, err
		}
	}
	slices.Sort(variances)
	return variances[len(variances)/2], nil
}

func (s *Sampled) Len() int { return s.n }

func (s *Sampled) Probabilities() int { return s.draws.posterior.network.Logits() }

// MedianVariance returns the median logit variance at T_ens = 1 over some examples and all classes, with the logits
// linearised in the weights.
func (s *Sampled) MedianVariance() float64 { return s.medianVariance }

// SetEns draws networks at a T_ens and runs all examples through them, unless the last call had the same T_ens.
func (s *Sampled) SetEns(ens float64) error {
	if !(ens > 0) || math.IsInf(ens, 1) {
		return fmt.Errorf("ensemble temperature %v, want a positive finite number", ens)
	}
	if ens == s.ens {
		return nil
	}
	s.ens = 0
	draws, network := s.draws, s.draws.posterior.network
	const rows = calibrate.BlockSize
	k, d := network.Logits(), network.Inputs()
	weights, p := network.newWeights(), network.newSingle(min(s.n, rows))
	for m := range draws.m {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		if err := draws.weights(weights, m, ens); err != nil {
			return err
		}
		for first := 0; first < s.n; first += rows {
			if err := context.Cause(s.ctx); err != nil {
				return err
			}
			end := min(s.n, first+rows)
			logits, err := p.forward(weights, s.x[first*d:end*d])
			if err != nil {
				return err
			}
			for i := first; i < end; i++ {
				copy(s.members[(i*draws.m+m)*k:][:k], logits[(i-first)*k:])
			}
		}
	}
	ensemble, err := methods.NewEnsemble(s.members, s.n, draws.m, k)
	if err != nil {
		return err
	}
	s.ensemble, s.ens = ensemble, ens
	return nil
}

// single is the work space for running a block of examples through the layers in float32, which is twice as fast and
// precise enough for random weights.
type single struct {
	*Network
	h [2][]float32 // [size,widest], used by alternating layers
}

func (n *Network) newSingle(size int) *single {
	p := &single{Network: n}
	for i := range p.h {
		p.h[i] = make([]float32, size*n.widest())
	}
	return p
}

// The search for T_ens tries weights far from the trained ones. Values are clipped at these bounds, so that no sum
// overflows float32, even for inputs up to 1e18.
const (
	maxWeight = 1e12
	maxHidden = 1e18
)

func clip(v, most float64) float32 {
	switch { // keeps NaN, and is faster than the builtins
	case v > most:
		v = most
	case v < -most:
		v = -most
	}
	return float32(v)
}

// forward returns the logits of x [rows,d₀], [rows,K], until the next call.
func (p *single) forward(weights [][]float32, x []float32) ([]float32, error) {
	rows, h := len(x)/p.Inputs(), x
	for l, layer := range p.layers {
		z, w := p.h[l%2][:rows*layer.out], weights[l]
		if err := p.product.Multiply32(z, h, w[:layer.in*layer.out], rows, layer.in, layer.out); err != nil {
			return nil, err
		}
		parallel.For(rows, func(first, last int) {
			y := make([]float64, layer.out)
			for r := first; r < last; r++ {
				z := z[r*layer.out : (r+1)*layer.out]
				for i, v := range w[layer.in*layer.out:] { // the bias, if there is one
					z[i] += v
				}
				for i, v := range z {
					y[i] = float64(v)
				}
				if layer.activation != nil {
					layer.activation(y, nil, y)
				}
				for i, v := range y {
					z[i] = clip(v, maxHidden)
				}
			}
		})
		h = z
	}
	return h, nil
}

// newWeights allocates weights for all layers.
func (n *Network) newWeights() (w [][]float32) {
	for _, l := range n.layers {
		w = append(w, make([]float32, l.dim*l.out))
	}
	return w
}

// weights writes the weights of sample m, Wᵀ + Δ/√T_ens of each layer.
func (d *Draws) weights(dst [][]float32, m int, ens float64) error {
	for len(d.cached) <= m && len(d.cached) < d.maxCache {
		deviations, err := d.deviations(len(d.cached))
		if err != nil {
			return err
		}
		d.cached = append(d.cached, deviations)
	}
	var deviations [][]float32
	if m < len(d.cached) {
		deviations = d.cached[m]
	} else {
		var err error
		if deviations, err = d.deviations(m); err != nil {
			return err
		}
	}
	scale := 1 / math.Sqrt(ens)
	for i, l := range d.posterior.network.layers {
		w := dst[i]
		for j, v := range deviations[i] {
			w[j] = clip(l.forward[j]+scale*float64(v), maxWeight)
		}
	}
	return nil
}

// deviations returns Δ of sample m: Q_A (Z ∘ √v) Q_Bᵀ for each layer, with Z normal and v the variances in the
// eigenbases.
func (d *Draws) deviations(m int) ([][]float32, error) {
	network := d.posterior.network
	rng := rand.New(rand.NewPCG(d.seed, uint64(m)))
	all := network.newWeights()
	for i, l := range network.layers {
		f, w, z := d.posterior.layers[i], make([]float64, l.dim*l.out), make([]float64, l.dim*l.out)
		for j, v := range f.variance {
			w[j] = rng.NormFloat64() * math.Sqrt(v)
		}
		if err := network.product.Multiply(z, f.qa, w, l.dim, l.dim, l.out); err != nil {
			return nil, err
		}
		if err := network.product.Multiply(w, z, d.transposed[i], l.dim, l.out, l.out); err != nil {
			return nil, err
		}
		for j, v := range w {
			all[i][j] = float32(v)
		}
	}
	return all, nil
}

// Predictor returns a function that must be called with the T_ens of the last SetEns.
func (s *Sampled) Predictor() func(logp []float64, i int, t geometry.Temperatures) (margin float64) {
	predict := s.ensemble.Predictor()
	return func(logp []float64, i int, t geometry.Temperatures) float64 {
		if t.Ens != s.ens {
			panic(fmt.Sprintf("layers: ensemble temperature %v, want that of SetEns, %v", t.Ens, s.ens))
		}
		return predict(logp, i, t)
	}
}

// transpose returns the transpose of x [rows,cols].
func transpose(x []float64, rows, cols int) []float64 {
	t := make([]float64, len(x))
	for r := range rows {
		for c := range cols {
			t[c*rows+r] = x[r*cols+c]
		}
	}
	return t
}
