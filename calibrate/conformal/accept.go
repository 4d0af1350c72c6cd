package conformal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Doubts are what is known of N held-out examples.
type Losses struct {
	Uncertainty []float64 // how doubtful each is, in [0,1]
	Loss        []float64 // what is lost by answering it: 1 for a mistake, else 0
	Fractional  bool      // losses are parts of 1 too, such as the share of an example's labels that are wrong
}

func (d Losses) check() error {
	if len(d.Uncertainty) != len(d.Loss) {
		panic(fmt.Sprintf("conformal: %d doubts and %d losses", len(d.Uncertainty), len(d.Loss)))
	}
	for i := range d.Uncertainty {
		if !(d.Uncertainty[i] >= 0 && d.Uncertainty[i] <= 1 && d.Loss[i] >= 0 && d.Loss[i] <= 1) {
			return fmt.Errorf("held-out example %d has doubt %v and loss %v, want 0 to 1", i, d.Uncertainty[i], d.Loss[i])
		}
		if !d.Fractional && d.Loss[i] != 0 && d.Loss[i] != 1 {
			panic(fmt.Sprintf("conformal: loss %v of example %d, want 0 or 1", d.Loss[i], i))
		}
	}
	return nil
}

// accepted returns a function that counts the examples whose doubt is at most a threshold, and sums
// their losses.
func (d Losses) accepted() func(threshold float64) (n int, loss float64) {
	order := make([]int, len(d.Uncertainty))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(d.Uncertainty[i], d.Uncertainty[j]) })
	losses := make([]float64, len(order)+1) // of so many
	for n, i := range order {
		losses[n+1] = losses[n] + d.Loss[i]
	}
	return func(threshold float64) (int, float64) {
		n := sort.Search(len(order), func(n int) bool { return d.Uncertainty[order[n]] > threshold })
		return n, losses[n]
	}
}

// A Rule accepts an example whose doubt, or score, is at most its threshold.
type Rule struct {
	Threshold float64 `yaml:"threshold" json:"threshold"`
	Examples  int     `yaml:"examples" json:"examples"` // that it was set on
	Accepted  int     `yaml:"accepted" json:"accepted"` // of them
	// Wrong is what is lost by these, where a target error was set on them: the number of mistakes, or the
	// sum of losses that are parts.
	Wrong float64 `yaml:"wrong,omitempty" json:"wrong,omitempty"`
}

// mostThresholds bounds those that are tried.
const mostThresholds = 1000

// TargetError returns the rule that accepts the most examples while the mean loss of new ones that it
// accepts is at most target, which fails with probability 1 - confidence at most over the draw of
// held.
//
// It is fixed-sequence testing of Learn-then-Test (Angelopoulos et al., 2021): thresholds are doubts
// of tune, and are tried on held from the one whose error tune shows best to larger ones, and at last
// 1, which accepts all. Each is held to be too large until the exact binomial test of the losses that
// it accepts says otherwise at the level 1 - confidence, and the last before the first that stays too
// large is returned. tune and held must have no example in common.
//
// Losses that are parts of 1 are tested by Hoeffding's and Bentkus' inequalities instead.
//
// Where the first stays too large, the error is a [*ShortError].
func TargetError(tune, held Losses, target, confidence float64) (Rule, error) {
	if !(target > 0 && target < 1) || !(confidence > 0 && confidence < 1) {
		return Rule{}, fmt.Errorf("target error %v with confidence %v, want numbers between 0 and 1", target, confidence)
	}
	for _, d := range []Losses{tune, held} {
		if err := d.check(); err != nil {
			return Rule{}, err
		}
	}
	thresholds := append(subsample(tune.Uncertainty, mostThresholds), 1)
	type sum struct {
		n    int
		loss float64
	}
	sums := make([]sum, len(thresholds))
	accepted := tune.accepted()
	for i, t := range thresholds {
		sums[i].n, sums[i].loss = accepted(t)
	}
	first := func(target float64) (at int) {
		least := math.Inf(1)
		for i, s := range sums {
			if p := pValue(s.loss, s.n, tune.Fractional, target); p <= least {
				at, least = i, p
			}
		}
		return at
	}
	rule := Rule{Threshold: -1, Examples: len(held.Uncertainty)}
	accepted = held.accepted()
	for _, t := range thresholds[first(target):] {
		n, loss := accepted(t)
		if pValue(loss, n, held.Fractional, target) > 1-confidence {
			break
		}
		rule.Threshold, rule.Accepted, rule.Wrong = t, n, loss
	}
	if rule.Threshold >= 0 {
		return rule, nil
	}
	shows := func(target float64) bool {
		n, loss := accepted(thresholds[first(target)])
		return pValue(loss, n, held.Fractional, target) <= 1-confidence
	}
	return Rule{}, &InsufficientDataError{"target-error", target, shownBy(len(held.Uncertainty), target, confidence, answers),
		func() float64 { return nearest(target, shows) }}
}

// faultless returns how many examples without a mistake show a target.
func errorFreeNeeded(target, confidence float64) int {
	return int(math.Ceil(math.Log1p(-confidence) / math.Log1p(-target)))
}

// spread returns at most so many of the values, distinct, rising, the largest among them.
func subsample(values []float64, most int) []float64 {
	all := slices.Clone(values)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) <= most {
		return all
	}
	some := make([]float64, most)
	for i := range some {
		some[i] = all[(i+1)*len(all)/most-1]
	}
	return some
}

// AtMost returns the rule with the smallest threshold that at least a share of new examples does not
// exceed, which fails with probability 1 - confidence at most over the draw of the held-out scores: an
// order statistic, whose place depends on their number alone (Wilks, "Determination of Sample Sizes
// for Setting Tolerance Limits", 1941), the bound of Clopper and Pearson turned round.
//
// Those of the scores that are below the threshold are hence, given the threshold, independent draws
// of what is below it: what is tested on them afterwards, as by [TargetError], keeps its confidence.
func ToleranceLimit(scores []float64, share, confidence float64) (Rule, error) {
	if !(share > 0 && share < 1) || !(confidence > 0 && confidence < 1) {
		return Rule{}, fmt.Errorf("share %v with confidence %v, want numbers between 0 and 1", share, confidence)
	}
	if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
		return Rule{}, fmt.Errorf("the score of held-out example %d is NaN", i)
	}
	n := len(scores)
	// The r-th of n is at the share or above it with the probability that fewer than r are below it.
	r := 1 + sort.Search(n, func(fewer int) bool { return binomialCDF(fewer, n, share) >= confidence })
	if r > n {
		return Rule{}, fmt.Errorf("a share of %v with confidence %v needs %d held-out examples that thresholds are set on, there are %d: give more",
			share, confidence, errorFreeNeeded(1-share, confidence), n)
	}
	sorted := slices.Clone(scores)
	slices.Sort(sorted)
	rule := Rule{Threshold: sorted[r-1], Examples: n}
	for _, s := range sorted {
		if s <= rule.Threshold {
			rule.Accepted++
		}
	}
	return rule, nil
}
