package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/estimate"
)

// level is how often an interval is to hold what it is of.
const level = .95

// A contest asks for the difference between two rows of a table in a quantity or, without a second
// row, for what the quantity of the first is above 0.
type contest struct {
	table, data string
	a, b        string // rows
	q           quantity
	where       string // what tells the contest from others of its claim
}

// A result is what came out of one comparison.
type result string

const (
	better  result = "better"
	tie     result = "tie"
	worse   result = "worse"
	unclear result = "cannot be said"
)

// A comparison is a contest that was held. Differences are of the first row less the second, in
// fractions, nats or what the quantity is in.
type comparison struct {
	Table    string     `json:"table"`
	Data     string     `json:"data"`
	A        string     `json:"a"`
	B        string     `json:"b,omitempty"`
	Quantity string     `json:"quantity"`
	Here     float64    `json:"difference"`
	Interval [2]float64 `json:"interval"`
	There    *float64   `json:"paper,omitempty"`
	Networks int        `json:"networks"`
	Result   result     `json:"result"`
	// Refuted says that the claim is contradicted here, by Wide.
	Refuted bool `json:"refuted,omitempty"`

	// Wide is the interval at a level that allows for how many comparisons the claim has.
	Wide [2]float64 `json:"wide"`

	quantity quantity
}

// results finds rows of the report.
type results map[place]row

// compare holds a contest; it is false where a row is not made, or nothing tells how sure the
// difference is. The wide interval is that of so many comparisons together (Bonferroni).
func (r results) compare(c contest, many int) (comparison, bool) {
	a, b := r[place{c.table, c.data, c.a}], r[place{c.table, c.data, c.b}]
	terms := []estimate.Term{{Weight: 1, Runs: a.runs(c.q)}}
	if c.b != "" {
		terms = append(terms, estimate.Term{Weight: -1, Runs: b.runs(c.q)})
	}
	e, ok := estimate.Of(terms...)
	if !ok || !e.Sure() {
		return comparison{}, false
	}
	of := comparison{
		Table: c.table, Data: c.data, A: c.a, B: c.b, Quantity: c.q.key, Here: e.Value,
		Interval: e.Interval(level), Networks: e.Networks,
		quantity: c.q, Wide: e.Interval(1 - (1-level)/float64(many)),
	}
	if a.Paper != nil && b.Paper != nil {
		if u, v := c.q.of(*a.Paper), c.q.of(*b.Paper); u != nil && v != nil {
			d := *u - *v
			of.There = &d
		}
	}
	of.Result = c.q.judge(of.Interval)
	return of, true
}

// judge says what an interval of a difference is to the first of two rows. Differences within the
// resolution are a tie, however sure they are.
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

// A verdict is what the comparisons say of a claim.
type verdict string

const (
	holds  verdict = "holds"
	inPart verdict = "holds in part"
	fails  verdict = "does not hold"
	open   verdict = "cannot be said"
	absent verdict = "not tried"
)

// An assertion is what a claim says of all its comparisons: whether an interval of the first row's lead,
// positive where it is better, bears it out or contradicts it. r is the resolution of the quantity.
type assertion struct {
	text           string
	borne, refuted func(lo, hi, r float64) bool
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

// lead turns an interval of a difference so that what is better is positive.
func (q quantity) lead(i [2]float64) (lo, hi float64) {
	if q.higher {
		return i[0], i[1]
	}
	return -i[1], -i[0]
}

// A claim is a statement, with what came out.
type claim struct {
	Text        string       `json:"row"`
	Source      string       `json:"source"`  // in the paper; "" of ours
	Asserts     string       `json:"asserts"` // of all comparisons: better, equal or not worse
	Verdict     verdict      `json:"verdict"`
	Comparisons []comparison `json:"comparisons"`
	Why         string       `json:"why,omitempty"` // it is not tried

	assertion assertion
	contests  []contest
}

// judge holds the contests of a claim; it is false where there is none to be held.
func (r results) judge(c claim) (claim, bool) {
	for _, contest := range c.contests {
		of, ok := r.compare(contest, len(c.contests))
		if !ok {
			continue
		}
		lo, hi := of.quantity.lead(of.Wide)
		of.Refuted = c.assertion.refuted(lo, hi, of.quantity.resolution) && !c.borne(of)
		c.Comparisons = append(c.Comparisons, of)
	}
	c.Asserts, c.Verdict = c.assertion.text, c.verdict()
	return c, len(c.Comparisons) > 0
}

// borne reports whether a comparison bears the claim out.
func (c claim) borne(of comparison) bool {
	lo, hi := of.quantity.lead(of.Interval)
	return c.assertion.borne(lo, hi, of.quantity.resolution)
}

// verdict: a claim holds where every comparison bears it out, holds in part where one does and
// another contradicts it, and does not hold where some contradict it and none bears it out. Of
// anything else nothing can be said.
func (c claim) verdict() verdict {
	borne, refuted := 0, 0
	for _, of := range c.Comparisons {
		switch {
		case c.borne(of):
			borne++
		case of.Refuted:
			refuted++
		}
	}
	switch {
	case borne == len(c.Comparisons):
		return holds
	case refuted > 0 && borne > 0:
		return inPart
	case refuted > 0:
		return fails
	}
	return open
}

// least is the comparison that is least favourable to the claim.
func (c claim) least() comparison {
	return slices.MaxFunc(c.Comparisons, func(a, b comparison) int {
		return cmp.Or(cmp.Compare(c.against(a), c.against(b)), cmp.Compare(c.distance(a), c.distance(b)))
	})
}

// against ranks results: those that bear a claim out, those that say nothing, those that contradict it.
func (c claim) against(of comparison) int {
	switch {
	case c.borne(of):
		return 0
	case of.Refuted:
		return 2
	}
	return 1
}

// distance is how far a difference is from what the claim says, in units of the resolution or, of a
// quantity without one, of the interval.
func (c claim) distance(of comparison) float64 {
	d := of.Here
	if c.assertion.text == isEqual.text {
		d = max(d, -d)
	} else if of.quantity.higher {
		d = -d
	}
	unit := cmp.Or(of.quantity.resolution, of.Interval[1]-of.Interval[0], 1)
	return d / unit
}

// shown prints a difference as its quantity is printed.
func (q quantity) shown(v float64) string { return fmt.Sprintf("%+.*f", q.digits, q.scale*v) }

// between names what was compared.
func (of comparison) between() string {
	if of.B == "" {
		return of.A
	}
	return of.A + " − " + of.B
}
