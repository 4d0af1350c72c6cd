package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Step is what values are rounded to multiples of. Validation examples may have been predicted in float64 and new ones
// in float32, where confident predictions round to 1: without rounding that alone would be drift. Quantities should be
// of the order of 1, as probabilities, entropies and scores in [0,1] are.
const Step = 1e-4

// round returns the float64 nearest to a decimal, so that edges are short in files.
func round(v float64) float64 { return math.Round(v*perUnit) / perUnit }

const perUnit = 1 / Step

// A Reference summarises a quantity over validation examples. Its K edges are the values of rank ⌈k·Examples/(K+1)⌉ for
// k = 1 … K, the smallest having rank 1.
type Reference struct {
	Examples int       `yaml:"examples" json:"examples"`    // m
	Edges    []float64 `yaml:"edges,flow" json:"edges"`     // [K], not falling
	Below    []int     `yaml:"below,flow" json:"below"`     // [K], examples below each edge
	AtMost   []int     `yaml:"at_most,flow" json:"at_most"` // [K], examples at or below it
}

// Limits of a reference.
const (
	// minPerBin is the least number of validation examples in a bin that the χ² distribution needs (Cochran, "Some
	// methods for strengthening the common χ² tests", 1954).
	minPerBin   = 5
	maxEdges    = 1023
	maxExamples = 1 << 53 // integers that float64 represents exactly
)

// NewReference summarises values, in at most this many bins of at least 5 of them, and at least two bins. It fails for
// fewer than two values, and if one is not finite.
func NewReference(values []float64, bins int) (*Reference, error) {
	if bins < 2 || bins > maxEdges+1 {
		panic(fmt.Sprintf("drift: %d bins, want 2 to %d", bins, maxEdges+1))
	}
	if len(values) < 2 {
		return nil, fmt.Errorf("%d values of validation examples, want at least 2", len(values))
	}
	if i := slices.IndexFunc(values, notFinite); i >= 0 {
		return nil, fmt.Errorf("value %d of the validation examples is %v, want a finite number", i, values[i])
	}
	return newReference(values, max(1, min(bins, len(values)/minPerBin)-1)), nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v*perUnit, 0) }

func newReference(values []float64, edges int) *Reference {
	sorted := make([]float64, len(values))
	for i, v := range values {
		sorted[i] = round(v)
	}
	slices.Sort(sorted)
	r := &Reference{Examples: len(sorted)}
	for k := range edges {
		v := sorted[rank(k, edges, len(sorted))-1]
		below := sort.SearchFloat64s(sorted, v)
		after := sort.Search(len(sorted), func(i int) bool { return sorted[i] > v })
		r.Edges, r.Below, r.AtMost = append(r.Edges, v), append(r.Below, below), append(r.AtMost, after)
	}
	return r
}

// rank returns the rank of edge k = 0, 1, …: ⌈(k+1)·m/(edges+1)⌉, without overflow.
func rank(k, edges, m int) int {
	whole, rest := m/(edges+1), m%(edges+1)
	return (k+1)*whole + ((k+1)*rest+edges)/(edges+1)
}

// Check reports a reference that cannot come from any values.
func (r *Reference) Check() error {
	k := len(r.Edges)
	if k < 1 || k > maxEdges || len(r.Below) != k || len(r.AtMost) != k {
		return fmt.Errorf("%d edges with %d and %d counts, want as many of each, 1 to %d", k, len(r.Below), len(r.AtMost), maxEdges)
	}
	if r.Examples <= k || r.Examples > maxExamples {
		return fmt.Errorf("%d edges of %d examples, want more examples than edges and at most %d", k, r.Examples, maxExamples)
	}
	for i, v := range r.Edges {
		at := rank(i, k, r.Examples)
		if notFinite(v) || r.Below[i] < 0 || r.Below[i] >= at || r.AtMost[i] < at || r.AtMost[i] > r.Examples {
			return fmt.Errorf("edge %d is %v with %d of %d examples below it and %d at most it, want it to be number %d of them",
				i, v, r.Below[i], r.Examples, r.AtMost[i], at)
		}
		if i == 0 {
			continue
		}
		same := v == r.Edges[i-1] && r.Below[i] == r.Below[i-1] && r.AtMost[i] == r.AtMost[i-1]
		if !same && !(v > r.Edges[i-1] && r.Below[i] >= r.AtMost[i-1]) {
			return fmt.Errorf("edges %d and %d are %v and %v, with %d and %d examples at most them, want both to rise or neither",
				i-1, i, r.Edges[i-1], v, r.AtMost[i-1], r.AtMost[i])
		}
	}
	return nil
}

// Bins are the bins between the edges of a reference. They are not safe for concurrent use.
type Bins struct {
	edges   []float64 // [K]
	ties    []float64 // [K], the random number of each edge among the values equal to it
	weights []int     // [K+1]
	rng     *rand.Rand
}

// NewBins returns the bins of a reference. seed is that of the random numbers that break ties.
func NewBins(r *Reference, seed uint64) (*Bins, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	k := len(r.Edges)
	b := &Bins{edges: slices.Clone(r.Edges), rng: rand.New(rand.NewPCG(seed, 0x62696e73))}
	last := 0
	for i := range k {
		at := rank(i, k, r.Examples)
		b.weights = append(b.weights, at-last)
		last = at
	}
	b.weights = append(b.weights, r.Examples+1-last)
	for i := 0; i < k; {
		j := i
		for j < k && r.Edges[j] == r.Edges[i] {
			j++
		}
		b.ties = append(b.ties, b.orderStatistics(r, i, j)...)
		i = j
	}
	return b, nil
}

// orderStatistics draws the random numbers of the equal edges [i,j): of t uniform numbers the ones whose ranks are the
// edges' among the t values equal to them. Spacings of uniform numbers are those of a Poisson process (Devroye,
// "Non-Uniform Random Variate Generation", 1986, V.2).
func (b *Bins) orderStatistics(r *Reference, i, j int) []float64 {
	at := make([]float64, 0, j-i)
	sum, place := 0.0, 0
	for k := i; k < j; k++ {
		next := rank(k, len(r.Edges), r.Examples) - r.Below[k]
		sum += b.gamma(next - place)
		place = next
		at = append(at, sum)
	}
	sum += b.gamma(r.AtMost[i] - r.Below[i] + 1 - place)
	for k := range at {
		at[k] /= sum
	}
	return at
}

// gamma draws from the Gamma distribution with shape n ≥ 1 and rate 1.
func (b *Bins) gamma(n int) float64 {
	return distuv.Gamma{Alpha: float64(n), Beta: 1, Src: b.rng}.Rand()
}

// Weights returns the weight of the validation data in each bin. They sum to m+1.
func (b *Bins) Weights() []int { return slices.Clone(b.weights) }

// Place returns the bin of a value, 0 to K. NaN is larger than all numbers.
func (b *Bins) Place(v float64) int {
	if v != v {
		return len(b.edges)
	}
	v = round(v)
	k := sort.SearchFloat64s(b.edges, v)
	if k == len(b.edges) || b.edges[k] != v {
		return k
	}
	for tie := b.rng.Float64(); k < len(b.edges) && b.edges[k] == v && b.ties[k] < tie; k++ {
	}
	return k
}
