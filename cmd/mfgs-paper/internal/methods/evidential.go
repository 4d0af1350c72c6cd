package methods

import (
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// Evidence is the function that turns a logit of an evidential classifier into evidence e ≥ 0.
type Evidence string

const (
	ReLU     Evidence = "relu"
	Softplus Evidence = "softplus"
	Exp      Evidence = "exp"
)

// Validate reports an unknown function.
func (e Evidence) Validate() error {
	switch e {
	case ReLU, Softplus, Exp:
		return nil
	}
	return fmt.Errorf("evidence %q, want relu, softplus or exp", e)
}

// logConcentration returns log α, α = e + 1, which is finite for any logit.
func (e Evidence) logConcentration(a float64) float64 {
	switch e {
	case Exp:
		return softplus(a)
	case Softplus:
		return math.Log1p(softplus(a))
	}
	return math.Log1p(max(0, a))
}

// concentration returns α and its derivative.
func (e Evidence) concentration(a float64) (alpha, slope float64) {
	switch e {
	case Exp:
		// Above 200, squares of α overflow.
		v := math.Exp(min(a, 200))
		return 1 + v, v
	case Softplus:
		return 1 + softplus(a), 1 / (1 + math.Exp(-a))
	}
	if a <= 0 {
		return 1, 0
	}
	return 1 + a, 1
}

// softplus returns log(1 + eᵃ).
func softplus(a float64) float64 { return max(a, 0) + math.Log1p(math.Exp(-math.Abs(a))) }

// Evidential predicts the mean of a Dirichlet distribution (Sensoy, Kaplan and Kandemir 2018):
// p_k = α_k/Σα with α = evidence(a/T_act) + 1. It has no T_ens.
type Evidential struct {
	logits   []float32 // [n,K]
	k        int
	evidence Evidence
}

// NewEvidential takes the outputs of an evidential classifier before the evidence function.
func NewEvidential(logits []float32, k int, evidence Evidence) (*Evidential, error) {
	if err := evidence.Validate(); err != nil {
		return nil, err
	}
	if k < 2 || len(logits)%k != 0 {
		return nil, fmt.Errorf("%d logits of %d classes, want at least 2 classes with a logit each", len(logits), k)
	}
	for i, v := range logits {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("example %d: logit %d is %v, want a finite number", i/k, i%k, v)
		}
	}
	return &Evidential{logits, k, evidence}, nil
}

func (e *Evidential) Len() int                { return len(e.logits) / e.k }
func (e *Evidential) Probabilities() int      { return e.k }
func (e *Evidential) MedianVariance() float64 { return 0 }

func (e *Evidential) Predictor() func(logp []float64, i int, t layer.Temperatures) float64 {
	return func(logp []float64, i int, t layer.Temperatures) (margin float64) {
		top := 0
		for c, a := range e.logits[i*e.k : (i+1)*e.k] {
			logp[c] = e.evidence.logConcentration(float64(a) / t.Act)
			if logp[c] > logp[top] {
				top = c
			}
		}
		margin = meanfield.MarginOf(logp)
		highest, others := logp[top], 0.0
		for c := range logp {
			logp[c] -= highest
			if c != top {
				others += math.Exp(logp[c])
			}
		}
		norm := math.Log1p(others)
		for c := range logp {
			logp[c] -= norm
		}
		return margin
	}
}

// EvidentialOptions configures FitEvidential.
type EvidentialOptions struct {
	FitOptions
	Evidence Evidence // default Exp, the only one that also learns 1,000 classes
	// Annealing is the number of epochs until the divergence has full weight. Zero is 10,
	// as the authors', or half of all epochs if that is less.
	Annealing float64
}

// EvidentialLayer is a fitted evidential last layer.
type EvidentialLayer struct {
	Evidence Evidence
	layers   *layers
}

