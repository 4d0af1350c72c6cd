package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/internal/parallel"
)

// maxSandwich is the largest K for which the Kronecker structure gives covariances of
// the sandwich: the work before the first is 4K³D, a minute or so.
const maxSandwich = 256

// LogitCovariance gives covariances of the logits of a softmax head at ensemble
// temperature 1, S = ∇a Σ ∇aᵀ (paper, eq. 19), of which a [Posterior] has the
// diagonal. It is used by one goroutine at a time.
type LogitCovariance struct {
	head       Head
	covariance Covariance
	product    Product

	// Full: what each φ_rφ_s, r ≤ s, has of each s_kl, [D(D+1)/2, K(K+1)/2]; and of
	// H̃⁻¹ and J̃⁻¹ the inverse of the Cholesky factor.
	pairs []float64
	own   []float64 // of pairs those of s_kk, [D(D+1)/2, K]; made by the first Variances
	root  *factor

	// Kronecker: with u = (Q_Aᵀφ)², u·weights [D,width] is
	//   s_kk of a diagonal B, width K;
	//   else of H̃⁻¹ and J̃⁻¹ the v of S = Q_B diag(v) Q_Bᵀ, width K;
	//   of the sandwich S itself, width K(K+1)/2.
	posterior *Posterior
	weights   []float64
	width     int
}

// Covariance inverts the curvature, damped by ε > 0, as Posterior does, for the
// covariances of logits. The head must be a softmax: separate logits have none.
//
// The Kronecker structure refuses the sandwich of more than 256 classes.
func (c *Curvature) Covariance(cov Covariance, epsilon float64) (*LogitCovariance, error) {
	if c.head.Link != Softmax {
		return nil, fmt.Errorf("the logits of a %s head are separate: they have variances and no covariances", c.head.Link)
	}
	if err := c.ready(cov); err != nil {
		return nil, err
	}
	if err := checkDamping(epsilon); err != nil {
		return nil, err
	}
	l := &LogitCovariance{head: c.head, covariance: cov, product: c.product}
	if c.structure == Full {
		return l, c.invertPairs(l, epsilon)
	}
	return l, c.weighPairs(l, epsilon)
}

// invertPairs sets what the full structure needs.
func (c *Curvature) invertPairs(l *LogitCovariance, epsilon float64) error {
	k, d := c.head.Logits, c.head.Dim()
	n := k * d
	m := c.h
	if l.covariance == Fisher {
		m = c.j
	}
	u := c.factor(m, 0)
	if err := u.invert(epsilon); err != nil {
		return err
	}
	lower := u.transposed(0, n)
	l.pairs = make([]float64, triangle(d)*triangle(k))
	if l.covariance != Sandwich {
		l.root = u
		rows := make([]float64, d*n)
		for i := range k {
			if err := u.inverseRows(rows, lower, i*d, (i+1)*d); err != nil {
				return err
			}
			l.setPairs(i, rows)
		}
		return nil
	}
	inverse := make([]float64, n*n) // M of Σ = MJM
	for i := range k {
		if err := u.inverseRows(inverse[i*d*n:(i+1)*d*n], lower, i*d, (i+1)*d); err != nil {
			return err
		}
	}
	j := c.dense(c.j, 0)
	left, rows := lower[:d*n], make([]float64, d*n) // lower has done its work
	for i := range k {
		if err := c.product.Multiply(left, inverse[i*d*n:(i+1)*d*n], j, d, n, n); err != nil {
			return err
		}
		if err := c.product.Multiply(rows, left, inverse, d, n, n); err != nil {
			return err
		}
		l.setPairs(i, rows)
	}
	return nil
}

// setPairs takes the blocks Σ_kl, l ≥ k, from the rows [D,KD] of the k-th logit. Of
// φᵀΣ_klφ the products φ_rφ_s and φ_sφ_r are one.
func (l *LogitCovariance) setPairs(k int, rows []float64) {
	d, n := l.head.Dim(), l.head.Logits*l.head.Dim()
	pairs, at := triangle(l.head.Logits), 0
	for r := range d {
		for s := r; s < d; s++ {
			dst := l.pairs[at*pairs+packedRow(k, l.head.Logits):]
			for other := k; other < l.head.Logits; other++ {
				v := rows[r*n+other*d+s]
				if s > r {
					v += rows[s*n+other*d+r]
				}
				dst[other-k] = v
			}
			at++
		}
	}
}

