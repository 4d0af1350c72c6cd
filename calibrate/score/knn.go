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

// knnOf is ‖φ/‖φ‖ - z_(k)‖, as √(2 - 2c) of the k-th largest cosine c. It resolves distances down to about 1e-8, where
// cosines are rounded.
func knnOf[V any](t Terms[V], fitted Tensors) V {
	phi := t.Features()
	z := t.Div(phi, t.MaxOf(norm(t, phi), t.Number(leastNorm)))
	directions := fitted.Of("directions")
	k := min(max(1, int(fitted.Of("k").Data[0])), directions.Shape[1])
	cosine := t.Min(t.Largest(t.MatMul(z, constant(t, fitted, "directions")), k))
	// z is a unit vector, or 0 if all features are 0.
	squared := t.Sub(t.Add(t.SumSquares(z), t.Number(1)), t.Add(cosine, cosine))
	return t.Sqrt(t.MaxOf(squared, t.Number(0)))
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
