// Package drift detects whether a stream of examples is no longer like the validation data. It handles numbers only,
// and its memory does not grow with the stream.
//
//  1. [NewReference] summarises a quantity over m validation examples for a file: some values in order, and how many
//     are below each. Values are rounded to multiples of [Step], so that float32 does not look like drift from float64.
//  2. [NewBins] makes bins of a reference, and Place returns the bin of a new value. [NewClasses] does so for class
//     indices.
//  3. [NewIndex] compares the bins of the last examples with the validation data: how much has changed.
//  4. [NewTest] tests whether anything has changed, with a false-alarm rate that holds however long it runs.
//
// # Bins
//
// K of the m validation values are edges: the k-th is the one of rank r_k = ⌈km/(K+1)⌉. If the validation values and
// the n values since are exchangeable and distinct, the rank of a new one among all of them is uniform, so that with
// r_0 = 0 and r_{K+1} = m+1 it falls between the edges k and k+1 with probability
//
//	(r_{k+1} - r_k + those of the n that fell there) / (m + 1 + n),
//
// whatever the distribution: Pólya's urn. This is exact for finite numbers of examples, and needs only the edges, their
// ranks and counts. Ties are broken by a random number for each value, as in smoothed ranks: that of an edge is drawn
// as its order statistic among the validation values equal to it, whose number the reference has. Without these
// counts, or with edges interpolated between values, it would not be exact.
//
// # Assumptions, and what the test does not detect
//
// Exchangeable means that all orders of the examples are equally likely. Independent draws are exchangeable; frames of
// one video, or requests in batches of the same customer, are not, and the test then raises an alarm without a shift.
// The test compares with the validation data and with the stream so far, so that it adapts to slow changes; the index
// compares with the validation data alone. The test detects values that become larger or smaller, but not those that
// spread to both sides, which the index detects.
//
// The quantity must not have been tuned on the validation examples. Two temperatures tuned on thousands of examples
// make hardly a difference, but the guarantee is then no longer exact.
//
// For q tests, each with alpha/q, the probability of any false alarm is at most alpha.
package drift
