package score

import (
	"fmt"
	"math"
	"slices"
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
	fitted: slices.Concat(nearestColumns, []TensorSpec{fill}),
	fit:    fitColumnKNN,
	needs: func(t Tensors) []TensorSpec {
		if t.has(fill.Name) {
			return slices.Concat(nearestColumns, []TensorSpec{fill})
		}
		return nearestColumns
	},
}

// nearestColumns are the standardised examples, of c columns, and what standardises; fill, [d,c], puts the mean of a
// column in the place of missing values, where there may be any, and leaves out the flags.
var (
	nearestColumns = []TensorSpec{{"column_means", []string{"c"}}, {"column_scales", []string{"c"}},
		{"examples", []string{"c", "m"}}, {"k", []string{"1"}}}
	fill = TensorSpec{"fill", []string{"d", "c"}}
)

// standardisation is the mean of each feature, and the inverse of its standard deviation, 1 where it does not vary.
var standardisation = []TensorSpec{{"column_means", []string{"d"}}, {"column_scales", []string{"d"}}}

// columnsOf returns standardised features.
func columnsOf[V any](t Terms[V], fitted Tensors, phi V) V {
	return t.Mul(t.Sub(phi, constant(t, fitted, "column_means")), constant(t, fitted, "column_scales"))
}

func columnMahalanobisOf[V any](t Terms[V], fitted Tensors) V {
	return nearest(t, fitted, t.Sub(columnsOf(t, fitted, t.Features()), constant(t, fitted, "centre")))
}

// columnKNNOf is the distance to the k-th nearest example.
func columnKNNOf[V any](t Terms[V], fitted Tensors) V {
	phi := t.Features()
	if fitted.has(fill.Name) {
		phi = t.MatMul(phi, constant(t, fitted, fill.Name))
	}
	return nearestOf(t, columnsOf(t, fitted, phi), fitted.Of("examples"), fitted)
}

func fitColumnKNN(t *Training) (Tensors, error) {
	const least, perExample = 5, 1e-3
	filled, by := t.filled()
	s, how, err := filled.standardised()
	if err != nil {
		return nil, err
	}
	how = append(how, by...)
	d, m := s.D, min(s.Sample.M, MostOpen)
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

// filled returns the statistics of columns with their mean in the place of missing values, and the tensor fill, if
// values may be missing; else t and none.
func (t *Training) filled() (*Training, Tensors) {
	if !t.Missing {
		return t, nil
	}
	d, c := t.D, t.D/2
	s := &Training{K: t.K, D: c, Link: t.Link, N: t.N, Gram: make([]float64, c*c), Sum: make([]float64, c),
		Sample: Sample{M: t.Sample.M, Features: make([]float32, t.Sample.M*c)}}
	by := make([]float64, d*c)
	mean := make([]float64, c)
	for j := range mean {
		if there := float64(t.N) - t.Sum[c+j]; there > 0 {
			mean[j] = t.Sum[j] / there
		}
		by[j*c+j], by[(c+j)*c+j] = 1, mean[j]
		s.Sum[j] = t.Sum[j] + mean[j]*t.Sum[c+j]
	}
	for i := range c {
		for j := range c {
			value, flag := t.Gram[i*d:(i+1)*d], t.Gram[(c+i)*d:(c+i+1)*d]
			s.Gram[i*c+j] = value[j] + mean[j]*value[c+j] + mean[i]*(flag[j]+mean[j]*flag[c+j])
		}
	}
	for i := range t.Sample.M {
		row := t.Sample.Features[i*d : (i+1)*d]
		for j := range c {
			s.Sample.Features[i*c+j] = row[j] + float32(mean[j])*row[c+j]
		}
	}
	return s, Tensors{{fill.Name, []int{d, c}, by}}
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
