// Package drift tells whether a stream of examples is still like those that were held out. It knows
// numbers only, and its memory does not grow with the stream.
//
//  1. [NewReference] keeps, of a quantity of m held-out examples, some of their values in order, and
//     how many are below each: what a file needs to hold.
//     Values are rounded to multiples of [Step], so that float32 is no drift from float64.
//  2. [NewBins] makes bins of a reference, and Place says into which one each new value falls.
//     [NewClasses] does so for numbers of classes.
//  3. [NewIndex] compares the bins of the last examples with the held-out ones: how much has changed.
//  4. [NewTest] bets against the stream being like the held-out examples: whether anything has
//     changed, with a false-alarm rate that holds however long it runs.
//
// # Bins of held-out values
//
// K values of the m held-out ones are edges: the k-th is the one of rank r_k = ⌈km/(K+1)⌉. Where the
// held-out values and the n that have come since are exchangeable and none are equal, the place of
// a new one among all of them is uniform, so that with r_0 = 0 and r_{K+1} = m+1 it falls between the
// edges k and k+1 with probability
//
//	(r_{k+1} - r_k + those of the n that fell there) / (m + 1 + n),
//
// whatever the distribution: an urn of Pólya's. That is exact for a finite number of examples, and
// the edges, their ranks and counts are all that it needs. Equal values are told apart by a
// random number each, as smoothed ranks are: that of an edge is drawn as the order statistic that it is
// among the held-out values equal to it, for which a reference has their number. Without these counts,
// or with edges that are interpolated between held-out values, nothing would be exact.
//
// # What the test needs, and what it does not see
//
// Exchangeable means that any order of the examples is as likely as any other. Independent draws
// are; frames of one video, or requests that come in batches of the same customer, are not, and
// the test then alarms with good reason but without a shift. It compares with the held-out examples
// and with all before in the stream, so that a change that comes slowly becomes what is usual; the index
// compares with the held-out examples alone. The test sees values that become larger or smaller,
// and not those that only spread to both sides, which the index sees.
//
// The held-out examples are to be ones that the quantity was not tuned on. Two temperatures that are
// tuned on thousands of examples make their probabilities hardly better than others'; what is promised is then
// no longer exact.
//
// Alarms of several tests: each with alpha/q for q of them makes one in all with probability alpha at most.
package drift
