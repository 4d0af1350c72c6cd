package calibrate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/mfgs/mfgs/calibrate/internal/interpolative"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/eigen"
)

// singleTolerance is the relative error of a form up to which float32 is good enough.
const singleTolerance = 3e-5

// Quadratic returns the posterior's quadratic forms.
func (p *Posterior) Quadratic() (*layer.Quadratic, error) {
	d, features := p.Head.Dim(), p.Head.Features
	// The second moments of the augmented features are root·rootᵀ, up to a factor.
	var root []float64
	mean := make([]float64, d)
	q := &layer.Quadratic{Forms: p.Head.Logits + 1, Ratio: p.varianceRatio()}
	var projection []float64 // [D,R], for augmented features
	if p.Structure == Kronecker && p.Covariance != External {
		scale := unitScale(p.LambdaA)
		projection, root = make([]float64, d*d), make([]float64, d*d)
		for i := range d {
			for j, l := range p.LambdaA {
				projection[i*d+j] = p.QA[i*d+j] * scale
				root[i*d+j] = p.QA[i*d+j] * math.Sqrt(l)
			}
		}
		q.Reduction, q.Weights = p.weights()
		for i := range q.Weights {
			q.Weights[i] /= scale * scale
		}
	} else {
		a, err := p.secondMoments()
		if err != nil {
			return nil, err
		}
		if root, err = squareRoot(a, d); err != nil {
			return nil, err
		}
		if p.Structure == Full {
			projection, err = p.roots()
		} else {
			projection, q.Weights, err = p.projected(unitScale(diagonalOf(a, d)))
		}
		if err != nil {
			return nil, err
		}
	}
	if p.Head.Bias {
		// The last column of A holds Σφ and N.
		last := root[features*d:]
		count := blas64.Dot(vector(last), vector(last))
		if count > 0 {
			for i := range features {
				// Rounded to float32, as graphs subtract it: Offset makes up for that value.
				mean[i] = float64(float32(blas64.Dot(vector(root[i*d:(i+1)*d]), vector(last)) / count))
			}
		}
		mean[features] = 1
	}
	width := len(projection) / d
	q.Center, q.Projection = mean[:features], projection[:features*width]
	q.Offset = make([]float64, width)
	blas64.Gemv(blas.Trans, 1, general(projection, d, width), vector(mean), 0, vector(q.Offset))
	q.Double = singleError(q, root, p.Head) > singleTolerance
	return q, nil
}

// projected returns the projection of an External posterior in the Kronecker structure, [D,2D]: the directions of V,
// times scale, and a square root of the leverage matrix. The forms of its squares are weights [2D,K+1].
func (p *Posterior) projected(scale float64) (projection, weights []float64, err error) {
	k, d := p.Head.Logits, p.Head.Dim()
	l, err := squareRoot(p.Leverage, d)
	if err != nil {
		return nil, nil, err
	}
	for i := range d {
		for _, v := range p.QA[i*d : (i+1)*d] {
			projection = append(projection, v*scale)
		}
		projection = append(projection, l[i*d:(i+1)*d]...)
	}
	weights = make([]float64, 2*d*(k+1))
	for i := range d {
		for j, v := range p.V[i*k : (i+1)*k] {
			weights[i*(k+1)+j] = v / (scale * scale)
		}
		weights[(d+i)*(k+1)+k] = 1
	}
	return projection, weights, nil
}

// weights joins V and the leverages. If a few of their rows give all others, it returns them as the product
// reduction·weights.
func (p *Posterior) weights() (reduction, weights []float64) {
	k, d := p.Head.Logits, p.Head.Dim()
	weights = make([]float64, 0, d*(k+1))
	t := make([]float64, d)
	for i, l := range p.Leverage {
		weights = append(append(weights, p.V[i*k:(i+1)*k]...), l)
		t[i] = math.Log(math.Max(p.LambdaA[i], math.SmallestNonzeroFloat64))
	}
	if left, right, ok := interpolative.Rows(weights, t, k+1); ok {
		return left, right
	}
	return nil, weights
}

// varianceRatio is layer.Quadratic.Ratio. In the Kronecker structure variances are sums over i of V_ik times squares:
// those of two classes have at most the ratio of two entries of a row.
func (p *Posterior) varianceRatio() float64 {
	if p.Structure != Kronecker {
		return math.Inf(1)
	}
	ratio := 1.0
	for row := range slices.Chunk(p.V, p.Head.Logits) {
		if most := slices.Max(row); most > 0 {
			ratio = math.Max(ratio, most/math.Max(0, slices.Min(row)))
		}
	}
	return ratio
}

// unitScale returns the scale for which the squares of features with these second moments are of order one, whatever
// their unit.
func unitScale(moments []float64) float64 {
	trace := 0.0
	for _, v := range moments {
		trace += v
	}
	if trace <= 0 {
		return 1
	}
	return math.Exp2(-math.Round(math.Log2(trace/float64(len(moments))) / 2))
}

func diagonalOf(m []float64, n int) []float64 {
	diagonal := make([]float64, n)
	for i := range diagonal {
		diagonal[i] = m[i*n+i]
	}
	return diagonal
}

