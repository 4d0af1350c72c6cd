// Package calibrate turns the features, logits and labels of a trained classifier into calibrated
// uncertainty. It knows neither model files nor runtimes: everything here is arithmetic on slices.
//
// The way through it, after Lu, Ie and Sha (the paper; its Algorithm 1):
//
//  1. [Sums] accumulate the last-layer Hessian H = Σᵢ (diag pᵢ - pᵢpᵢᵀ) ⊗ φᵢφᵢᵀ and the
//     Fisher matrix J = Σᵢ rᵢrᵢᵀ ⊗ φᵢφᵢᵀ over the training set, in one pass, in full or as
//     Kronecker factors, block by block. They can be stored between blocks, and merged with
//     those of other parts of the data. Finished they are a [Curvature].
//  2. [Curvature.Posterior] inverts the damped curvature into a [Posterior]: the
//     covariance H⁻¹, J⁻¹ or H⁻¹JH⁻¹ of the last layer's weights. It gives the
//     variance of each logit of an example, and its leverage.
//  3. [Fit] chooses the damping and two pairs of temperatures on held-out data,
//     by the likelihood of the held-out labels and, where out-of-distribution
//     examples are at hand, by how well they are told apart.
//  4. [Calibration.Predict] integrates Gaussian and softmax for examples.
//
// The files follow the same way: structure, gram, sums, encode (as bytes), curvature; invert_full,
// invert_kron, inverse, interpolate, posterior, quadratic; then fit, whose steps are damping,
// temperature (what is tuned), search (for a pair of temperatures) and choice (whose probabilities are
// the default); predict. For the other methods that are compared, covariance is the full covariance of
// logits, and predictive tunes what predicts anew at each temperature.
//
// What is said of a softmax holds for the other links too. The logits of a sigmoid head, one or
// those of K labels, and of a one-vs-rest head are separate problems of two classes: curvature and
// covariance are then K blocks, and the integrals those of Gaussian and sigmoid.
//
// N counts examples, d features φ, K classes; D is d, plus one where the head
// has a bias: φ is then augmented by a constant 1. Parameters are ordered
// class by class. All logarithms are natural and likelihoods are in nats.
package calibrate
