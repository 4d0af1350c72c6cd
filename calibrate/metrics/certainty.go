package metrics

import (
	"math"
	"slices"
)

// Labelled is all figures of probabilities on a labelled set.
type Labelled struct {
	InDomain
	Reliability
	Selective
	// Classes are the figures of each class, where they were asked for.
	Classes []ClassFigures `json:"classes,omitempty"`
	Certainty
}

// Told is all figures of a score on a set that it tells from the test set.
type DetectionResult struct {
	OOD
	Certainty
}

// Certainty says how sure figures are, by their names in JSON. What has no bounds is left out.
type Certainty struct {
	Intervals map[string]Interval `json:"intervals,omitempty"`
	// Differences are those to other methods, by their names, on the same examples.
	Differences map[string]map[string]Difference `json:"differences,omitempty"`
	// Series are all figures with their values on the resamples that Intervals are of, to combine
	// those of several methods, sets and evaluations resample by resample.
	//
	// Two evaluations share the draws of a set where they have the same seed and sizes, and draw
	// the same samples before it. Of bench.Evaluate, of one seed, these are in order the test set,
	// one sample for each further size among the sets under shift, and each set out of
	// distribution: the test set is drawn first, and always shared by test sets of one size.
	Series map[string]Series `json:"-"`
}

// Series is a figure as measured, and its values on resamples of the examples.
type Series struct {
	Value float64
	Draws []float64
}

// centre moves the draws so that their mean is the value.
func (s Series) centre() {
	var bias float64
	for _, v := range s.Draws {
		bias += (v - s.Value) / float64(len(s.Draws))
	}
	for i := range s.Draws {
		s.Draws[i] -= bias
	}
}

// Minus is the difference to another figure of the same draws.
func (s Series) Minus(t Series) Series {
	d := Series{s.Value - t.Value, make([]float64, len(s.Draws))}
	for i := range d.Draws {
		d.Draws[i] = s.Draws[i] - t.Draws[i]
	}
	return d
}

// Interval returns the percentile interval of a level of confidence in (0,1) (Efron and Tibshirani,
// "An Introduction to the Bootstrap", 1993, section 13.3), with quantiles that are interpolated
// linearly between order statistics. It is false where draws can tell none: one has no value, as the
// difference of two infinities, or all are the same, as the error where no example is wrong.
func (s Series) Interval(level float64) (Interval, bool) {
	draws := slices.Sorted(slices.Values(s.Draws))
	if len(draws) == 0 || math.IsNaN(draws[0]) || draws[0] == draws[len(draws)-1] {
		return Interval{}, false
	}
	tail := (1 - level) / 2
	return Interval{Quantile(draws, tail), Quantile(draws, 1-tail)}, true
}

// Difference is a figure of one method less that of another; the same on all draws has the interval
// of that number alone. Where the interval does not hold 0 it
// is more than chance between the examples that were drawn and others would be.
type Difference struct {
	Difference float64  `json:"difference"`
	Interval   Interval `json:"interval"`
}

// Sure says that a difference is beyond chance.
func (d Difference) Significant() bool { return d.Interval[0] > 0 || d.Interval[1] < 0 }

// Certain returns the intervals of figures, and of their differences to others, at a level
// of confidence.
func NewCertainty(of map[string]Series, others map[string]map[string]Series, level float64) Certainty {
	c := Certainty{Intervals: map[string]Interval{}, Series: of}
	for name, s := range of {
		if i, ok := s.Interval(level); ok && finite(s.Value, i) {
			c.Intervals[name] = i
		}
	}
	for method, figures := range others {
		differences := map[string]Difference{}
		for name, s := range of {
			if d, ok := s.Minus(figures[name]).difference(level); ok {
				differences[name] = d
			}
		}
		if c.Differences == nil {
			c.Differences = map[string]map[string]Difference{}
		}
		c.Differences[method] = differences
	}
	return c
}

func (s Series) difference(level float64) (Difference, bool) {
	i, ok := s.Interval(level)
	if !ok && len(s.Draws) > 0 && slices.Min(s.Draws) == slices.Max(s.Draws) {
		i, ok = Interval{s.Draws[0], s.Draws[0]}, true
	}
	return Difference{s.Value, i}, ok && finite(s.Value, i)
}

func finite(v float64, i Interval) bool {
	return !math.IsNaN(v+i[0]+i[1]) && !math.IsInf(v+i[0]+i[1], 0)
}
