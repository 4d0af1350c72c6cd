package methods

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// randomCovariance is S = Σ_r (C_r φ)(C_r φ)ᵀ, of rank at most that.
type randomCovariance struct {
	k, d  int
	roots [][]float64 // [rank][K,d]
}

func newRandomCovariance(k, d, rank int, seed uint64) *randomCovariance {
	rng := rand.New(rand.NewPCG(seed, 3))
	c := &randomCovariance{k: k, d: d}
	for range rank {
		root := make([]float64, k*d)
		for i := range root {
			root[i] = rng.NormFloat64()
		}
		c.roots = append(c.roots, root)
	}
	return c
}

func (c *randomCovariance) Covariances(dst []float64, phi []float32, n int) error {
	clear(dst)
	for i := range n {
		for _, root := range c.roots {
			x := make([]float64, c.k)
			for r := range x {
				for j, v := range phi[i*c.d : (i+1)*c.d] {
					x[r] += root[r*c.d+j] * float64(v)
				}
			}
			at := i * PackedSize(c.k)
			for r := range x {
				for s := r; s < c.k; s++ {
					dst[at] += x[r] * x[s]
					at++
				}
			}
		}
	}
	return nil
}

// dense returns the K×K covariance of example i.
func dense(t *testing.T, c Covariance, s *rows.Batch, i, k int) []float64 {
	t.Helper()
	d := len(s.Features) / (len(s.Logits) / k)
	packed := make([]float64, PackedSize(k))
	if err := c.Covariances(packed, s.Features[i*d:(i+1)*d], 1); err != nil {
		t.Fatal(err)
	}
	m := make([]float64, k*k)
	for r := range k {
		for j := r; j < k; j++ {
			m[r*k+j] = packed[packedRow(r, k)+j-r]
			m[j*k+r] = m[r*k+j]
		}
	}
	return m
}

// diagonalOnly leaves out what another covariance has beside its diagonal.
type diagonalOnly struct {
	Covariance
	k int
}

func (c diagonalOnly) Covariances(dst []float64, phi []float32, n int) error {
	if err := c.Covariance.Covariances(dst, phi, n); err != nil {
		return err
	}
	for i := range dst {
		within := i % PackedSize(c.k)
		r := 0
		for packedRow(r+1, c.k) <= within {
			r++
		}
		if within != packedRow(r, c.k) {
			dst[i] = 0
		}
	}
	return nil
}

func testSet(n, d, k int, size float64, seed uint64) *rows.Batch {
	rng := rand.New(rand.NewPCG(seed, 4))
	return &rows.Batch{N: n, Features: normals(rng, n*d, 1), Logits: normals(rng, n*k, size)}
}

