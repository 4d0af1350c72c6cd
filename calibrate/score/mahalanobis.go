package score

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/internal/eigen"
)

// ridge is added to the eigenvalues of covariances, in units of their mean, as in the leverage: features that are
// constant in training have eigenvalue 0.
const ridge = 1e-3

var mahalanobis = Score{
	reads: onlyFeatures, Name: "mahalanobis", Doc: "squared distance to the nearest class mean",
	Source: "Lee et al. 2018, eq. 2",
	rows:   mahalanobisOf[Rows], graph: mahalanobisOf[string],
	fitted: gaussians,
	fit:    func(t *Training) (Tensors, error) { return fitGaussians(t, ridge) },
}

var relativeMahalanobis = Score{
	reads: onlyFeatures, Name: "relative_mahalanobis", Baseline: true, Doc: "mahalanobis, minus the distance to the mean of all",
	Source: "Ren et al. 2021 (relative Mahalanobis distance)",
	rows:   relativeMahalanobisOf[Rows], graph: relativeMahalanobisOf[string],
	fitted: append(gaussians, TensorSpec{"background", []string{"d", "d"}}),
	fit: func(t *Training) (Tensors, error) {
		tensors, err := mahalanobis.fitOnce(t)
		if err != nil {
			return nil, err
		}
		return fitBackground(t, tensors, ridge)
	},
}

// gaussians are Gaussians of one precision matrix PPᵀ: the training mean μ, P and, for each class with examples, a
// column Pᵀ(μ_c - μ).
var gaussians = []TensorSpec{{"centre", []string{"d"}}, {"whitening", []string{"d", "d"}}, {"means", []string{"d", "seen"}}}

// mahalanobisOf is min_c (φ - μ_c)ᵀ Σ⁻¹ (φ - μ_c), Σ⁻¹ = PPᵀ, as |z - m_c|² of the class with the largest
// 2 zᵀm_c - |m_c|², with z = Pᵀ(φ - μ).
func mahalanobisOf[V any](t Terms[V], fitted Tensors) V {
	return nearest(t, fitted, t.Sub(t.Features(), constant(t, fitted, "centre")))
}

func nearest[V any](t Terms[V], fitted Tensors, phi V) V {
	z := t.MatMul(phi, constant(t, fitted, "whitening"))
	means := fitted.Of("means")
	classes := means.Shape[1]
	products := t.MatMul(z, constant(t, fitted, "means"))
	near := t.Sub(t.Add(products, products), t.Constant("squares", columnSquares(means), classes))
	d := means.Shape[0]
	return t.SumSquares(t.Sub(z, t.OfLargest(near, "class_means", transposed(means.Data, d, classes), d)))
}

// relativeMahalanobisOf is that less (φ - μ)ᵀ Σ₀⁻¹ (φ - μ), Σ₀ the covariance of all classes together.
func relativeMahalanobisOf[V any](t Terms[V], fitted Tensors) V {
	phi := t.Sub(t.Features(), constant(t, fitted, "centre"))
	var root []float64
	if t.Single() {
		root = rootOfDifference(fitted.Of("whitening"), fitted.Of("background"))
	}
	if root == nil {
		return t.Sub(nearest(t, fitted, phi), t.SumSquares(t.MatMul(phi, constant(t, fitted, "background"))))
	}
	// With x = φ - μ and y = φ - μ_c of the nearest class it is yᵀ(Σ⁻¹ - Σ₀⁻¹)y - (x + y)ᵀΣ₀⁻¹(μ_c - μ): two distances
	// that are nearly equal far out are not formed.
	whitening, background, means := whole(fitted.Of("whitening")), whole(fitted.Of("background")), fitted.Of("means")
	d, classes := means.Shape[0], means.Shape[1]
	doubled := product(whitening, blas.NoTrans, whole(means), blas.NoTrans).Data // 2Σ⁻¹(μ_c - μ)
	scaleTo(doubled, 2, doubled)
	near := t.Sub(t.MatMul(phi, t.Constant("means", doubled, classes)), t.Constant("squares", columnSquares(means), classes))
	back := slices.Clone(means.Data) // P⁻ᵀ is P over the squares of its columns, which are orthogonal
	for j, square := range columnSquares(fitted.Of("whitening")) {
		scaleTo(back[j*classes:(j+1)*classes], 1/square, back[j*classes:(j+1)*classes])
	}
	centred := product(whitening, blas.NoTrans, general(back, d, classes), blas.NoTrans) // μ_c - μ
	pull := product(background, blas.NoTrans, product(background, blas.Trans, centred, blas.NoTrans), blas.NoTrans)
	y := t.Sub(phi, t.OfLargest(near, "class_means", transposed(centred.Data, d, classes), d))
	along := t.Sum(t.Mul(t.Add(phi, y), t.OfLargest(near, "class_pulls", transposed(pull.Data, d, classes), d)))
	return t.Sub(t.SumSquares(t.MatMul(y, t.Constant("difference", root, d))), along)
}

