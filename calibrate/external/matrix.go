package external

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/mfgs/mfgs/internal/eigen"
)

// asymmetry is how far entries of a symmetric matrix may be from each other, as a fraction of what they can be. An
// inverse in float32 may be that far off; a triangular factor is further.
const asymmetry = 1e-3

// symmetrise replaces a matrix of order n by its symmetric part, and refuses it if that is another matrix.
func symmetrise(name string, m []float64, n int) error {
	for i := range n {
		if !(m[i*n+i] >= 0) {
			return fmt.Errorf("%s: entry [%d,%d] is %.6g, want at least 0 on the diagonal", name, i, i, m[i*n+i])
		}
	}
	for i := range n {
		for j := range i {
			a, b := m[i*n+j], m[j*n+i]
			if math.Abs(a-b) > asymmetry*math.Sqrt(m[i*n+i]*m[j*n+j]) {
				return fmt.Errorf("%s is not symmetric: entry [%d,%d] is %.6g, and [%d,%d] is %.6g", name, i, j, a, j, i, b)
			}
			m[i*n+j], m[j*n+i] = (a+b)/2, (a+b)/2
		}
	}
	return nil
}

// invert replaces a symmetric matrix by its inverse. It must be positive definite.
func invert(name string, m []float64, n int) error {
	t, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Data: m, Uplo: blas.Upper})
	if ok {
		_, ok = lapack64.Potri(t)
	}
	if !ok {
		return fmt.Errorf("%s is not positive definite, so that it has no covariance: add the precision of a prior", name)
	}
	for i := range n {
		for j := range i {
			m[i*n+j] = m[j*n+i]
		}
	}
	return nil
}

// semidefinite refuses a symmetric matrix that is not positive semi-definite up to rounding.
func semidefinite(name string, m []float64, n int, rounding float64) error {
	c, largest := append([]float64(nil), m...), 0.0
	for i := range n {
		largest = math.Max(largest, m[i*n+i])
	}
	for i := range n {
		c[i*n+i] += float64(n) * rounding * largest
	}
	if _, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Data: c, Uplo: blas.Upper}); !ok {
		return fmt.Errorf("%s is not positive definite: want a covariance", name)
	}
	return nil
}

// spectrum returns the eigenvectors, in columns, and eigenvalues of a symmetric matrix that is positive semi-definite
// up to rounding.
func spectrum(name string, m []float64, n int, rounding float64) (q, lambda []float64, err error) {
	q = append([]float64(nil), m...)
	if lambda, err = eigen.Sym(q, n); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, v := range lambda {
		if v < -float64(n)*rounding*lambda[n-1] {
			return nil, nil, fmt.Errorf("%s is not positive semi-definite: it has the eigenvalue %.6g, and the largest is %.6g", name, v, lambda[n-1])
		}
		lambda[i] = math.Max(0, v)
	}
	return q, lambda, nil
}
