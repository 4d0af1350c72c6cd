// Package eigen finds all eigenvalues and eigenvectors of a real symmetric matrix, in three steps:
//
//  1. A = H T Hᵀ with T tridiagonal and H a product of Householder reflections
//     (tridiagonal.go).
//  2. T = Z Λ Zᵀ by divide and conquer (conquer.go). Each merge finds the zeros of a rational function
//     (secular.go).
//  3. Q = H Z, the reflections applied in blocks (tridiagonal.go).
//
// Eigenvectors are kept in rows until the end, so that every step works on contiguous memory. Nearly all of the
// work is products of a few rows of a matrix with a vector, gonum's fastest operation.
//
// The method is backward stable: eigenvalues are correct to a modest multiple of 2⁻⁵² of the largest, and vectors are
// orthonormal to a modest multiple of 2⁻⁵². The result does not depend on GOMAXPROCS.
package eigen

import (
	"fmt"
	"math"
)

// Semidefinite returns the eigenvectors, orthonormal and in columns, and the eigenvalues of scale·m, which is positive
// semi-definite except for rounding: negative values are set to zero. Only the upper triangle of m [n,n] is read.
func Semidefinite(m []float64, n int, scale float64) (q, values []float64, err error) {
	q = make([]float64, n*n)
	for i := range n {
		for j := i; j < n; j++ {
			q[j*n+i] = m[i*n+j] * scale
		}
	}
	if values, err = Sym(q, n); err != nil {
		return nil, nil, err
	}
	for i, v := range values {
		values[i] = math.Max(0, v)
	}
	return q, values, nil
}

// Sym overwrites the symmetric n×n matrix a, row-major, with its eigenvectors, orthonormal and in columns, and
// returns the eigenvalues in ascending order; column j belongs to the j-th. Only the lower triangle of a is read.
// It needs memory for 1.5 n² numbers. After an error, a is undefined.
func Sym(a []float64, n int) (values []float64, err error) {
	if n < 0 || len(a) != n*n {
		panic(fmt.Sprintf("eigen: %d numbers for a %d×%d matrix", len(a), n, n))
	}
	exponent, err := normalise(a, n)
	if err != nil {
		return nil, err
	}
	t := tridiagonalise(a, n)
	z := make([]float64, n*n)
	order := conquerAll(t.diagonal, t.off, z)
	t.reflect(z)
	transpose(a, z, order)
	values = make([]float64, n)
	for j, row := range order {
		values[j] = math.Ldexp(t.diagonal[row], exponent)
		if math.IsInf(values[j], 0) {
			return nil, fmt.Errorf("an eigenvalue of a %d×%d matrix is beyond the largest float64: scale the matrix down", n, n)
		}
	}
	return values, nil
}

// normalise divides the lower triangle of a by the power of two that brings its largest entry into [½, 1). No
// later step can then overflow, and what underflows is negligible.
func normalise(a []float64, n int) (exponent int, err error) {
	var largest float64
	for i := range n {
		for j, v := range a[i*n : i*n+i+1] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, fmt.Errorf("entry (%d,%d) of a %d×%d matrix is %v: only finite ones have eigenvalues", i, j, n, n, v)
			}
			largest = math.Max(largest, math.Abs(v))
		}
	}
	_, exponent = math.Frexp(largest)
	if exponent == 0 {
		return 0, nil
	}
	// In two factors, since 2^-exponent may be out of range.
	half := math.Ldexp(1, -exponent/2)
	rest := math.Ldexp(1, -exponent-(-exponent/2))
	for i := range n {
		for j, v := range a[i*n : i*n+i+1] {
			a[i*n+j] = v * half * rest
		}
	}
	return exponent, nil
}

// transpose writes row order[j] of z to column j of a.
func transpose(a, z []float64, order []int) {
	const tile = 32 // 8 KB of each matrix at a time
	n := len(order)
	parallel((n+tile-1)/tile, func(block int) {
		i0, i1 := block*tile, min(n, (block+1)*tile)
		for j0 := 0; j0 < n; j0 += tile {
			for j, row := range order[j0:min(n, j0+tile)] {
				for i, v := range z[row*n+i0 : row*n+i1] {
					a[(i0+i)*n+j0+j] = v
				}
			}
		}
	})
}
