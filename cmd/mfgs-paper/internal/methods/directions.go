package methods

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// directionRidge is added to the covariance of directions, as a fraction of its mean eigenvalue.
const directionRidge = 1e-2

// Directions measures how far the direction u = φ/|φ| of features is from those of the training data (Müller and
// Hein 2025, Mahalanobis++): D² = min_c (u-μ_c)ᵀ(S + δI)⁻¹(u-μ_c), with the mean μ_c of each class, their pooled
// covariance S within classes, and δ a hundredth of its mean eigenvalue.
type Directions struct {
	d         int
	whitening []float64 // [d,d], R of (S + δI)⁻¹ = RRᵀ
	means     []float64 // [classes,d], whitened
	product   parallel.Product
}

// NewDirections takes the classes from the labels of the training data or, without labels, from the logits.
func NewDirections(train *rows.Batch, h layer.Head, product parallel.Product) (*Directions, error) {
	if err := checkSoftmax(h); err != nil {
		return nil, err
	}
	if err := calibrate.CheckBatch(h, train, train != nil && train.Labels != nil); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	d := h.Features
	r := &Directions{d: d, product: parallel.OrGo(product)}
	within, means, err := pooled(train, h, classOf(train, h), r.product, direction)
	if err != nil {
		return nil, err
	}
	trace := mat.Trace(within)
	if !(trace > 0) {
		return nil, fmt.Errorf("the directions of the training features do not vary within classes")
	}
	for j := range d {
		within.SetSym(j, j, within.At(j, j)+directionRidge*trace/float64(d))
	}
	if r.whitening, err = whitening(within); err != nil {
		return nil, err
	}
	r.means = make([]float64, len(means))
	return r, r.product.Multiply(r.means, means, r.whitening, len(means)/d, d, d)
}

// classOf returns the classes of examples: their labels or, without labels, those predicted.
func classOf(s *rows.Batch, h layer.Head) func(i int) int {
	return func(i int) int {
		if y := s.Label(i); y >= 0 {
			return y
		}
		_, logits := s.Row(i)
		return h.Predicted(logits)
	}
}

// pooled returns the pooled covariance [d,d] within classes of what of writes for each example, and the means
// [classes,d] of the classes that have examples.
func pooled(
	s *rows.Batch, h layer.Head, class func(i int) int, product parallel.Product, of func(dst []float64, phi []float32),
) (within *mat.SymDense, means []float64, err error) {
	const block = 4096
	d := h.Features
	sums, counts, total := make([]float64, h.Logits*d), make([]float64, h.Logits), make([]float64, d*d)
	x := make([]float64, min(block, s.N)*d)
	for first := 0; first < s.N; first += block {
		n := min(block, s.N-first)
		for i := range n {
			row, y := x[i*d:(i+1)*d], class(first+i)
			phi, _ := s.Row(first + i)
			of(row, phi)
			counts[y]++
			floats.Add(sums[y*d:(y+1)*d], row)
		}
		if err := product.AddTransposedProduct(total, x[:n*d], x[:n*d], n, d, d); err != nil {
			return nil, nil, err
		}
	}
	within = mat.NewSymDense(d, total)
	for y, n := range counts {
		if n == 0 {
			continue
		}
		sum := mat.NewVecDense(d, sums[y*d:(y+1)*d])
		within.SymRankOne(within, -1/n, sum)
		sum.ScaleVec(1/n, sum)
		means = append(means, sum.RawVector().Data...)
	}
	within.ScaleSym(1/float64(s.N), within)
	return within, means, nil
}

// whitening returns R with RRᵀ = S⁻¹: the inverse of U for S = UᵀU.
func whitening(s mat.Symmetric) ([]float64, error) {
	var c mat.Cholesky
	if !c.Factorize(s) {
		return nil, fmt.Errorf("the covariance of the directions is not positive definite")
	}
	var u, inverse mat.TriDense
	c.UTo(&u)
	if err := inverse.InverseTri(&u); err != nil {
		return nil, err
	}
	return mat.DenseCopyOf(&inverse).RawMatrix().Data, nil
}

// direction writes φ/|φ|, zeros for zeros.
func direction(dst []float64, phi []float32) {
	var square float64
	for _, v := range phi {
		square += float64(v) * float64(v)
	}
	scale := 0.0
	if square > 0 {
		scale = 1 / math.Sqrt(square)
	}
	for j, v := range phi {
		dst[j] = scale * float64(v)
	}
}

// Distances returns D of n examples with features phi [n,d].
func (r *Directions) Distances(phi []float32, n int) ([]float64, error) {
	const block = 4096
	out := make([]float64, n)
	u, white := make([]float64, min(block, n)*r.d), make([]float64, min(block, n)*r.d)
	for first := 0; first < n; first += block {
		count := min(block, n-first)
		for i := range count {
			direction(u[i*r.d:(i+1)*r.d], phi[(first+i)*r.d:(first+i+1)*r.d])
		}
		if err := r.product.Multiply(white[:count*r.d], u[:count*r.d], r.whitening, count, r.d, r.d); err != nil {
			return nil, err
		}
		parallel.For(count, func(from, to int) {
			for i := from; i < to; i++ {
				out[first+i] = math.Sqrt(r.nearest(white[i*r.d : (i+1)*r.d]))
			}
		})
	}
	return out, nil
}

// nearest returns the squared distance of a whitened direction to the nearest mean.
func (r *Directions) nearest(white []float64) float64 {
	least, difference := math.Inf(1), make([]float64, r.d)
	vector := blas64.Vector{N: r.d, Inc: 1, Data: difference}
	for at := 0; at < len(r.means); at += r.d {
		for j, v := range white {
			difference[j] = v - r.means[at+j]
		}
		least = math.Min(least, blas64.Dot(vector, vector))
	}
	return least
}
