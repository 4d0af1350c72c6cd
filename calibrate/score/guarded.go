package score

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

var guardedMargin = Score{
	Name:       "guarded_margin",
	Doc:        "the logits' margin over the distance of the features' direction to the predicted class",
	Source:     "docs/methods.md; the distance: Müller and Hein 2025 (Mahalanobis++)",
	Similarity: true,
	rows:       guardedMarginOf[Rows],
	graph:      guardedMarginOf[string],
	fitted:     guarded,
	fit:        fitGuarded,
	needs: func(t Tensors) []TensorSpec {
		if t.has("means") {
			return guarded
		}
		return guards
	},
}

// guards are the 97.5 % quantile h⁺ of the leverages of training examples, each without itself, and the 2.5 % quantile
// n⁻ of the norms of their features. guarded are also the Gaussians of directions, see [ownDistance].
var (
	guards  = []TensorSpec{{"leverage", []string{"1"}}, {"norm", []string{"1"}}}
	guarded = append(guards[:2:2], TensorSpec{"means", []string{"C", "d"}}, TensorSpec{"whitening", []string{"d", "r"}},
		TensorSpec{"weights", []string{"r", "1"}}, TensorSpec{"rest", []string{"1"}})
)

// guardedMarginOf is -m / (n D^1.5 max(1, h/h⁺) max(1, n⁻/n)²) with the margin m, n = |φ| and D the distance of the
// direction φ/n to the predicted class. D, and m/n up to the bias of the layer, depend on the direction only, so
// short features are not scored as in-distribution. Leverage and norm count where they are outside the range of the
// training data.
//
// Without sums by class, such as for multi-label heads, √h takes the place of n D^1.5.
func guardedMarginOf[V any](t Terms[V], fitted Tensors) V {
	const least = 1e-12 // of D², which rounding can make 0
	one, h, n := t.Number(1), t.Leverage(), norm(t, t.Features())
	short := t.MaxOf(one, t.Div(constant(t, fitted, "norm"), n))
	unlike := t.Mul(t.MaxOf(one, t.Div(h, constant(t, fitted, "leverage"))), t.Mul(short, short))
	distance := t.Sqrt(h)
	if fitted.has("means") {
		square := ownDistance(t, fitted, toOwnMean(t, fitted, n))
		square = t.MaxOf(t.Number(least), square)
		distance = t.Mul(n, t.Sqrt(t.Mul(square, t.Sqrt(square))))
	}
	return t.Neg(t.Div(margin(t), t.Mul(distance, unlike)))
}

// toOwnMean is the difference x of the direction φ/n to the mean m of the predicted class. In float32 features whose
// mean c is far larger than their spread would lose the digits of that: with φ' = φ - c, r = |c| and δ = n² - r² it is
//
//	φ'/n + (1/n - 1/r) c - (m - c/r), 1/n - 1/r = -δ / (n r (n+r)), δ = |φ'|² + 2 cᵀφ'.
//
// For features of another length than r that would lose digits, too, and the difference is formed as it is.
func toOwnMean[V any](t Terms[V], fitted Tensors, n V) V {
	means := fitted.Of("means")
	d, c := means.Shape[1], t.Center()
	r := floats.Norm(c, 2)
	if !t.Single() || r == 0 {
		return t.Sub(t.Div(t.Features(), n), t.OfClass("means", means.Data, d))
	}
	away, unit := slices.Clone(means.Data), slices.Clone(c)
	floats.Scale(1/r, unit)
	for i := range away {
		away[i] -= unit[i%d]
	}
	length, one := t.Number(r), t.Number(1)
	near := t.Mul(t.Greater(n, t.Number(r/2)), t.Greater(t.Number(2*r), n))
	centre := t.Mul(t.Constant("centre", c, d), near)
	apart := t.Sub(t.Features(), centre)
	delta := t.Add(t.SumSquares(apart), t.Mul(t.Number(2), t.Sum(t.Mul(apart, centre))))
	turn := t.Div(t.Div(t.Div(delta, n), length), t.Add(n, length))
	direction := t.Sub(t.Div(apart, n), t.Mul(centre, turn))
	rest := t.Mul(t.Constant("centre direction", unit, d), t.Sub(one, near))
	return t.Sub(t.Sub(direction, rest), t.OfClass("means", away, d))
}