// FitEvidential fits an evidential last layer on the features of labelled training examples, from a random start.
// The loss of an example is the expected squared error under its Dirichlet distribution, plus the divergence of the
// evidence for wrong classes from none (Sensoy et al. 2018, eqs. 5 and 6):
//
//	Σ_k (y_k - p_k)² + p_k(1-p_k)/(S+1) + λ KL(Dir(y + (1-y)⊙α) ‖ Dir(1)),  S = Σα
//
// with λ rising from 0 to 1.
func FitEvidential(ctx context.Context, train *rows.Batch, h layer.Head, o EvidentialOptions) (*EvidentialLayer,
	error) {
	if o.Evidence == "" {
		o.Evidence = Exp
	}
	if err := o.Evidence.Validate(); err != nil {
		return nil, err
	}
	if !(o.Annealing >= 0) {
		return nil, fmt.Errorf("annealing over %v epochs, want a positive number, or zero for the default", o.Annealing)
	}
	t, err := newTrainer(train, h, o.FitOptions, FitOptions{Epochs: 20, Start: 1})
	if err != nil {
		return nil, err
	}
	annealing := o.Annealing
	if annealing == 0 {
		annealing = min(10, float64(t.Epochs)/2)
	}
	l, err := newLayers(h, o.Product, 1)
	if err != nil {
		return nil, err
	}
	l.set(0, t.start(0))
	progress := func(epochs int) { t.Progress(epochs, t.Epochs) }
	err = t.descend(ctx, l.weights, 0, progress, func(z []float64, example int, done float64) {
		evidentialLoss(z, int(train.Labels[example]), o.Evidence, min(1, done/annealing))
	})
	if err != nil {
		return nil, err
	}
	return &EvidentialLayer{o.Evidence, l}, nil
}

// Predictive prepares a set from its features.
func (e *EvidentialLayer) Predictive(ctx context.Context, s *rows.Batch) (calibrate.Predictive, error) {
	logits, err := e.layers.outputs(ctx, s)
	if err != nil {
		return nil, err
	}
	return NewEvidential(logits, e.layers.head.Logits, e.Evidence)
}

// evidentialLoss overwrites logits by the derivatives of the loss.
//
// With s = Σα, q = Σ_k α_k² and r = Σ_k(y_k - p_k)² the error is r + (1 - q/s²)/(s+1). Its derivatives follow from
// p_k = α_k/s, ∂p_k/∂α_j = (δ_kj - p_k)/s. For β = y + (1-y)⊙α with sum b,
// ∂KL/∂β_j = (β_j-1)ψ'(β_j) - (b-K)ψ'(b).
func evidentialLoss(z []float64, y int, evidence Evidence, lambda float64) {
	var s float64
	for _, a := range z {
		alpha, _ := evidence.concentration(a)
		s += alpha
	}
	var q, pull float64 // Σp², Σ_k p_k ∂/∂p_k of the squared error
	var wrong float64   // b - K: evidence for wrong classes
	for c, a := range z {
		alpha, _ := evidence.concentration(a)
		p := alpha / s
		q += p * p
		if c == y {
			pull += 2 * p * (p - 1)
		} else {
			pull += 2 * p * p
			wrong += alpha - 1
		}
	}
	b := wrong + float64(len(z))
	common := wrong * trigamma(b)
	for c, a := range z {
		alpha, slope := evidence.concentration(a)
		p := alpha / s
		off := p
		if c == y {
			off = p - 1
		}
		g := (2*off-pull)/s - 2*(p-q)/(s*(s+1)) - (1-q)/((s+1)*(s+1))
		if c != y {
			g += lambda * ((alpha-1)*trigamma(alpha) - common)
		}
		z[c] = g * slope
	}
}

// trigamma returns ψ'(x) for x > 0 with relative error 1e-13: by ψ'(x) = ψ'(x+1) + 1/x² up to 15, then by the
// asymptotic series (Abramowitz and Stegun, 6.4.12).
func trigamma(x float64) float64 {
	var sum float64
	for x < 15 {
		sum += 1 / (x * x)
		x++
	}
	r := 1 / (x * x)
	return sum + (1+r*(1./6-r*(1./30-r*(1./42-r*(1./30-r*5./66)))))/x + r/2
}
