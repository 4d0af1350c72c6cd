// Package oodscores has out-of-distribution scores of the field that mfgs does not have, to compare its own with. As in
// package score they are larger for what is less like the training data, and fitted in one pass: to sums and a sample
// of the training data. Parameters have the values of the authors' code or of OpenOOD's, not ones tuned for a network.
package oodscores

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/eigen"
	"github.com/mfgs/mfgs/internal/parallel"
)

// A Score is one score of the field.
type Score struct {
	Name, Doc, Source string
	fit               func(*score.Training) (formula, error)
}

// formula computes a score, [N,1].
type formula func(score.Terms[score.Rows]) score.Rows

// All are the scores, in the order of tables.
var All = []Score{
	{"mahalanobis_pp", "squared Mahalanobis distance of the features' direction to the nearest class mean",
		"Müller and Hein 2025 (Mahalanobis++)", ofDirections("mahalanobis")},
	{"relative_mahalanobis_pp", "mahalanobis_pp, minus the distance to the mean of all",
		"Müller and Hein 2025 (relative Mahalanobis++)", ofDirections("relative_mahalanobis")},
	{"scale", "energy of features scaled by the share of the largest", "Xu et al. 2024 (SCALE), with p = 85", fitScale},
	{"nnguide", "energy times the mean similarity to the nearest confident training features",
		"Park, Jung and Teoh 2023 (NNGuide), with k = 10", fitNNGuide},
	{"nci", "projection of centred features on the weights of the predicted class, plus a multiple of their size",
		"Liu and Qin 2025 (NCI), with α = 1e-4", fitNCI},
	{"neco", "share of the principal space in the standardised features, times the largest logit",
		"Ammar et al. 2024 (NECO), eq. 6, with components for 90 % of the variance", fitNECO},
	{"class_cosine", "cosine of the features to the nearest class mean", "the cosine alone", fitCosine},
}

