package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a confidence interval: its lower and its upper end.
type Interval [2]float64

// BootstrapOptions says how [Bootstrap] resamples. The zero value asks for 1000
// resamples, a 95 % interval and seed 0.
type BootstrapOptions struct {
	Resamples int     // 0: 1000
	Level     float64 // coverage in (0, 1); 0: 0.95
	Seed      uint64  // the same seed draws the same examples on every machine
}

// Bootstrap returns the percentile bootstrap interval of a statistic (Efron and Tibshirani, "An
// Introduction to the Bootstrap", 1993, section 13.3). sizes holds the size of each independent
// sample: one for a figure of [Classify], two for one of [Detect], whose in- and
// out-of-distribution examples are resampled apart. stat gets, for each sample, as many indices as
// it has examples, drawn with replacement; it must not keep the slices. The quantiles are
// interpolated linearly between order statistics.
//
// It panics if there is no sample, one is empty, or an option is out of range.
// The error says that a resample had no statistic: stat returned NaN.
func Bootstrap(sizes []int, stat func(draw [][]int) float64, o BootstrapOptions) (Interval, error) {
	o = o.checked(sizes)
	draw := make([][]int, len(sizes))
	for i, n := range sizes {
		draw[i] = make([]int, n)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	values := make([]float64, o.Resamples)
	for r := range values {
		for i, n := range sizes {
			for j := range draw[i] {
				draw[i][j] = rng.IntN(n)
			}
		}
		values[r] = stat(draw)
		if math.IsNaN(values[r]) {
			return Interval{}, fmt.Errorf("the statistic of bootstrap resample %d is NaN", r)
		}
	}
	slices.Sort(values)
	tail := (1 - o.Level) / 2
	return Interval{quantile(values, tail), quantile(values, 1-tail)}, nil
}

// checked fills in what is left out.
func (o BootstrapOptions) checked(sizes []int) BootstrapOptions {
	if o.Resamples == 0 {
		o.Resamples = 1000
	}
	if o.Level == 0 {
		o.Level = 0.95
	}
	if o.Resamples < 0 || !(o.Level > 0 && o.Level < 1) || len(sizes) == 0 || slices.Min(sizes) < 1 {
		panic(fmt.Sprintf("metrics: bootstrap of samples of %v examples with %+v", sizes, o))
	}
	return o
}

// quantile interpolates between the order statistics of sorted x: numpy's default, R's type 7.
func quantile(x []float64, q float64) float64 {
	h := q * float64(len(x)-1)
	i := int(h)
	if i+1 >= len(x) {
		return x[len(x)-1]
	}
	if x[i] == x[i+1] { // equal infinities have no difference
		return x[i]
	}
	return x[i] + (h-float64(i))*(x[i+1]-x[i])
}
