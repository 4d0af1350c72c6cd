package calibrate

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// interpolateRows writes f(x_i) to row i of dst [len(x), n] from values of f at far fewer points, and reports
// whether it succeeded. x ascends. f writes n values ≥ 0 whose logarithms are smooth functions of log x, and is
// constant below floor.
//
// The logarithms are interpolated by polynomials in log x at 9, 17, 33 … Chebyshev points. Each doubling keeps
// the old points, and compares their prediction at the new points with f there. The error shrinks geometrically
// with the number of points (Trefethen, Approximation Theory and Approximation Practice, theorem 8.2), so that
// the new error is about the square of the old one. It gives up if the points would be more than half of len(x).
//
// Package interpolative interpolates V too, once it is known, and cannot replace this: it selects rows of V and
// combines them linearly, in float32, since a graph multiplies matrices. Here f is expensive, the points are
// free, and the logarithms need fewer of them and keep V to about 1e-10.
func interpolateRows(dst, x []float64, floor float64, f func(dst []float64, x float64)) bool {
	const (
		tolerance = 1e-5  // relative, of the prediction
		noise     = 1e-13 // of f, relative to the largest of the n values
	)
	n := len(dst) / len(x)
	place := func(x float64) float64 { return math.Log(math.Max(x, floor)) }
	lo := place(x[0])
	hi := math.Max(place(x[len(x)-1]), lo+1e-3)
	node := func(j, m int) float64 {
		return (lo+hi)/2 - (hi-lo)/2*math.Cos(math.Pi*float64(j)/float64(m))
	}
	row := make([]float64, n)
	evaluate := func(logs []float64, at float64, predicted []float64) (good bool) {
		f(row, math.Exp(at))
		var largest float64
		for _, v := range row {
			largest = math.Max(largest, v)
		}
		good = true
		for i, v := range row {
			if predicted != nil && math.Abs(math.Exp(predicted[i])-v) > tolerance*v+noise*largest {
				good = false
			}
			logs[i] = math.Log(math.Max(v, math.Max(noise/2*largest, 1e-300)))
		}
		return good
	}

	m := 8
	nodes, logs := make([]float64, m+1), make([]float64, (m+1)*n)
	for j := range nodes {
		nodes[j] = node(j, m)
		evaluate(logs[j*n:(j+1)*n], nodes[j], nil)
	}
	for good := false; !good; m *= 2 {
		if 2*(2*m+1) > len(x) {
			return false
		}
		fresh := make([]float64, m)
		for j := range fresh {
			fresh[j] = node(2*j+1, 2*m)
		}
		predicted := make([]float64, m*n)
		barycentric(predicted, fresh, nodes, logs)
		finer, finerLogs := make([]float64, 2*m+1), make([]float64, (2*m+1)*n)
		for j, v := range nodes {
			finer[2*j] = v
			copy(finerLogs[2*j*n:], logs[j*n:(j+1)*n])
		}
		good = true
		for j, v := range fresh {
			finer[2*j+1] = v
			good = evaluate(finerLogs[(2*j+1)*n:(2*j+2)*n], v, predicted[j*n:(j+1)*n]) && good
		}
		nodes, logs = finer, finerLogs
	}
	at := make([]float64, len(x))
	for i, v := range x {
		at[i] = place(v)
	}
	barycentric(dst, at, nodes, logs)
	for i, v := range dst {
		dst[i] = math.Exp(v)
	}
	return true
}

// barycentric evaluates the polynomials through values [len(nodes), n] at Chebyshev points of the second kind, at
// each point of at, into dst [len(at), n] (Berrut and Trefethen, Barycentric Lagrange Interpolation, 2004,
// eq. 5.4).
func barycentric(dst, at, nodes, values []float64) {
	m := len(nodes)
	n := len(values) / m
	weights := make([]float64, len(at)*m)
	for i, t := range at {
		row := weights[i*m : (i+1)*m]
		var sum float64
		for j, node := range nodes {
			if t == node {
				clear(row)
				row[j], sum = 1, 1
				break
			}
			w := 1 / (t - node)
			if j%2 == 1 {
				w = -w
			}
			if j == 0 || j == m-1 {
				w /= 2
			}
			row[j] = w
			sum += w
		}
		for j := range row {
			row[j] /= sum
		}
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(weights, len(at), m), general(values, m, n), 0,
		general(dst, len(at), n))
}
