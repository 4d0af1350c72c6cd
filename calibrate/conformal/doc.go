// Package conformal turns probabilities and scores into decisions with bounded errors: prediction sets, and when to
// abstain. All bounds hold for finite samples, every network and every distribution of the data, if new examples are
// drawn like the validation examples that set the thresholds. The package knows numbers only.
//
// # Prediction sets
//
// [Fit] finds the thresholds of [Sets]. With n validation examples the set of a new one misses its label with
// probability at most alpha and, without ties, at least alpha - 1/(n+1). This is marginal: a mean over draws of the
// validation examples and the new one. For one validation set, the coverage is itself random (Beta distributed, with
// a standard deviation of about √(alpha(1-alpha)/n)), and it can be lower among some examples, such as those with a
// large set. Class-conditional sets have the bound for each class. A set can be empty if alpha is larger than the
// network's error: see [Score].
//
// # When to abstain
//
// [TargetError] accepts the least uncertain examples: with probability confidence over the draw of the validation
// examples, the error among new accepted examples is at most the target. [ToleranceLimit] finds a threshold that at
// least a share of new examples does not exceed, with probability confidence: a coverage for uncertainties, one minus
// the false-alarm rate for OOD scores. Each probability is for one statement: two hold together with
// 1 - 2(1-confidence) at least.
//
// # Assumptions
//
// Validation and new examples are independent draws from one distribution, and nothing else was fitted to the
// examples that set a threshold: not the network, the temperatures, or the selection of a score. Under distribution
// shift (another camera, other classes, other seasons) there is no guarantee. OOD scores may detect a shift; they do
// not repair it.
package conformal
