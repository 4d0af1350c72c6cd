// Package calibrate turns the features, logits and labels of a trained classifier into calibrated
// uncertainty. It knows neither model files nor runtimes: everything here is arithmetic on slices.
//
// The pipeline follows Lu, Ie and Sha (the paper; its Algorithm 1):
//
//  1. [Sums] accumulate the last-layer Hessian H = Σᵢ (diag pᵢ - pᵢpᵢᵀ) ⊗ φᵢφᵢᵀ and the Fisher matrix
//     J = Σᵢ rᵢrᵢᵀ ⊗ φᵢφᵢᵀ over the training set, in one pass and block by block, in full or as Kronecker
//     factors (structure.go, sums.go, gram.go, link.go). They can be stored between blocks (encode.go) and
//     merged with the sums of other parts of the data. [Sums.Finish] returns a [Curvature] (curvature.go). These
//     are sums over examples, not means.
//  2. [Curvature.Posterior] inverts the damped curvature into a [Posterior]: the covariance H⁻¹, J⁻¹ or
//     H⁻¹JH⁻¹ of the last layer's weights (invert_full.go with inverse.go, invert_kron.go with
//     interpolate.go). It gives the variance of each logit of an example, and its leverage (posterior.go),
//     and writes both as quadratic forms for graphs (quadratic.go).
//  3. [Fit] chooses on validation data (fit.go): whether matrix scaling maps the logits first (matrix.go); the
//     damping (damping.go); the temperatures, by the
//     likelihood of the labels and, given out-of-distribution data, by how well those are detected
//     (temperature.go, search.go, prefer.go); whether mf0, matrix scaling, temperature scaling or the
//     network itself gives the probabilities (choice.go); and the score (package score).
//  4. [Calibration.Predict] integrates Gaussian and softmax for examples (predict.go, package meanfield).
//
// [Tune] finds temperatures for any other method by the same search (predictive.go).
//
// The same holds for the other links. The K logits of a sigmoid or one-vs-rest head are
// separate binary problems: curvature and covariance are then K blocks, and the integrals those of Gaussian
// and sigmoid.
//
// N counts examples, d features φ, K classes; D is d, plus one where the head has a bias: φ is then augmented
// by a constant 1. Parameters are ordered class by class. Logarithms are natural and likelihoods are in nats.
package calibrate
