package score

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

var guardedMargin = Score{
	Name:       "guarded_margin",
	Doc:        "the logits' margin over the distance of the features' direction to the nearest class",
	Source:     "docs/methods.md; the distance: Müller and Hein 2025 (Mahalanobis++)",
	Similarity: true,
	rows:       guardedMarginOf[Rows],
	graph:      guardedMarginOf[string],
	fitted:     guarded,
	fit:        fitGuarded,
	needs: func(t Tensors) []TensorSpec {
		if slices.ContainsFunc(t, func(t Tensor) bool { return t.Name == "whitening" }) {
			return guarded
		}
		return guards
	},
}

// guards are the 97.5 % quantile h⁺ of the leverages of training examples, each without itself, and the 2.5 % quantile
// n⁻ of the norms of their features. guarded are also the Gaussians of directions.
var (
	guards  = []TensorSpec{{"leverage", []string{"1"}}, {"norm", []string{"1"}}}
	guarded = append(guards[:2:2], gaussians...)
)

// guardedMarginOf is -m / (n D² max(1, h/h⁺) max(1, n⁻/n)²) with the margin m, n = |φ| and D² the [mahalanobis] of the
// direction φ/n. D², and m/n up to the bias of the layer, depend on the direction only, so short features are not
// scored as in-distribution. Leverage and norm count where they are outside the range of the training data.
//
// Without sums by class, such as for multi-label heads, √h takes the place of n D².
func guardedMarginOf[V any](t Terms[V], fitted Tensors) V {
	const least = 1e-12 // of D², which rounding can make 0
	one, h, n := t.Number(1), t.Leverage(), norm(t, t.Features())
	short := t.MaxOf(one, t.Div(constant(t, fitted, "norm"), n))
	unlike := t.Mul(t.MaxOf(one, t.Div(h, constant(t, fitted, "leverage"))), t.Mul(short, short))
	distance := t.Sqrt(h)
	if slices.ContainsFunc(fitted, func(t Tensor) bool { return t.Name == "whitening" }) {
		u := t.Div(t.Features(), n)
		square := nearest(t, fitted, t.Sub(u, constant(t, fitted, "centre")))
		distance = t.Mul(n, t.MaxOf(t.Number(least), square))
	}
	return t.Neg(t.Div(margin(t), t.Mul(distance, unlike)))
}

// directionRidge is the ridge of the directions' covariance, in units of its mean eigenvalue.
const directionRidge = 1e-2

func fitGuarded(t *Training) (Tensors, error) {
	h, err := t.sampleLeverages()
	if err != nil {
		return nil, err
	}
	d := t.D
	norms := make([]float64, len(h))
	for i := range norms {
		var square float64
		for _, v := range t.Sample.Features[i*d : (i+1)*d] {
			square += float64(v) * float64(v)
		}
		norms[i] = math.Sqrt(square)
	}
	slices.Sort(h)
	slices.Sort(norms)
	const tail = 0.025
	high, low := metrics.Quantile(h, 1-tail), metrics.Quantile(norms, tail)
	if !(high > 0) || math.IsInf(high, 0) {
		return nil, fmt.Errorf("%w: the training features do not vary", ErrNoFit)
	}
	fitted := Tensors{{"leverage", []int{1}, []float64{high}}, {"norm", []int{1}, []float64{low}}}
	if t.Directions == nil {
		return fitted, nil
	}
	of, err := fitGaussians(t.Directions, directionRidge)
	if errors.Is(err, ErrNoFit) {
		return fitted, nil
	}
	return append(fitted, of...), err
}

// sampleLeverages returns the leverages of at most mostLeverages examples of the sample, each without itself (see
// [calibrate.Posterior.LeaveOneOut]).
func (t *Training) sampleLeverages() ([]float64, error) {
	const mostLeverages = 1000
	if t.Sample.M == 0 {
		return nil, fmt.Errorf("%w: it needs a sample of the training data", ErrNoFit)
	}
	if err := t.checkMoments(); err != nil {
		return nil, err
	}
	d, m := t.D, min(t.Sample.M, mostLeverages)
	order := d
	if t.Bias {
		order++
	}
	a, trace := mat.NewSymDense(order, nil), 0.0
	for i := range d {
		for j := i; j < d; j++ {
			a.SetSym(i, j, t.Gram[i*d+j])
		}
		if t.Bias {
			a.SetSym(i, d, t.Sum[i])
		}
		trace += t.Gram[i*d+i]
	}
	if t.Bias {
		a.SetSym(d, d, float64(t.N))
		trace += float64(t.N)
	}
	for i := range order {
		a.SetSym(i, i, a.At(i, i)+ridge*trace/float64(order))
	}
	var c mat.Cholesky
	if !c.Factorize(a) {
		return nil, fmt.Errorf("%w: the training features do not vary", ErrNoFit)
	}
	// With A + δI = UᵀU the leverage is |U⁻ᵀφ|².
	x := make([]float64, order*m)
	for i := range m {
		for j, v := range t.Sample.Features[i*d : (i+1)*d] {
			x[j*m+i] = float64(v)
		}
		if t.Bias {
			x[d*m+i] = 1
		}
	}
	blas64.Trsm(blas.Left, blas.Trans, 1, c.RawU().(*mat.TriDense).RawTriangular(), general(x, order, m))
	h := make([]float64, m)
	for j := range order {
		for i, v := range x[j*m : (j+1)*m] {
			h[i] += v * v
		}
	}
	const rest = 1e-9 // of 1-h, which is positive but for rounding
	for i, v := range h {
		h[i] = v / math.Max(1-v, rest)
	}
	return h, nil
}
