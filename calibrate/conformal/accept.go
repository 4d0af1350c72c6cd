package conformal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/mfgs/mfgs/internal/option"
)

// Losses are the uncertainties of N validation examples, and what answering each would cost.
type Losses struct {
	Uncertainty []float64 // [N], in [0,1]
	Loss        []float64 // [N], 1 for a mistake, else 0
	Fractional  bool      // losses are in [0,1], such as the fraction of an example's labels that are wrong
}

func (d Losses) check() error {
	if len(d.Uncertainty) != len(d.Loss) {
		panic(fmt.Sprintf("conformal: %d uncertainties and %d losses", len(d.Uncertainty), len(d.Loss)))
	}
	for i := range d.Uncertainty {
		if !(d.Uncertainty[i] >= 0 && d.Uncertainty[i] <= 1 && d.Loss[i] >= 0 && d.Loss[i] <= 1) {
			return fmt.Errorf("validation example %d has uncertainty %v and loss %v, want 0 to 1", i, d.Uncertainty[i], d.Loss[i])
		}
		if !d.Fractional && d.Loss[i] != 0 && d.Loss[i] != 1 {
			panic(fmt.Sprintf("conformal: loss %v of example %d, want 0 or 1", d.Loss[i], i))
		}
	}
	return nil
}

// accepted returns a function that counts the examples whose uncertainty is at most a threshold, and sums their
// losses.
func (d Losses) accepted() func(threshold float64) (n int, loss float64) {
	order := make([]int, len(d.Uncertainty))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(d.Uncertainty[i], d.Uncertainty[j]) })
	losses := make([]float64, len(order)+1) // of the first n
	for n, i := range order {
		losses[n+1] = losses[n] + d.Loss[i]
	}
	return func(threshold float64) (int, float64) {
		n := sort.Search(len(order), func(n int) bool { return d.Uncertainty[order[n]] > threshold })
		return n, losses[n]
	}
}

// A Rule accepts an example whose uncertainty, or OOD score, is at most the threshold.
type Rule struct {
	Threshold float64 `yaml:"threshold" json:"threshold"`
	Examples  int     `yaml:"examples" json:"examples"` // that set it
	Accepted  int     `yaml:"accepted" json:"accepted"` // of these
	// Wrong is the sum of the losses of the accepted examples, if the rule keeps a target error.
	Wrong float64 `yaml:"wrong,omitempty" json:"wrong,omitempty"`
}

// mostThresholds bounds the thresholds that are tried.
const mostThresholds = 1000

// TargetError returns the rule that accepts the most examples while the mean loss of new accepted ones is at most
// target. This fails with a probability of at most 1 - confidence over the draw of calib.
//
// It is fixed-sequence testing as in Learn-then-Test (Angelopoulos et al., 2021): candidates are uncertainties in
// tune. Starting with the one whose error has the smallest p-value on tune, larger ones are tested on calib, and
// finally 1, which accepts everything. The null hypothesis, that the error is above target, is tested by the exact
// binomial test, or for fractional losses by the inequalities of Hoeffding and Bentkus. The result is the last
// threshold before the first that is not rejected. tune and calib must not share examples.
//
// If the first is not rejected, the error is a [*InsufficientDataError].
func TargetError(tune, calib Losses, target, confidence float64) (Rule, error) {
	if !(target > 0 && target < 1) || !(confidence > 0 && confidence < 1) {
		return Rule{}, fmt.Errorf("target error %v with confidence %v, want numbers between 0 and 1", target, confidence)
	}
	for _, d := range []Losses{tune, calib} {
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
	rule := Rule{Threshold: -1, Examples: len(calib.Uncertainty)}
	accepted = calib.accepted()
	for _, t := range thresholds[first(target):] {
		n, loss := accepted(t)
		if pValue(loss, n, calib.Fractional, target) > 1-confidence {
			break
		}
		rule.Threshold, rule.Accepted, rule.Wrong = t, n, loss
	}
	if rule.Threshold >= 0 {
		return rule, nil
	}
	shows := func(target float64) bool {
		n, loss := accepted(thresholds[first(target)])
		return pValue(loss, n, calib.Fractional, target) <= 1-confidence
	}
	return Rule{}, &InsufficientDataError{string(option.TargetError), target,
		shownBy(len(calib.Uncertainty), target, confidence, answers),
		func() float64 { return nearest(target, shows) }}
}

// errorFreeNeeded returns how many examples without a mistake prove a target error.
func errorFreeNeeded(target, confidence float64) int {
	return int(math.Ceil(math.Log1p(-confidence) / math.Log1p(-target)))
}

// subsample returns at most that many of the values, distinct and rising, the largest among them.
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

// ToleranceLimit returns the rule with the smallest threshold that at least a share of new examples does not
// exceed. This fails with a probability of at most 1 - confidence over the draw of the scores. The threshold is an
// order statistic whose rank depends on the number of scores alone (Wilks, "Determination of Sample Sizes for
// Setting Tolerance Limits", 1941).
//
// Given the threshold, the scores below it are hence independent draws of what lies below it: tests on these
// examples afterwards, as in [TargetError], keep their confidence.
func ToleranceLimit(scores []float64, share, confidence float64) (Rule, error) {
	if !(share > 0 && share < 1) || !(confidence > 0 && confidence < 1) {
		return Rule{}, fmt.Errorf("fraction %v with confidence %v, want numbers between 0 and 1", share, confidence)
	}
	if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
		return Rule{}, fmt.Errorf("the score of validation example %d is NaN", i)
	}
	n := len(scores)
	// The r-th smallest of n is at or above the share's quantile iff fewer than r scores are below it.
	r := 1 + sort.Search(n, func(fewer int) bool { return binomialCDF(fewer, n, share) >= confidence })
	if r > n {
		return Rule{}, fmt.Errorf("a fraction of %v with confidence %v needs %d validation examples for thresholds, got %d: give more",
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
