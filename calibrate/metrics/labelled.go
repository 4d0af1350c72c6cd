package metrics

import (
	"math"
	"slices"
)

// Labelled is all figures of probabilities on a labelled set, see [LabelledFigures].
type Labelled struct {
	InDomain
	Reliability
	Selective
	// ClassChanges counts the examples whose predicted class, or one of whose labels, is not the network's.
	ClassChanges int `json:"class_changes"`
	// Classes are the figures of each class, if requested.
	Classes []ClassFigures `json:"classes,omitempty"`
	Certainty
}

// DetectionResult is all figures of a score on an out-of-distribution set.
type DetectionResult struct {
	OOD
	Certainty
}

// Certainty is intervals of figures, by their keys. A figure without bounds is left out.
type Certainty struct {
	Intervals map[string]Interval `json:"intervals,omitempty"`
	// Differences are those to other methods, by method, on the same examples.
	Differences map[string]map[string]Difference `json:"differences,omitempty"`
	// Series are all figures with their values on each resample, to combine methods, sets and evaluations
	// resample by resample.
	//
	// Two evaluations share the draws of a set if they have the same seed and draw samples of the same sizes up
	// to it. bench.Evaluate draws, in order, the test set, one sample for each further size among the shifted
	// sets, and each out-of-distribution set.
	Series map[string]Series `json:"-"`
}

// Series is a figure and its values on resamples of the examples.
type Series struct {
	Value float64
	Draws []float64
}

// centre shifts the draws so that their mean is the value.
func (s Series) centre() {
	var bias float64
	for _, v := range s.Draws {
		bias += (v - s.Value) / float64(len(s.Draws))
	}
	for i := range s.Draws {
		s.Draws[i] -= bias
	}
}

// Minus returns the difference to another figure of the same draws.
func (s Series) Minus(t Series) Series {
	d := Series{s.Value - t.Value, make([]float64, len(s.Draws))}
	for i := range d.Draws {
		d.Draws[i] = s.Draws[i] - t.Draws[i]
	}
	return d
}

// Interval returns the percentile interval at a level of confidence in (0,1) (Efron and Tibshirani, "An
// Introduction to the Bootstrap", 1993, section 13.3). It is false if there is none: a draw is NaN, as the
// difference of two infinities, or all are the same, as the error if no example is wrong.
func (s Series) Interval(level float64) (Interval, bool) {
	draws := slices.Sorted(slices.Values(s.Draws))
	if len(draws) == 0 || math.IsNaN(draws[0]) || draws[0] == draws[len(draws)-1] {
		return Interval{}, false
	}
	tail := (1 - level) / 2
	return Interval{Quantile(draws, tail), Quantile(draws, 1-tail)}, true
}

// Difference is a figure of one method minus that of another. If it is the same on all draws, both ends of the
// interval are that number.
type Difference struct {
	Difference float64  `json:"difference"`
	Interval   Interval `json:"interval"`
}

// Significant reports whether the interval excludes 0.
func (d Difference) Significant() bool { return d.Interval[0] > 0 || d.Interval[1] < 0 }

// NewCertainty returns the intervals of figures and of their differences to other methods, at a level of
// confidence.
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
