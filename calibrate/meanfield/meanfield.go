package meanfield

import (
	"fmt"
	"math"
)

const (
	// Lambda0 is the default λ₀ of the Gaussian-sigmoid integral, σ(μ/√(1+λ₀s²)): it matches the variance π²/3 of
	// the logistic distribution. The paper (below eq. 7) allows it and [LambdaProbit].
	Lambda0 = 3 / (math.Pi * math.Pi)
	// LambdaProbit is the λ₀ that matches the slopes of the logistic and the probit function at zero (Bishop,
	// Pattern Recognition and Machine Learning, §4.5.2).
	LambdaProbit = math.Pi / 8
)

// Softmax writes log softmax(μ) to logp and returns the margin. It is the limit of mf0, mf1 and mf2 for vanishing
// variances. logp may be mu itself.
func Softmax(logp, mu []float64) (margin float64) {
	checkLen("logp", len(logp), len(mu))
	top := argmax(mu)
	peak := mu[top]
	margin, others := marginOf(mu, top)
	lse := math.Log1p(others)
	for i, m := range mu {
		logp[i] = m - peak - lse
	}
	return margin
}

// MF0Exact is the mean-field approximation mf0 (paper, eq. 9) by its formula: K log-sum-exps of K terms each,
// O(K²). [Workspace.MF0] falls back to it where interpolation does not pay, and is tested against it. logp must
// not overlap mu.
func MF0Exact(logp, mu, s2 []float64, lambda0 float64) (margin float64) {
	checkLen("logp", len(logp), len(mu))
	checkLen("s2", len(s2), len(mu))
	top := argmax(mu)
	depth := depthOf(mu, top)
	for k := range mu {
		b := 1 / math.Sqrt(1+lambda0*s2[k])
		logp[k] = b*(mu[k]-mu[top]) - logMeanExp(mu, top, depth, b)
	}
	return normalize(logp)
}

// MF1 is the mean-field approximation mf1 (paper, eq. 10), O(K²). logp must not overlap mu.
func MF1(logp, mu, s2 []float64, lambda0 float64) (margin float64) {
	checkLen("logp", len(logp), len(mu))
	checkLen("s2", len(s2), len(mu))
	pairwise(logp, mu, func(k, i int) float64 { return 1 + lambda0*(s2[k]+s2[i]) })
	return normalize(logp)
}

// MF2 is the mean-field approximation mf2 (paper, eq. 11), O(K²). s is the
// K×K covariance of the logits, row-major. logp must not overlap mu.
func MF2(logp, mu, s []float64, lambda0 float64) (margin float64) {
	n := len(mu)
	checkLen("logp", len(logp), n)
	checkLen("s", len(s), n*n)
	pairwise(logp, mu, func(k, i int) float64 {
		// The variance of a difference; rounding must not make it negative.
		return 1 + lambda0*math.Max(0, s[k*n+k]+s[i*n+i]-2*s[k*n+i])
	})
	return normalize(logp)
}

// pairwise writes -log of the mean over i of exp(-(μ_k-μ_i)/√t_ki) to logp[k]. The term i = k is 1.
func pairwise(logp, mu []float64, t func(k, i int) float64) {
	n := float64(len(mu))
	for k := range mu {
		top, peak, depth := k, 0.0, 0.0
		for i := range mu {
			if i == k {
				continue
			}
			x := (mu[i] - mu[k]) / math.Sqrt(t(k, i))
			if x > peak {
				top, peak = i, x
			}
			depth = math.Max(depth, math.Abs(x))
		}
		var others float64
		for i := range mu {
			var x float64
			if i != k {
				x = (mu[i] - mu[k]) / math.Sqrt(t(k, i))
			}
			switch {
			case depth < small:
				others += math.Expm1(x)
			case i != top:
				others += math.Exp(x - peak)
			}
		}
		if depth < small {
			logp[k] = -math.Log1p(others / n)
			continue
		}
		logp[k] = -(peak + math.Log1p(others) - math.Log(n))
	}
}

// normalize subtracts log Σ exp(logp) from logp and returns the margin. The largest entry is computed from the sum
// of the others: for a tiny x, log(1-x) is -x and not a difference of rounded logarithms.
func normalize(logp []float64) (margin float64) {
	top := argmax(logp)
	margin, others := marginOf(logp, top)
	lse := math.Log1p(others)
	peak := logp[top] + lse
	for i := range logp {
		logp[i] -= peak
	}
	logp[top] = -lse
	return margin
}

// argmax returns the index of the largest value, the first of several.
func argmax(x []float64) int {
	if len(x) == 0 {
		panic("meanfield: no classes")
	}
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

func checkLen(name string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("meanfield: %s has %d values, want %d", name, got, want))
	}
}
