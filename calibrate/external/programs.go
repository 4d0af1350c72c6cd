package external

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// laplace reads the state of a last-layer Laplace of laplace-torch: the precision is H/(temperature · sigma_noise²) +
// prior_precision. Nested lists have dots in their names.
func (r *reader) laplace() error {
	temperature, err := r.number("temperature")
	if err != nil {
		return err
	}
	noise, err := r.number("sigma_noise")
	if err != nil {
		return err
	}
	all, weights := r.sizes()
	mean, which, err := r.tensor("mean", []int{all}, []int{weights})
	if err != nil {
		return err
	}
	r.setMean(mean)
	n, factor := []int{all, weights}[which], 1/(temperature*noise*noise)
	if r.has("H.0.0") {
		return r.laplaceFactors(n > weights, factor)
	}
	prior, which, err := r.tensor("prior_precision", nil, []int{1}, []int{n})
	if err != nil {
		return err
	}
	if err := positive("prior_precision", prior); err != nil {
		return err
	}
	if which < 2 {
		prior = slices.Repeat(prior, n)
	}
	if shape := r.shapes["H"]; len(shape) == 1 {
		h, _, err := r.tensor("H", []int{n})
		if err != nil {
			return err
		}
		for i, v := range h {
			if !(v >= 0) {
				return fmt.Errorf("tensor \"H\": entry %d is %v, want a curvature of at least 0", i, v)
			}
			h[i] = 1 / (v*factor + prior[i])
		}
		r.setDiagonal(h)
		return nil
	}
	h, err := r.matrix("H", n, MaxOrder)
	if err != nil {
		return err
	}
	for i := range h {
		h[i] *= factor
	}
	for i, p := range prior {
		h[i*n+i] += p
	}
	if err := invert("H with prior_precision", h, n); err != nil {
		return err
	}
	r.setFull(h, n)
	return nil
}

// laplaceFactors reads Kronecker factors, of W and of the bias if that has a posterior: biased.
func (r *reader) laplaceFactors(biased bool, factor float64) error {
	k, f, d := r.head.Logits, r.head.Features, r.head.Dim()
	shapes := [][]int{nil, {1}}
	if biased {
		shapes = append(shapes, []int{2})
	}
	prior, _, err := r.tensor("prior_precision", shapes...)
	if err != nil {
		return err
	}
	if err := positive("prior_precision", prior); err != nil {
		return err
	}
	factorOf := func(name string, n int) (q, lambda []float64, err error) {
		m, err := r.matrix(name, n, MaxFactor)
		if err != nil {
			return nil, nil, err
		}
		return spectrum(name, m, n, r.rounding)
	}
	qb, lb, err := factorOf("H.0.0", k)
	if err != nil {
		return err
	}
	qa, la, err := factorOf("H.0.1", f)
	if err != nil {
		return err
	}
	r.Form, r.axes = Kronecker, &axes{qa: identity(d), qb: qb, v: make([]float64, d*k)}
	for i := range f {
		copy(r.axes.qa[i*d:i*d+f], qa[i*f:(i+1)*f])
		for j, b := range lb {
			r.axes.v[i*k+j] = 1 / (la[i]*b*factor + prior[0])
		}
	}
	if d > f {
		r.axes.bias = make([]float64, k*k)
	}
	if !biased {
		return nil
	}
	q, lambda, err := factorOf("H.1.0", k)
	if err != nil {
		return err
	}
	scaled := append([]float64(nil), q...)
	for i := range scaled {
		scaled[i] /= lambda[i%k]*factor + prior[len(prior)-1]
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(scaled, k, k), general(q, k, k), 0, general(r.axes.bias, k, k))
	return nil
}

// vbll reads the layer DiscClassification of vbll.
func (r *reader) vbll() error {
	r.head.Bias = true // of 0 where the layer has none: its variance is that of the noise
	k, f, d := r.head.Logits, r.head.Features, r.head.Dim()
	if r.has("noise_log_dof") {
		return fmt.Errorf("%w: the logits of tDiscClassification have no normal distribution: use DiscClassification", ErrNames)
	}
	if err := r.readMean("W_mean", "noise_mean", false); err != nil {
		return err
	}
	noise, _, err := r.tensor("noise_logdiag", []int{k})
	if err != nil {
		return err
	}
	logs, _, err := r.tensor("W_logdiag", []int{k, f})
	if err != nil {
		return err
	}
	if !r.has("W_offdiag") {
		all := make([]float64, k*d)
		for i := range k {
			for j := range f {
				all[r.place(k*d, i, j)] = math.Exp(2 * logs[i*f+j])
			}
			all[r.place(k*d, i, f)] = math.Exp(2 * noise[i])
		}
		r.setDiagonal(all)
		return finite("W_logdiag or noise_logdiag", all)
	}
	rank := f
	if shape := r.shapes["W_offdiag"]; len(shape) == 3 && shape[2] > 0 && shape[2] < f {
		rank = shape[2]
	}
	if err := r.checkBlocks("W_offdiag"); err != nil {
		return err
	}
	off, _, err := r.tensor("W_offdiag", []int{k, f, rank})
	if err != nil {
		return err
	}
	r.Form, r.blocks = PerLogit, make([]float64, k*d*d)
	factor := make([]float64, f*rank)
	for i := range k {
		copy(factor, off[i*f*rank:(i+1)*f*rank])
		block := blas64.General{Rows: f, Cols: f, Stride: d, Data: r.blocks[i*d*d:]}
		for j := range f {
			e := math.Exp(logs[i*f+j])
			if rank < f { // factor·factorᵀ + diag e
				block.Data[j*d+j] = e
			} else { // the Cholesky factor
				factor[j*f+j] = e
				clear(factor[j*f+j+1 : (j+1)*f])
			}
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(factor, f, rank), general(factor, f, rank), 1, block)
		r.blocks[(i+1)*d*d-1] = math.Exp(2 * noise[i])
	}
	return finite("W_offdiag, W_logdiag or noise_logdiag", r.blocks)
}

