// Package meanfield approximates the Gaussian-softmax integral
//
//	e_k = ∫ softmax_k(a) N(a; μ, S) da
//
// in closed form, after Lu, Ie and Sha, "Mean-Field Approximation to Gaussian-Softmax Integral with
// Application to Uncertainty Estimation" (called the paper below). It holds the one copy of each
// formula; everything else in this module, ONNX graphs included, is checked against it.
//
// With the logit variances s²_k = S_kk, the temperature of class k is
// T_k = √(1 + λ₀ s²_k) and the three approximations are
//
//	mf0  ẽ_k = 1 / Σ_i exp(-(μ_k-μ_i) / √(1+λ₀ s²_k))                  (paper, eq. 9)
//	mf1  ẽ_k = 1 / Σ_i exp(-(μ_k-μ_i) / √(1+λ₀(s²_k+s²_i))),  i ≠ k    (paper, eq. 10)
//	mf2  ẽ_k = 1 / Σ_i exp(-(μ_k-μ_i) / √(1+λ₀(s²_k+s²_i-2s_ik)))      (paper, eq. 11)
//
// each then renormalised to sum to one. mf0 divides all logits by T_k and takes entry k. It is not the "probit"
// link of other libraries, which divides each logit by its own T_k and changes when a constant is added to μ.
//
// Separate logits have an integral each, ∫ σ(a) N(a; μ_k, s²_k) da, with the approximation of a single logit (paper,
// eq. 7): [Sigmoids] and [OneVsRest] of μ_k/T_k.
//
// All functions work on one example, in the log domain and in float64. They take logits μ (K values, already
// divided by the activation temperature) and variances s² (K values, already divided by the ensemble temperature),
// write log-probabilities, and return the margin, from which [OneMinusMax] gives 1 - max p to full relative
// precision even where max p rounds to one.
//
// [Workspace.MF0] costs O(mK) with m about 10: its K log-sum-exps are values of one smooth function, which is
// interpolated. [Curve] tabulates that function over all temperatures, which makes tuning cheap.
package meanfield
