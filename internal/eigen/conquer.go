package eigen

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas64"
)

// apart is the size from which the halves of a block are solved in parallel.
const apart = 64

// conquest is the eigenvalues and, in the rows of z, eigenvectors of the diagonal blocks of T solved so far. Row r
// of z belongs to value[r]. Rows are unordered, and zero outside the columns of their block.
type conquest struct {
	n     int
	value []float64 // [n], initially the diagonal of T
	off   []float64 // [n−1]
	z     []float64 // [n,n]
}

// conquerAll overwrites diagonal with the eigenvalues of T, and z, which is zero, with its eigenvectors in rows.
// It returns the rows in ascending order of their eigenvalues.
//
// Without the entry β that couples rows m−1 and m, T consists of two blocks. With |β| subtracted from the diagonal
// entries beside it, T is the two blocks plus ρuuᵀ, ρ = |β|, u = (0 … 0 1 ±1 0 … 0). In the basis of the blocks'
// eigenvectors that is D + ρzzᵀ, a diagonal matrix plus one of rank one: Cuppen 1981, "A divide and conquer method
// for the symmetric tridiagonal eigenproblem". It takes at most 4/3 n³ operations in products of matrices, and far
// fewer if many eigenvectors of the blocks are eigenvectors of T already.
func conquerAll(diagonal, off, z []float64) (order []int) {
	n := len(diagonal)
	c := &conquest{n: n, value: diagonal, off: off, z: z}
	return c.solve(0, n, make([]float64, (n*n+1)/2))
}

// solve solves the block of rows [lo,hi) recursively. work has half the area of the block.
func (c *conquest) solve(lo, hi int, work []float64) (order []int) {
	if hi-lo < 2 {
		for row := lo; row < hi; row++ {
			c.z[row*c.n+row] = 1
			order = append(order, row)
		}
		return order
	}
	mid := (lo + hi) / 2
	rho := math.Abs(c.off[mid-1])
	c.value[mid-1] -= rho
	c.value[mid] -= rho
	var halves [2][]int
	solveHalf := func(i int) {
		if i == 0 {
			halves[0] = c.solve(lo, mid, work[:(mid-lo)*(mid-lo)])
		} else {
			halves[1] = c.solve(mid, hi, work[(mid-lo)*(mid-lo):])
		}
	}
	if hi-lo < apart {
		solveHalf(0)
		solveHalf(1)
	} else {
		parallel(2, solveHalf)
	}
	m := &merge{conquest: c, lo: lo, mid: mid, hi: hi, order: c.sorted(append(halves[0], halves[1]...))}
	m.run(work)
	return c.sorted(m.order)
}

// sorted sorts rows by their values.
func (c *conquest) sorted(rows []int) []int {
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(c.value[a], c.value[b]) })
	return rows
}

// merge joins two blocks, the rows [lo,mid) and [mid,hi).
type merge struct {
	*conquest
	lo, mid, hi int
	order       []int // the rows in ascending order

	rho     float64
	weight  []float64 // z by row, from lo, of norm 1
	side    []int8    // by row, from lo: where the row is nonzero
	kept    []int     // the rows, ascending, whose vectors change
	zeros   []zero    // by kept row: its new eigenvalue
	changed []float64 // by kept row: the z that has exactly these eigenvalues
}

const (
	leftOnly int8 = iota // the columns before mid
	bothSides
	rightOnly
)

func (m *merge) run(work []float64) {
	m.couple()
	m.deflate()
	if len(m.kept) == 0 {
		return
	}
	m.solveSecular()
	m.multiply(work)
	for i, row := range m.kept {
		m.value[row] = m.zeros[i].value()
	}
}

// couple finds ρ and z: u in the basis of the eigenvectors.
func (m *merge) couple() {
	beta := m.off[m.mid-1]
	m.rho = 2 * math.Abs(beta) // ‖u‖² = 2
	sign := math.Copysign(1, beta)
	m.weight, m.side = make([]float64, m.hi-m.lo), make([]int8, m.hi-m.lo)
	for r := range m.weight {
		row := m.z[(m.lo+r)*m.n:]
		if m.lo+r < m.mid {
			m.weight[r], m.side[r] = row[m.mid-1]*math.Sqrt2/2, leftOnly
		} else {
			m.weight[r], m.side[r] = sign*row[m.mid]*math.Sqrt2/2, rightOnly
		}
	}
}

// deflate finds the eigenvectors of the blocks that are eigenvectors of the merged block to working accuracy:
// those with a negligible z_i and, for two nearly equal eigenvalues, the combination of the vectors that makes z_i
// zero (Dongarra and Sorensen 1987, "A fully parallel algorithm for the symmetric eigenvalue problem"). Each time,
// what is neglected has a norm of at most tolerance.
func (m *merge) deflate() {
	// The first bound keeps numbers that are squared and inverted later in range. The second is about the rounding
	// error of a merge: from 1 to 8 ε neither time nor errors change; 16 ε shows in the eigenvalues.
	const negligible, rounding = 0x1p-200, 4 * epsilon
	largest := math.Max(math.Abs(m.value[m.order[0]]), math.Abs(m.value[m.order[len(m.order)-1]]))
	tolerance := math.Max(negligible, rounding*math.Max(largest, m.rho))
	last := -1
	for _, row := range m.order {
		if w := m.weight[row-m.lo]; m.rho*math.Abs(w) <= tolerance {
			m.value[row] += m.rho * w * w // which keeps the trace
			continue
		}
		if last >= 0 && !m.combine(last, row, tolerance) {
			m.kept = append(m.kept, last)
		}
		last = row
	}
	if last >= 0 {
		m.kept = append(m.kept, last)
	}
}

