package calibrate

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/calibrate/internal/eigen"
)

// Covariance says which covariance of the weights the posterior has, with
// H̃ = H + εI and J̃ = J + εI (paper, eq. 15).
type Covariance string

const (
	Hessian  Covariance = "hessian"  // H̃⁻¹
	Fisher   Covariance = "fisher"   // J̃⁻¹
	Sandwich Covariance = "sandwich" // H̃⁻¹JH̃⁻¹
)

// NeedsFisher reports whether the covariance needs J, and so labels.
func (c Covariance) NeedsFisher() bool { return c == Fisher || c == Sandwich }

// Validate reports an unknown covariance.
func (c Covariance) Validate() error {
	switch c {
	case Hessian, Fisher, Sandwich:
		return nil
	}
	return fmt.Errorf("covariance %q, want hessian, fisher or sandwich", c)
}

// leverageDamping is relative to the mean eigenvalue of A.
const leverageDamping = 1e-3

// Posterior is the Gaussian over the last layer's weights at ensemble
// temperature 1, in the form that gives logit variances. All matrices are
// row-major and never change once made.
type Posterior struct {
	Head       Head
	Structure  Structure // Full or Kronecker
	Covariance Covariance
	Epsilon    float64 // ε that was added to every eigenvalue

	// Full: Blocks[k] is Σ_kk, [K,D,D], and Leverage [D,D] is (A + δI)⁻¹. The Σ_kk of
	// separate logits are all of Σ.
	Blocks []float64

	// Kronecker: eigenvectors (in columns) and eigenvalues of A [D,D], [D] and
	// of B [K,K], [K], and V [D,K]. QB is nil where B is diagonal. Leverage [D]
	// is 1/(λ_A + δ), one more column of V.
	QA, LambdaA []float64
	QB, LambdaB []float64
	V           []float64

	Leverage []float64
}

// kronEigen is the spectrum of the Kronecker factors, shared by posteriors
// that differ in damping.
type kronEigen struct {
	qa, la []float64
	// of B or G, by Covariance: Fisher has G's
	qb, lb map[Covariance][]float64
}

// MeanEigenvalue returns trace/KD of the matrix that the covariance damps: of H
// or, for the Fisher covariance, of J; for the Kronecker structure the product
// of the factors' mean eigenvalues. Relative damping is in units of it.
func (c *Curvature) MeanEigenvalue(cov Covariance) (float64, error) {
	if err := c.ready(cov); err != nil {
		return 0, err
	}
	k, d := c.head.Logits, c.head.Dim()
	if c.structure == Full {
		m := c.h
		if cov == Fisher {
			m = c.j
		}
		var trace float64
		for i := range k {
			first, within := i/c.coupled*triangle(c.coupled), packedRow(i%c.coupled, c.coupled)
			block := m[(first+within)*triangle(d):]
			for j := range d {
				trace += block[packedRow(j, d)]
			}
		}
		return trace / float64(k*d), nil
	}
	m := c.b
	if cov == Fisher {
		m = c.g
	}
	var ta, tb float64
	for i := range d {
		ta += c.a[i*d+i]
	}
	for i := range k {
		if c.diagonal {
			tb += m[i]
		} else {
			tb += m[i*k+i]
		}
	}
	return ta / float64(d) * tb / float64(k) / float64(c.n), nil
}

func (c *Curvature) ready(cov Covariance) error {
	if err := cov.Validate(); err != nil {
		return err
	}
	if cov.NeedsFisher() && !c.fisher {
		return fmt.Errorf("the %s covariance needs the Fisher matrix, which was not accumulated", cov)
	}
	if c.n == 0 {
		return fmt.Errorf("no examples: the curvature of nothing has no inverse")
	}
	return c.Flush()
}

// Posterior inverts the curvature, damped by ε > 0.
func (c *Curvature) Posterior(cov Covariance, epsilon float64) (*Posterior, error) {
	if err := c.ready(cov); err != nil {
		return nil, err
	}
	if err := checkDamping(epsilon); err != nil {
		return nil, err
	}
	p := &Posterior{Head: c.head, Structure: c.structure, Covariance: cov, Epsilon: epsilon}
	if c.structure == Full {
		return p, c.invertFull(p)
	}
	return p, c.invertKronecker(p)
}

func checkDamping(epsilon float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 1) {
		return fmt.Errorf("damping %v, want a positive finite number: the Hessian may have zero eigenvalues, and that of a softmax always has", epsilon)
	}
	return nil
}

