package conformal

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// atMostOf returns P(X ≤ k) for X of n draws with probability p each.
func binomialCDF(k, n int, p float64) float64 {
	return distuv.Binomial{N: float64(n), P: p}.CDF(float64(k))
}

// Upper returns the largest probability that k of n draws leave possible, at a confidence in (0,1):
// the one-sided bound of Clopper and Pearson, "The use of confidence or fiducial limits" (1934). It
// is below the true probability with a chance of at most 1 - confidence.
func UpperBound(k, n int, confidence float64) float64 {
	checkCount(k, n, confidence)
	if k == n {
		return 1
	}
	return distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(confidence)
}

// Within returns between which probabilities the true one lies where k of n draws came true, at a
// confidence in (0,1): the two-sided interval of Clopper and Pearson. Of no draws it is 0 to 1.
func ClopperPearson(k, n int, confidence float64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	side := (1 + confidence) / 2
	return 1 - UpperBound(n-k, n, side), UpperBound(k, n, side)
}

// AtMostCovered returns the chance that sets, whose threshold n examples set for alpha, have the label of no more than
// k of m new examples that are drawn alike: the threshold is the r-th smallest score for r = ⌈(n+1)(1-alpha)⌉,
// so that what it covers of all examples is Beta(r, n+1-r) distributed, and k of m beta-binomial (Vovk, "Conditional
// Validity of Inductive Conformal Predictors", 2013). Equal scores cover more. Of thresholds for each class it is not.
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
	p := math.Exp(-math.Log1p(all) - mathext.Lbeta(j+1, all-j+1) + mathext.Lbeta(j+r, all-j+rest) - mathext.Lbeta(r, rest))
	sum := 0.0
	const negligible = 1e-17
	for ; j >= 0 && p > sum*negligible; j-- { // the chance of j, from that of j+1
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

// pValue bounds the probability that n losses in [0,1], drawn independently with a mean above
// target, sum to so little. Losses of 0 or 1 have the exact binomial one; parts of 1 have that of
// Hoeffding and Bentkus (Bates et al., "Distribution-Free, Risk-Controlling Prediction Sets", 2021,
// theorem 4): min(exp(-n kl(mean, target)), e P(Bin(n,target) ≤ ⌈sum⌉)).
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
