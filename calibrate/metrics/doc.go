// Package metrics measures classifiers and the uncertainty they report.
//
// Three questions, three groups of functions:
//
//  1. Are the probabilities right on data like the training data? [Classify]
//     and its incremental form [Classifier] give error, negative
//     log-likelihood, calibration error and Brier score as an [InDomain], and a
//     debiased calibration error and that of each class as a [Reliability]. Where
//     examples have any number of labels, so does [MultiLabel].
//  2. Does a score tell data unlike the training data apart? [Detect] gives an
//     [OOD]; [AUROC] gives that one figure without allocating, for tuning.
//  3. Does the uncertainty rank the classifier's own mistakes? [AURC], and the
//     errors that are left at a coverage, as a [Selective].
//
// How sure are the figures, and which of two methods is better? [Resample] draws the examples of
// all methods together, a thousand times, and gives seeded intervals for all figures and their
// differences. [Bootstrap] does so for one figure, whatever it is.
//
// All figures are fractions, except the NLL, which is in nats. Every score has the same
// orientation: higher means less sure, more out-of-distribution. Scores may be infinite, and equal
// scores are ties, never broken by their position: every figure is invariant under a permutation of
// the examples and, where only the order of the scores counts, under strictly increasing maps. A
// NaN has no place in an order and is refused with an error.
//
// A slice whose length contradicts another is a mistake of the program and
// panics; bad values are an error that names the example.
package metrics
