package score

import (
	"fmt"
	"math"
)

// The columns of a table have units of their own: what compares them divides each by its standard deviation first.

var columnMahalanobis = Score{
	reads: onlyFeatures, Name: "column_mahalanobis", Baseline: true,
	Doc:    "mahalanobis of standardised columns, for features that are a table's columns",
	Source: "Lee et al. 2018, eq. 2, of features minus their mean, over their standard deviation",
	rows:   columnMahalanobisOf[Rows], graph: columnMahalanobisOf[string],
	fitted: append(standardisation, gaussians...),
	fit: func(t *Training) (Tensors, error) {
		s, how, err := t.standardised()
		if err != nil {
			return nil, err
		}
		of, err := fitGaussians(s, ridge)
		return append(how, of...), err
	},
}

var columnKNN = Score{
	reads: onlyFeatures, Name: "column_knn", Baseline: true,
	Doc:    "distance to the k-th nearest training example in standardised columns",
	Source: "Ramaswamy, Rastogi and Shim 2000, definition 2.1, with k the larger of 5 and a thousandth of a sample",
	rows:   columnKNNOf[Rows], graph: columnKNNOf[string],
	fitted: append(standardisation, TensorSpec{"examples", []string{"d", "m"}}, TensorSpec{"k", []string{"1"}}),
	fit:    fitColumnKNN,
}

// standardisation is the mean of each feature, and the inverse of its standard deviation, 1 where it does not vary.
var standardisation = []TensorSpec{{"column_means", []string{"d"}}, {"column_scales", []string{"d"}}}

// columnsOf returns the standardised features.
func columnsOf[V any](t Terms[V], fitted Tensors) V {
	return t.Mul(t.Sub(t.Features(), constant(t, fitted, "column_means")), constant(t, fitted, "column_scales"))
}

func columnMahalanobisOf[V any](t Terms[V], fitted Tensors) V {
	return nearest(t, fitted, t.Sub(columnsOf(t, fitted), constant(t, fitted, "centre")))
}

// columnKNNOf is the root of |z|² + |x|² - 2zᵀx of the k-th nearest example x.
func columnKNNOf[V any](t Terms[V], fitted Tensors) V {
	z := columnsOf(t, fitted)
	examples := fitted.Of("examples")
	d, m := examples.Shape[0], examples.Shape[1]
	squares := make([]float64, m)
	for i, v := range examples.Data[:d*m] {
		squares[i%m] += v * v
	}
	k := min(max(1, int(fitted.Of("k").Data[0])), m)
	products := t.MatMul(z, constant(t, fitted, "examples"))
	near := t.Min(t.Largest(t.Sub(t.Add(products, products), t.Constant("example_squares", squares, m)), k))
	return t.Sqrt(t.MaxOf(t.Sub(t.SumSquares(z), near), t.Number(0)))
}

func fitColumnKNN(t *Training) (Tensors, error) {
	const least, perExample = 5, 1e-3
	s, how, err := t.standardised()
	if err != nil {
		return nil, err
	}
	d, m := t.D, min(s.Sample.M, MostOpen)
	if m == 0 {
		return nil, errNoSample
	}
	x := make([]float64, m*d)
	for i := range m { // evenly spaced: files may be sorted by class
		from := i * s.Sample.M / m * d
		for j, v := range s.Sample.Features[from : from+d] {
			x[i*d+j] = float64(v)
		}
	}
	k := min(max(least, math.Round(perExample*float64(m))), float64(m))
	return append(how, Tensor{"examples", []int{d, m}, transposed(x, m, d)}, Tensor{"k", []int{1}, []float64{k}}), nil
}

// standardised returns the statistics of z = (φ - mean)·scale, and what standardises.
func (t *Training) standardised() (*Training, Tensors, error) {
	if err := t.checkMoments(); err != nil {
		return nil, nil, err
	}
	d, n := t.D, float64(t.N)
	mean, scale := make([]float64, d), make([]float64, d)
	scaleTo(mean, 1/n, t.Sum)
	about := t.about(mean)
	for j := range scale {
		scale[j] = 1
		if v := about[j*d+j] / n; v > 1e-13*t.Gram[j*d+j]/n { // else zero but for rounding
			scale[j] = 1 / math.Sqrt(v)
		}
		if scale[j]-scale[j] != 0 || mean[j]-mean[j] != 0 {
			return nil, nil, fmt.Errorf("%w: column %d has the mean %v and the scale %v", ErrNoFit, j, mean[j], 1/scale[j])
		}
	}
	s := &Training{K: t.K, D: d, Link: t.Link, N: t.N, Gram: about, Sum: make([]float64, d), ClassCounts: t.ClassCounts,
		Sample: Sample{M: t.Sample.M, Features: make([]float32, len(t.Sample.Features))}}
	for i := range d {
		for j := range d {
			about[i*d+j] *= scale[i] * scale[j]
		}
	}
	for i, v := range t.ClassSums {
		s.ClassSums = append(s.ClassSums, (v-float64(t.ClassCounts[i/d])*mean[i%d])*scale[i%d])
	}
	for i, v := range t.Sample.Features {
		s.Sample.Features[i] = float32((float64(v) - mean[i%d]) * scale[i%d])
	}
	return s, Tensors{{"column_means", []int{d}, mean}, {"column_scales", []int{d}, scale}}, nil
}
