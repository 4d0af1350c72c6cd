package layers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
)

// Sampled is a set of examples as M networks predict it whose weights are drawn from the posterior,
// N(θ, Σ/T_ens): the mean of softmax(a/T_act) over them. Their logits a are not linear in what is
// drawn, so that each T_ens takes M runs of all examples through all layers, and T_act divides the
// whole of a. Where there is one layer only, T_ens is methods.Samples' divided by T_act².
type Sampled struct {
	ctx       context.Context // of SetEns, which Tune calls without one
	posterior *Posterior
	x         []float32
	n, m      int
	seed      uint64
	spread    float64
	turned    [][]float64 // Q_Bᵀ of each layer

	ens      float64   // what members are drawn for; 0: nothing
	members  []float32 // logits [n,M,K]
	ensemble *methods.Samples
}

var _ calibrate.Resampled = (*Sampled)(nil)

// NewSampled prepares examples x [n,d₀] for so many samples. Weights are drawn from
// generators seeded by seed and a sample's number, the same for every T_ens and every set
// of examples. NewSampled and SetEns end with ctx.
func NewSampled(ctx context.Context, p *Posterior, x []float32, samples int, seed uint64) (*Sampled, error) {
	n, err := p.network.check(x)
	if err != nil {
		return nil, err
	}
	k := p.network.Logits()
	if n == 0 || samples < 1 {
		return nil, fmt.Errorf("%d samples for %d examples, want at least one of each", samples, n)
	}
	if bytes := 4 * float64(n) * float64(samples) * float64(k); bytes > methods.MaxBytes {
		return nil, fmt.Errorf("the logits of %d examples × %d samples would take %.1f GB of memory, want at most %.1f: take fewer with a limit, or fewer samples", n, samples, bytes/1e9, methods.MaxBytes/1e9)
	}
	s := &Sampled{ctx: ctx, posterior: p, x: x, n: n, m: samples, seed: seed, members: make([]float32, n*samples*k)}
	if s.spread, err = p.spread(ctx, x, n); err != nil {
		return nil, err
	}
	for i, l := range p.network.layers {
		s.turned = append(s.turned, transpose(p.layers[i].qb, l.out))
	}
	return s, nil
}

// spread returns the median variance of a logit of x [n,d₀].
func (p *Posterior) spread(ctx context.Context, x []float32, n int) (float64, error) {
	k, d := p.network.Logits(), p.network.Inputs()
	rows := p.network.blockRows(k)
	variances := make([]float64, n*k)
	for first := 0; first < n; first += rows {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		end := min(n, first+rows)
		if err := p.Variances(variances[first*k:end*k], x[first*d:end*d], end-first); err != nil {
			return 0, err
		}
	}
	slices.Sort(variances)
	return variances[len(variances)/2], nil
}

func (s *Sampled) Len() int { return s.n }

func (s *Sampled) Probabilities() int { return s.posterior.network.Logits() }

// MedianVariance returns the median over examples and classes of the variance of a logit at
// T_ens = 1, were logits linear in the weights.
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
	network := s.posterior.network
	numbers := 0 // of one network
	for _, l := range network.layers {
		numbers += l.dim * l.out
	}
	drawn := make([][][]float64, max(1, min(s.m, maxNumbers/numbers)))
	for i := range drawn {
		for _, l := range network.layers {
			drawn[i] = append(drawn[i], make([]float64, l.dim*l.out))
		}
	}
	scratch := make([]float64, 0, numbers)
	const rows = calibrate.BlockSize
	p, k, d := network.newPass(min(s.n, rows), false), network.Logits(), network.Inputs()
	for m := 0; m < s.m; m += len(drawn) {
		networks := drawn[:min(len(drawn), s.m-m)]
		for i, weights := range networks {
			if err := context.Cause(s.ctx); err != nil {
				return err
			}
			if err := s.draw(weights, m+i, ens, scratch); err != nil {
				return err
			}
		}
		for first := 0; first < s.n; first += rows {
			end := min(s.n, first+rows)
			p.load(s.x[first*d : end*d])
			for i, weights := range networks {
				if err := context.Cause(s.ctx); err != nil {
					return err
				}
				if err := p.forward(weights); err != nil {
					return err
				}
				for r := range p.rows {
					keep(s.members[((first+r)*s.m+m+i)*k:][:k], p.logits()[r*k:(r+1)*k])
				}
			}
		}
	}
	ensemble, err := methods.NewEnsemble(s.members, s.n, s.m, k)
	if err != nil {
		return err
	}
	s.ensemble, s.ens = ensemble, ens
	return nil
}

// keep writes logits, those beyond all measure as what a float32 holds: spreads are tried
// that take weights far from anything that was trained.
func keep(dst []float32, logits []float64) {
	const most = 1e30
	for c, a := range logits {
		dst[c] = float32(min(max(a, -most), most)) // NaN stays
	}
}

// draw writes the weights of sample m: Wᵀ + Q_A (Z ∘ √(v/T_ens)) Q_Bᵀ of each layer, Z
// normal and v the variances in the eigenbases. scratch has room for one network.
func (s *Sampled) draw(weights [][]float64, m int, ens float64, scratch []float64) error {
	rng := rand.New(rand.NewPCG(s.seed, uint64(m)))
	product := s.posterior.network.product
	for i, l := range s.posterior.network.layers {
		f, w, z := s.posterior.layers[i], weights[i], scratch[:l.dim*l.out]
		for j, v := range f.variance {
			w[j] = rng.NormFloat64() * math.Sqrt(v/ens)
		}
		if err := product.Multiply(z, f.qa, w, l.dim, l.dim, l.out); err != nil {
			return err
		}
		if err := product.Multiply(w, z, s.turned[i], l.dim, l.out, l.out); err != nil {
			return err
		}
		for j, v := range l.forward {
			w[j] += v
		}
	}
	return nil
}

// Predictor returns a function that is called with the T_ens of the last SetEns.
func (s *Sampled) Predictor() func(logp []float64, i int, t calibrate.Temperatures) (margin float64) {
	predict := s.ensemble.Predictor()
	return func(logp []float64, i int, t calibrate.Temperatures) float64 {
		if t.Ens != s.ens {
			panic(fmt.Sprintf("layers: ensemble temperature %v, want that of SetEns, %v", t.Ens, s.ens))
		}
		return predict(logp, i, t)
	}
}

// transpose returns mᵀ, m [n,n].
func transpose(m []float64, n int) []float64 {
	t := make([]float64, len(m))
	for i := range n {
		for j := range n {
			t[j*n+i] = m[i*n+j]
		}
	}
	return t
}
