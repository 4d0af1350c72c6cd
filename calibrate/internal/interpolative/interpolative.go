// Package interpolative finds interpolative decompositions: a few rows of a matrix from which all others follow.
package interpolative

import "math"

const (
	// Tolerance is the relative error of every interpolated number: some units in the last place of a float32.
	Tolerance = 2e-6
	// rowNodes is the number of rows that a polynomial interpolates.
	rowNodes = 12
)

// Rows finds a few rows of x [len(t),cols] from which all others follow: x is left·right to within Tolerance of every
// number, where right [S,cols] are rows of x, and left [len(t),S] has at most rowNodes nonzeros per row. It reports
// whether S is small enough to be worth it. t ascends, and the rows of x are positive and smooth functions of it.
//
// Rows are interpolated by polynomials over pieces of t, which are halved until they are short enough. The terms of a
// sum are then no larger than the sum, so that neither large rows nor large columns take digits from small ones, as
// they would in a singular value decomposition.
func Rows(x, t []float64, cols int) (left, right []float64, ok bool) {
	s := selection{x: x, t: t, cols: cols, most: len(t) / 4, weights: make([][]float64, len(t)),
		first: make([]int, len(t))}
	s.pieces(0, len(t))
	if s.failed || len(s.rows) > s.most {
		return nil, nil, false
	}
	left = make([]float64, len(t)*len(s.rows))
	for i, w := range s.weights {
		copy(left[i*len(s.rows)+s.first[i]:], w)
	}
	for _, i := range s.rows {
		right = append(right, x[i*cols:(i+1)*cols]...)
	}
	return left, right, true
}

type selection struct {
	x, t   []float64
	cols   int
	most   int
	failed bool

	rows    []int       // chosen
	first   []int       // for each row, the index in rows of the first row in its sum
	weights [][]float64 // and the weights of these rows
}

// pieces selects rows for the piece [lo,hi).
func (s *selection) pieces(lo, hi int) {
	if s.failed || hi-lo <= rowNodes {
		for i := lo; i < hi && !s.failed; i++ {
			s.first[i], s.weights[i] = len(s.rows), []float64{1}
			s.add(i)
		}
		return
	}
	// Where λ_A is negligible all rows are equal.
	for _, nodes := range [][]int{{lo}, s.nodes(lo, hi)} {
		if nodes == nil || !s.interpolate(nodes, lo, hi) {
			continue
		}
		for i := lo; i < hi; i++ {
			s.first[i] = len(s.rows)
		}
		for _, i := range nodes {
			s.add(i)
		}
		return
	}
	middle := lo + 1
	for middle < hi-1 && s.t[middle] < (s.t[lo]+s.t[hi-1])/2 {
		middle++
	}
	s.pieces(lo, middle)
	s.pieces(middle, hi)
}

func (s *selection) add(i int) {
	s.rows = append(s.rows, i)
	s.failed = len(s.rows) > s.most
}

// nodes returns the rows nearest to the Chebyshev points of a piece, or nil unless they are distinct.
func (s *selection) nodes(lo, hi int) []int {
	middle, half := (s.t[lo]+s.t[hi-1])/2, (s.t[hi-1]-s.t[lo])/2
	var nodes []int
	next := lo
	for j := range rowNodes {
		want := middle - half*math.Cos(math.Pi*float64(j)/(rowNodes-1))
		for next < hi-1 && math.Abs(s.t[next+1]-want) <= math.Abs(s.t[next]-want) {
			next++
		}
		if len(nodes) > 0 && s.t[next] <= s.t[nodes[len(nodes)-1]] {
			return nil
		}
		nodes = append(nodes, next)
	}
	return nodes
}

// interpolate sets the weights of the rows of a piece, and reports whether they are good enough in float32.
func (s *selection) interpolate(nodes []int, lo, hi int) bool {
	got := make([]float64, s.cols)
	for i := lo; i < hi; i++ {
		w := make([]float64, len(nodes))
		for j, a := range nodes {
			l := 1.0
			for _, b := range nodes {
				if a != b {
					l *= (s.t[i] - s.t[b]) / (s.t[a] - s.t[b])
				}
			}
			w[j] = float64(float32(l))
		}
		clear(got)
		for j, a := range nodes {
			for c, v := range s.x[a*s.cols : (a+1)*s.cols] {
				got[c] += w[j] * float64(float32(v))
			}
		}
		for c, v := range s.x[i*s.cols : (i+1)*s.cols] {
			if !(math.Abs(got[c]-v) <= Tolerance*v) {
				return false
			}
		}
		s.weights[i] = w
	}
	return true
}
