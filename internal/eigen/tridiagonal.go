package eigen

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
)

const (
	// panel is the number of reflections applied together: with many the panels themselves are expensive, with few
	// the matrix passes through the cache too often.
	panel = 32
	// tile is the number of columns processed at a time, so that panel rows of them (128 KB) stay in the
	// second-level cache.
	tile = 512
	// parts is the number of partial sums of a product. It does not depend on the number of processors, so that
	// rounding does not either.
	parts = 16
	// serial is the size up to which a product takes at most some 20 µs, the cost of sharing it out.
	serial = 384
)

// tridiagonal is A = H T Hᵀ, H = H_{n−1} … H_1, H_i = I − τ_i v_i v_iᵀ.
type tridiagonal struct {
	n             int
	diagonal, off []float64 // T: [n], and beside its diagonal [n−1]
	a             []float64 // v_i in row i: i numbers, the last of them 1, then zeros up to the end of the panel
	tau           []float64 // [n], the first unused
}

// tridiagonalise reduces the lower triangle of a, which it overwrites.
//
// H_i takes row i to (0 … 0 β d_i), from the last row up. With A the leading i×i block, H_i A H_i = A − v wᵀ − w
// vᵀ, where w = p − ½ τ (pᵀv) v, p = τAv. The rows of a panel are updated one by one, and the rest of A when the
// panel is done: that half of the operations is then a product of matrices. The other half, Av, must read all of A
// for each row (Dongarra, Sorensen, Hammarling 1989, "Block reduction of matrices to condensed forms for
// eigenvalue computations"). It takes 4/3 n³ operations.
func tridiagonalise(a []float64, n int) *tridiagonal {
	t := &tridiagonal{n: n, diagonal: make([]float64, n), off: make([]float64, max(0, n-1)), a: a,
		tau: make([]float64, n)}
	mirrorBlocks(a, n)
	r := &reduction{tridiagonal: t, w: make([]float64, panel*n), sums: make([]float64, parts*n),
		products: make([]float64, 2*panel)}
	for top := n; top > 0; top -= panel {
		first := max(0, top-panel)
		for i := top - 1; i >= first; i-- {
			r.row(i, first, top)
		}
		r.update(first, top)
	}
	return t
}

// mirrorBlocks completes the panel×panel diagonal blocks of a. The rest of the upper triangle is never used.
func mirrorBlocks(a []float64, n int) {
	for i := range n {
		for j := i + 1; j < min(n, blockEnd(i)); j++ {
			a[i*n+j] = a[j*n+i]
		}
	}
}

// blockEnd returns the end of the diagonal block that holds row i.
func blockEnd(i int) int { return (i/panel + 1) * panel }

// reduction is the work space of tridiagonalise.
type reduction struct {
	*tridiagonal
	w        []float64 // [panel,n], w_i in row i−first
	sums     []float64 // [parts,n]
	products []float64 // [2,panel]
}

// done returns the v_p and w_p of the panel's rows p > i, up to column cols.
func (r *reduction) done(i, first, top, cols int) (v, w matrix) {
	v = matrix{Rows: top - i - 1, Cols: cols, Stride: r.n, Data: r.a[(i+1)*r.n:]}
	w = matrix{Rows: top - i - 1, Cols: cols, Stride: r.n, Data: r.w[(i+1-first)*r.n:]}
	return v, w
}

// subtract subtracts row i of Σ v_p w_pᵀ + w_p v_pᵀ, columns [j0,j0+len(row)), from row.
func subtract(row []float64, v, w matrix, i, j0 int) {
	if v.Rows == 0 {
		return
	}
	addTransTo(row, -1, columns(v, j0, len(row)), column(w, i))
	addTransTo(row, -1, columns(w, j0, len(row)), column(v, i))
}

func column(m matrix, j int) blas64.Vector {
	return blas64.Vector{N: m.Rows, Inc: m.Stride, Data: m.Data[j:]}
}

