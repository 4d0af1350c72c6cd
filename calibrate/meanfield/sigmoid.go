package meanfield

import "math"

// sigmoid returns log σ(z) and log σ(-z). With e = exp(-|z|) ≤ 1 the larger is -log(1+e), and the smaller is |z| less.
func sigmoid(z float64) (logp1, logp0 float64) {
	large := -math.Log1p(math.Exp(-math.Abs(z)))
	small := large - math.Abs(z)
	if z < 0 {
		large, small = small, large
	}
	return large, small
}

// Sigmoids is for the K independent labels of a multi-label head, p_k = σ(μ_k). It writes log(1-p_k) and log p_k to
// logp [K,2], and returns the margin.
//
// For logits μ_k/T_k it is the mean-field approximation of K Gaussian-sigmoid integrals,
// ∫ σ(a) N(a; μ, s²) da ≈ σ(μ/√(1+λ₀s²)) (paper, eq. 7).
//
// With x_k = |μ_k|, m the least of them and w_k = 1/(1+exp(-x_k)), 1 - r is the mean of w_k, and r that of w_k
// exp(-x_k). The margin is m + log(Σ w_k / Σ w_k exp(m-x_k)), where the difference of the two sums is summed.
func Sigmoids(logp, mu []float64) (margin float64) {
	checkLen("logp", len(logp), 2*len(mu))
	least := math.Inf(1)
	for k, m := range mu {
		logp[2*k+1], logp[2*k] = sigmoid(m)
		least = math.Min(least, math.Abs(m))
	}
	var sum, lack float64
	for _, m := range mu {
		x := math.Abs(m)
		w, e := 1/(1+math.Exp(-x)), math.Expm1(least-x)
		lack -= w * e
		sum += w * (1 + e)
	}
	return least + math.Log1p(lack/sum)
}

// OneVsRest is for K mutually exclusive classes, each with a logit trained against all others: p_k = σ(μ_k) / Σ_i
// σ(μ_i). It writes log p_k to logp, which may be mu itself, and returns the margin.
//
// It uses ratios to the largest logit μ. With Δ = μ - μ_k ≥ 0,
//
//	log(σ(μ)/σ(μ_k)) = log(1 + σ(-μ)(exp(Δ) - 1)),
//
// where nothing cancels.
func OneVsRest(logp, mu []float64) (margin float64) {
	checkLen("logp", len(logp), len(mu))
	top := argmax(mu)
	peak := mu[top]
	_, log0 := sigmoid(peak)
	for k, m := range mu {
		delta := peak - m
		// Beyond this exponent log(1+x) is log(x), and exp would overflow.
		v := delta + log0
		beyond := math.Max(0, v-600)
		logp[k] = -math.Log1p(-math.Expm1(-delta)*math.Exp(v-beyond)) - beyond
	}
	return normalize(logp)
}
