package conformal

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// binomialCDF returns P(X ≤ k) for n draws with probability p each, to a relative error of 1e-9 deep in the tails
// (testdata/golden.py).
func binomialCDF(k, n int, p float64) float64 {
	return distuv.Binomial{N: float64(n), P: p}.CDF(float64(k))
}

// UpperBound returns the one-sided upper bound of Clopper and Pearson ("The use of confidence or fiducial limits",
// 1934) for a probability, k of n draws being true: it is below the true one with a probability of at most
// 1 - confidence.
func UpperBound(k, n int, confidence float64) float64 {
	checkCount(k, n, confidence)
	if k == n {
		return 1
	}
	return distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(confidence)
}

// ClopperPearson returns the two-sided interval for a probability, k of n draws being true, at a confidence in
// (0,1). Without draws it is [0,1].
func ClopperPearson(k, n int, confidence float64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	side := (1 + confidence) / 2
	return 1 - UpperBound(n-k, n, side), UpperBound(k, n, side)
}

// CoverageTail returns the probability that prediction sets with one threshold, set on n examples for alpha, cover at
// most k of m new examples from the same distribution. The threshold is the r-th smallest score for
// r = ⌈(n+1)(1-alpha)⌉, so that the coverage is Beta(r, n+1-r) distributed and k beta-binomial (Vovk, "Conditional
// Validity of Inductive Conformal Predictors", 2013), or larger if scores are tied.
func CoverageTail(k, m, n int, alpha float64) float64 {
	r := float64(n) - math.Floor(spare(n, alpha))
	rest := float64(n+1) - r
	if k >= m || rest <= 0 {
		return 1
	}
	if k < 0 {
		return 0
	}
	j, all := float64(k), float64(m)
	choose := -math.Log1p(all) - mathext.Lbeta(j+1, all-j+1)
	p := math.Exp(choose + mathext.Lbeta(j+r, all-j+rest) - mathext.Lbeta(r, rest))
	sum := 0.0
	const negligible = 1e-17
	for ; j >= 0 && p > sum*negligible; j-- { // the probability of j, from that of j+1
		sum += p
		p *= j * (all - j + rest) / ((all - j + 1) * (j - 1 + r))
	}
	return math.Min(sum, 1)
}

func checkCount(k, n int, confidence float64) {
	if k < 0 || k > n || n < 1 || !(confidence > 0 && confidence < 1) {
		panic(fmt.Sprintf("conformal: %d of %d with confidence %v", k, n, confidence))
	}
}

// pValue bounds the probability that n independent losses in [0,1] with a mean above target have at most this sum:
// the exact binomial one for losses of 0 or 1, and for fractional ones that of Hoeffding and Bentkus (Bates et al.,
// "Distribution-Free, Risk-Controlling Prediction Sets", 2021, theorem 4):
// min(exp(-n kl(mean, target)), e P(Bin(n,target) ≤ ⌈sum⌉)).
func pValue(sum float64, n int, parts bool, target float64) float64 {
	if !parts {
		return binomialCDF(int(sum), n, target)
	}
	if n == 0 {
		return 1
	}
	mean := math.Min(sum/float64(n), target)
	kl := 0.0
	if mean > 0 {
		kl = mean * math.Log(mean/target)
	}
	if mean < 1 {
		kl += (1 - mean) * math.Log((1-mean)/(1-target))
	}
	bentkus := math.E * binomialCDF(int(math.Ceil(sum)), n, target)
	return math.Min(1, math.Min(math.Exp(-float64(n)*kl), bentkus))
}
