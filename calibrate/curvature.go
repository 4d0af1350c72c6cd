package calibrate

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/eigen"
)

// Curvature is the finished [Sums]: H and, if asked for, J. It is immutable and safe for concurrent use.
type Curvature struct {
	layout
	matrices

	// Spectra of the Kronecker factors, computed on first use. Posteriors that differ in damping share them.
	ofA, ofB, ofG func() (spectrum, error)
}

// spectrum is the eigenvectors, in columns, and the eigenvalues of a Kronecker factor. A diagonal factor has no
// vectors.
type spectrum struct{ q, lambda []float64 }

func newCurvature(l layout, m matrices) *Curvature {
	c := &Curvature{layout: l, matrices: m}
	// The upper triangle alone counts, as in encoded sums, so that it does not matter whether the product
	// rounds both triangles alike.
	for _, m := range c.of(&c.layout) {
		if m.order > 0 {
			mirror(*m.data, m.order)
		}
	}
	if l.structure == Full {
		return c
	}
	once := func(m []float64, n int, scale float64, diagonal bool) func() (spectrum, error) {
		return sync.OnceValues(func() (spectrum, error) { return spectrumOf(m, n, scale, diagonal) })
	}
	k, scale := l.head.Logits, 1/float64(m.n)
	c.ofA = once(m.a, l.head.Dim(), 1, false)
	c.ofB, c.ofG = once(m.b, k, scale, l.diagonal), once(m.g, k, scale, l.diagonal)
	return c
}

// spectrumOf returns the spectrum of scale·m, m [n,n] or a diagonal [n].
func spectrumOf(m []float64, n int, scale float64, diagonal bool) (spectrum, error) {
	if diagonal {
		lambda := make([]float64, n)
		scaleTo(lambda, scale, m)
		return spectrum{lambda: lambda}, nil
	}
	q, lambda, err := eigen.Semidefinite(m, n, scale)
	if err != nil {
		return spectrum{}, fmt.Errorf("a curvature factor has no eigenvalues: %w", err)
	}
	return spectrum{q, lambda}, nil
}

// spectra returns the spectra of A and of B, or for the Fisher covariance of G.
func (c *Curvature) spectra(cov Covariance) (a, b spectrum, err error) {
	of := c.ofB
	if cov == Fisher {
		of = c.ofG
	}
	var errA, errB error
	var wg sync.WaitGroup
	wg.Go(func() { a, errA = c.ofA() }) // in parallel with that of B, which takes about as long
	b, errB = of()
	wg.Wait()
	return a, b, errors.Join(errA, errB)
}

// Examples returns N, the number of examples summed.
func (c *Curvature) Examples() int { return c.n }

// moment returns the entry i ≤ j of A.
func (c *Curvature) moment(i, j int) float64 {
	d := c.head.Dim()
	if c.structure == Full {
		return c.a[packedRow(i, d)+j-i]
	}
	return c.a[i*d+j]
}

// G returns (1/N) Σ rrᵀ [K,K], the smaller Kronecker factor of J: its diagonal [K] if only that was summed, and
// nil without the Fisher matrix.
func (c *Curvature) G() []float64 {
	if c.g == nil {
		return nil
	}
	g := make([]float64, len(c.g))
	scaleTo(g, 1/float64(c.n), c.g)
	return g
}

// MeanEigenvalue returns trace/KD of the damped matrix, which is J for the Fisher covariance and H otherwise.
// For the Kronecker structure it is the product of the factors' mean eigenvalues. It is the unit of relative
// damping.
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
	if cov == External {
		return fmt.Errorf("the %s covariance is not computed from a curvature: want %s, %s or %s", cov, Hessian, Fisher, Sandwich)
	}
	if cov.NeedsFisher() && !c.fisher {
		return fmt.Errorf("the %s covariance needs the Fisher matrix, which was not accumulated", cov)
	}
	if c.n == 0 {
		return fmt.Errorf("no examples: the curvature of nothing has no inverse")
	}
	return nil
}

// eachCoupled calls f with the elements of the symmetric matrix of the coupled logits from first on: those in
// the upper triangle, and some of the others.
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

// factor is dense as a factor, to be inverted.
func (c *Curvature) factor(packed []float64, first int) *factor {
	f := newFactor(c.coupled*c.head.Dim(), c.product)
	c.eachCoupled(packed, first, func(i, j int, v float64) {
		if i <= j {
			*f.at(i, j) = v
		}
	})
	return f
}

// Posterior inverts the curvature, damped by ε > 0.
func (c *Curvature) Posterior(cov Covariance, epsilon float64) (*Posterior, error) {
	return c.mappedPosterior(cov, epsilon, nil)
}

// mappedPosterior is Posterior with the variances of mapped logits: Σ becomes MΣMᵀ, M being the map's matrix for each
// parameter of a logit.
func (c *Curvature) mappedPosterior(cov Covariance, epsilon float64, f *layer.Affine) (*Posterior, error) {
	if err := c.ready(cov); err != nil {
		return nil, err
	}
	if err := checkDamping(epsilon); err != nil {
		return nil, err
	}
	p := &Posterior{Head: c.head, Structure: c.structure, Covariance: cov, Epsilon: epsilon, Affine: f}
	if c.structure == Full {
		return p, c.invertFull(p)
	}
	return p, c.invertKronecker(p)
}

// leverages writes the leverages of n of the examples to dst, see [Posterior.LeaveOneOut].
func (c *Curvature) leverages(dst []float64, phi []float32, n int) error {
	p := &Posterior{Head: c.head, Structure: c.structure}
	if c.structure == Full {
		if err := c.setLeverageFull(p); err != nil {
			return err
		}
	} else {
		a, err := c.ofA()
		if err != nil {
			return err
		}
		p.setLeverageKronecker(a)
	}
	return p.LeaveOneOut().forms(c.product, nil, dst, phi, n)
}
