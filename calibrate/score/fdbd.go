package score

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
)

const (
	// mostBoundaries bounds the classes of fdbd: 4,096 have 128 MiB of distances between them.
	mostBoundaries = 4096
	// leastDistance avoids a division by 0 at the training mean itself.
	leastDistance = 1e-8
)

var fdbd = Score{
	Name: "fdbd", Doc: "mean distance to the decision boundaries, regularised",
	Source:     "Liu, Qin 2024 (fDBD), by the distance to the training mean",
	Similarity: true,
	rows:       fdbdOf[Rows], graph: fdbdOf[string],
	fitted: []TensorSpec{{"mean", []string{"d"}}, {"closeness", []string{"K", "K"}}},
	fit:    fitFDBD,
}

// fdbdOf is -1/(K-1) Σ_{c≠y} |a_y - a_c| / (‖w_y - w_c‖ ‖φ - μ‖), y the class of the largest logit. The
// logits of sigmoids have a boundary each, |a_c| / ‖w_c‖ away.
func fdbdOf[V any](t Terms[V], fitted Tensors) V {
	a, closeness := t.Logits(), constant(t, fitted, "closeness")
	from := t.MaxOf(norm(t, t.Sub(t.Features(), constant(t, fitted, "mean"))), t.Number(leastDistance))
	if t.Link() == layer.Sigmoid {
		return t.Neg(t.Div(t.Mean(t.MatMul(t.Abs(a), closeness)), from))
	}
	top := t.Max(a)
	of := t.Sub(t.Number(1), t.Greater(top, a)) // y, several where logits are equal
	each := t.Div(t.MatMul(of, closeness), t.Sum(of))
	distance := t.Div(t.Sum(t.Mul(t.Sub(top, a), each)), t.Number(float64(t.K()-1)))
	return t.Neg(t.Div(distance, from))
}

// fitFDBD computes the mean of the training features, and 1/‖w_i - w_j‖ for any two classes, 0 if their weights are
// equal. For sigmoids the diagonal is 1/‖w_i‖.
func fitFDBD(t *Training) (Tensors, error) {
	switch {
	case t.W == nil:
		return nil, errNoWeights
	case t.K > mostBoundaries:
		return nil, fmt.Errorf("%w: it needs the boundaries between all pairs of %d classes, want at most %d", ErrNoFit, t.K, mostBoundaries)
	}
	mean := make([]float64, t.D)
	for i, s := range t.Sum {
		mean[i] = s / float64(t.N)
	}
	closeness := make([]float64, t.K*t.K)
	for i := range t.K {
		for j := range i + 1 {
			var squares float64
			for l := range t.D {
				diff := t.W[i*t.D+l]
				if t.Link != layer.Sigmoid {
					diff -= t.W[j*t.D+l]
				}
				squares += diff * diff
			}
			if squares > 0 && (t.Link != layer.Sigmoid || i == j) {
				closeness[i*t.K+j] = 1 / math.Sqrt(squares)
				closeness[j*t.K+i] = closeness[i*t.K+j]
			}
		}
	}
	return Tensors{{"mean", []int{t.D}, mean}, {"closeness", []int{t.K, t.K}, closeness}}, nil
}
