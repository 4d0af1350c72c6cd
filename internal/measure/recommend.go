package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// SyntheticSet is the name of a set of synthetic OOD data. Recommendations ignore it.
const SyntheticSet = "synthetic_ood"

// The figures by which probabilities and scores are compared.
var (
	byLikelihood = metrics.FigureOf("nll")
	byDetection  = metrics.FigureOf("auroc")
)

// Compared are the keys of the figures that recommendations compare, for [Resample].
func Compared() []string { return []string{byLikelihood.Key, byDetection.Key} }

// Recommend says which probabilities and which score to use. The arguments are those that the bundle serves.
func (r *Resampled) Recommend(probabilities, score string) (rec metrics.Recommendation) {
	if c := newContest(byLikelihood, r.entrants(byLikelihood, []SetID{{Role: Test}})); c != nil {
		rec.Probabilities = c.recommended(c.winner(probabilities, "ts"), probabilities)
		rec.Probabilities.Sentence = c.sentence(rec.Probabilities, c.figure.Label)
	}
	rec.Score = r.recommendScore(score)
	return rec
}

// RecommendTuned is Recommend on validation data, where the calibration has already selected the probabilities, for a
// reason.
func (r *Resampled) RecommendTuned(probabilities, reason, score string) (rec metrics.Recommendation) {
	if c := newContest(byLikelihood, r.entrants(byLikelihood, []SetID{{Role: Test}})); c != nil {
		rec.Probabilities = c.recommended(entrantOf(c.entrants, probabilities), probabilities)
		rec.Probabilities.Sentence = reason
	}
	rec.Score = r.recommendScore(score)
	return rec
}

// recommendScore returns nil without out-of-distribution sets.
func (r *Resampled) recommendScore(score string) *metrics.Recommended {
	var sets []SetID
	for j, name := range r.tallies[0].oods {
		if name != SyntheticSet {
			sets = append(sets, SetID{OOD, j})
		}
	}
	if len(sets) == 0 {
		return nil
	}
	c := newContest(byDetection, r.entrants(byDetection, sets))
	if c == nil {
		return nil
	}
	rec := c.recommended(c.winner(score), score)
	label := c.figure.Label
	if len(sets) > 1 {
		label = fmt.Sprintf("mean %s over %d sets", label, len(sets))
	}
	rec.Sentence = c.sentence(rec, label)
	if rec.Worse = r.worse(rec.Method, sets); len(rec.Worse) > 0 {
		rec.Sentence += "; the network itself is significantly better on " + strings.Join(rec.Worse, ", ")
	}
	return rec
}

// entrant is a method with the compared figure.
type entrant struct {
	name string
	metrics.Series
}

// entrants are the methods that have the figure on all parts, with its mean. Of several draws of a method only the
// first enters.
func (r *Resampled) entrants(figure metrics.Figure, parts []SetID) (list []entrant) {
	for i, t := range r.tallies {
		var figures []metrics.Series
		for _, p := range parts {
			if s, ok := r.of(place{i, p, false})[figure.Key]; ok {
				figures = append(figures, s)
			}
		}
		drawn := slices.ContainsFunc(list, func(e entrant) bool { return e.name == t.Name })
		if len(figures) < len(parts) || drawn {
			continue
		}
		if s := metrics.MeanOf(figures); !math.IsInf(s.Value, 0) {
			list = append(list, entrant{t.Name, s})
		}
	}
	return list
}

// worse returns the names of the sets on which the network is significantly better than a method, with simultaneous
// intervals over all sets.
func (r *Resampled) worse(method string, sets []SetID) (names []string) {
	var differences []metrics.Series
	for _, set := range sets {
		list := r.entrants(byDetection, []SetID{set})
		network, other := entrantOf(list, Baselines[0]), entrantOf(list, method)
		differences = append(differences, list[other].Minus(list[network].Series))
	}
	for j, d := range metrics.Simultaneous(differences, Level) {
		if d.Interval[1] < 0 {
			names = append(names, r.tallies[0].oods[sets[j].Index])
		}
	}
	return names
}

func entrantOf(list []entrant, name string) int {
	return slices.IndexFunc(list, func(e entrant) bool { return e.name == name })
}

// contest compares all pairs of methods.
type contest struct {
	figure   metrics.Figure
	entrants []entrant
	network  int
	better   float64 // sign of the difference of a better to a worse entrant
	serves   string  // name of the served method
	// over has the difference of each entrant to each other.
	over [][]metrics.Difference
}

