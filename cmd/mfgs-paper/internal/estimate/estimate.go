// Package estimate computes confidence intervals of means over networks, and of differences of such means.
//
// The variance has components: other examples, other networks of the same kind, other random draws of
// the method. Each has its own degrees of freedom. The interval is that of Banerjee, "Approximate confidence interval
// for linear functions of means of k populations", Sankhyā 22 (1960): its half-width is √Σ t²ᵢ s²ᵢ, where tᵢ is the
// quantile of Student's t for the degrees of freedom of component i. Its coverage is at least nominal,
// whatever the variances.
package estimate

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Run is one measurement of a figure.
type Run struct {
	Kind     string // of the networks; networks of different kinds are independent even if their seeds agree
	Networks []int  // seeds of the networks; several for an ensemble
	Value    float64
	// Resamples are the values on bootstrap resamples of the examples. All runs of an estimate use the same resamples,
	// in the same order. Nil if examples are not resampled.
	Resamples []float32
}

// A Term is a weighted mean over runs: first over the random draws of each network or ensemble, then over these.
type Term struct {
	Weight float64
	Runs   []Run
}

// An Estimate is a sum of terms.
type Estimate struct {
	Value      float64
	Networks   int // of the kind with the fewest
	components []component
}

// A component is a part of the variance, with its degrees of freedom.
type component struct {
	of       string
	variance float64
	freedom  float64 // +Inf for examples
}

// Of estimates the sum of terms. Differences are paired by network: single networks that not all terms with single
// networks of that kind have are left out. It returns false if a term has no run left.
//
// The component of the examples is the variance of the sum over their resamples. That of the networks
// of a kind is the jackknife's: the sum is recomputed without each of them, in every term, leaving out the ensembles
// it is a member of. A term whose runs all share that network stays unchanged. If a kind has several
// networks, this component includes the variance between random draws, which differ between networks; for a single
// network that variance is a component of its own.
func Of(terms ...Term) (Estimate, bool) {
	terms = paired(terms)
	for _, t := range terms {
		if len(t.Runs) == 0 {
			return Estimate{}, false
		}
	}
	e := Estimate{Value: sum(terms, none)}
	e.addExamples(terms)
	for _, kind := range kinds(terms) {
		networks := networksOf(terms, kind)
		if e.Networks == 0 || len(networks) < e.Networks {
			e.Networks = len(networks)
		}
		if len(networks) > 1 {
			e.addNetworks(terms, kind, networks)
		} else {
			e.addDraws(terms, kind)
		}
	}
	return e, true
}

// paired removes single networks that not all terms have.
func paired(terms []Term) []Term {
	single := func(r Run) bool { return len(r.Networks) == 1 }
	common := map[string][]int{}
	for _, t := range terms {
		own := map[string][]int{}
		for _, r := range t.Runs {
			if single(r) {
				own[r.Kind] = append(own[r.Kind], r.Networks[0])
			}
		}
		for kind, seeds := range own {
			if _, ok := common[kind]; !ok {
				common[kind] = seeds
			}
			common[kind] = slices.DeleteFunc(slices.Clone(common[kind]), func(s int) bool {
				return !slices.Contains(seeds, s)
			})
		}
	}
	kept := make([]Term, len(terms))
	for i, t := range terms {
		kept[i].Weight = t.Weight
		for _, r := range t.Runs {
			if !single(r) || slices.Contains(common[r.Kind], r.Networks[0]) {
				kept[i].Runs = append(kept[i].Runs, r)
			}
		}
	}
	return kept
}

type network struct {
	kind string
	seed int
}

var none = network{seed: -1}

// without returns the runs that do not involve a network.
func (t Term) without(n network) []Run {
	if n == none {
		return t.Runs
	}
	return slices.DeleteFunc(slices.Clone(t.Runs), func(r Run) bool {
		return r.Kind == n.kind && slices.Contains(r.Networks, n.seed)
	})
}

