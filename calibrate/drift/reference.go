package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Step is what values are rounded to multiples of, those held out and those that come. Held-out examples
// may have been predicted in float64, and those that come in float32, whose probabilities of sure
// predictions are 1: without it, that alone would be drift. Quantities are to be of the order of 1, as
// probabilities, their entropies and scores in [0,1] are.
const Step = 1e-4

// round is exact for decimals, so that edges are short in files.
func round(v float64) float64 { return math.Round(v*perUnit) / perUnit }

const perUnit = 1 / Step

// A Reference is what is kept of a quantity of held-out examples. Its K edges are the values of
// rank ⌈k·Examples/(K+1)⌉ for k = 1 … K, the smallest having rank 1.
type Reference struct {
	Examples int       `yaml:"examples" json:"examples"`    // m
	Edges    []float64 `yaml:"edges,flow" json:"edges"`     // [K], not falling
	Below    []int     `yaml:"below,flow" json:"below"`     // [K], examples that are smaller than each edge
	AtMost   []int     `yaml:"at_most,flow" json:"at_most"` // [K], and not larger than it
}

// Limits of a reference.
const (
	// fewest are the held-out examples of a bin: as many as a χ² distribution needs (Cochran, "Some
	// methods for strengthening the common χ² tests", 1954).
	minPerBin   = 5
	maxEdges    = 1023
	maxExamples = 1 << 53 // of which float64 tells each from the next
)

// NewReference returns what is kept of values, in bins of at least 5 of them, and two bins at
// least. It fails for fewer than two values, and where one is not finite.
func NewReference(values []float64, bins int) (*Reference, error) {
	if bins < 2 || bins > maxEdges+1 {
		panic(fmt.Sprintf("drift: %d bins, want 2 to %d", bins, maxEdges+1))
	}
	if len(values) < 2 {
		return nil, fmt.Errorf("%d held-out values, want 2 or more", len(values))
	}
	if i := slices.IndexFunc(values, notFinite); i >= 0 {
		return nil, fmt.Errorf("held-out value %d is %v, want a finite number", i, values[i])
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

// rank returns that of edge k, which counts from 0: ⌈(k+1)·m/(edges+1)⌉, without overflow.
func rank(k, edges, m int) int {
	whole, rest := m/(edges+1), m%(edges+1)
	return (k+1)*whole + ((k+1)*rest+edges)/(edges+1)
}

// Check reports a reference that no held-out values have.
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
	ties    []float64 // [K], which random number each edge has among the values equal to it
	weights []int     // [K+1]
	rng     *rand.Rand
}

// NewBins returns the bins of a reference. Random numbers, by which equal values are told apart,
// are drawn from a generator with this seed.
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

// orderStatistics draws the random numbers of the edges [i,j), which are equal: of t uniform numbers
// those whose places are the edges' among the t values equal to them. The spacings of uniform numbers
// are as those of a Poisson process (Devroye, "Non-Uniform Random Variate Generation", 1986, V.2).
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

// Weights returns how much the held-out examples weigh in each bin: their sum is m+1.
func (b *Bins) Weights() []int { return slices.Clone(b.weights) }

// Place returns the bin of a value, 0 to K. What is no number is larger than all numbers, so that it
// counts as strangest where large values are strange.
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