// eachCoupled calls f with the elements of the symmetric matrix of the coupled logits
// from first on: those in its upper triangle, and some of the others.
func (c *Curvature) eachCoupled(packed []float64, first int, f func(row, column int, v float64)) {
	k, d := c.coupled, c.head.Dim()
	at := first / k * triangle(k) * triangle(d)
	for i := range k {
		for l := i; l < k; l++ {
			for r := range d {
				for s := r; s < d; s++ {
					v := packed[at]
					at++
					f(i*d+r, l*d+s, v)
					f(i*d+s, l*d+r, v)
				}
			}
		}
	}
}

// dense assembles the symmetric matrix of the coupled logits from first on.
func (c *Curvature) dense(packed []float64, first int) []float64 {
	n := c.coupled * c.head.Dim()
	m := make([]float64, n*n)
	c.eachCoupled(packed, first, func(i, j int, v float64) { m[i*n+j], m[j*n+i] = v, v })
	return m
}

// factor is dense, to be inverted.
func (c *Curvature) factor(packed []float64, first int) *factor {
	f := newFactor(c.coupled*c.head.Dim(), c.product)
	c.eachCoupled(packed, first, func(i, j int, v float64) {
		if i <= j {
			*f.at(i, j) = v
		}
	})
	return f
}

// invertFull forms the diagonal blocks of the covariance.
//
// With H̃ = UᵀU the inverse is U⁻¹U⁻ᵀ, so that Σ_kk is the Gram matrix of the k-th
// rows of U⁻¹: no need for the rest of the inverse, of which only the sandwich
// has use.
func (c *Curvature) invertFull(p *Posterior) error {
	d := c.head.Dim()
	m := c.h
	if p.Covariance == Fisher {
		m = c.j
	}
	c.scratch = nil // room for the inverse
	p.Blocks = make([]float64, c.head.Logits*d*d)
	for first := 0; first < c.head.Logits; first += c.coupled {
		u := c.factor(m, first)
		if err := u.invert(p.Epsilon); err != nil {
			return err
		}
		blocks := p.Blocks[first*d*d : (first+c.coupled)*d*d]
		if p.Covariance == Sandwich {
			if err := c.sandwich(blocks, u, first); err != nil {
				return err
			}
			continue
		}
		for i := range c.coupled {
			if err := u.gram(blocks[i*d*d:(i+1)*d*d], i*d, (i+1)*d); err != nil {
				return err
			}
		}
	}
	u := newFactor(d, c.product)
	var trace float64
	for i := range d {
		for j := i; j < d; j++ {
			*u.at(i, j) = c.a[packedRow(i, d)+j-i]
		}
		trace += *u.at(i, i)
	}
	if err := u.invert(leverageDelta(trace, d)); err != nil {
		return err
	}
	p.Leverage = make([]float64, d*d)
	return u.gram(p.Leverage, 0, d)
}

// leverageDelta returns δ, or 1 where all features are zero.
func leverageDelta(trace float64, d int) float64 {
	if trace == 0 {
		return 1
	}
	return leverageDamping * trace / float64(d)
}

// sandwich writes the diagonal blocks of MJM, M = U⁻¹U⁻ᵀ, as M_k J M_kᵀ with M_k
// the k-th D rows of M, for the coupled logits from first on.
func (c *Curvature) sandwich(blocks []float64, u *factor, first int) error {
	k, d := c.coupled, c.head.Dim()
	n := k * d
	j := c.dense(c.j, first)
	lower := u.transposed(0, n) // U⁻ᵀ
	m, right := make([]float64, d*n), make([]float64, d*n)
	for i := range k {
		if err := u.inverseRows(m, lower, i*d, (i+1)*d); err != nil { // M_k
			return err
		}
		if err := c.product.Multiply(right, m, j, d, n, n); err != nil {
			return err
		}
		if err := c.product.Multiply(blocks[i*d*d:(i+1)*d*d], right, transpose(m, d, n), d, n, d); err != nil {
			return err
		}
	}
	return nil
}

// spectrum returns the eigenvectors and eigenvalues that damping needs.
func (c *Curvature) spectrum(cov Covariance) (*kronEigen, error) {
	k, d := c.head.Logits, c.head.Dim()
	key, m := Hessian, c.b
	if cov == Fisher {
		key, m = Fisher, c.g
	}
	e := c.eigen
	if e == nil {
		e = &kronEigen{qb: map[Covariance][]float64{}, lb: map[Covariance][]float64{}}
	}
	var errA, errB error
	var wg sync.WaitGroup
	if e.la == nil { // beside that of B, which takes about as long
		wg.Go(func() { e.qa, e.la, errA = eigenSym(c.a, d, 1) })
	}
	scale := 1 / float64(c.n)
	switch {
	case e.lb[key] != nil:
	case c.diagonal:
		l := make([]float64, k)
		for i, v := range m {
			l[i] = v * scale
		}
		e.lb[key] = l
	default:
		e.qb[key], e.lb[key], errB = eigenSym(m, k, scale)
	}
	wg.Wait()
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	c.eigen = e
	return e, nil
}

