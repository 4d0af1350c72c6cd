package calibrate

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/internal/parallel"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// panelWidth is the number of columns of a factor in a panel.
const panelWidth = 512

// factor is the upper triangle of an n×n matrix in panels of columns. Panel j has the columns from j·width on and
// all rows down to its last column, so that its rows above any row are contiguous. Below the diagonal it is zero.
//
// It is first a symmetric positive definite matrix M, then U with UᵀU = M, and then U⁻¹. Nearly all of the work
// is products of large matrices.
type factor struct {
	n, width int
	panels   [][]float64
	product  parallel.Product
}

func newFactor(n int, product parallel.Product) *factor { return newFactorOf(panelWidth, n, product) }

func newFactorOf(width, n int, product parallel.Product) *factor {
	f := &factor{n: n, width: width, product: product}
	for first := 0; first < n; first += f.width {
		end := min(n, first+f.width)
		f.panels = append(f.panels, make([]float64, end*(end-first)))
	}
	return f
}

// bounds returns the columns [first,end) of panel j.
func (f *factor) bounds(j int) (first, end int) { return j * f.width, min(f.n, (j+1)*f.width) }

// row returns the part of row r in panel j.
func (f *factor) row(j, r int) []float64 {
	first, end := f.bounds(j)
	return f.panels[j][r*(end-first) : (r+1)*(end-first)]
}

// at points to the element in row r and column c ≥ r.
func (f *factor) at(r, c int) *float64 {
	j := c / f.width
	return &f.row(j, r)[c-j*f.width]
}

// invert replaces M by U⁻¹ of M + εI.
//
// M is semi-definite, so that the least eigenvalue of M + εI is ε or not much more. Rounding in the factorisation
// moves eigenvalues by up to n·2⁻⁵² of the largest entry (Higham, Accuracy and Stability of Numerical Algorithms,
// theorem 10.3): a smaller ε would give the inverse of rounding errors, or none.
func (f *factor) invert(epsilon float64) error {
	var largest float64
	for i := range f.n {
		d := f.at(i, i)
		largest = math.Max(largest, *d)
		*d += epsilon
	}
	ok := epsilon > float64(f.n)*0x1p-52*largest
	if ok {
		var err error
		if ok, err = f.factorise(); err != nil {
			return err
		}
	}
	if !ok {
		return fmt.Errorf("the curvature damped by %.3g is not positive definite in float64: use a larger damping", epsilon)
	}
	return f.invertTriangle()
}

// factorise replaces M by U, with the diagonal blocks of U inverted, and reports whether M was positive
// definite.
func (f *factor) factorise() (bool, error) {
	sums := make([]float64, f.width*f.width)
	for j, panel := range f.panels {
		first, end := f.bounds(j)
		cols := end - first
		for i := range j + 1 {
			above, below := f.bounds(i)
			rows := below - above
			block := panel[above*cols : below*cols]
			// M_ij - Σ_{k<i} U_kiᵀ U_kj
			if s := sums[:rows*cols]; above > 0 {
				clear(s)
				if err := f.product.AddTransposedProduct(s, f.panels[i], panel, above, rows, cols); err != nil {
					return false, err
				}
				for e, v := range s {
					block[e] -= v
				}
			}
			if i < j {
				// U_ij = U_ii⁻ᵀ (…)
				s := sums[:rows*cols]
				clear(s)
				err := f.product.AddTransposedProduct(s, f.panels[i][above*rows:], block, rows, rows, cols)
				if err != nil {
					return false, err
				}
				copy(block, s)
				continue
			}
			tri, ok := lapack64.Potrf(blas64.Symmetric{N: cols, Stride: cols, Data: block, Uplo: blas.Upper})
			if !ok || !lapack64.Trtri(tri) {
				return false, nil
			}
			for r := range cols {
				clear(block[r*cols : r*cols+r])
			}
		}
	}
	return true, nil
}

// invertTriangle replaces the result of factorise by U⁻¹. With W = U⁻¹ of the panels before it, panel j is
// W_jj = U_jj⁻¹ and, above that, -W U_j W_jj.
func (f *factor) invertTriangle() error {
	last := (len(f.panels) - 1) * f.width
	x, part := make([]float64, last*f.width), make([]float64, last*f.width)
	for j, panel := range f.panels {
		first, end := f.bounds(j)
		cols := end - first
		if first == 0 {
			continue
		}
		if err := f.product.Multiply(x, panel, panel[first*cols:], first, cols, cols); err != nil {
			return err
		}
		clear(panel[:first*cols])
		for k := range j {
			above, below := f.bounds(k)
			if err := f.product.Multiply(part, f.panels[k], x[above*cols:], below, below-above, cols); err != nil {
				return err
			}
			for e, v := range part[:below*cols] {
				panel[e] -= v
			}
		}
	}
	return nil
}

// transposed returns the transpose of the rows [first,end), from column first on: [n-first, end-first].
func (f *factor) transposed(first, end int) []float64 {
	width := end - first
	out := make([]float64, (f.n-first)*width)
	for r := first; r < end; r++ {
		for j := r / f.width; j < len(f.panels); j++ {
			from, _ := f.bounds(j)
			for c, v := range f.row(j, r) {
				if from+c >= r {
					out[(from+c-first)*width+r-first] = v
				}
			}
		}
	}
	return out
}

// inverseRows writes the rows [first,end) of M⁻¹ to dst [end-first, n]: those of U⁻¹, which are zero left of
// column first, times lower = U⁻ᵀ, which is transposed(0, n).
func (f *factor) inverseRows(dst, lower []float64, first, end int) error {
	clear(dst)
	return f.product.AddTransposedProduct(dst, f.transposed(first, end), lower[first*f.n:], f.n-first, end-first, f.n)
}

// gram writes the product of the rows [first,end) and their transpose to dst: a diagonal block of
// U⁻¹U⁻ᵀ = M⁻¹.
func (f *factor) gram(dst []float64, first, end int) error {
	clear(dst)
	t := f.transposed(first, end)
	width := end - first
	if err := f.product.AddTransposedProduct(dst, t, t, f.n-first, width, width); err != nil {
		return err
	}
	for i := range width {
		for j := range i {
			dst[i*width+j] = dst[j*width+i]
		}
	}
	return nil
}
