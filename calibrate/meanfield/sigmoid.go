package meanfield

import "math"

// Sigmoid approximates ∫ σ(a) N(a; μ, s²) da by σ(μ/√(1+λ₀s²)) (paper, eq. 7)
// and returns the logarithms of that probability and of its complement.
func Sigmoid(mu, s2, lambda0 float64) (logp1, logp0 float64) {
	logp1, logp0, _ = sigmoid(mu / math.Sqrt(1+lambda0*s2))
	return logp1, logp0
}

// sigmoid returns log σ(z), log σ(-z) and the smaller of the two probabilities:
// with e = exp(-|z|) ≤ 1 they are -log(1+e), -|z|-log(1+e) and e/(1+e).
func sigmoid(z float64) (logp1, logp0, smaller float64) {
	e := math.Exp(-math.Abs(z))
	large := -math.Log1p(e)
	small := large - math.Abs(z)
	if z < 0 {
		large, small = small, large
	}
	return large, small, e / (1 + e)
}

// Sigmoids is for K logits of which each decides by itself whether something
// holds, p_k = σ(μ_k): the labels of a multi-label head. It writes log(1-p_k) and
// log p_k to logp [K,2], and returns 1 - mean_k max(p_k, 1-p_k).
//
// Of logits μ_k/T_k, as all here, it is the mean-field approximation of K
// Gaussian-sigmoid integrals.
func Sigmoids(logp, mu []float64) (rest float64) {
	checkLen("logp", len(logp), 2*len(mu))
	for k, m := range mu {
		var smaller float64
		logp[2*k+1], logp[2*k], smaller = sigmoid(m)
		rest += smaller
	}
	return rest / float64(len(mu))
}

// OneVsRest is for K classes that exclude each other, each of which has a logit
// that was trained to tell it from all others: p_k = σ(μ_k) / Σ_i σ(μ_i). It
// writes log p_k to logp, which may be mu itself, and returns 1 - max p.
func OneVsRest(logp, mu []float64) (rest float64) {
	checkLen("logp", len(logp), len(mu))
	for k, m := range mu {
		logp[k], _, _ = sigmoid(m)
	}
	return normalize(logp)
}