func gaussian(t *testing.T, kind Kind, cov Covariance, s *rows.Batch, k int) *Gaussian {
	t.Helper()
	g, err := NewGaussian(t.Context(), kind, cov, s, k)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGaussianAppliesTheTemperatures(t *testing.T) {
	t.Parallel()
	const n, d, k = 20, 3, 6
	set, cov := testSet(n, d, k, 3, 1), newRandomCovariance(k, d, 4, 1)
	var all []float64
	for i := range n {
		for c := range k {
			all = append(all, dense(t, cov, set, i, k)[c*k+c])
		}
	}
	slices.Sort(all)
	formulas := map[Kind]func(logp, mu, s []float64) float64{
		MF0: func(logp, mu, s []float64) float64 {
			return meanfield.MF0Exact(logp, mu, diagonalOf(s, k), meanfield.Lambda0)
		},
		MF1: func(logp, mu, s []float64) float64 {
			return meanfield.MF1(logp, mu, diagonalOf(s, k), meanfield.Lambda0)
		},
		MF2: func(logp, mu, s []float64) float64 { return meanfield.MF2(logp, mu, s, meanfield.Lambda0) },
	}
	for kind, formula := range formulas {
		g := gaussian(t, kind, cov, set, k)
		if want := all[n*k/2]; !approx.Relative(g.MedianVariance(), want, 1e-12) || g.Len() != n ||
			g.Probabilities() != k {
			t.Errorf("%s: %d examples of %d outcomes and spread %v, want %d, %d and %v", kind, g.Len(), g.Probabilities(), g.MedianVariance(), n, k, want)
		}
		predict, logp, want := g.Predictor(), make([]float64, k), make([]float64, k)
		const act, ens = 1.3, 2.5
		for i := range n {
			mu := make([]float64, k)
			for c := range mu {
				mu[c] = float64(set.Logits[i*k+c]) / act
			}
			s := dense(t, cov, set, i, k)
			for j := range s {
				s[j] /= ens
			}
			wantRest := meanfield.OneMinusMax(formula(want, mu, s), k)
			rest := meanfield.OneMinusMax(predict(logp, i, layer.Temperatures{Act: act, Ens: ens}), len(logp))
			for c := range logp {
				if !approx.Equal(logp[c], want[c], 1e-12) || !approx.Relative(rest, wantRest, 1e-12) {
					t.Fatalf("%s: example %d: log p %v and rest %v, want %v and %v", kind, i, logp, rest, want, wantRest)
				}
			}
		}
	}
}

func diagonalOf(s []float64, k int) []float64 {
	d := make([]float64, k)
	for i := range d {
		d[i] = s[i*k+i]
	}
	return d
}

func TestMF2WithoutCovariancesIsMF1(t *testing.T) {
	t.Parallel()
	const n, d, k = 10, 2, 5
	set := testSet(n, d, k, 3, 2)
	cov := diagonalOnly{newRandomCovariance(k, d, 3, 2), k}
	one, two := gaussian(t, MF1, cov, set, k).Predictor(), gaussian(t, MF2, cov, set, k).Predictor()
	a, b := make([]float64, k), make([]float64, k)
	for i := range n {
		temperatures := layer.Temperatures{Act: 0.7, Ens: 0.4}
		restA, restB := one(a, i, temperatures), two(b, i, temperatures)
		for c := range a {
			if !approx.Equal(a[c], b[c], 1e-12) || !approx.Relative(restA, restB, 1e-12) {
				t.Fatalf("example %d: mf1 %v, %v and mf2 %v, %v differ", i, a, restA, b, restB)
			}
		}
	}
}

// The sigma points are those of the paper's appendix, and have the right moments.
func TestUnscentedIsTheSumOverSigmaPoints(t *testing.T) {
	t.Parallel()
	const n, d, k = 8, 3, 4
	set, cov := testSet(n, d, k, 2, 3), newRandomCovariance(k, d, 5, 3)
	predict, logp := gaussian(t, UKF, cov, set, k).Predictor(), make([]float64, k)
	temperatures := layer.Temperatures{Act: 1.5, Ens: 6}
	for i := range n {
		mu := make([]float64, k)
		for c := range mu {
			mu[c] = float64(set.Logits[i*k+c]) / temperatures.Act
		}
		s := dense(t, cov, set, i, k)
		for j := range s {
			s[j] /= temperatures.Ens
		}
		l := naiveCholesky(s, k)
		points, weights := [][]float64{mu}, []float64{-1}
		for c := range k {
			for _, sign := range []float64{1, -1} {
				a := slices.Clone(mu)
				for r := range a {
					a[r] += sign * math.Sqrt(0.5*k) * l[r*k+c]
				}
				points, weights = append(points, a), append(weights, 1./k)
			}
		}
		mean, second := make([]float64, k), make([]float64, k*k)
		want := make([]float64, k)
		for p, a := range points {
			for r := range k {
				mean[r] += weights[p] * a[r]
				for c := range k {
					second[r*k+c] += weights[p] * (a[r] - mu[r]) * (a[c] - mu[c])
				}
			}
			for c, v := range naiveSoftmax(a) {
				want[c] += weights[p] * v
			}
		}
		for r := range mean {
			if !approx.Equal(mean[r], mu[r], 1e-12) {
				t.Fatalf("the mean of the sigma points is %v, want %v", mean, mu)
			}
		}
		for r := range second {
			if !approx.Equal(second[r], s[r], 1e-12) {
				t.Fatalf("the covariance of the sigma points is %v, want %v", second, s)
			}
		}
		var total float64
		for c := range want {
			want[c] = math.Max(want[c], 0x1p-126)
			total += want[c]
		}
		for c := range want {
			want[c] /= total
		}
		rest := meanfield.OneMinusMax(predict(logp, i, temperatures), len(logp))
		wantProbabilities(t, fmt.Sprintf("example %d", i), logp, rest, want, 1e-5)
	}
}

// withVariances adds those of a covariance, and counts what each is asked for.
type withVariances struct {
	*randomCovariance
	covariances, variances int // examples
	wrong                  float64
}

func (c *withVariances) Covariances(dst []float64, phi []float32, n int) error {
	c.covariances += n
	return c.randomCovariance.Covariances(dst, phi, n)
}

func (c *withVariances) Variances(dst []float64, phi []float32, n int) error {
	c.variances += n
	packed := make([]float64, n*PackedSize(c.k))
	if err := c.randomCovariance.Covariances(packed, phi, n); err != nil {
		return err
	}
	for i := range n {
		diagonal(dst[i*c.k:(i+1)*c.k], packed[i*PackedSize(c.k):(i+1)*PackedSize(c.k)])
	}
	dst[n*c.k-1] += c.wrong
	return nil
}

func TestMF0AndMF1UseVariancesOnly(t *testing.T) {
	t.Parallel()
	const n, d, k = 600, 3, 4 // blocks of examples
	set, plain := testSet(n, d, k, 3, 12), newRandomCovariance(k, d, 4, 12)
	for kind, few := range map[Kind]bool{MF0: true, MF1: true, MF2: false, UKF: false} {
		cov := &withVariances{randomCovariance: plain}
		got, want := gaussian(t, kind, cov, set, k), gaussian(t, kind, plain, set, k)
		if !slices.Equal(got.s, want.s) || got.medianVariance != want.medianVariance {
			t.Errorf("%s: other numbers, or a spread of %v, want %v", kind, got.medianVariance, want.medianVariance)
		}
		asked := [2]int{cov.variances, cov.covariances}
		if few && asked != [2]int{n, 0} || !few && asked != [2]int{0, n} {
			t.Errorf("%s: variances of %d examples and covariances of %d", kind, asked[0], asked[1])
		}
	}
	for _, wrong := range []float64{-1e6, math.NaN(), math.Inf(1)} {
		err := gaussianError(t.Context(), MF0, &withVariances{randomCovariance: plain, wrong: wrong}, set, k)
		if err == nil || !strings.Contains(err.Error(), "example 255: the variance of logit 3 is") {
			t.Errorf("error %v for a variance off by %v, want one that names example and logit", err, wrong)
		}
	}
}

// naiveCholesky returns L with LLᵀ = s, of a positive definite s.
func naiveCholesky(s []float64, k int) []float64 {
	l := make([]float64, k*k)
	for r := range k {
		for c := range r + 1 {
			v := s[r*k+c]
			for j := range c {
				v -= l[r*k+j] * l[c*k+j]
			}
			if r == c {
				l[r*k+c] = math.Sqrt(v)
			} else {
				l[r*k+c] = v / l[c*k+c]
			}
		}
	}
	return l
}

// Its error falls with S², as that of three-point Gauss-Hermite quadrature.
func TestUnscentedIsExactToSecondOrder(t *testing.T) {
	t.Parallel()
	const d, k = 2, 3
	set, cov := testSet(5, d, k, 1, 4), newRandomCovariance(k, d, 4, 4)
	predict, logp := gaussian(t, UKF, cov, set, k).Predictor(), make([]float64, k)
	worst := func(ens float64) float64 {
		var worst float64
		for i := range 5 {
			s := dense(t, cov, set, i, k)
			mu := make([]float64, k)
			for c := range mu {
				mu[c] = float64(set.Logits[i*k+c])
			}
			want := quadrature(mu, naiveCholesky(s, k), 1/math.Sqrt(ens))
			predict(logp, i, layer.Temperatures{Act: 1, Ens: ens})
			for c := range want {
				worst = math.Max(worst, math.Abs(math.Exp(logp[c])-want[c]))
			}
		}
		return worst
	}
	coarse, fine := worst(100), worst(1600)
	if ratio := coarse / fine; !(coarse < 0.01 && ratio > 150 && ratio < 400) {
		t.Errorf("the error falls from %v to %v, %v times, when S is divided by 16; want about 256 times", coarse, fine, ratio)
	}
}

// quadrature integrates softmax over N(mu, scale² LLᵀ), K = 3, by the product of three
// 7-point Gauss-Hermite rules (Abramowitz and Stegun, table 25.10).
func quadrature(mu, l []float64, scale float64) []float64 {
	nodes := []float64{0, 0.816287882858965, 1.673551628767471, 2.651961356835233}
	weights := []float64{0.8102646175568073, 0.4256072526101278, 0.05451558281912703, 0.0009717812450995192}
	for i := 1; i < 4; i++ {
		nodes, weights = append(nodes, -nodes[i]), append(weights, weights[i])
	}
	e := make([]float64, 3)
	for i, u := range nodes {
		for j, v := range nodes {
			for h, w := range nodes {
				z := []float64{u, v, w}
				a := slices.Clone(mu)
				for r := range a {
					for c := range z {
						a[r] += scale * l[r*3+c] * math.Sqrt2 * z[c]
					}
				}
				for c, p := range naiveSoftmax(a) {
					e[c] += weights[i] * weights[j] * weights[h] / math.Pow(math.Pi, 1.5) * p
				}
			}
		}
	}
	return e
}

func TestNegativeUnscentedSumsGiveTheSmallestProbability(t *testing.T) {
	t.Parallel()
	const k = 3
	set := &rows.Batch{N: 1, Features: []float32{1}, Logits: []float32{5, 0, 0}}
	// Of the columns (1, 2, -2), (0, 1, -1), (0, 0, 1) of a large root only the last,
	// taken away, leaves class 0 on top: it has a third of what it loses in the middle.
	const size = 1e6
	cov := covarianceFunc(func(dst []float64) {
		copy(dst, []float64{size, 2 * size, -2 * size, 5 * size, -5 * size, 6 * size})
	})
	logLeast := -126 * math.Ln2
	logp := make([]float64, k)
	rest := meanfield.OneMinusMax(gaussian(t, UKF, cov, set, k).Predictor()(logp, 0, layer.Temperatures{Act: 1,
		Ens: 1}), k)
	var sum float64
	for _, v := range logp {
		if !(v <= 0 && v >= logLeast-1) {
			t.Errorf("log-probabilities %v, want them from %v to 0", logp, logLeast)
		}
		sum += math.Exp(v)
	}
	if !approx.Equal(sum, 1, 1e-12) || !(rest > 0 && rest < 1) {
		t.Errorf("probabilities sum to %v and 1 - max p is %v, want 1 and more than 0", sum, rest)
	}
	// What the others sum to is what is missing to 1.
	negative := 1/(1+math.Exp(-5))/3 - naiveSoftmax([]float64{5, 0, 0})[0]
	if want := logLeast - math.Log(1-negative); !(negative < -0.5) || !approx.Equal(logp[0], want, 1e-6) {
		t.Errorf("log p is %v of a class with the sum %v, want %v", logp[0], negative, want)
	}
}

// covarianceFunc writes the covariance of one example after another.
type covarianceFunc func(dst []float64)

func (f covarianceFunc) Covariances(dst []float64, _ []float32, n int) error {
	for i := range n {
		f(dst[i*len(dst)/n : (i+1)*len(dst)/n])
	}
	return nil
}

func TestCholeskyOfSemidefiniteMatrices(t *testing.T) {
	t.Parallel()
	const d, k = 3, 7
	set := testSet(1, d, k, 1, 5)
	for _, rank := range []int{0, 1, 2, 6, 7, 20} {
		s := dense(t, newRandomCovariance(k, d, rank, 5), set, 0, k)
		packed := make([]float64, 0, PackedSize(k))
		for r := range k {
			packed = append(packed, s[r*k+r:(r+1)*k]...)
		}
		if err := cholesky(packed, k); err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
		product := make([]float64, k*k)
		columns := 0
		for i := range k {
			row := packed[packedRow(i, k):packedRow(i+1, k)]
			if row[0] != 0 {
				columns++
			}
			for a, u := range row {
				for b, v := range row {
					product[(i+a)*k+i+b] += u * v
				}
			}
		}
		if want := min(rank, k); columns != want {
			t.Errorf("rank %d: %d columns that are not zero, want %d", rank, columns, want)
		}
		for i := range s {
			if !approx.Equal(product[i], s[i], 1e-12*slices.Max(s)) {
				t.Fatalf("rank %d: LLᵀ is %v at %d, want %v", rank, product[i], i, s[i])
			}
		}
	}
	if err := cholesky([]float64{1, 2, 1}, 2); err == nil || !strings.Contains(err.Error(), "not semi-definite") {
		t.Errorf("error %v for a correlation of 2, want one that says it is not semi-definite", err)
	}
}

func TestMonteCarloHasItsCovarianceAndMean(t *testing.T) {
	t.Parallel()
	const n, d, k, m = 4, 2, 3, 40000
	set, cov := testSet(n, d, k, 1, 6), newRandomCovariance(k, d, 2, 6) // of rank 2
	s, err := NewMonteCarlo(t.Context(), cov, set, k, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	predict, logp := s.Predictor(), make([]float64, k)
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range n {
		want := dense(t, cov, set, i, k)
		got := make([]float64, k*k)
		for j := range m {
			x := s.draw(i, j)
			for r := range k {
				for c := range k {
					got[r*k+c] += float64(x[r]) * float64(x[c]) / m
				}
			}
		}
		for r := range k {
			for c := range k {
				// The variance of a product of two normals is s_rr s_cc + s_rc².
				stdErr := math.Sqrt((want[r*k+r]*want[c*k+c] + want[r*k+c]*want[r*k+c]) / m)
				if !approx.Equal(got[r*k+c], want[r*k+c], 4.5*stdErr) {
					t.Errorf("example %d: covariance of %d and %d is %v, want %v ± %v", i, r, c, got[r*k+c], want[r*k+c], stdErr)
				}
			}
		}
		// By brute force: C_r φ times a normal number each.
		sum, squares := make([]float64, k), make([]float64, k)
		for range m {
			x := make([]float64, k)
			for c := range x {
				x[c] = float64(set.Logits[i*k+c]) / 2
			}
			for _, root := range cov.roots {
				z := rng.NormFloat64()
				for r := range x {
					for j, v := range set.Features[i*d : (i+1)*d] {
						x[r] += z * root[r*d+j] * float64(v) / math.Sqrt(3)
					}
				}
			}
			for c, p := range naiveSoftmax(x) {
				sum[c] += p / m
				squares[c] += p * p / m
			}
		}
		predict(logp, i, layer.Temperatures{Act: 2, Ens: 3})
		for c := range logp {
			stdErr := math.Sqrt(2 * (squares[c] - sum[c]*sum[c]) / m)
			if !approx.Equal(math.Exp(logp[c]), sum[c], 4.5*stdErr) {
				t.Errorf("example %d: p of class %d is %v, want %v ± %v", i, c, math.Exp(logp[c]), sum[c], stdErr)
			}
		}
	}
}

// Equal examples have different draws.
func TestMonteCarloDependsOnTheSeedOnly(t *testing.T) {
	const d, k = 2, 3
	set, cov := testSet(100, d, k, 1, 8), newRandomCovariance(k, d, 3, 8)
	copy(set.Features[d:2*d], set.Features[:d])
	copy(set.Logits[k:2*k], set.Logits[:k])
	draws := func(processors int, seed uint64) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		s, err := NewMonteCarlo(t.Context(), cov, set, k, 5, seed)
		if err != nil {
			t.Fatal(err)
		}
		return s.draws
	}
	one := draws(1, 1)
	if !slices.Equal(one, draws(7, 1)) {
		t.Error("draws on 1 and 7 processors differ")
	}
	if slices.Equal(one, draws(1, 2)) {
		t.Error("draws of two seeds are the same")
	}
	if slices.Equal(one[:5*k], one[5*k:10*k]) {
		t.Error("draws of two equal examples are the same")
	}
}

func TestTunedMonteCarloHasAboutTheNLLOfMF0(t *testing.T) {
	t.Parallel()
	const n, d, k = 400, 2, 3
	set, cov := testSet(n, d, k, 4, 9), newRandomCovariance(k, d, 3, 9)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range n { // labels of logits half as large
		u, label := rng.Float64(), 0
		x := make([]float64, k)
		for c := range x {
			x[c] = float64(set.Logits[i*k+c]) / 2
		}
		for c, p := range naiveSoftmax(x) {
			if u -= p; u < 0 {
				label = c
				break
			}
		}
		set.Labels = append(set.Labels, label)
	}
	samples, err := NewMonteCarlo(t.Context(), cov, set, k, 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	nll := map[string]float64{}
	for name, p := range map[string]calibrate.Predictive{"mc": samples, "mf0": gaussian(t, MF0, cov, set, k),
		"ukf": gaussian(t, UKF, cov, set, k)} {
		tuned, err := calibrate.Tune(t.Context(), p, set.Labels, nil, math.Inf(1))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		predict, logp := p.Predictor(), make([]float64, k)
		for i, y := range set.Labels {
			predict(logp, i, tuned.Optimum)
			nll[name] -= logp[y] / n
		}
	}
	if !approx.Relative(nll["mc"], nll["mf0"], 0.01) || !approx.Relative(nll["ukf"], nll["mf0"], 0.01) {
		t.Errorf("tuned NLL %v, want about the same of each", nll)
	}
}

func TestGaussianRefusesBadInputs(t *testing.T) {
	t.Parallel()
	const d, k = 2, 3
	set, cov := testSet(3, d, k, 1, 10), newRandomCovariance(k, d, 3, 10)
	nan := covarianceFunc(func(dst []float64) { dst[1] = math.NaN() })
	negative := covarianceFunc(func(dst []float64) { clear(dst); dst[3] = -1 })
	indefinite := covarianceFunc(func(dst []float64) { copy(dst, []float64{1, 2, 0, 1, 0, 1}) })
	bad := errors.New("no such product")
	cases := []struct {
		name   string
		make   func() error
		reason string
	}{
		{"kind", func() error { return gaussianError(t.Context(), "mf3", cov, set, k) }, `integral "mf3"`},
		{"one class", func() error { return gaussianError(t.Context(), MF0, cov, set, 1) }, "1 logits"},
		{"odd logits", func() error { return gaussianError(t.Context(), MF0, cov, set, 2) }, "9 logits and 6 features"},
		{"empty", func() error { return gaussianError(t.Context(), MF0, cov, &rows.Batch{}, k) }, "0 logits"},
		{"NaN", func() error { return gaussianError(t.Context(), MF2, nan, set, k) }, "example 0: a covariance of the logits is NaN"},
		{"negative", func() error { return gaussianError(t.Context(), MF0, negative, set, k) }, "example 0: the variance of logit 1 is -1"},
		{"indefinite", func() error { return gaussianError(t.Context(), UKF, indefinite, set, k) }, "example 0: the covariance of the logits is not semi-definite"},
		{"large", func() error {
			return gaussianError(t.Context(), MF2, cov, &rows.Batch{N: 2000, Logits: make([]float32, 1500*2000)}, 1500)
		}, "2000 examples would take"},
		{"product", func() error { return gaussianError(t.Context(), MF0, failing{bad}, set, k) }, "no such product"},
		{"no samples", func() error { _, err := NewMonteCarlo(t.Context(), cov, set, k, 0, 1); return err }, "0 samples"},
		{"many samples", func() error { _, err := NewMonteCarlo(t.Context(), cov, set, k, 1<<30, 1); return err }, "3 examples would take"},
		{"sampling an indefinite one", func() error { _, err := NewMonteCarlo(t.Context(), indefinite, set, k, 1, 1); return err }, "not semi-definite"},
	}
	for _, c := range cases {
		if err := c.make(); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.reason)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := gaussianError(ctx, MF0, cov, set, k); !errors.Is(err, stopped) {
		t.Errorf("error %v after the context ended, want its cause", err)
	}
	if _, err := NewMonteCarlo(ctx, cov, set, k, 5, 1); !errors.Is(err, stopped) {
		t.Errorf("error %v after the context ended, want its cause", err)
	}
}

func gaussianError(ctx context.Context, kind Kind, cov Covariance, s *rows.Batch, k int) error {
	_, err := NewGaussian(ctx, kind, cov, s, k)
	return err
}

type failing struct{ err error }

func (f failing) Covariances([]float64, []float32, int) error { return f.err }
