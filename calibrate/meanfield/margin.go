package meanfield

import "math"

// A margin measures the confidence of a prediction. With r = 1 - max p it is
//
//	g = log((1-r)/r) - log((1-r₀)/r₀) ≥ 0,
//
// the log-odds of the most probable class minus those by chance, r₀ = 1 - 1/C for C classes. For K independent
// labels r is the mean of 1 - max(p_k, 1-p_k), and r₀ is ½. g falls as r grows. All functions here that write
// probabilities return it, computed from logarithms: in floating point, r itself is zero where a network is
// confident, and equal to r₀ up to its last digits where temperatures are high.

// OneMinusMax returns r = 1 - max p of a margin. categories is C, or 2 for independent labels.
func OneMinusMax(margin float64, categories int) float64 {
	r := math.Exp(-margin) * float64(categories-1)
	return r / (1 + r)
}

// MarginOf returns the margin of C classes from their log-probabilities, to the precision of these.
func MarginOf(logp []float64) float64 {
	g, _ := marginOf(logp, argmax(logp))
	return g
}

// marginOf returns the margin of unnormalised log-probabilities, the largest of which is l[top], and
// Σ_{k≠top} exp(l_k - l_top).
//
// With x_k = l_top - l_k ≥ 0 for the other classes and m the least of them, the margin is
// -log mean exp(-x_k) = m - log mean exp(m-x_k). If all x_k are small, that mean is nearly one, and one minus it is
// summed instead.
func marginOf(l []float64, top int) (margin, others float64) {
	if len(l) < 2 {
		return 0, 0
	}
	peak := l[top]
	least, most := math.Inf(1), 0.0
	for k, v := range l {
		if x := peak - v; k != top {
			least, most = math.Min(least, x), math.Max(most, x) // NaN, if one is
		}
	}
	count := float64(len(l) - 1)
	if math.IsInf(least, 1) {
		return least, 0 // no other class is possible
	}
	var sum, lack float64
	for k, v := range l {
		if k == top {
			continue
		}
		y := least - (peak - v)
		if most < small {
			e := math.Expm1(y)
			lack -= e
			sum += 1 + e
			continue
		}
		sum += math.Exp(y)
	}
	if others = math.Exp(-least) * sum; most < small {
		return least + math.Log1p(lack/sum), others
	}
	return least - math.Log(sum/count), others
}

// small bounds the exponents for which [math.Expm1] is used. Beyond it the mean of exp(x) differs enough from one
// to take the difference.
const small = 0.5

// logMeanExp returns log mean_i exp(b(μ_i - μ_top)) for b ≥ 0, where μ_top is the largest, and depth the distance
// to the least. It keeps full relative precision near zero, so that differences of such values are precise.
func logMeanExp(mu []float64, top int, depth, b float64) float64 {
	var others float64
	peak, n := mu[top], float64(len(mu))
	if b*depth < small {
		for _, m := range mu {
			others += math.Expm1(b * (m - peak))
		}
		return math.Log1p(others / n)
	}
	for i, m := range mu {
		if i != top {
			others += math.Exp(b * (m - peak))
		}
	}
	return math.Log1p(others) - math.Log(n)
}

// depthOf returns x[top], the largest, minus the least of x.
func depthOf(x []float64, top int) float64 {
	least := x[top]
	for _, v := range x {
		least = math.Min(least, v)
	}
	return x[top] - least
}