// finite refuses variances that overflowed.
func finite(name string, list []float64) error {
	for _, v := range list {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Errorf("tensor %s: %w: a variance is %v", name, ErrNumber, v)
		}
	}
	return nil
}

// checkBlocks bounds the matrices of all logits.
func (r *reader) checkBlocks(name string) error {
	d := r.head.Dim()
	if entries := float64(r.head.Logits) * float64(d) * float64(d); entries > MaxBlocks {
		return fmt.Errorf("tensor %q: %d matrices of order %d have %.3g entries, and at most %d are read: use a posterior with a diagonal or shared covariance",
			name, r.head.Logits, d, entries, MaxBlocks)
	}
	return nil
}

// sngp reads the layer of a spectral-normalised neural Gaussian process: a covariance of random features that all
// logits share.
func (r *reader) sngp() error {
	if err := r.readMean("beta.weight", "beta.bias", false); err != nil {
		return err
	}
	name, precision := "covariance", false
	if !r.has(name) {
		name, precision = "precision", true
	}
	return r.readShared(name, precision)
}

// readShared reads a covariance or precision [m,m].
func (r *reader) readShared(name string, precision bool) error {
	m := r.head.Features
	if slices.Equal(r.shapes[name], []int{r.head.Dim(), r.head.Dim()}) {
		m = r.head.Dim()
	}
	most := MaxFactor
	if precision {
		most = MaxOrder
	}
	c, err := r.matrix(name, m, most)
	if err == nil && precision {
		err = invert(name, c, m)
	}
	if err != nil {
		return err
	}
	return r.setShared(name, c, m)
}

// any reads a covariance or precision whose shape says what it is.
func (r *reader) any() error {
	if r.has("covariance") && r.has("precision") {
		return fmt.Errorf("%w: covariance and precision: want one", ErrNames)
	}
	if err := r.readMean("weight", "bias", true); err != nil {
		return err
	}
	name, precision := "covariance", false
	if !r.has(name) {
		name, precision = "precision", true
	}
	all, weights := r.sizes()
	k, f, d := r.head.Logits, r.head.Features, r.head.Dim()
	shape := r.shapes[name]
	square := len(shape) == 2 && shape[0] == shape[1]
	switch {
	case len(shape) == 1:
		return r.anyDiagonal(name, precision)
	case len(shape) == 3:
		return r.anyBlocks(name, precision)
	case square && k > 1 && shape[0] == d && shape[0] == weights && f < d:
		return fmt.Errorf("tensor %q: %w: %v may be of one logit with its bias, or of all weights without: give [%d,%[4]d]", name, ErrShape, shape, all)
	case square && (shape[0] == d || shape[0] == f):
		return r.readShared(name, precision)
	case square && (shape[0] == all || shape[0] == weights):
		n := shape[0]
		m, err := r.matrix(name, n, MaxOrder)
		if err != nil {
			return err
		}
		if precision {
			err = invert(name, m, n)
		} else {
			err = semidefinite(name, m, n, r.rounding)
		}
		if err != nil {
			return err
		}
		r.setFull(m, n)
		return nil
	}
	_, _, err := r.tensor(name, []int{all}, []int{d, d}, []int{k, d, d}, []int{all, all})
	return err
}

func (r *reader) anyDiagonal(name string, precision bool) error {
	all, weights := r.sizes()
	v, _, err := r.tensor(name, []int{all}, []int{weights})
	if err != nil {
		return err
	}
	if precision {
		if err := positive(name, v); err != nil {
			return err
		}
		for i := range v {
			v[i] = 1 / v[i]
		}
	}
	for i, x := range v {
		if !(x >= 0) {
			return fmt.Errorf("tensor %q: entry %d is %v, want a variance of at least 0", name, i, x)
		}
	}
	r.setDiagonal(v)
	return finite(name, v)
}

func (r *reader) anyBlocks(name string, precision bool) error {
	k, f, d := r.head.Logits, r.head.Features, r.head.Dim()
	if err := r.checkBlocks(name); err != nil {
		return err
	}
	if err := order(name, d, MaxOrder); err != nil {
		return err
	}
	c, which, err := r.tensor(name, []int{k, d, d}, []int{k, f, f})
	if err != nil {
		return err
	}
	m := []int{d, f}[which]
	r.Form, r.blocks = PerLogit, make([]float64, 0, k*d*d)
	for i := range k {
		one, of := c[i*m*m:(i+1)*m*m], fmt.Sprintf("%s[%d]", name, i)
		err := symmetrise(of, one, m)
		if err == nil && precision {
			err = invert(of, one, m)
		} else if err == nil {
			err = semidefinite(of, one, m, r.rounding)
		}
		if err != nil {
			return err
		}
		r.blocks = append(r.blocks, r.rows(one, m)...)
	}
	return nil
}