// weighPairs sets what the Kronecker structure needs.
func (c *Curvature) weighPairs(l *LogitCovariance, epsilon float64) error {
	k, d := c.head.Logits, c.head.Dim()
	entries := float64(d) * float64(triangle(k))
	if l.covariance == Sandwich && !c.diagonal && (k > maxSandwich || entries > maxOrder*maxOrder) {
		return fmt.Errorf("the sandwich covariance of %d classes × %d parameters in the kron structure has too many numbers, want at most %d classes and %d² numbers: use the hessian or fisher covariance", k, d, maxSandwich, maxOrder)
	}
	p, err := c.Posterior(l.covariance, epsilon)
	if err != nil {
		return err
	}
	l.posterior = p
	l.width = k
	switch {
	case c.diagonal:
		l.weights = p.V
	case l.covariance == Sandwich:
		l.width = triangle(k)
		l.weights = make([]float64, d*l.width)
		c.sandwichPairs(l.weights, p)
	default:
		l.weights = make([]float64, d*k)
		for i, la := range p.LambdaA {
			for j, lb := range p.LambdaB {
				l.weights[i*k+j] = 1 / (la*lb + epsilon)
			}
		}
	}
	return nil
}

// sandwichPairs writes the upper triangle of λ_A,i Q_B W_i Q_Bᵀ, W_i = w wᵀ ⊙ G̃ and
// w_j = 1/(λ_A,i λ_B,j + ε), to row i of dst [D, K(K+1)/2].
func (c *Curvature) sandwichPairs(dst []float64, p *Posterior) {
	k := c.head.Logits
	q := general(p.QB, k, k)
	g, t := general(make([]float64, k*k), k, k), general(make([]float64, k*k), k, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1/float64(c.n), general(c.g, k, k), q, 0, t)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, q, t, 0, g)
	parallel.For(len(p.LambdaA), func(first, last int) {
		scaled := general(make([]float64, k*k), k, k)
		t, s := general(make([]float64, k*k), k, k), general(make([]float64, k*k), k, k)
		for i := first; i < last; i++ {
			la := p.LambdaA[i]
			for r := range k {
				for j, lb := range p.LambdaB {
					scaled.Data[r*k+j] = p.QB[r*k+j] / (la*lb + p.Epsilon)
				}
			}
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, scaled, g, 0, t)
			blas64.Gemm(blas.NoTrans, blas.Trans, la, t, scaled, 0, s)
			packTo(dst[i*triangle(k):(i+1)*triangle(k)], s.Data, k)
		}
	})
}

// packTo writes the upper triangle of m [n,n] to dst.
func packTo(dst, m []float64, n int) {
	for r := range n {
		copy(dst[packedRow(r, n):packedRow(r+1, n)], m[r*n+r:(r+1)*n])
	}
}

// Covariances writes the covariance of the K logits of each example to dst [n,K(K+1)/2], the rows
// of its upper triangle one after another, for features phi [n,d]. It fails only with the Product.
func (l *LogitCovariance) Covariances(dst []float64, phi []float32, n int) error {
	k, features := l.head.Logits, l.head.Features
	if len(phi) != n*features || len(dst) != n*triangle(k) {
		panic(fmt.Sprintf("calibrate: %d features and %d covariances for %d examples, want %d and %d each", len(phi), len(dst), n, features, triangle(k)))
	}
	const most = 2 << 20 // numbers in K×K matrices at once
	size := min(n, batchRows, max(1, most/(k*k)))
	return l.augmented(phi, n, size, func(x []float64, first, rows int) error {
		dst := dst[first*triangle(k) : (first+rows)*triangle(k)]
		if l.pairs == nil {
			return l.kronecker(dst, x, rows)
		}
		if err := l.full(dst, x, rows, l.pairs); err != nil {
			return err
		}
		l.clampVariances(dst)
		return nil
	})
}

