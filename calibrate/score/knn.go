package score

import (
	"fmt"
	"math"
)

const (
	// neighbours is the paper's k for 50,000 examples of CIFAR-10. For a sample of m of N examples it is scaled by m/N,
	// as in the paper.
	neighbours = 50
	// leastNorm avoids a division by 0 for features of length 0.
	leastNorm = 1e-12
)

var knn = Score{
	reads: onlyFeatures, Name: "knn", Baseline: true, Doc: "distance to the k-th nearest of the training features",
	Source: "Sun et al. 2022 (KNN), with k = 50 in proportion to a sample",
	rows:   knnOf[Rows], graph: knnOf[string],
	fitted: []TensorSpec{{"directions", []string{"d", "m"}}, {"k", []string{"1"}}},
	fit:    fitKNN,
}

// knnOf is ‖φ/‖φ‖ - z_(k)‖ for the k-th nearest direction. It resolves distances down to about 1e-8, where cosines are
// rounded.
func knnOf[V any](t Terms[V], fitted Tensors) V {
	phi := t.Features()
	z := t.Div(phi, t.MaxOf(norm(t, phi), t.Number(leastNorm)))
	directions := fitted.Of("directions")
	return nearestOf(t, z, directions, fitted) // z is a unit vector, or 0 if all features are 0
}

// nearestOf is the distance of x to the k-th nearest column y, the root of |x|² + |y|² - 2xᵀy. In float32, where these
// may cancel, it is that of the differences to a few columns more than k.
func nearestOf[V any](t Terms[V], x V, columns Tensor, fitted Tensors) V {
	const more = 4 // which might be among the k by rounding
	d, m := columns.Shape[0], columns.Shape[1]
	k := min(max(1, int(fitted.Of("k").Data[0])), m)
	products := t.MatMul(x, t.Constant(columns.Name, columns.Data, m))
	near := t.Sub(t.Add(products, products), t.Constant(columns.Name+" squares", columnSquares(columns), m))
	if t.Single() {
		squares := t.Distances(x, t.Neg(near), min(k+more, m), columns.Name+" by row", transposed(columns.Data, d, m), d)
		return t.Sqrt(t.Neg(t.Min(t.Largest(t.Neg(squares), k))))
	}
	return t.Sqrt(t.MaxOf(t.Sub(t.SumSquares(x), t.Min(t.Largest(near, k))), t.Number(0)))
}

// fitKNN computes the directions of the sample's examples whose features are not all 0.
func fitKNN(t *Training) (Tensors, error) {
	if t.Sample.M == 0 {
		return nil, errNoSample
	}
	d := t.D
	rows := make([]float64, 0, t.Sample.M*d) // [m,d]
	row := make([]float64, d)
	for i := range t.Sample.M {
		var squares float64
		for j, v := range t.Sample.Features[i*d : (i+1)*d] {
			row[j] = float64(v)
			squares += float64(v) * float64(v)
		}
		if length := math.Sqrt(squares); length > leastNorm {
			scaleTo(row, 1/length, row)
			rows = append(rows, row...)
		}
	}
	m := len(rows) / d
	if m == 0 {
		return nil, fmt.Errorf("%w: all features of training examples are 0", ErrNoFit)
	}
	k := math.Round(neighbours * float64(m) / float64(t.N))
	return Tensors{
		{"directions", []int{d, m}, transposed(rows, m, d)},
		{"k", []int{1}, []float64{min(max(1, k), float64(m))}},
	}, nil
}
