package meanfield

import (
	"fmt"
	"math"
)

const (
	// Lambda0 is the default λ₀ of the Gaussian-sigmoid integral,
	// σ(μ/√(1+λ₀s²)): it matches the variance π²/3 of the logistic
	// distribution. The paper (below eq. 7) allows it and [LambdaProbit].
	Lambda0 = 3 / (math.Pi * math.Pi)
	// LambdaProbit is the λ₀ that matches the slopes of logistic and probit
	// function at zero (Bishop, Pattern Recognition and Machine Learning, §4.5.2).
	LambdaProbit = math.Pi / 8
)

// Softmax writes log softmax(μ) to logp and returns 1 - max p. It is the
// limit of every approximation here as the variances vanish.
// logp may be mu itself.
func Softmax(logp, mu []float64) (rest float64) {
	checkLen("logp", len(logp), len(mu))
	top := argmax(mu)
	peak := mu[top]
	var others float64
	for i, m := range mu {
		logp[i] = m - peak
		if i != top {
			others += math.Exp(m - peak)
		}
	}
	lse := math.Log1p(others)
	for i := range logp {
		logp[i] -= lse
	}
	return others / (1 + others)
}

// MF0Exact is the mean-field approximation mf0 (paper, eq. 9) by its formula:
// K log-sum-exps of K terms each, O(K²). It is what [Workspace.MF0] falls back
// to where interpolation does not pay, and what it is tested against.
// logp must not overlap mu.
func MF0Exact(logp, mu, s2 []float64, lambda0 float64) (rest float64) {
	checkLen("logp", len(logp), len(mu))
	checkLen("s2", len(s2), len(mu))
	top := argmax(mu)
	for k := range mu {
		b := 1 / math.Sqrt(1+lambda0*s2[k])
		logp[k] = b*(mu[k]-mu[top]) - logSumExpScaled(mu, top, b)
	}
	return normalize(logp)
}

// MF1 is the mean-field approximation mf1 (paper, eq. 10), O(K²).
// logp must not overlap mu.
func MF1(logp, mu, s2 []float64, lambda0 float64) (rest float64) {
	checkLen("logp", len(logp), len(mu))
	checkLen("s2", len(s2), len(mu))
	pairwise(logp, mu, func(k, i int) float64 { return 1 + lambda0*(s2[k]+s2[i]) })
	return normalize(logp)
}

// MF2 is the mean-field approximation mf2 (paper, eq. 11), O(K²). s is the
// K×K covariance of the logits, row-major. logp must not overlap mu.
func MF2(logp, mu, s []float64, lambda0 float64) (rest float64) {
	n := len(mu)
	checkLen("logp", len(logp), n)
	checkLen("s", len(s), n*n)
	pairwise(logp, mu, func(k, i int) float64 {
		// The variance of a difference; rounding must not make it negative.
		return 1 + lambda0*math.Max(0, s[k*n+k]+s[i*n+i]-2*s[k*n+i])
	})
	return normalize(logp)
}

// pairwise writes -log(1 + Σ_{i≠k} exp(-(μ_k-μ_i)/√t_ki)) to logp[k].
func pairwise(logp, mu []float64, t func(k, i int) float64) {
	for k := range mu {
		// The one of the sum, exp(0), stands in for i = k.
		top, peak := k, 0.0
		for i := range mu {
			if i == k {
				continue
			}
			if x := (mu[i] - mu[k]) / math.Sqrt(t(k, i)); x > peak {
				top, peak = i, x
			}
		}
		var others float64
		for i := range mu {
			switch {
			case i == top:
			case i == k:
				others += math.Exp(-peak)
			default:
				others += math.Exp((mu[i]-mu[k])/math.Sqrt(t(k, i)) - peak)
			}
		}
		logp[k] = -(peak + math.Log1p(others))
	}
}

// logSumExpScaled returns log Σ_i exp(b(μ_i - μ_top)) for b ≥ 0, where μ_top
// is the largest.
func logSumExpScaled(mu []float64, top int, b float64) float64 {
	var others float64
	peak := mu[top]
	for i, m := range mu {
		if i != top {
			others += math.Exp(b * (m - peak))
		}
	}
	return math.Log1p(others)
}

// normalize subtracts log Σ exp(logp) from logp and returns 1 - max p as the
// sum of the other probabilities. The largest entry is set from that sum,
// since log(1-x) of a tiny x is -x and not a difference of rounded logarithms.
func normalize(logp []float64) (rest float64) {
	top := argmax(logp)
	peak := logp[top]
	var others float64
	for i, l := range logp {
		if i != top {
			others += math.Exp(l - peak)
		}
	}
	lse := peak + math.Log1p(others)
	for i := range logp {
		logp[i] -= lse
	}
	rest = others / (1 + others)
	logp[top] = -math.Log1p(others)
	return rest
}

// argmax returns the index of the largest value, the first among equals.
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