// Variances writes the diagonals of Covariances to dst [n,K], without the rest.
func (l *LogitCovariance) Variances(dst []float64, phi []float32, n int) error {
	k, d, features := l.head.Logits, l.head.Dim(), l.head.Features
	if len(phi) != n*features || len(dst) != n*k {
		panic(fmt.Sprintf("calibrate: %d features and %d variances for %d examples, want %d and %d each", len(phi), len(dst), n, features, k))
	}
	if l.pairs == nil {
		return l.posterior.forms(l.product, dst, nil, phi, n)
	}
	if l.own == nil {
		l.own = make([]float64, triangle(d)*k)
		for i := range triangle(d) {
			for c := range k {
				l.own[i*k+c] = l.pairs[i*triangle(k)+packedRow(c, k)]
			}
		}
	}
	return l.augmented(phi, n, min(n, batchRows), func(x []float64, first, rows int) error {
		dst := dst[first*k : (first+rows)*k]
		if err := l.full(dst, x, rows, l.own); err != nil {
			return err
		}
		for i, v := range dst {
			dst[i] = math.Max(0, v)
		}
		return nil
	})
}

// augmented calls f with augmented features x [rows,D], size rows at most, for one part
// of the examples after another.
func (l *LogitCovariance) augmented(phi []float32, n, size int, f func(x []float64, first, rows int) error) error {
	d, features := l.head.Dim(), l.head.Features
	x := make([]float64, size*d)
	for first := 0; first < n; first += size {
		rows := min(size, n-first)
		for r := range rows {
			l.head.augment(x[r*d:(r+1)*d], phi[(first+r)*features:(first+r+1)*features])
		}
		if err := f(x[:rows*d], first, rows); err != nil {
			return err
		}
	}
	return nil
}

// full writes Σ_rs φ_rφ_s weights_rs of rows of augmented φ, for weights
// [D(D+1)/2, len(dst)/rows]: the products, a few rows of their triangle at a time, times
// their weights. Of pairs these are φᵀΣ_klφ.
func (l *LogitCovariance) full(dst, x []float64, rows int, weights []float64) error {
	width, d := len(dst)/rows, l.head.Dim()
	clear(dst)
	part := make([]float64, len(dst))
	var scratch []float64
	return eachProducts(x, d, &scratch, func(offset int, products []float64) error {
		columns := len(products) / rows
		if err := l.product.Multiply(part, products, weights[offset*width:(offset+columns)*width], rows, columns,
			width); err != nil {
			return err
		}
		add(dst, part)
		return nil
	})
}

// clampVariances sets variances that rounding made negative to zero.
func (l *LogitCovariance) clampVariances(s []float64) {
	k := l.head.Logits
	for ; len(s) > 0; s = s[triangle(k):] {
		for i := range k {
			at := packedRow(i, k)
			s[at] = math.Max(0, s[at])
		}
	}
}

// kronecker writes φᵀΣ_klφ of rows of augmented φ, for the Kronecker structure.
func (l *LogitCovariance) kronecker(dst, x []float64, rows int) error {
	k, d, p := l.head.Logits, l.head.Dim(), l.posterior
	u := make([]float64, rows*d)
	if err := l.product.Multiply(u, x, p.QA, rows, d, d); err != nil {
		return err
	}
	for i, v := range u {
		u[i] = v * v
	}
	if l.width != k {
		if err := l.product.Multiply(dst, u, l.weights, rows, d, l.width); err != nil {
			return err
		}
		l.clampVariances(dst)
		return nil
	}
	v := make([]float64, rows*k)
	if err := l.product.Multiply(v, u, l.weights, rows, d, k); err != nil {
		return err
	}
	if p.QB == nil {
		clear(dst)
		for r := range rows {
			for i := range k {
				dst[r*triangle(k)+packedRow(i, k)] = v[r*k+i]
			}
		}
		return nil
	}
	scaled, s := make([]float64, rows*k*k), make([]float64, rows*k*k)
	for r := range rows {
		for i, q := range p.QB {
			scaled[r*k*k+i] = q * v[r*k+i%k]
		}
	}
	if err := l.product.Multiply(s, scaled, transpose(p.QB, k, k), rows*k, k, k); err != nil {
		return err
	}
	for r := range rows {
		packTo(dst[r*triangle(k):(r+1)*triangle(k)], s[r*k*k:(r+1)*k*k], k)
	}
	return nil
}

// SolveTo writes Σg to dst for each of m vectors g [m, K·D], class-major: the solutions
// of H̃x = g, or J̃x = g. dst may be g. The sandwich, which is no inverse, is refused.
func (l *LogitCovariance) SolveTo(dst, g []float64, m int) error {
	k, d := l.head.Logits, l.head.Dim()
	if len(g) != m*k*d || len(dst) != len(g) {
		panic(fmt.Sprintf("calibrate: %d and %d weights for %d vectors, want %d each", len(dst), len(g), m, k*d))
	}
	if l.covariance == Sandwich {
		return fmt.Errorf("the sandwich covariance solves nothing: use hessian or fisher")
	}
	if m == 0 {
		return nil
	}
	if l.root == nil {
		return l.solveKronecker(dst, g, m)
	}
	return l.solveFull(dst, g, m)
}