// Find returns the score with a name, nil if there is none.
func Find(name string) *Score {
	i := slices.IndexFunc(All, func(s Score) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &All[i]
}

// Fitted is a score ready to be computed.
type Fitted struct{ of formula }

// Fit fits the score to a softmax head and its training data.
func (s *Score) Fit(t *score.Training) (*Fitted, error) {
	if t.Link != layer.Softmax || t.W == nil || t.ClassSums == nil || t.Directions == nil || t.Sample.M == 0 {
		return nil, fmt.Errorf("score %s: it needs a softmax head, its weights, sums by class and a sample", s.Name)
	}
	of, err := s.fit(t)
	if err != nil {
		return nil, fmt.Errorf("score %s: %w", s.Name, err)
	}
	return &Fitted{of}, nil
}

// block bounds the memory: formulas hold a number for each pair of an example and one of the sample.
const block = 64

// Values computes the score of each example from its features and logits. Values that are not finite become +Inf.
func (f *Fitted) Values(x score.Examples) []float64 {
	out := make([]float64, x.N)
	parallel.For((x.N+block-1)/block, func(first, last int) {
		for ; first < last; first++ {
			from, to := first*block, min(x.N, (first+1)*block)
			some := x
			some.N = to - from
			some.Features, some.Logits = x.Features[from*x.D:to*x.D], x.Logits[from*x.K:to*x.K]
			for i, v := range f.of(score.Numbers(some)).Data {
				if v-v != 0 {
					v = math.Inf(1)
				}
				out[from+i] = v
			}
		}
	})
	return out
}

// short avoids a division by 0 for features of length 0.
const short = 1e-12

func norm(t score.Terms[score.Rows], x score.Rows) score.Rows { return t.Sqrt(t.Sum(t.Mul(x, x))) }

func direction(t score.Terms[score.Rows], x score.Rows) score.Rows {
	return t.Div(x, t.MaxOf(norm(t, x), t.Number(short)))
}

func logSumExp(t score.Terms[score.Rows], x score.Rows) score.Rows {
	top := t.Max(x)
	return t.Add(top, t.Log(t.Sum(t.Exp(t.Sub(x, top)))))
}

// layerOf are the logits of changed features.
func layerOf(w, b []float64, d int) func(t score.Terms[score.Rows], phi score.Rows) score.Rows {
	transposed := transpose(w, len(b), d)
	return func(t score.Terms[score.Rows], phi score.Rows) score.Rows {
		return t.Add(t.MatMul(phi, t.Constant("weight", transposed, len(b))), t.Constant("bias", b, len(b)))
	}
}

func transpose(m []float64, rows, columns int) []float64 {
	return mat.DenseCopyOf(mat.NewDense(rows, columns, m).T()).RawMatrix().Data
}

// ofDirections is a score of package score, of φ/‖φ‖ and fitted to such directions of the training data: it has the
// same ridge, 1e-3 of the mean eigenvalue of a covariance.
func ofDirections(name string) func(*score.Training) (formula, error) {
	return func(t *score.Training) (formula, error) {
		s, _ := score.Find(name)
		fitted, err := s.Fit(t.Directions)
		if err != nil {
			return nil, err
		}
		return func(t score.Terms[score.Rows]) score.Rows {
			u := direction(t, t.Features())
			n := len(u.Data) / t.D()
			x := score.Examples{N: n, K: t.K(), D: t.D(), Link: t.Link(), Features: make([]float32, len(u.Data)),
				Logits: make([]float32, n*t.K()), Variance: make([]float64, n*t.K()), Leverage: make([]float64, n)}
			for i, v := range u.Data {
				x.Features[i] = float32(v)
			}
			return score.Rows{Data: fitted.Values(x), Width: 1}
		}, nil
	}
}

// scalePercentile is the share of an example's features that are not among the largest.
const scalePercentile = 0.85

// fitScale is -log Σ exp(W exp(r) φ + b), with r = Σφ / Σφ′ and φ′ the largest 15 % of an example's features.
func fitScale(t *score.Training) (formula, error) {
	layer := layerOf(t.W, t.B, t.D)
	kept := max(1, t.D-int(math.RoundToEven(scalePercentile*float64(t.D))))
	return func(t score.Terms[score.Rows]) score.Rows {
		phi := t.Features()
		r := t.Div(t.Sum(phi), t.Sum(t.Largest(phi, kept)))
		return t.Neg(logSumExp(t, layer(t, t.Mul(phi, t.Exp(r)))))
	}, nil
}

// guides is the number of neighbours, in a bank of all training features or a sample.
const guides = 10

// fitNNGuide is -S·G, with the energy S = log Σ exp a and the mean G of the ten largest S_i cos(φ, φ_i) over the
// examples i of the sample.
func fitNNGuide(t *score.Training) (formula, error) {
	x := score.Numbers(score.Examples{N: t.Sample.M, K: t.K, D: t.D, Link: t.Link, Features: t.Sample.Features})
	bank := x.Mul(direction(x, x.Features()), logSumExp(x, layerOf(t.W, t.B, t.D)(x, x.Features())))
	m := t.Sample.M
	columns := transpose(bank.Data, m, t.D)
	return func(t score.Terms[score.Rows]) score.Rows {
		near := t.Largest(t.MatMul(direction(t, t.Features()), t.Constant("bank", columns, m)), min(guides, m))
		return t.Neg(t.Mul(logSumExp(t, t.Logits()), t.Mean(near)))
	}, nil
}

// nciNorm is α, the weight of the norm.
const nciNorm = 1e-4

// fitNCI is -(w_y·(φ-μ)/‖φ-μ‖ + α‖φ‖₁), with the training mean μ and the class y of the largest logit.
func fitNCI(t *score.Training) (formula, error) {
	weights := transpose(t.W, t.K, t.D)
	mean := scaled(t.Sum, 1/float64(t.N))
	return func(t score.Terms[score.Rows]) score.Rows {
		a, phi := t.Logits(), t.Features()
		along := t.MatMul(direction(t, t.Sub(phi, t.Constant("mean", mean, t.D()))), t.Constant("weight", weights, t.K()))
		of := t.Sub(t.Number(1), t.Greater(t.Max(a), a)) // y, several where logits are equal
		projection := t.Div(t.Sum(t.Mul(of, along)), t.Sum(of))
		return t.Neg(t.Add(projection, t.Mul(t.Number(nciNorm), t.Sum(t.Abs(phi)))))
	}, nil
}

// necoVariance is the share of the variance that the principal components explain.
const necoVariance = 0.9

// fitNECO is -‖Pz‖/‖z‖ · max a, with the standardised features z = (φ-μ)/σ and the projection P on the principal
// components of training z. Features that never vary have σ = 1.
func fitNECO(t *score.Training) (formula, error) {
	d, n := t.D, float64(t.N)
	mean, deviation := scaled(t.Sum, 1/n), make([]float64, d)
	for i := range d {
		deviation[i] = math.Sqrt(max(0, t.Gram[i*d+i]/n-mean[i]*mean[i]))
		if deviation[i] <= 1e-7*math.Sqrt(t.Gram[i*d+i]/n) { // 0 but for rounding
			deviation[i] = 1
		}
	}
	correlations := make([]float64, d*d)
	for i := range d {
		for j := range d {
			correlations[i*d+j] = (t.Gram[i*d+j]/n - mean[i]*mean[j]) / (deviation[i] * deviation[j])
		}
	}
	q, values, err := eigen.Semidefinite(correlations, d, 1)
	if err != nil {
		return nil, err
	}
	var all, rest float64
	for _, v := range values {
		all += v
	}
	first := d - 1 // of the largest eigenvalues, which come last
	for rest = all - values[first]; first > 0 && rest > (1-necoVariance)*all; rest -= values[first] {
		first--
	}
	var principal []float64
	for i := range d {
		principal = append(principal, q[i*d+first:(i+1)*d]...)
	}
	return func(t score.Terms[score.Rows]) score.Rows {
		z := t.Div(t.Sub(t.Features(), t.Constant("mean", mean, d)), t.Constant("deviation", deviation, d))
		share := t.Div(norm(t, t.MatMul(z, t.Constant("principal", principal, d-first))), norm(t, z))
		return t.Neg(t.Mul(share, t.Max(t.Logits())))
	}, nil
}

// fitCosine is -max_c cos(φ, μ_c).
func fitCosine(t *score.Training) (formula, error) {
	var means []float64 // [C,d], of length 1
	for c, n := range t.ClassCounts {
		sum := t.ClassSums[c*t.D : (c+1)*t.D]
		if length := mat.Norm(mat.NewVecDense(t.D, sum), 2); n > 0 && length > 0 {
			means = append(means, scaled(sum, 1/length)...)
		}
	}
	classes := len(means) / t.D
	if classes == 0 {
		return nil, errors.New("all features are 0")
	}
	columns := transpose(means, classes, t.D)
	return func(t score.Terms[score.Rows]) score.Rows {
		return t.Neg(t.Max(t.MatMul(direction(t, t.Features()), t.Constant("means", columns, classes))))
	}, nil
}

func scaled(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = by * v
	}
	return out
}
