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

// Draws are M networks whose weights are drawn from the posterior: W + Δ/√T_ens, each Δ of a generator
// of its own. They and what is made of them are used by one goroutine at a time.
type Draws struct {
	posterior *Posterior
	m         int
	seed      uint64
	turned    [][]float64 // Q_Bᵀ of each layer

	kept [][][]float32 // Δ of the first samples, by layer, [dim,out]
	keep int           // how many of them memory has room for
}

// Draw prepares so many samples, from generators seeded by seed and a sample's number.
func (p *Posterior) Draw(samples int, seed uint64) (*Draws, error) {
	if samples < 1 {
		return nil, fmt.Errorf("%d samples, want at least 1", samples)
	}
	d := &Draws{posterior: p, m: samples, seed: seed, keep: min(samples, maxKept/p.network.numbers())}
	for i, l := range p.network.layers {
		d.turned = append(d.turned, transpose(p.layers[i].qb, l.out, l.out))
	}
	return d, nil
}

// numbers is how many weights there are.
func (n *Network) numbers() (all int) {
	for _, l := range n.layers {
		all += l.dim * l.out
	}
	return all
}

// Sampled is a set of examples as M networks predict it whose weights are drawn from the posterior,
// N(θ, Σ/T_ens): the mean of softmax(a/T_act) over them. Their logits a are not linear in what is
// drawn, so that each T_ens takes M runs of all examples through all layers, and T_act divides the
// whole of a. Where there is one layer only, T_ens is methods.Samples' divided by T_act².
type Sampled struct {
	ctx    context.Context // of SetEns, which Tune calls without one
	draws  *Draws
	x      []float32
	n      int
	spread float64

	ens      float64   // what members are drawn for; 0: nothing
	members  []float32 // logits [n,M,K]
	ensemble *methods.Samples
}

var _ calibrate.Resampled = (*Sampled)(nil)

// Predictive prepares examples x [n,d₀], which see the same networks for every T_ens and in every
// other set. It and SetEns end with ctx.
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
	if s.spread, err = d.posterior.spread(ctx, x, n); err != nil {
		return nil, err
	}
	return s, nil
}

// spreadOf is how many examples the median variance is taken of: it is the unit of a search, and each
// takes K runs down the layers.
const spreadOf = 256

// spread returns the median variance of a logit of some of x [n,d₀], spread evenly.
func (p *Posterior) spread(ctx context.Context, x []float32, n int) (float64, error) {
	k, d := p.network.Logits(), p.network.Inputs()
	some := min(n, spreadOf)
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

// MedianVariance returns the median over some of the examples and all classes of the variance of a
// logit at T_ens = 1, were logits linear in the weights.
func (s *Sampled) MedianVariance() float64 { return s.spread }

// SetEns draws networks at a T_ens and runs all examples through them, unless it was the
// last that it was called with.
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
	weights, p := room[float32](network), network.newSingle(min(s.n, rows))
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

// single is the work space of running a block of examples through layers in float32, which is twice as
// fast: nothing that is drawn is worth more.
type single struct {
	*Network
	h [2][]float32 // [size,widest], of one layer after another in turn
}

func (n *Network) newSingle(size int) *single {
	p := &single{Network: n}
	for i := range p.h {
		p.h[i] = make([]float32, size*n.widest())
	}
	return p
}

// Spreads are tried that take weights far from anything that was trained. What is beyond all measure is
// taken to be at these bounds, so that no sum leaves the range of float32, of inputs up to 1e18 as well.
const (
	mostWeight = 1e12
	mostHidden = 1e18
)

func within(v, most float64) float32 {
	switch { // the builtins think of NaN, which stays here
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
					z[i] = within(v, mostHidden)
				}
			}
		})
		h = z
	}
	return h, nil
}

// room is that of the weights of all layers.
func room[T float32 | float64](n *Network) (w [][]T) {
	for _, l := range n.layers {
		w = append(w, make([]T, l.dim*l.out))
	}
	return w
}

// weights writes those of sample m: Wᵀ + Δ/√T_ens of each layer.
func (d *Draws) weights(dst [][]float32, m int, ens float64) error {
	for len(d.kept) <= m && len(d.kept) < d.keep {
		deviations, err := d.deviations(len(d.kept))
		if err != nil {
			return err
		}
		d.kept = append(d.kept, deviations)
	}
	var deviations [][]float32
	if m < len(d.kept) {
		deviations = d.kept[m]
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
			w[j] = within(l.forward[j]+scale*float64(v), mostWeight)
		}
	}
	return nil
}

// deviations returns Δ of sample m: Q_A (Z ∘ √v) Q_Bᵀ of each layer, Z normal and v the variances in the
// eigenbases.
func (d *Draws) deviations(m int) ([][]float32, error) {
	network := d.posterior.network
	rng := rand.New(rand.NewPCG(d.seed, uint64(m)))
	all := room[float32](network)
	for i, l := range network.layers {
		f, w, z := d.posterior.layers[i], make([]float64, l.dim*l.out), make([]float64, l.dim*l.out)
		for j, v := range f.variance {
			w[j] = rng.NormFloat64() * math.Sqrt(v)
		}
		if err := network.product.Multiply(z, f.qa, w, l.dim, l.dim, l.out); err != nil {
			return nil, err
		}
		if err := network.product.Multiply(w, z, d.turned[i], l.dim, l.out, l.out); err != nil {
			return nil, err
		}
		for j, v := range w {
			all[i][j] = float32(v)
		}
	}
	return all, nil
}

// Predictor returns a function that is called with the T_ens of the last SetEns.
func (s *Sampled) Predictor() func(logp []float64, i int, t geometry.Temperatures) (margin float64) {
	predict := s.ensemble.Predictor()
	return func(logp []float64, i int, t geometry.Temperatures) float64 {
		if t.Ens != s.ens {
			panic(fmt.Sprintf("layers: ensemble temperature %v, want that of SetEns, %v", t.Ens, s.ens))
		}
		return predict(logp, i, t)
	}
}

// transpose returns that of x [rows,cols].
func transpose(x []float64, rows, cols int) []float64 {
	t := make([]float64, len(x))
	for r := range rows {
		for c := range cols {
			t[c*rows+r] = x[r*cols+c]
		}
	}
	return t
}