func columns(m matrix, j, cols int) matrix {
	return matrix{Rows: m.Rows, Cols: cols, Stride: m.Stride, Data: m.Data[j:]}
}

// row updates row i of the panel and computes its v_i and w_i.
func (r *reduction) row(i, first, top int) {
	n := r.n
	v, pending := r.done(i, first, top, i+1)
	row := r.a[i*n : i*n+i+1]
	subtract(row, v, pending, i, 0)
	r.diagonal[i] = row[i]
	clear(r.a[i*n+i : i*n+max(i, top-1)])
	w := r.w[(i-first)*n : (i-first)*n+i]
	clear(w)
	if i == 0 {
		return
	}
	x := row[:i]
	if r.off[i-1], r.tau[i] = householder(x); r.tau[i] == 0 {
		return
	}
	r.multiply(w, x)
	if v.Rows > 0 {
		// A lacks the reflections of the panel so far, which subtract Σ v_p w_pᵀ + w_p v_pᵀ.
		v.Cols, pending.Cols = i, i
		vx, wx := r.products[:v.Rows], r.products[panel:panel+v.Rows]
		clear(r.products)
		addTo(vx, 1, v, x)
		addTo(wx, 1, pending, x)
		addTransTo(w, -1, v, vector(wx))
		addTransTo(w, -1, pending, vector(vx))
	}
	blas64.Scal(r.tau[i], vector(w))
	blas64.Axpy(-0.5*r.tau[i]*blas64.Dot(vector(w), vector(x)), vector(x), vector(w))
}

// householder overwrites x with v, whose last entry is 1, such that I − τvvᵀ takes x to (0 … 0 β) (Golub and Van Loan,
// Matrix Computations, section 5.1). Entries that are too small to square count as zero.
func householder(x []float64) (beta, tau float64) {
	const negligible = 0x1p-800
	last := len(x) - 1
	head, alpha := x[:last], x[last]
	x[last] = 1
	square := blas64.Dot(vector(head), vector(head))
	if square < negligible {
		clear(head)
		return alpha, 0
	}
	beta = -math.Copysign(math.Sqrt(alpha*alpha+square), alpha)
	blas64.Scal(1/(alpha-beta), vector(head))
	return beta, (beta - alpha) / beta
}

// multiply adds A x to y, A the leading len(x) rows and columns. Each part takes a share of the lower triangle,
// and uses each tile twice while it is in the cache: as it is and for the upper triangle.
func (r *reduction) multiply(y, x []float64) {
	n := len(x)
	blocks := (n + panel - 1) / panel
	bound := func(part int) int { // of equal areas
		return min(n, panel*int(math.Round(float64(blocks)*math.Sqrt(float64(part)/parts))))
	}
	share := func(part int) {
		sum := r.sums[part*r.n : part*r.n+bound(part+1)]
		clear(sum)
		for i := bound(part); i < bound(part+1); i += panel {
			end := min(n, i+panel)
			for j := 0; j < i; j += tile {
				cols := min(tile, i-j)
				m := matrix{Rows: end - i, Cols: cols, Stride: r.n, Data: r.a[i*r.n+j:]}
				addTo(sum[i:end], 1, m, x[j:j+cols])
				addTransTo(sum[j:j+cols], 1, m, vector(x[i:end]))
			}
			addTo(sum[i:end], 1, matrix{Rows: end - i, Cols: end - i, Stride: r.n, Data: r.a[i*r.n+i:]}, x[i:end])
		}
	}
	if n <= serial {
		for part := range parts {
			share(part)
		}
	} else {
		parallel(parts, share)
	}
	for part := range parts {
		sum := r.sums[part*r.n : part*r.n+bound(part+1)]
		blas64.Axpy(1, vector(sum), vector(y[:len(sum)]))
	}
}