// combine rotates the vectors of two rows, a before b in order, so that z is 0 in a, if the off-diagonal entry
// that this makes is within the tolerance.
func (m *merge) combine(a, b int, tolerance float64) bool {
	za, zb := &m.weight[a-m.lo], &m.weight[b-m.lo]
	norm := math.Hypot(*za, *zb)
	cos, sin := *zb/norm, *za/norm
	da, db := m.value[a], m.value[b]
	if math.Abs((db-da)*cos*sin) > tolerance {
		return false
	}
	*za, *zb = 0, norm
	shift := (db - da) * sin * sin
	m.value[a], m.value[b] = da+shift, db-shift
	blas64.Rot(vector(m.z[b*m.n+m.lo:b*m.n+m.hi]), vector(m.z[a*m.n+m.lo:a*m.n+m.hi]), cos, sin)
	if m.side[a-m.lo] != m.side[b-m.lo] {
		m.side[b-m.lo] = bothSides
	}
	return true
}

// solveSecular finds the eigenvalues λ of D + ρzzᵀ, and then the ẑ for which they are exactly the eigenvalues of D
// + ρẑẑᵀ (Löwner's formula),
//
//	ẑ_i² ∝ (λ_i − d_i) Π_{j≠i} (λ_j − d_i)/(d_j − d_i).
//
// The vectors computed from ẑ are orthogonal to working accuracy, however close the eigenvalues are, and ẑ is near
// z: Gu and Eisenstat 1995, "A divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem".
func (m *merge) solveSecular() {
	k := len(m.kept)
	s := &secular{d: make([]float64, k), square: make([]float64, k), inverse: 1 / m.rho}
	for i, row := range m.kept {
		w := m.weight[row-m.lo]
		s.d[i], s.square[i] = m.value[row], w*w
		s.norm2 += w * w
	}
	m.zeros, m.changed = make([]zero, k), make([]float64, k)
	each(k, func(j int) { m.zeros[j] = s.zero(j) })
	each(k, func(i int) {
		d := s.d[i]
		product := m.zeros[i].to(d)
		for j, l := range m.zeros[:i] {
			product *= l.to(d) / (d - s.d[j])
		}
		for j, l := range m.zeros[i+1:] {
			product *= l.to(d) / (d - s.d[i+1+j])
		}
		m.changed[i] = math.Copysign(math.Sqrt(math.Abs(product)), m.weight[m.kept[i]-m.lo])
	})
}

// each calls f for 0 … n−1 in parallel, in shares that are worth a switch.
func each(n int, f func(i int)) {
	const share = 32
	parallel((n+share-1)/share, func(block int) {
		for i := block * share; i < min(n, (block+1)*share); i++ {
			f(i)
		}
	})
}

// multiply replaces the kept rows by their combinations, the eigenvectors of D + ρẑẑᵀ: v_i = ẑ_i/(d_i − λ),
// normalised. Rows that are zero on one side of mid are left out of the product there. A rotation that makes a row
// nonzero on both sides has removed another row, so that each side has at most as many rows as columns.
func (m *merge) multiply(work []float64) {
	k := len(m.kept)
	grouped := make([]int, 0, k) // into kept, by side
	var ends [3]int
	for side := range ends {
		for i, row := range m.kept {
			if m.side[row-m.lo] == int8(side) {
				grouped = append(grouped, i)
			}
		}
		ends[side] = len(grouped)
	}
	endLeft, startRight := ends[bothSides], ends[leftOnly]
	left := m.pack(work, grouped[:endLeft], m.lo, m.mid)
	right := m.pack(work[len(left.Data):], grouped[startRight:], m.mid, m.hi)
	d := make([]float64, k)
	for p, i := range grouped {
		d[p] = m.value[m.kept[i]]
	}
	buffers := sync.Pool{New: func() any { b := make([]float64, panel*k); return &b }}
	parallel((k+panel-1)/panel, func(block int) {
		rows := m.kept[block*panel : min(k, (block+1)*panel)]
		buffer := buffers.Get().(*[]float64)
		defer buffers.Put(buffer)
		for r := range rows {
			v := (*buffer)[r*k : (r+1)*k]
			for p, i := range grouped {
				v[p] = m.changed[i] / m.zeros[block*panel+r].to(d[p])
			}
			blas64.Scal(1/blas64.Nrm2(vector(v)), vector(v))
		}
		m.product(rows, m.lo, left, *buffer, k)
		m.product(rows, m.mid, right, (*buffer)[startRight:], k)
	})
}

// pack copies the columns [lo,hi) of some kept rows.
func (m *merge) pack(dst []float64, kept []int, lo, hi int) matrix {
	cols := hi - lo
	for p, i := range kept {
		copy(dst[p*cols:(p+1)*cols], m.z[m.kept[i]*m.n+lo:])
	}
	return matrix{Rows: len(kept), Cols: cols, Stride: cols, Data: dst[:len(kept)*cols]}
}

// product sets the columns from lo on of some rows of z to combinations of the rows of old, with weights stride apart.
func (m *merge) product(rows []int, lo int, old matrix, weights []float64, stride int) {
	for j := 0; j < old.Cols; j += tile {
		cols := min(tile, old.Cols-j)
		for _, row := range rows {
			clear(m.z[row*m.n+lo+j : row*m.n+lo+j+cols])
		}
		for p := 0; p < old.Rows; p += panel {
			end := min(old.Rows, p+panel)
			part := matrix{Rows: end - p, Cols: cols, Stride: old.Stride, Data: old.Data[p*old.Stride+j:]}
			for r, row := range rows {
				addTransTo(m.z[row*m.n+lo+j:row*m.n+lo+j+cols], 1, part, vector(weights[r*stride+p:r*stride+end]))
			}
		}
	}
}