// newContest returns nil if the network itself does not take part.
func newContest(figure metrics.Figure, entrants []entrant) *contest {
	c := &contest{figure: figure, entrants: entrants, network: entrantOf(entrants, Baselines[0]), better: 1}
	if c.network < 0 {
		return nil
	}
	if !figure.Higher {
		c.better = -1
	}
	var pairs []metrics.Series
	for i := range entrants {
		c.over = append(c.over, make([]metrics.Difference, len(entrants)))
		for j := range i {
			pairs = append(pairs, entrants[i].Minus(entrants[j].Series))
		}
	}
	differences := metrics.Simultaneous(pairs, Level)
	for i := range entrants {
		for j := range i {
			d := differences[0]
			differences = differences[1:]
			c.over[i][j] = d
			c.over[j][i] = metrics.Difference{
				Difference: -d.Difference, Interval: metrics.Interval{-d.Interval[1], -d.Interval[0]},
			}
		}
	}
	return c
}

// beats reports whether i is significantly better than j.
func (c *contest) beats(i, j int) bool {
	d := c.over[i][j]
	return i != j && d.Significant() && d.Difference*c.better > 0
}

// best returns the best of the entrants that beat one, or that one.
func (c *contest) best(than int) int {
	best := than
	for i, e := range c.entrants {
		if c.beats(i, than) && (best == than || (e.Value-c.entrants[best].Value)*c.better > 0) {
			best = i
		}
	}
	return best
}

// winner is the network unless others beat it: then the first preferred one that does, unless others beat that.
func (c *contest) winner(preferred ...string) int {
	for _, name := range preferred {
		if i := entrantOf(c.entrants, name); i >= 0 && c.beats(i, c.network) {
			return c.best(i)
		}
	}
	return c.best(c.network)
}

// recommended describes the winner. serves is the method that the bundle serves.
func (c *contest) recommended(winner int, serves string) *metrics.Recommended {
	c.serves = serves
	w := c.entrants[winner]
	rec := &metrics.Recommended{
		Method: w.name, Served: w.name == serves, Figure: c.figure.Key, Value: w.Value,
		Over: map[string]metrics.Difference{},
	}
	for j, e := range c.entrants {
		if j != winner && !math.IsNaN(c.over[winner][j].Interval[0]) {
			rec.Over[e.name] = c.over[winner][j]
		}
	}
	return rec
}

// unit is how a sentence writes figures and their differences.
type unit struct {
	scale              float64
	format             string
	figure, difference string // suffixes
}

var (
	inNats    = unit{1, "%.4f", "", ""}
	inPercent = unit{100, "%.2f", " %", " points"}
)

func (u unit) write(v float64) string { return fmt.Sprintf(u.format, u.scale*v) }

// sentence words what wins, over what, and what may be as good.
func (c *contest) sentence(rec *metrics.Recommended, figure string) string {
	u := inNats
	if c.figure.Unit == metrics.Fraction {
		u = inPercent
	}
	winner, served := entrantOf(c.entrants, rec.Method), entrantOf(c.entrants, c.serves)
	direction := "higher"
	if c.better < 0 {
		direction = "lower"
	}
	// by words how much better i is than j.
	by := func(i, j int) string {
		d := c.over[i][j]
		ends := []float64{c.better * d.Interval[0], c.better * d.Interval[1]}
		slices.Sort(ends)
		return fmt.Sprintf("by %s [%s, %s]%s", u.write(c.better*d.Difference), u.write(ends[0]), u.write(ends[1]), u.difference)
	}
	label := func(i int) string {
		if i == served {
			return c.entrants[i].name + " (selected)"
		}
		return c.entrants[i].name
	}
	value := u.write(rec.Value) + u.figure
	var s string
	switch winner {
	case c.network:
		s = fmt.Sprintf("network (uncalibrated): no method has a significantly %s %s than its %s", direction, figure, value)
	default:
		s = fmt.Sprintf("%s: %s %s, significantly %s than the network's, %s", label(winner), figure, value,
			direction, by(winner, c.network))
		if served >= 0 && served != winner && served != c.network {
			s += fmt.Sprintf(", and than that of %s, %s", label(served), by(winner, served))
		}
	}
	rival := c.rival(winner)
	if rival >= 0 {
		s += fmt.Sprintf("; that of %s is %s %s, not significant", label(rival), direction, by(rival, winner))
	}
	switch {
	case winner != c.network || served < 0 || served == winner:
	case c.beats(winner, served):
		s += fmt.Sprintf("; the bundle uses %s, which is significantly worse, %s", c.serves, by(winner, served))
	case rival == served: // the sentence says it
	default:
		s += fmt.Sprintf("; the bundle uses %s, and the difference is not significant", c.serves)
	}
	return s
}

// rival is the best entrant, or -1 if that is the winner.
func (c *contest) rival(winner int) int {
	best := winner
	for j, e := range c.entrants {
		if (e.Value-c.entrants[best].Value)*c.better > 0 {
			best = j
		}
	}
	if best == winner {
		return -1
	}
	return best
}