// secondMoments recovers A from (A + δI)⁻¹.
func (p *Posterior) secondMoments() ([]float64, error) {
	d := p.Head.Dim()
	a := append([]float64(nil), p.Leverage...)
	tri, ok := lapack64.Potrf(blas64.Symmetric{N: d, Stride: d, Data: a, Uplo: blas.Upper})
	if !ok {
		return nil, errors.New("the bundle's posterior.safetensors: the leverage matrix is not positive definite: calibrate again")
	}
	lapack64.Potri(tri)
	for i := range d {
		for j := range i {
			a[i*d+j] = a[j*d+i]
		}
	}
	var trace float64
	for i := range d {
		trace += a[i*d+i]
	}
	// δ is leverageDamping times the mean eigenvalue of A. If all features are zero, it is 1 and the result
	// does not matter.
	delta := trace / (1 + leverageDamping) * leverageDamping / float64(d)
	for i := range d {
		a[i*d+i] -= delta
	}
	return a, nil
}

// roots returns the square roots L of each Σ_kk = LLᵀ and of the leverage matrix, side by side: [D,(K+1)D].
func (p *Posterior) roots() ([]float64, error) {
	k, d := p.Head.Logits, p.Head.Dim()
	width := (k + 1) * d
	all := make([]float64, d*width)
	for m := range k + 1 {
		block := p.Leverage
		if m < k {
			block = p.Blocks[m*d*d : (m+1)*d*d]
		}
		l, err := squareRoot(block, d)
		if err != nil {
			return nil, err
		}
		for i := range d {
			copy(all[i*width+m*d:], l[i*d:(i+1)*d])
		}
	}
	return all, nil
}

// squareRoot returns L with LLᵀ = a, which is positive semi-definite except for rounding.
func squareRoot(a []float64, d int) ([]float64, error) {
	l := append([]float64(nil), a...)
	if tri, ok := lapack64.Potrf(blas64.Symmetric{N: d, Stride: d, Data: l, Uplo: blas.Lower}); ok {
		for i := range d {
			clear(tri.Data[i*d+i+1 : (i+1)*d])
		}
		return l, nil
	}
	copy(l, a)
	lambda, err := eigen.Sym(l, d)
	if err != nil {
		return nil, fmt.Errorf("the bundle's posterior.safetensors: a covariance block has no square root: %w", err)
	}
	for i := range d {
		for j, v := range lambda {
			l[i*d+j] *= math.Sqrt(math.Max(0, v))
		}
	}
	return l, nil
}

// singleError returns the largest relative error of a form in float32, on random examples with the second moments
// root·rootᵀ.
func singleError(q *layer.Quadratic, root []float64, head layer.Head) float64 {
	const examples = 8
	d, features := head.Dim(), head.Features
	rng := rand.New(rand.NewPCG(1, 1))
	g, x := make([]float64, d), make([]float64, d)
	scale := 1.0
	if head.Bias {
		if last := root[features*d:]; blas64.Nrm2(vector(last)) > 0 {
			scale = 1 / blas64.Nrm2(vector(last))
		}
	}
	worst := 0.0
	width := len(q.Offset)
	exact := make([]float64, width)
	single := make([]float32, width)
	for range examples {
		for i := range g {
			g[i] = rng.NormFloat64()
		}
		// There is no spread along the mean, which is subtracted.
		blas64.Gemv(blas.NoTrans, scale, general(root, d, d), vector(g), 0, vector(x))
		if head.Bias {
			blas64.Axpy(-x[features], vector(q.Center), vector(x[:features]))
		}
		copy(exact, q.Offset)
		for r, v := range q.Offset {
			single[r] = float32(v)
		}
		for i, v := range x[:features] {
			// φ is float32, and so is its difference from the centre.
			s := float32(v)
			for r, w := range q.Projection[i*width : (i+1)*width] {
				exact[r] += float64(s) * w
				single[r] += s * float32(w)
			}
		}
		want := combine(q, exact)
		for r, v := range single {
			exact[r] = float64(v)
		}
		for m, v := range combine(q, exact) {
			if want[m] > 0 {
				worst = math.Max(worst, math.Abs(v/want[m]-1))
			}
		}
	}
	return worst
}

// combine returns the forms of z [R].
func combine(q *layer.Quadratic, z []float64) []float64 {
	forms := make([]float64, q.Forms)
	if q.Weights == nil {
		size := len(z) / q.Forms
		for r, v := range z {
			forms[r/size] += v * v
		}
		return forms
	}
	u := make([]float64, len(z))
	for r, v := range z {
		u[r] = v * v
	}
	if q.Reduction != nil {
		few := make([]float64, len(q.Weights)/q.Forms)
		blas64.Gemv(blas.Trans, 1, general(q.Reduction, len(u), len(few)), vector(u), 0, vector(few))
		u = few
	}
	blas64.Gemv(blas.Trans, 1, general(q.Weights, len(u), q.Forms), vector(u), 0, vector(forms))
	return forms
}
