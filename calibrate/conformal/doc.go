// Package conformal turns probabilities and scores into decisions whose errors are bounded: sets of
// classes, and when not to answer. All bounds are for finite samples and hold for every network and
// every distribution of the data, as long as what comes is drawn like the held-out examples that
// thresholds are set on. It knows numbers only.
//
// # Sets of classes
//
// [Fit] finds the thresholds of [Sets]. With n held-out examples the set of a new one misses its
// label with probability at most alpha, and, but for ties, at least alpha - 1/(n+1). That is a mean
// over draws of the held-out examples and of the new one: for one held-out set that was drawn, the
// share of new examples that are covered is itself random (Beta distributed, a standard deviation
// of about √(alpha(1-alpha)/n)), and among examples of one kind, such as those with a large set, it
// can be lower. Class-conditional sets have the bound for each class. A set can be empty where alpha
// is larger than the network's error: see [Score].
//
// # When not to answer
//
// [TargetError] accepts what is least doubtful: with probability confidence over the draw of the
// held-out examples, the error among new examples that are accepted is at most the target.
// [AtMost] finds a threshold that at least a share of all new examples does not exceed, with
// probability confidence: a coverage, if what is compared are doubts, and the complement of a
// false-alarm rate, if they are scores of unfamiliarity. Each probability is that of one statement:
// that two of them hold together has 1 - 2(1-confidence) at least.
//
// # What the bounds need
//
// Held-out examples and new ones are independent draws from one distribution, and no threshold
// depends on anything else that was made with the examples it is set on: not the network, the
// temperatures, or the choice of a score. Under shift (another camera, other classes, the seasons)
// nothing is promised. Scores of unfamiliarity say that there may be a shift; they do not repair it.
package conformal
