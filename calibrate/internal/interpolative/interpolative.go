// Package interpolative finds interpolative decompositions: a few rows of a matrix that give all others.
package interpolative

import "math"

const (
	// Tolerance is the relative error of every single number that is interpolated:
	// some units in the last place of a float32.
	Tolerance = 2e-6
	// rowNodes is how many rows a polynomial goes through.
	rowNodes = 12
)

// Rows finds few of the rows of x, [len(t),cols], positive, that give all others:
// x is left·right to within Tolerance of every number, right [S,cols] being rows of
// x, and left [len(t),S] at most rowNodes numbers in every row. It reports whether S is
// small enough to be worth it. t ascends, and the rows are smooth functions of it.
//
// Rows are interpolated by polynomials over pieces of t, which are halved until they are short
// enough. A few terms near to what they make are no larger than that, so that neither large rows
// nor large columns take digits from small ones, as they would in a singular value decomposition.
func Rows(x, t []float64, cols int) (left, right []float64, ok bool) {
	s := selection{x: x, t: t, cols: cols, most: len(t) / 4, weights: make([][]float64, len(t)), first: make([]int,
		len(t))}
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
	first   []int       // of each row: the place in rows of the first that it is made of
	weights [][]float64 // and how much of each
}

// pieces deals with the rows from lo to before hi.
func (s *selection) pieces(lo, hi int) {
	if s.failed || hi-lo <= rowNodes {
		for i := lo; i < hi && !s.failed; i++ {
			s.first[i], s.weights[i] = len(s.rows), []float64{1}
			s.add(i)
		}
		return
	}
	// Where λ_A is next to nothing all rows are alike.
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

// nodes returns the rows nearest to the Chebyshev points of a piece, or nil where they
// would not be different ones.
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

// interpolate sets the weights of a piece's rows, and reports whether they are good
// enough in float32.
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