// rootOfDifference returns R with RRᵀ = PPᵀ - QQᵀ = Σ⁻¹ - Σ₀⁻¹, [d,d], or nil if float64 does not hold it. The
// difference is positive semi-definite, as the covariance of all is that within classes and that between them.
func rootOfDifference(p, q Tensor) []float64 {
	d := p.Shape[0]
	m := product(whole(p), blas.NoTrans, whole(p), blas.Trans)
	blas64.Gemm(blas.NoTrans, blas.Trans, -1, whole(q), whole(q), 1, m)
	root, lambda, err := eigen.Semidefinite(m.Data, d, 1)
	if err != nil {
		return nil
	}
	for i := range root {
		root[i] *= math.Sqrt(lambda[i%d])
	}
	return root
}

// columnSquares are the sums of the squares of a matrix's columns.
func columnSquares(x Tensor) []float64 {
	width := x.Shape[1]
	squares := make([]float64, width)
	for i, v := range x.Data {
		squares[i%width] += v * v
	}
	return squares
}

func whole(x Tensor) blas64.General { return general(x.Data, x.Shape[0], x.Shape[1]) }

func fitGaussians(t *Training, ridge float64) (Tensors, error) {
	g, err := t.gaussians()
	if err != nil {
		return nil, err
	}
	d, classes := t.D, len(g.classes)
	if classes > MostOpen {
		return nil, fmt.Errorf("%w: %d classes, want at most %d", ErrNoFit, classes, MostOpen)
	}
	p, err := t.whitening(g.within, ridge)
	if err != nil {
		return nil, err
	}
	// Pᵀm of all, as rows at first: gonum is ten times as fast without transposes.
	whitened := product(general(g.means, classes, d), blas.NoTrans, general(p, d, d), blas.NoTrans).Data
	whitened = transposed(whitened, classes, d)
	return Tensors{
		{"centre", []int{d}, g.centre}, {"whitening", []int{d, d}, p}, {"means", []int{d, classes}, whitened},
	}, nil
}

// fitBackground adds the covariance of all classes together to the tensors of fitGaussians.
func fitBackground(t *Training, tensors Tensors, ridge float64) (Tensors, error) {
	p, err := t.whitening(t.about(tensors.Of("centre").Data), ridge)
	return slices.Concat(tensors, Tensors{{"background", []int{t.D, t.D}, p}}), err
}

// classGaussians are the training mean, the means of the classes with examples from it, and N times the covariance
// within classes.
type classGaussians struct {
	centre  []float64 // [d]
	classes []int     // [C]
	means   []float64 // [C,d]
	within  []float64 // [d,d]
}

// gaussians computes the covariance within classes, (Σφφᵀ - Σ_c n_c μ_c μ_cᵀ)/N, from sums of one pass.
func (t *Training) gaussians() (*classGaussians, error) {
	d := t.D
	if err := t.checkMoments(); err != nil {
		return nil, err
	}
	if t.ClassSums == nil {
		return nil, fmt.Errorf("%w: it needs sums of features by class, which multi-label heads and very large heads do not have",
			ErrNoFit)
	}
	g := &classGaussians{centre: make([]float64, d)}
	scaleTo(g.centre, 1/float64(t.N), t.Sum)
	g.within = t.about(g.centre)
	var weighted []float64 // n_c times the means
	for c, n := range t.ClassCounts {
		if n == 0 {
			continue
		}
		mean := make([]float64, d)
		for i, s := range t.ClassSums[c*d : (c+1)*d] {
			mean[i] = s/float64(n) - g.centre[i]
		}
		g.classes, g.means = append(g.classes, c), append(g.means, mean...)
		scaleTo(mean, float64(n), mean)
		weighted = append(weighted, mean...)
	}
	classes := len(g.classes)
	blas64.Gemm(blas.Trans, blas.NoTrans, -1, general(weighted, classes, d), general(g.means, classes, d),
		1, general(g.within, d, d))
	return g, nil
}

// about returns Σ(φ-u)(φ-u)ᵀ, [d,d].
func (t *Training) about(u []float64) []float64 {
	d := t.D
	m := make([]float64, d*d)
	for i := range d {
		for j := range d {
			m[i*d+j] = t.Gram[i*d+j] - u[i]*t.Sum[j] - t.Sum[i]*u[j] + float64(t.N)*u[i]*u[j]
		}
	}
	return m
}

// whitening returns P with PPᵀ = (m/N + δI)⁻¹, [d,d], δ being ridge times the mean eigenvalue.
func (t *Training) whitening(m []float64, ridge float64) ([]float64, error) {
	q, lambda, mean, err := t.spectrum(m)
	if err != nil {
		return nil, err
	}
	d := t.D
	for i := range d {
		for j := range d {
			q[i*d+j] /= math.Sqrt(lambda[j] + ridge*mean)
		}
	}
	return q, nil
}

// spectrum returns the eigenvectors of m/N, in columns, its eigenvalues in ascending order, and their mean.
func (t *Training) spectrum(m []float64) (q, lambda []float64, mean float64, err error) {
	d := t.D
	if q, lambda, err = eigen.Semidefinite(m, d, 1/float64(t.N)); err != nil {
		return nil, nil, 0, fmt.Errorf("a covariance of features has no eigenvalues: %w", err)
	}
	var squares float64
	for i, v := range lambda {
		mean += v / float64(d)
		squares += t.Gram[i*d+i] / float64(t.N*d)
	}
	if mean <= 1e-13*squares { // zero but for rounding
		return nil, nil, 0, fmt.Errorf("%w: features do not vary within classes", ErrNoFit)
	}
	return q, lambda, mean, nil
}