// solveFull multiplies by U⁻ᵀ and by U⁻¹, with the vectors in columns.
func (l *LogitCovariance) solveFull(dst, g []float64, m int) error {
	u := l.root
	n := u.n
	b := transpose(g, m, n)
	x, y, part := make([]float64, n*m), make([]float64, n*m), make([]float64, n*m)
	for j, panel := range u.panels {
		first, end := u.bounds(j)
		if err := l.product.AddTransposedProduct(y[first*m:end*m], panel, b[:end*m], end, end-first, m); err != nil {
			return err
		}
	}
	for j, panel := range u.panels {
		first, end := u.bounds(j)
		if err := l.product.Multiply(part[:end*m], panel, y[first*m:end*m], end, end-first, m); err != nil {
			return err
		}
		add(x[:end*m], part[:end*m])
	}
	copy(dst, transpose(x, n, m))
	return nil
}

// solveKronecker multiplies by (Q_B ⊗ Q_A)ᵀ, the inverse eigenvalues and Q_B ⊗ Q_A: of a
// vector as a matrix [K,D], Q_B((Q_BᵀGQ_A) ∘ weights)Q_Aᵀ.
func (l *LogitCovariance) solveKronecker(dst, g []float64, m int) error {
	k, d, p := l.head.Logits, l.head.Dim(), l.posterior
	x := make([]float64, len(g))
	if err := l.product.Multiply(x, g, p.QA, m*k, d, d); err != nil {
		return err
	}
	t := make([]float64, k*d)
	for i := range m {
		row := x[i*k*d : (i+1)*k*d]
		if p.QB == nil {
			l.weigh(row)
			continue
		}
		clear(t)
		if err := l.product.AddTransposedProduct(t, p.QB, row, k, k, d); err != nil {
			return err
		}
		l.weigh(t)
		if err := l.product.Multiply(row, p.QB, t, k, k, d); err != nil {
			return err
		}
	}
	return l.product.Multiply(dst, x, transpose(p.QA, d, d), m*k, d, d)
}

// weigh divides a matrix [K,D] in the eigenbases by the eigenvalues.
func (l *LogitCovariance) weigh(x []float64) {
	k, d, p := l.head.Logits, l.head.Dim(), l.posterior
	for j := range k {
		for i := range d {
			x[j*d+i] /= p.LambdaA[i]*p.LambdaB[j] + p.Epsilon
		}
	}
}

// transpose returns that of x [rows,cols].
func transpose(x []float64, rows, cols int) []float64 {
	t := make([]float64, len(x))
	for r := range rows {
		for c := range cols {
			t[c*rows+r] = x[r*cols+c]
		}
	}
	return t
}

// SampleWeights draws what the weights of the last layer deviate from the network's by, at ensemble
// temperature 1, from N(0, Σ), to dst [K,D] with the bias in the last column: Q_B(Z ∘ 1/√(λ_B λ_A +
// ε))Q_Aᵀ with Z normal. It needs the Kronecker structure and the covariance H̃⁻¹ or J̃⁻¹.
func (p *Posterior) SampleWeights(rng *rand.Rand, dst []float64) error {
	k, d := p.Head.Logits, p.Head.Dim()
	if len(dst) != k*d {
		panic(fmt.Sprintf("calibrate: %d weights, want %d", len(dst), k*d))
	}
	if p.Structure != Kronecker || p.Covariance == Sandwich {
		return fmt.Errorf("weights are not drawn from the %s covariance in the %s structure: use hessian or fisher in the kron structure", p.Covariance, p.Structure)
	}
	z := make([]float64, k*d)
	for j, lb := range p.LambdaB {
		for i, la := range p.LambdaA {
			z[j*d+i] = rng.NormFloat64() / math.Sqrt(la*lb+p.Epsilon)
		}
	}
	mixed := general(z, k, d)
	if p.QB != nil {
		mixed = general(make([]float64, k*d), k, d)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(p.QB, k, k), general(z, k, d), 0, mixed)
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, mixed, general(p.QA, d, d), 0, general(dst, k, d))
	return nil
}