// eigenSym is eigen.Semidefinite of a curvature factor.
func eigenSym(m []float64, n int, scale float64) (q, lambda []float64, err error) {
	if q, lambda, err = eigen.Semidefinite(m, n, scale); err != nil {
		return nil, nil, fmt.Errorf("a curvature factor has no eigenvalues: %w", err)
	}
	return q, lambda, nil
}

// invertKronecker fills V so that the variance of logit k is Σ_i u_i V_ik with
// u = (Q_Aᵀφ)²: the covariance is diagonal in the eigenbases, where damping adds
// ε to each product of eigenvalues.
//
//	H⁻¹, J⁻¹:  V_ik = Σ_j Q_kj² / (λ_A,i λ_B,j + ε)
//	H⁻¹JH⁻¹:  V_ik = λ_A,i Σ_jl Q_kj Q_kl G̃_jl / ((λ_A,i λ_B,j + ε)(λ_A,i λ_B,l + ε)),  G̃ = QᵀGQ
func (c *Curvature) invertKronecker(p *Posterior) error {
	e, err := c.spectrum(p.Covariance)
	if err != nil {
		return err
	}
	k, d := c.head.Logits, c.head.Dim()
	key := Hessian
	if p.Covariance == Fisher {
		key = Fisher
	}
	p.QA, p.LambdaA, p.QB, p.LambdaB = e.qa, e.la, e.qb[key], e.lb[key]
	p.V = make([]float64, d*k)
	switch {
	case c.diagonal:
		for i, la := range p.LambdaA {
			for j, lb := range p.LambdaB {
				x := la*lb + p.Epsilon
				if p.Covariance == Sandwich {
					p.V[i*k+j] = la * c.g[j] / float64(c.n) / (x * x)
				} else {
					p.V[i*k+j] = 1 / x
				}
			}
		}
	case p.Covariance == Sandwich:
		c.sandwichV(p)
	default:
		inverse := make([]float64, d*k) // 1/(λ_A,i λ_B,j + ε)
		for i, la := range p.LambdaA {
			for j, lb := range p.LambdaB {
				inverse[i*k+j] = 1 / (la*lb + p.Epsilon)
			}
		}
		squares := make([]float64, k*k)
		for i, v := range p.QB {
			squares[i] = v * v
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(inverse, d, k), general(squares, k, k), 0, general(p.V, d, k))
	}
	var trace float64
	for _, v := range p.LambdaA {
		trace += v
	}
	delta := leverageDelta(trace, d)
	p.Leverage = make([]float64, d)
	for i, v := range p.LambdaA {
		p.Leverage[i] = 1 / (v + delta)
	}
	return nil
}

// sandwichV fills V, row by row, or where that would take long from fewer rows.
func (c *Curvature) sandwichV(p *Posterior) {
	k, d := c.head.Logits, len(p.LambdaA)
	row := c.sandwichRow(p)
	const slow = 1e10 // multiplications: a second or two
	interpolated := false
	if float64(d)*float64(k)*float64(k)*float64(k) > slow {
		// Below the floor λ_A,i λ_B,j + ε is ε to 1e-10.
		floor := 1e-10 * p.Epsilon / math.Max(p.LambdaB[k-1], 1e-300)
		interpolated = interpolateRows(p.V, p.LambdaA, floor, row)
	}
	for i, la := range p.LambdaA {
		v := p.V[i*k : (i+1)*k]
		if !interpolated {
			row(v, la)
		}
		for j := range v {
			v[j] *= la
		}
	}
}

// sandwichRow returns the function that gives a row of V over λ_A,
// diag(Q W Qᵀ), W = w wᵀ ⊙ G̃, w_j = 1/(λ_A λ_B,j + ε), by a K×K product.
func (c *Curvature) sandwichRow(p *Posterior) func(dst []float64, la float64) {
	k := c.head.Logits
	q := general(p.QB, k, k)
	g, t := general(make([]float64, k*k), k, k), general(make([]float64, k*k), k, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1/float64(c.n), general(c.g, k, k), q, 0, t)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, q, t, 0, g)
	scaled := general(make([]float64, k*k), k, k)
	return func(dst []float64, la float64) {
		for r := range k {
			for j, lb := range p.LambdaB {
				scaled.Data[r*k+j] = p.QB[r*k+j] / (la*lb + p.Epsilon)
			}
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, scaled, g, 0, t)
		for r := range k {
			var sum float64
			for j, v := range t.Data[r*k : (r+1)*k] {
				sum += v * scaled.Data[r*k+j]
			}
			// A rounding error of a quadratic form of a semi-definite matrix.
			dst[r] = math.Max(0, sum)
		}
	}
}

