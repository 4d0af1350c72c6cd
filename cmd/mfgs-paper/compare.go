package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/estimate"
)

// level is the confidence level of intervals.
const level = .95

// A contrast is the difference in a quantity between two rows of a table or, without a second row, the quantity itself.
type contrast struct {
	table, data string
	a, b        string // rows
	q           quantity
	where       string // distinguishes the contrasts of a claim
}

// A result is the outcome of one comparison.
type result string

const (
	better  result = "better"
	tie     result = "tie"
	worse   result = "worse"
	unclear result = "cannot be said"
)

// A comparison is an estimated contrast: the first row minus the second, in the quantity's unit.
type comparison struct {
	Table      string     `json:"table"`
	Data       string     `json:"data"`
	A          string     `json:"a"`
	B          string     `json:"b,omitempty"`
	Quantity   string     `json:"quantity"`
	Difference float64    `json:"difference"`
	Interval   [2]float64 `json:"interval"`
	Paper      *float64   `json:"paper,omitempty"`
	Networks   int        `json:"networks"`
	Result     result     `json:"result"`
	// Refuted reports whether Wide contradicts the claim.
	Refuted bool `json:"refuted,omitempty"`

	// Wide is the interval with Bonferroni correction for the number of comparisons of the claim.
	Wide [2]float64 `json:"wide"`

	quantity quantity
}

// results are the rows of the report by place.
type results map[place]row

// compare estimates a contrast. It returns false if a row was not measured or no interval is known. many is the
// number of comparisons of the claim.
func (r results) compare(c contrast, many int) (comparison, bool) {
	a, b := r[place{c.table, c.data, c.a}], r[place{c.table, c.data, c.b}]
	terms := []estimate.Term{{Weight: 1, Runs: a.runs(c.q)}}
	if c.b != "" {
		terms = append(terms, estimate.Term{Weight: -1, Runs: b.runs(c.q)})
	}
	e, ok := estimate.Of(terms...)
	if !ok || !e.HasInterval() {
		return comparison{}, false
	}
	of := comparison{
		Table: c.table, Data: c.data, A: c.a, B: c.b, Quantity: c.q.key, Difference: e.Value,
		Interval: e.Interval(level), Networks: e.Networks,
		quantity: c.q, Wide: e.Interval(1 - (1-level)/float64(many)),
	}
	if a.Paper != nil && b.Paper != nil {
		if u, v := c.q.of(*a.Paper), c.q.of(*b.Paper); u != nil && v != nil {
			d := *u - *v
			of.Paper = &d
		}
	}
	of.Result = c.q.judge(of.Interval)
	return of, true
}

// judge classifies the interval of a difference, for the first row. Intervals within the resolution are ties.
func (q quantity) judge(i [2]float64) result {
	lo, hi := q.lead(i)
	switch {
	case within(lo, hi, q.resolution):
		return tie
	case lo > 0:
		return better
	case hi < 0:
		return worse
	}
	return unclear
}

// A verdict is the outcome of a claim.
type verdict string

const (
	holds  verdict = "holds"
	inPart verdict = "holds in part"
	fails  verdict = "does not hold"
	open   verdict = "cannot be said"
	absent verdict = "not tried"
)

// An assertion is what a claim says about each of its comparisons. It decides whether an interval, turned so that
// positive is better, supports or refutes the claim. r is the resolution of the quantity.
type assertion struct {
	text               string
	supported, refuted func(lo, hi, r float64) bool
}

func within(lo, hi, r float64) bool { return -r <= lo && hi <= r }

var (
	isBetter = assertion{
		"better",
		func(lo, hi, r float64) bool { return lo > 0 && !within(lo, hi, r) },
		func(_, hi, r float64) bool { return hi <= r },
	}
	isEqual = assertion{
		"equal",
		within,
		func(lo, hi, r float64) bool { return (lo > 0 || hi < 0) && !within(lo, hi, r) },
	}
	isNotWorse = assertion{
		"not worse",
		func(lo, _, r float64) bool { return lo >= -r },
		func(lo, hi, r float64) bool { return hi < 0 && lo < -r },
	}
)

// lead turns an interval so that positive is better.
func (q quantity) lead(i [2]float64) (lo, hi float64) {
	if q.higher {
		return i[0], i[1]
	}
	return -i[1], -i[0]
}

// A claim is a statement with its verdict.
type claim struct {
	Text        string       `json:"row"`
	Source      string       `json:"source"`  // section of the paper; "" if the claim is ours
	Asserts     string       `json:"asserts"` // better, equal or not worse
	Verdict     verdict      `json:"verdict"`
	Comparisons []comparison `json:"comparisons"`
	Why         string       `json:"why,omitempty"` // why it was not tested

	assertion assertion
	contrasts []contrast
}

// judge estimates the contrasts of a claim. It returns false if none can be estimated.
func (r results) judge(c claim) (claim, bool) {
	for _, contrast := range c.contrasts {
		of, ok := r.compare(contrast, len(c.contrasts))
		if !ok {
			continue
		}
		lo, hi := of.quantity.lead(of.Wide)
		of.Refuted = c.assertion.refuted(lo, hi, of.quantity.resolution) && !c.supported(of)
		c.Comparisons = append(c.Comparisons, of)
	}
	c.Asserts, c.Verdict = c.assertion.text, c.verdict()
	return c, len(c.Comparisons) > 0
}

// supported reports whether a comparison supports the claim.
func (c claim) supported(of comparison) bool {
	lo, hi := of.quantity.lead(of.Interval)
	return c.assertion.supported(lo, hi, of.quantity.resolution)
}

// verdict: a claim holds if every comparison supports it, holds in part if one supports and another refutes it, and
// does not hold if some refute it and none supports it. Anything else is open.
func (c claim) verdict() verdict {
	supported, refuted := 0, 0
	for _, of := range c.Comparisons {
		switch {
		case c.supported(of):
			supported++
		case of.Refuted:
			refuted++
		}
	}
	switch {
	case supported == len(c.Comparisons):
		return holds
	case refuted > 0 && supported > 0:
		return inPart
	case refuted > 0:
		return fails
	}
	return open
}

// least returns the comparison least favourable to the claim.
func (c claim) least() comparison {
	return slices.MaxFunc(c.Comparisons, func(a, b comparison) int {
		return cmp.Or(cmp.Compare(c.against(a), c.against(b)), cmp.Compare(c.distance(a), c.distance(b)))
	})
}

// against ranks comparisons: 0 supports the claim, 1 is open, 2 refutes it.
func (c claim) against(of comparison) int {
	switch {
	case c.supported(of):
		return 0
	case of.Refuted:
		return 2
	}
	return 1
}

// distance is how far a difference is from the claim, in units of the resolution or, without one, of the
// interval.
func (c claim) distance(of comparison) float64 {
	d := of.Difference
	if c.assertion.text == isEqual.text {
		d = max(d, -d)
	} else if of.quantity.higher {
		d = -d
	}
	unit := cmp.Or(of.quantity.resolution, of.Interval[1]-of.Interval[0], 1)
	return d / unit
}

// shown formats a difference.
func (q quantity) shown(v float64) string { return fmt.Sprintf("%+.*f", q.digits, q.scale*v) }

// between names the rows compared.
func (of comparison) between() string {
	if of.B == "" {
		return of.A
	}
	return of.A + " − " + of.B
}

// label is how paper.md words the verdict.
func (v verdict) label() string {
	return labelOf(map[verdict]string{open: "inconclusive", absent: "not tested"}, v)
}

// label is how paper.md words the result.
func (r result) label() string {
	return labelOf(map[result]string{unclear: "inconclusive"}, r)
}