// update applies the panel to the rows before it.
func (r *reduction) update(first, top int) {
	v, w := r.done(first-1, first, top, 0)
	parallel((first+panel-1)/panel, func(block int) {
		// The longest first, so that the last one to finish is short.
		end := first - block*panel
		for j := 0; j < end; j += tile {
			for i := max(0, end-panel); i < end; i++ {
				if to := min(first, blockEnd(i), j+tile); to > j {
					subtract(r.a[i*r.n+j:i*r.n+to], v, w, i, j)
				}
			}
		}
	})
}

// reflect multiplies each row of z [n,n] by Hᵀ = H_1 … H_{n−1} from the right: vectors in rows become H times
// themselves. It takes 2n³ operations.
//
// A block of reflections is I − VᵀTV with v_i in the rows of V and T upper triangular (Schreiber and Van Loan 1989, "A
// storage-efficient WY representation for products of Householder transformations").
func (t *tridiagonal) reflect(z []float64) {
	n := t.n
	var starts []int // the panels of tridiagonalise, from the first row down
	for first := n - (n+panel-1)/panel*panel; first < n; first += panel {
		starts = append(starts, first)
	}
	factors := make([]float64, len(starts)*panel*panel)
	factor := func(b int) matrix {
		return matrix{Rows: panel, Cols: panel, Stride: panel, Data: factors[b*panel*panel : (b+1)*panel*panel]}
	}
	parallel(len(starts), func(b int) {
		fillFactor(factor(b), t.block(starts[b]), t.tau[max(0, starts[b]):])
	})
	parallel((n+panel-1)/panel, func(chunk int) {
		first := chunk * panel
		rows := matrix{Rows: min(panel, n-first), Cols: n, Stride: n, Data: z[first*n:]}
		scratch := make([]float64, 2*panel*panel)
		for b, start := range starts {
			reflectRows(rows, t.block(start), factor(b), scratch)
		}
	})
}

// block returns V of the panel that starts at a row. The last panel may be short.
func (t *tridiagonal) block(start int) matrix {
	first := max(0, start)
	return matrix{Rows: start + panel - first, Cols: start + panel - 1, Stride: t.n, Data: t.a[first*t.n:]}
}

// fillFactor fills T, column by column: T_jj = τ_j, and above it −τ_j T V v_j.
func fillFactor(factor, v matrix, tau []float64) {
	for j := range v.Rows {
		var products [panel]float64
		before := v
		before.Rows = j
		addTo(products[:j], 1, before, v.Data[j*v.Stride:j*v.Stride+v.Cols])
		for i := range j {
			var sum float64
			for l := i; l < j; l++ {
				sum += factor.Data[i*panel+l] * products[l]
			}
			factor.Data[i*panel+j] = -tau[j] * sum
		}
		factor.Data[j*panel+j] = tau[j]
	}
}

// reflectRows subtracts (z Vᵀ) T V from up to panel rows z.
func reflectRows(z, v, factor matrix, scratch []float64) {
	clear(scratch)
	product := func(r int) []float64 { return scratch[r*panel : r*panel+v.Rows] }
	weight := func(r int) []float64 { return scratch[(panel+r)*panel : (panel+r)*panel+v.Rows] }
	eachTile := func(f func(r int, z []float64, v matrix)) {
		for j := 0; j < v.Cols; j += tile {
			cols := min(tile, v.Cols-j)
			for r := range z.Rows {
				f(r, z.Data[r*z.Stride+j:r*z.Stride+j+cols], columns(v, j, cols))
			}
		}
	}
	eachTile(func(r int, z []float64, v matrix) { addTo(product(r), 1, v, z) })
	factor.Rows, factor.Cols = v.Rows, v.Rows
	for r := range z.Rows {
		addTransTo(weight(r), 1, factor, vector(product(r)))
	}
	eachTile(func(r int, z []float64, v matrix) { addTransTo(z, -1, v, vector(weight(r))) })
}
