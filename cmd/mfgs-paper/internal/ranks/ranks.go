// Package ranks compares methods over several data sets by their ranks, after Demšar,
// "Statistical Comparisons of Classifiers over Multiple Data Sets", 2006.
package ranks

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Of returns the ranks of values, 1 for the largest. Ties share the mean of their ranks.
func Of(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	ranks := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = float64(from+1+to) / 2
		}
		from = to
	}
	return ranks
}

// A Comparison compares k methods over n data sets.
type Comparison struct {
	Mean []float64 // mean ranks of the methods, [k]: 1 is best
	Sets int       // n

	// ChiSquared is Friedman's statistic, corrected for ties, with k-1 degrees of freedom, and P its p-value.
	// F and FP are those of Iman and Davenport, with k-1 and (k-1)(n-1) degrees of freedom, which is less
	// conservative (Demšar 2006, section 3.2.2).
	ChiSquared, P, F, FP float64
	// Critical is the critical difference of mean ranks by Nemenyi's test at the level .05, which corrects for
	// the number of pairs of methods.
	Critical float64
}

const criticalLevel = 0.05

// Compare compares methods by values [n][k], larger being better. It panics with fewer than two methods or sets.
func Compare(values [][]float64) Comparison {
	n, k := len(values), len(values[0])
	if n < 2 || k < 2 {
		panic("ranks: want two methods or more, and two data sets or more")
	}
	c := Comparison{Mean: make([]float64, k), Sets: n}
	var ties float64
	for _, v := range values {
		of := Of(v)
		counts := map[float64]float64{}
		for j, r := range of {
			c.Mean[j] += r
			counts[r]++
		}
		for _, t := range counts {
			ties += t*t*t - t
		}
	}
	N, K := float64(n), float64(k)
	var squares float64
	for j := range c.Mean {
		c.Mean[j] /= N
		r := c.Mean[j]
		squares += (r - (K+1)/2) * (r - (K+1)/2)
	}
	c.ChiSquared = 12 * N / (K * (K + 1)) * squares / (1 - ties/(N*K*(K*K-1)))
	c.P = distuv.ChiSquared{K: K - 1}.Survival(c.ChiSquared)
	if c.F = (N - 1) * c.ChiSquared / (N*(K-1) - c.ChiSquared); c.F > 0 && !math.IsInf(c.F, 0) {
		c.FP = distuv.F{D1: K - 1, D2: (K - 1) * (N - 1)}.Survival(c.F)
	} else if c.F == 0 {
		c.FP = 1
	}
	c.Critical = CriticalDifference(k, n, criticalLevel)
	return c
}

// Groups returns the maximal groups of methods that do not differ significantly by Nemenyi's test: runs in the order of
// mean ranks whose ends are closer than the critical difference. Methods are indices into Mean. Groups of one are left
// out.
func (c Comparison) Groups() [][]int {
	order := c.Order()
	var groups [][]int
	last := 0
	for from := range order {
		to := from + 1
		for to < len(order) && c.Mean[order[to]]-c.Mean[order[from]] < c.Critical {
			to++
		}
		if to-from > 1 && to > last {
			groups = append(groups, order[from:to])
		}
		last = max(last, to)
	}
	return groups
}

// Order returns the indices of the methods, best mean rank first.
func (c Comparison) Order() []int {
	order := make([]int, len(c.Mean))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.Mean[a], c.Mean[b]) })
	return order
}

// CriticalDifference is Nemenyi's critical difference of the mean ranks of k methods over n sets at a level:
// q √(k(k+1)/6n), where q is the quantile of the studentized range divided by √2 (Demšar 2006, section 3.2.2).
func CriticalDifference(k, n int, level float64) float64 {
	return RangeQuantile(k, 1-level) / math.Sqrt2 * math.Sqrt(float64(k*(k+1))/float64(6*n))
}

// RangeProbability returns P(range of k standard normal variables ≤ q), the distribution of the
// studentized range with infinitely many degrees of freedom: the integral over the largest, z, of
// k φ(z) (Φ(z) − Φ(z − q))^(k−1).
func RangeProbability(k int, q float64) float64 {
	if q <= 0 {
		return 0
	}
	// The integrand is smooth and vanishes at both ends, so the error of the trapezoidal rule falls faster than any
	// power of the step.
	const end, step = 12, 1. / 64
	var sum float64
	for i := -end * 64; i <= end*64; i++ {
		z := float64(i) * step
		within := (math.Erfc(-z/math.Sqrt2) - math.Erfc((q-z)/math.Sqrt2)) / 2
		sum += math.Exp(-z*z/2) * math.Pow(within, float64(k-1))
	}
	return min(1, float64(k)*sum*step/math.Sqrt(2*math.Pi))
}

// RangeQuantile is the inverse of RangeProbability, for p in (0,1).
func RangeQuantile(k int, p float64) float64 {
	low, high := 0., 40.
	for range 60 {
		if middle := (low + high) / 2; RangeProbability(k, middle) < p {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}
