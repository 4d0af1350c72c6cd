// Package metrics measures classifiers and the uncertainty they report.
//
//  1. Are the probabilities right on in-distribution data? [Classify] and its incremental form [Classifier]
//     give error, negative log-likelihood, calibration error and Brier score ([InDomain]), and the debiased and
//     the classwise calibration error ([Reliability]). [MultiLabel] does so for multi-label examples.
//  2. Does a score detect out-of-distribution data? [Detect] gives an [OOD]; [AUROC] gives that one figure
//     without allocating, for tuning.
//  3. Does the uncertainty rank the classifier's own mistakes? [Selective] has the area under the risk-coverage
//     curve and the error at a coverage.
//
// [Resample] draws the examples of all methods together, 1,000 times, and gives seeded intervals for all figures
// and their differences. The lists [LabelledFigures] and [DetectionFigures] define the figures: tables,
// intervals, reports and documentation are derived from them.
//
// All figures are fractions, except the NLL, which is in nats. Higher scores mean less certain, more
// out-of-distribution. Scores may be infinite, and equal scores are ties: every figure is invariant under a
// permutation of the examples and, where only the order of the scores counts, under strictly increasing maps.
// A NaN is an error.
//
// Slices of contradicting lengths panic; bad values are an error that names the example.
package metrics