// batchRows bounds the rows that are worked on at once, and so the memory.
const batchRows = 512

// Variances writes the variance of each logit at ensemble temperature 1 to dst
// [n,K], for features phi [n,d]: the diagonal of ∇a Σ ∇aᵀ (paper, eq. 19).
func (p *Posterior) Variances(dst []float64, phi []float32, n int) {
	must(p.forms(gonumProduct{}, dst, nil, phi, n))
}

// Leverages writes φᵀ(A + δI)⁻¹φ of each example to dst [n], δ = 1e-3 of the
// mean eigenvalue of A = Σφφᵀ: how far an input is from what was trained on.
func (p *Posterior) Leverages(dst []float64, phi []float32, n int) {
	must(p.forms(gonumProduct{}, nil, dst, phi, n))
}

// Both is Variances and Leverages at little more than the cost of the first.
func (p *Posterior) Both(variances, leverages []float64, phi []float32, n int) {
	must(p.forms(gonumProduct{}, variances, leverages, phi, n))
}

// must is for what a gonumProduct computes.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// forms computes variances and leverages, each unless nil, a block of rows after
// another.
func (p *Posterior) forms(product Product, variances, leverages []float64, phi []float32, n int) error {
	k, d, features := p.Head.Logits, p.Head.Dim(), p.Head.Features
	if len(phi) != n*features {
		panic(fmt.Sprintf("calibrate: %d features for %d examples, want %d each", len(phi), n, features))
	}
	size := min(n, batchRows)
	x, u := make([]float64, size*d), make([]float64, size*d)
	for first := 0; first < n; first += batchRows {
		rows := min(batchRows, n-first)
		for r := range rows {
			p.Head.augment(x[r*d:(r+1)*d], phi[(first+r)*features:(first+r+1)*features])
		}
		x, u := x[:rows*d], u[:rows*d]
		v, l := variances, leverages
		if v != nil {
			v = v[first*k : (first+rows)*k]
		}
		if l != nil {
			l = l[first : first+rows]
		}
		var err error
		if p.Structure == Full {
			err = p.formsFull(product, v, l, x, u)
		} else {
			err = p.formsKronecker(product, v, l, x, u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// formsFull is forms for rows of augmented φ, with as much work space.
func (p *Posterior) formsFull(product Product, variances, leverages, x, t []float64) error {
	k, d := p.Head.Logits, p.Head.Dim()
	for i := 0; i < k && variances != nil; i++ {
		if err := quadratic(product, variances[i:], k, x, p.Blocks[i*d*d:(i+1)*d*d], t, d); err != nil {
			return err
		}
	}
	if leverages == nil {
		return nil
	}
	return quadratic(product, leverages, 1, x, p.Leverage, t, d)
}

// formsKronecker is formsFull for the Kronecker structure: of u = (Q_Aᵀφ)² all
// are linear forms.
func (p *Posterior) formsKronecker(product Product, variances, leverages, x, u []float64) error {
	k, d := p.Head.Logits, p.Head.Dim()
	rows := len(x) / d
	if err := product.Multiply(u, x, p.QA, rows, d, d); err != nil {
		return err
	}
	for i, v := range u {
		u[i] = v * v
	}
	for r := range leverages {
		var sum float64
		for i, v := range u[r*d : (r+1)*d] {
			sum += v * p.Leverage[i]
		}
		leverages[r] = sum
	}
	if variances == nil {
		return nil
	}
	return product.Multiply(variances, u, p.V, rows, d, k)
}

// quadratic writes xᵀmx for each row of x to dst, stride apart.
func quadratic(product Product, dst []float64, stride int, x, m, t []float64, d int) error {
	rows := len(x) / d
	if err := product.Multiply(t, x, m, rows, d, d); err != nil {
		return err
	}
	for r := range rows {
		var sum float64
		for i, v := range x[r*d : (r+1)*d] {
			sum += v * t[r*d+i]
		}
		dst[r*stride] = math.Max(0, sum)
	}
	return nil
}