// ownDistance is the squared Mahalanobis distance of a direction to the mean of the predicted class, from which it
// differs by x. The covariance has the r largest eigenvalues λ_j of that within classes, and σ² for all others, their
// mean; a ridge δ is added to each (Moghaddam and Pentland 1997). With z_j = q_jᵀx/√(λ_j+δ) it is
//
//	Σ_j z_j² + (|x|² - Σ_j (q_jᵀx)²)/(σ²+δ) = Σ_j (1 - (λ_j+δ)/(σ²+δ)) z_j² + |x|²/(σ²+δ).
//
// This form is for graphs, where the product z takes most of the time: r columns are fewer than d, the nearest class
// would need another product with all means, and most of z may be float32 because x was subtracted in float64. But
// where λ_j is far above σ², terms are far above their sum, and z_j is float64. Where there is float32 alone, the sum
// is that of squares, Σ_j z_j² + |x - Σ_j (q_jᵀx) q_j|²/(σ²+δ), at the price of a second product.
func ownDistance[V any](t Terms[V], fitted Tensors, x V) V {
	whitening, weights := fitted.Of("whitening"), fitted.Of("weights")
	r := len(weights.Data)
	if rest := fitted.Of("rest").Data[0]; t.Single() && rest > 0 {
		d := whitening.Shape[0]
		back := transposed(whitening.Data, d, r)
		for i := range back {
			back[i] *= (1 - weights.Data[i/d]) / rest // λ_j+δ
		}
		z := t.MatMul(x, constant(t, fitted, "whitening"))
		left := t.Sub(x, t.MatMul(z, t.Constant("back", back, d)))
		return t.Add(t.SumSquares(z), t.Mul(t.SumSquares(left), t.Number(rest)))
	}
	from := slices.IndexFunc(weights.Data, func(w float64) bool { return w < -mostWeight }) // the eigenvalues ascend
	single := whitening.Data
	if from < 0 {
		from = r
	} else {
		single = columns(whitening.Data, r, 0, from)
	}
	sum := t.Mul(t.SumSquares(x), constant(t, fitted, "rest"))
	if from > 0 {
		z := t.Project(x, "whitening", single, from)
		sum = t.Add(sum, t.MatMul(t.Mul(z, z), t.Constant("weights", weights.Data[:from], 1)))
	}
	if from < r {
		z := t.MatMul(x, t.Constant("leading", columns(whitening.Data, r, from, r), r-from))
		sum = t.Add(sum, t.MatMul(t.Mul(z, z), t.Constant("weights", weights.Data[from:], 1)))
	}
	return sum
}

// columns returns the columns [from,to) of a row-major matrix.
func columns(x []float64, width, from, to int) []float64 {
	out := make([]float64, 0, len(x)/width*(to-from))
	for ; len(x) > 0; x = x[width:] {
		out = append(out, x[from:to]...)
	}
	return out
}

// directionRidge is the ridge of the directions' covariance, in units of its mean eigenvalue, mostComponents bounds r,
// and mostWeight the weights of what is computed in float32, whose rounding they multiply.
const (
	directionRidge = 1e-2
	mostComponents = 512
	mostWeight     = 64
)

func fitGuarded(t *Training) (Tensors, error) {
	const tail, mostLeverages = 0.025, 1000
	if t.Sample.M == 0 {
		return nil, errNoSample
	}
	if err := t.checkMoments(); err != nil {
		return nil, err
	}
	d, m := t.D, min(t.Sample.M, mostLeverages)
	h, norms := make([]float64, m), make([]float64, m)
	sample := make([]float32, 0, m*d) // evenly spaced: files may be sorted by class
	for i := range m {
		from := i * t.Sample.M / m * d
		sample = append(sample, t.Sample.Features[from:from+d]...)
	}
	if err := t.Leverages(h, sample, m); err != nil {
		return nil, err
	}
	for i := range norms {
		var square float64
		for _, v := range sample[i*d : (i+1)*d] {
			square += float64(v) * float64(v)
		}
		norms[i] = math.Sqrt(square)
	}
	slices.Sort(h)
	slices.Sort(norms)
	high, low := metrics.Quantile(h, 1-tail), metrics.Quantile(norms, tail)
	if !(high > 0) || math.IsInf(high, 0) {
		return nil, fmt.Errorf("%w: the training features do not vary", ErrNoFit)
	}
	fitted := Tensors{{"leverage", []int{1}, []float64{high}}, {"norm", []int{1}, []float64{low}}}
	if t.Directions == nil {
		return fitted, nil
	}
	of, err := t.Directions.fitDirections(mostComponents)
	if errors.Is(err, ErrNoFit) {
		return fitted, nil
	}
	return append(fitted, of...), err
}

// fitDirections computes the tensors of ownDistance, with at most so many components. Classes without examples have the
// mean of all.
func (t *Training) fitDirections(most int) (Tensors, error) {
	g, err := t.gaussians()
	if err != nil {
		return nil, err
	}
	q, lambda, mean, err := t.spectrum(g.within)
	if err != nil {
		return nil, err
	}
	d, classes := t.D, len(t.ClassCounts)
	means := slices.Repeat(g.centre, classes)
	for i, c := range g.classes {
		for j, v := range g.means[i*d : (i+1)*d] {
			means[c*d+j] += v
		}
	}
	for i, v := range means { // as graphs have them
		means[i] = float64(float32(v))
	}
	r := min(d, most)
	left, ridge := d-r, directionRidge*mean // the eigenvalues ascend
	rest := 0.0
	if left > 0 {
		for _, v := range lambda[:left] {
			rest += v / float64(left)
		}
		rest = 1 / (rest + ridge)
	}
	whitening, weights := make([]float64, 0, d*r), make([]float64, r)
	for j, v := range lambda[left:] {
		weights[j] = 1 - (v+ridge)*rest
	}
	for i := range d {
		for j, v := range lambda[left:] {
			whitening = append(whitening, q[i*d+left+j]/math.Sqrt(v+ridge))
		}
	}
	return Tensors{{"means", []int{classes, d}, means}, {"whitening", []int{d, r}, whitening},
		{"weights", []int{r, 1}, weights}, {"rest", []int{1}, []float64{rest}}}, nil
}
