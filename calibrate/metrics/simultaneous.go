package metrics

import (
	"math"
	"slices"
)

// Simultaneous returns intervals of differences, of the same draws, which all hold together at a
// level of confidence: each is as many standard errors wide on both sides as the largest deviation
// of all of them has, in such a part of the draws (Romano and Wolf, "Exact and approximate stepdown
// methods for multiple hypothesis testing", 2005, without steps). So the best of many may be looked
// for, and correlated methods cost less than by Bonferroni's inequality. A difference that is
// the same on all draws is sure; one without a value on some has no bounds: NaN.
func Simultaneous(differences []Series, level float64) []Difference {
	if len(differences) == 0 {
		return nil
	}
	errs := make([]float64, len(differences))
	most := make([]float64, len(differences[0].Draws)) // of each resample
	for i, d := range differences {
		var squares float64
		for _, v := range d.Draws {
			squares += (v - d.Value) * (v - d.Value)
		}
		if errs[i] = math.Sqrt(squares / float64(len(d.Draws))); !(errs[i] > 0) || math.IsInf(errs[i], 0) {
			continue
		}
		for r, v := range d.Draws {
			most[r] = math.Max(most[r], math.Abs(v-d.Value)/errs[i])
		}
	}
	slices.Sort(most)
	factor := quantile(most, level)
	all := make([]Difference, len(differences))
	for i, d := range differences {
		half := factor * errs[i]
		if errs[i] == 0 {
			half = 0
		}
		all[i] = Difference{d.Value, Interval{d.Value - half, d.Value + half}}
		if math.IsInf(half, 0) || math.IsNaN(half) {
			all[i].Interval = Interval{math.NaN(), math.NaN()}
		}
	}
	return all
}

// MeanOf returns the mean of figures of the same draws.
func MeanOf(figures []Series) Series {
	mean := Series{Draws: make([]float64, len(figures[0].Draws))}
	for _, s := range figures {
		mean.Value += s.Value / float64(len(figures))
		for r, v := range s.Draws {
			mean.Draws[r] += v / float64(len(figures))
		}
	}
	return mean
}
