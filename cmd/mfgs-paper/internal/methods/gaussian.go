package methods

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Kind is a closed-form approximation of the integral of a softmax over Gaussian logits.
type Kind string

const (
	MF0 Kind = "mf0" // meanfield.Workspace.MF0, from the variances; O(K)
	MF1 Kind = "mf1" // meanfield.MF1, from the variances; O(K²)
	MF2 Kind = "mf2" // meanfield.MF2, from the covariance; O(K²)
	// UKF is the unscented transform (paper, appendix): the weighted mean of the
	// softmax at 2K+1 points; O(K²).
	UKF Kind = "ukf"
)

// ukfAlpha is α of the unscented transform, as in the paper's appendix.
const ukfAlpha = 0.5

// Gaussian is a set of examples whose logits are Gaussian, N(a/T_act, S/T_ens).
type Gaussian struct {
	kind   Kind
	n, k   int
	logits []float32 // [n,K]
	// For mf0 and mf1 variances [n,K]; for mf2 covariances [n,K(K+1)/2]; for the
	// unscented transform their Cholesky factors.
	s              []float64
	medianVariance float64
}

var _ calibrate.Predictive = (*Gaussian)(nil)

// NewGaussian prepares a set of examples of K logits for one kind of integral. mf0 and mf1 use only the
// [Variances] of a cov that has them.
//
// The mean-field kinds use λ₀ = [meanfield.Lambda0], whatever the calibration used. Only λ₀S/T_ens
// matters, so another λ₀ amounts to another T_ens, unless that is at a bound of its search.
func NewGaussian(ctx context.Context, kind Kind, cov Covariance, s *rows.Batch, k int) (*Gaussian, error) {
	switch kind {
	case MF0, MF1, MF2, UKF:
	default:
		return nil, fmt.Errorf("integral %q, want %s, %s, %s or %s", kind, MF0, MF1, MF2, UKF)
	}
	n, err := checkSet(s, k)
	if err != nil {
		return nil, err
	}
	width := k
	if kind == MF2 || kind == UKF {
		width = PackedSize(k)
	}
	if err := checkSize(n, width, 8); err != nil {
		return nil, err
	}
	g := &Gaussian{kind: kind, n: n, k: k, logits: s.Logits, s: make([]float64, n*width)}
	variances := make([]float64, n*k)
	if own, ok := cov.(Variances); ok && width == k {
		err = eachBlock(ctx, s, k, k, own.Variances, func(i int, row []float64) error {
			copy(variances[i*k:(i+1)*k], row)
			return checkVariances(row)
		})
	} else {
		err = eachCovariance(ctx, cov, s, k, func(i int, packed []float64) error {
			diagonal(variances[i*k:(i+1)*k], packed)
			if width == k {
				return nil
			}
			row := g.s[i*width : (i+1)*width]
			copy(row, packed)
			if kind == UKF {
				return cholesky(row, k)
			}
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	if width == k {
		copy(g.s, variances)
	}
	g.medianVariance = median(variances)
	return g, nil
}

// NewMeanField is [NewGaussian] of kind MF0 for variances [n,K] that are known, which it keeps.
func NewMeanField(logits []float32, variances []float64, k int) (*Gaussian, error) {
	if k < 2 || len(logits) == 0 || len(logits)%k != 0 || len(variances) != len(logits) {
		return nil, fmt.Errorf("%d logits and %d variances, want as many for at least one example of %d", len(logits), len(variances), max(k, 2))
	}
	if err := checkFinite(logits, k, "logit"); err != nil {
		return nil, err
	}
	g := &Gaussian{kind: MF0, n: len(logits) / k, k: k, logits: logits, s: variances}
	g.medianVariance = median(slices.Clone(variances))
	return g, checkVariances(variances)
}

func (g *Gaussian) Len() int { return g.n }

func (g *Gaussian) Probabilities() int { return g.k }

// MedianVariance returns the median over examples and classes of the logit variance.
func (g *Gaussian) MedianVariance() float64 { return g.medianVariance }

func (g *Gaussian) Predictor() func(logp []float64, i int, t layer.Temperatures) (margin float64) {
	mu := make([]float64, g.k)
	predict := g.integral()
	width := len(g.s) / g.n
	return func(logp []float64, i int, t layer.Temperatures) float64 {
		for c, a := range g.logits[i*g.k : (i+1)*g.k] {
			mu[c] = float64(a) / t.Act
		}
		return predict(logp, mu, g.s[i*width:(i+1)*width], t.Ens)
	}
}

// integral returns the integrating function, with its own work space.
func (g *Gaussian) integral() func(logp, mu, s []float64, ens float64) (margin float64) {
	k := g.k
	switch g.kind {
	case UKF:
		x, p := make([]float64, k), make([]float64, k)
		return func(logp, mu, s []float64, ens float64) float64 {
			return unscented(logp, mu, s, 1/math.Sqrt(ens), x, p)
		}
	case MF2:
		full := make([]float64, k*k)
		return func(logp, mu, s []float64, ens float64) float64 {
			at := 0
			for r := range k {
				for c := r; c < k; c++ {
					v := s[at] / ens
					full[r*k+c], full[c*k+r] = v, v
					at++
				}
			}
			return meanfield.MF2(logp, mu, full, meanfield.Lambda0)
		}
	}
	integrate := meanfield.NewWorkspace(k, meanfield.Lambda0).MF0
	if g.kind == MF1 {
		integrate = func(logp, mu, s2 []float64) float64 { return meanfield.MF1(logp, mu, s2, meanfield.Lambda0) }
	}
	s2 := make([]float64, k)
	return func(logp, mu, s []float64, ens float64) float64 {
		for c, v := range s {
			s2[c] = v / ens
		}
		return integrate(logp, mu, s2)
	}
}

// unscented writes the logarithms of
//
//	e = w₀ softmax(μ) + w Σ_i (softmax(μ + hL_i) + softmax(μ - hL_i)),
//	w₀ = -α/(1-α),  w = 1/(2(1-α)K),  h = √((1-α)K) · scale
//
// (paper, appendix), for the columns L_i of a Cholesky factor of S. Since w₀ is negative, e_k may be, too: it is then
// replaced by 2⁻¹²⁶, the smallest normal float32, and e is normalised. x and p are work space [K].
func unscented(logp, mu, root []float64, scale float64, x, p []float64) (margin float64) {
	k := len(mu)
	const center = -ukfAlpha / (1 - ukfAlpha)
	weight := 1 / (2 * (1 - ukfAlpha) * float64(k))
	h := scale * math.Sqrt((1-ukfAlpha)*float64(k))
	clear(p)
	add := func(weight float64) {
		top := x[0]
		for _, v := range x {
			top = max(top, v)
		}
		addSoftmax(p, x, top, weight)
	}
	for i := range k {
		column := root[:k-i] // entries of the classes from i on
		root = root[k-i:]
		for _, h := range []float64{h, -h} {
			copy(x, mu)
			for c, v := range column {
				x[i+c] += h * v
			}
			add(weight)
		}
	}
	copy(x, mu)
	add(center)
	const least = 0x1p-126
	for c, v := range p {
		p[c] = max(v, least)
	}
	return logarithms(logp, p)
}

// cholesky overwrites the packed upper triangle of a covariance S by that of U, S = UᵀU:
// row i is column i of L = Uᵀ, from the diagonal down.
//
// S may be semi-definite: if only rounding errors are left of a variance, the column is zero. S sums thousands of
// products, with relative errors below 1e-12; a pivot that is clearly negative is an error.
func cholesky(s []float64, k int) error {
	const rounding, wrong = 1e-10, 1e-6
	variances := make([]float64, k)
	diagonal(variances, s)
	for i := range k {
		row := s[packedRow(i, k):packedRow(i+1, k)]
		pivot := row[0]
		if !(pivot >= -wrong*variances[i]) {
			return fmt.Errorf("the covariance of the logits is not semi-definite: of the variance %v of logit %d there is %v left", variances[i], i, pivot)
		}
		if pivot <= rounding*variances[i] {
			clear(row)
			continue
		}
		root := math.Sqrt(pivot)
		for c := range row {
			row[c] /= root
		}
		for r := i + 1; r < k; r++ {
			v := row[r-i]
			below := s[packedRow(r, k):packedRow(r+1, k)]
			for c, u := range row[r-i:] {
				below[c] -= v * u
			}
		}
	}
	return nil
}

// PackedSize returns the size of a packed upper triangle of order n.
func PackedSize(n int) int { return n * (n + 1) / 2 }

// packedRow returns where row i of a packed upper triangle of order n begins.
func packedRow(i, n int) int { return i*n - i*(i-1)/2 }

// diagonal extracts the diagonal of a packed upper triangle.
func diagonal(dst, packed []float64) {
	for i := range dst {
		dst[i] = packed[packedRow(i, len(dst))]
	}
}

// checkSet checks a set and returns the number of examples.
func checkSet(s *rows.Batch, k int) (n int, err error) {
	if k < 2 {
		return 0, fmt.Errorf("%d logits, want at least 2", k)
	}
	if n = s.N; n == 0 || len(s.Logits) != n*k || len(s.Features)%n != 0 {
		return 0, fmt.Errorf("%d logits and %d features, want %d logits for each of at least one example, and as many features for all", len(s.Logits), len(s.Features), k)
	}
	return n, checkFinite(s.Logits, k, "logit")
}

// eachCovariance calls f concurrently with the packed covariance of each example.
func eachCovariance(ctx context.Context, cov Covariance, s *rows.Batch, k int, f func(i int,
	packed []float64) error) error {
	return eachBlock(ctx, s, k, PackedSize(k), cov.Covariances, func(i int, packed []float64) error {
		if err := checkCovariance(packed, k); err != nil {
			return err
		}
		return f(i, packed)
	})
}

// eachBlock calls f concurrently with the row of width numbers that write computes for each example.
func eachBlock(ctx context.Context, s *rows.Batch, k, width int, write func(dst []float64, phi []float32, n int) error,
	f func(i int, row []float64) error) error {
	const most, rows = 4 << 20, 256 // numbers and examples at once
	n := s.N
	features := len(s.Features) / n
	size := min(n, rows, max(1, most/width))
	block := make([]float64, size*width)
	errs := make([]error, size)
	for first := 0; first < n; first += size {
		count := min(size, n-first)
		if err := write(block[:count*width], s.Features[first*features:(first+count)*features], count); err != nil {
			return err
		}
		parallel.For(count, func(from, to int) {
			for i := from; i < to && ctx.Err() == nil; i++ {
				errs[i] = f(first+i, block[i*width:(i+1)*width])
			}
		})
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for i, err := range errs[:count] {
			if err != nil {
				return fmt.Errorf("example %d: %w", first+i, err)
			}
		}
	}
	return nil
}

func checkVariances(variances []float64) error {
	for i, v := range variances {
		if !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("the variance of logit %d is %v, want a finite number that is not negative", i, v)
		}
	}
	return nil
}

func checkCovariance(packed []float64, k int) error {
	variances := make([]float64, k)
	diagonal(variances, packed)
	if err := checkVariances(variances); err != nil {
		return err
	}
	for _, v := range packed {
		if math.IsNaN(v - v) {
			return fmt.Errorf("a covariance of the logits is %v, want a finite number", v)
		}
	}
	return nil
}
