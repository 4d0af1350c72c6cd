package metrics

import (
	"math"
	"slices"
)

// Simultaneous returns intervals of differences of the same draws that all hold together at a level of
// confidence (max-t: Romano and Wolf, "Exact and approximate stepdown methods for multiple hypothesis
// testing", 2005, without steps). The half-width of each is its standard error times the level's quantile of
// the largest absolute t statistic. So the best of many may be picked, and correlated methods cost less than
// with Bonferroni's inequality. The interval of a difference that is the same on all draws is that number;
// one without a value on some draws has NaN for bounds.
func Simultaneous(differences []Series, level float64) []Difference {
	if len(differences) == 0 {
		return nil
	}
	errs, largest := maxT(differences, math.Abs)
	factor := Quantile(largest, level)
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

// ChanceGains returns, for each of several gains of the same draws, what chance alone may gain: with a
// probability of at most 1 - level, any of them exceeds its own if none is real (max-t, one-sided: Westfall
// and Young, "Resampling-Based Multiple Testing", 1993, section 2.3). It is 0 for a gain that is the same on
// all draws. The quantile is the order statistic, not interpolated as by [Simultaneous]: the recorded
// selections of scores were made with it.
func ChanceGains(gains []Series, level float64) []float64 {
	if len(gains) == 0 {
		return nil
	}
	errs, largest := maxT(gains, func(t float64) float64 { return t })
	factor := largest[min(len(largest)-1, int(level*float64(len(largest))))]
	for i, e := range errs {
		if e > 0 {
			errs[i] = e * factor
		}
	}
	return errs
}

// maxT returns the standard error of each difference and, of each draw, the largest t statistic, as size
// measures it, in ascending order. Differences without a positive, finite error are left out of these.
func maxT(differences []Series, size func(t float64) float64) (errs, largest []float64) {
	errs = make([]float64, len(differences))
	largest = slices.Repeat([]float64{math.Inf(-1)}, len(differences[0].Draws))
	for i, d := range differences {
		var squares float64
		for _, v := range d.Draws {
			squares += (v - d.Value) * (v - d.Value)
		}
		if errs[i] = math.Sqrt(squares / float64(len(d.Draws))); !(errs[i] > 0) || math.IsInf(errs[i], 0) {
			continue
		}
		for r, v := range d.Draws {
			largest[r] = math.Max(largest[r], size((v-d.Value)/errs[i]))
		}
	}
	slices.Sort(largest)
	return errs, largest
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