// sum sums the terms without a network.
func sum(terms []Term, left network) float64 {
	var s float64
	for _, t := range terms {
		runs := t.without(left)
		if len(runs) == 0 {
			runs = t.Runs
		}
		s += t.Weight * mean(grouped(runs), func(r Run) float64 { return r.Value })
	}
	return s
}

// mean averages over the draws of each network or ensemble, then over these.
func mean(groups [][]Run, of func(Run) float64) float64 {
	var total float64
	for _, g := range groups {
		var s float64
		for _, r := range g {
			s += of(r)
		}
		total += s / float64(len(g))
	}
	return total / float64(len(groups))
}

// grouped groups runs of the same networks.
func grouped(runs []Run) (groups [][]Run) {
	at := map[string]int{}
	for _, r := range runs {
		key := fmt.Sprint(r.Kind, r.Networks)
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func kinds(terms []Term) (all []string) {
	for _, t := range terms {
		for _, r := range t.Runs {
			if !slices.Contains(all, r.Kind) {
				all = append(all, r.Kind)
			}
		}
	}
	return all
}

func networksOf(terms []Term, kind string) (seeds []int) {
	for _, t := range terms {
		for _, r := range t.Runs {
			if r.Kind == kind {
				seeds = append(seeds, r.Networks...)
			}
		}
	}
	slices.Sort(seeds)
	return slices.Compact(seeds)
}

func (e *Estimate) addExamples(terms []Term) {
	n := len(terms[0].Runs[0].Resamples)
	for _, t := range terms {
		for _, r := range t.Runs {
			if len(r.Resamples) != n {
				panic(fmt.Sprintf("estimate: runs of %d and of %d resamples", n, len(r.Resamples)))
			}
		}
	}
	if n < 2 {
		return
	}
	values := make([]float64, n)
	for _, t := range terms {
		groups := grouped(t.Runs)
		for i := range values {
			values[i] += t.Weight * mean(groups, func(r Run) float64 { return float64(r.Resamples[i]) })
		}
	}
	e.components = append(e.components, component{"examples", variance(values), math.Inf(1)})
}

func (e *Estimate) addNetworks(terms []Term, kind string, seeds []int) {
	values := make([]float64, len(seeds))
	for i, seed := range seeds {
		values[i] = sum(terms, network{kind, seed})
	}
	n := float64(len(seeds))
	// The jackknife's (n-1)/n Σ(θ₋ᵢ - mean)² is (n-1)²/n times the variance.
	e.components = append(e.components, component{"networks " + kind, variance(values) * (n - 1) * (n - 1) / n, n - 1})
}

// addDraws adds the variance between the random draws on a single network.
func (e *Estimate) addDraws(terms []Term, kind string) {
	for _, t := range terms {
		var values []float64
		for _, r := range t.Runs {
			if r.Kind == kind {
				values = append(values, r.Value)
			}
		}
		if n := float64(len(values)); n > 1 {
			e.components = append(e.components, component{"draws", t.Weight * t.Weight * variance(values) / n, n - 1})
		}
	}
}

// variance is the sample variance, Σ(x - mean)²/(n-1).
func variance(x []float64) float64 {
	var m, s float64
	for _, v := range x {
		m += v / float64(len(x))
	}
	for _, v := range x {
		s += (v - m) * (v - m)
	}
	return s / float64(len(x)-1)
}

// HasInterval reports whether at least one component of the variance is known.
func (e Estimate) HasInterval() bool { return len(e.components) > 0 }

// Interval returns the confidence interval at a level in (0,1).
func (e Estimate) Interval(level float64) [2]float64 {
	p := (1 + level) / 2
	var squares float64
	for _, c := range e.components {
		t := distuv.UnitNormal.Quantile(p)
		if !math.IsInf(c.freedom, 1) {
			t = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: c.freedom}.Quantile(p)
		}
		squares += t * t * c.variance
	}
	half := math.Sqrt(squares)
	return [2]float64{e.Value - half, e.Value + half}
}
