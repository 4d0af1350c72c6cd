package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// runs returns runs of single networks of seeds 0, 1, … with these values, and no resamples.
func runs(kind string, values ...float64) (all []Run) {
	for i, v := range values {
		all = append(all, Run{Kind: kind, Networks: []int{i}, Value: v})
	}
	return all
}

func TestIntervalsOverNetworksAreStudentsAndPaired(t *testing.T) {
	t.Parallel()
	a, b := runs("", 1, 2, 4), runs("", 1, 1, 1)
	tests := []struct {
		name  string
		terms []Term
		value float64
		half  float64
	}{
		// t(0.975; 2) = 4.302653, s/√n of 1, 2, 4 is 1.527525/√3.
		{"a mean", []Term{{1, a}}, 7. / 3, 4.302653 * 1.527525 / math.Sqrt(3)},
		{"minus a constant", []Term{{1, a}, {-1, b}}, 4. / 3, 4.302653 * 1.527525 / math.Sqrt(3)},
		{"minus itself", []Term{{1, a}, {-1, a}}, 0, 0},
		{"networks of the other only", []Term{{1, a}, {-1, runs("", 1, 2)}}, 0, 0},
		// Two kinds: each has its own component. t(0.975; 1) = 12.706205.
		{"another kind", []Term{{1, a}, {-1, runs("short", 1, 3)}}, 7./3 - 2,
			math.Sqrt(math.Pow(4.302653*1.527525/math.Sqrt(3), 2) + math.Pow(12.706205*math.Sqrt2/math.Sqrt2, 2))},
	}
	for _, test := range tests {
		e, ok := Of(test.terms...)
		if !ok {
			t.Fatalf("%s: no estimate", test.name)
		}
		got := e.Interval(.95)
		want := [2]float64{test.value - test.half, test.value + test.half}
		if !approx.Equal(e.Value, test.value, 1e-12) || !approx.Equal(got[0], want[0], 1e-5) ||
			!approx.Equal(got[1], want[1], 1e-5) {
			t.Errorf("%s: %v %v, want %v %v", test.name, e.Value, got, test.value, want)
		}
	}
	if _, ok := Of(Term{1, a}, Term{-1, nil}); ok {
		t.Error("an estimate of nothing")
	}
	if _, ok := Of(Term{1, a[:1]}, Term{-1, b[1:]}); ok {
		t.Error("an estimate of networks that have nothing in common")
	}
}

// With a single network, draws are a separate component.
func TestDrawsAreAveragedBeforeNetworks(t *testing.T) {
	t.Parallel()
	one := []Run{{Networks: []int{0}, Value: 1}, {Networks: []int{0}, Value: 3}}
	e, _ := Of(Term{2, one})
	if got := e.Interval(.95); e.Value != 4 || !approx.Equal(got[1]-4, 12.706205*2*1, 1e-5) {
		t.Errorf("%v %v", e.Value, got)
	}
	several := append(slices.Clone(one), Run{Networks: []int{1}, Value: 5})
	if e, _ := Of(Term{1, several}); e.Value != 3.5 {
		t.Errorf("mean %v, want that of 2 and 5", e.Value)
	}
	if e, _ := Of(Term{1, one[:1]}); e.HasInterval() {
		t.Error("a single figure has an interval")
	}
}

func TestResamplesOfAllTermsAreShared(t *testing.T) {
	t.Parallel()
	a := Run{Networks: []int{0}, Value: 2, Resamples: []float32{1, 2, 3}}
	b := Run{Networks: []int{0}, Value: 1, Resamples: []float32{0, 1, 2}}
	if e, _ := Of(Term{1, []Run{a}}, Term{-1, []Run{b}}); e.Interval(.95) != [2]float64{1, 1} {
		t.Errorf("a constant difference has the interval %v", e.Interval(.95))
	}
	e, _ := Of(Term{1, []Run{a}})
	if got := e.Interval(.95); !approx.Equal(got[1]-2, 1.959964, 1e-5) {
		t.Errorf("%v", got)
	}
}

func TestCoverageIsAtLeastNominal(t *testing.T) {
	t.Parallel()
	const trials = 800
	rng := rand.New(rand.NewPCG(5, 5))
	shared := make([]float32, 200)
	for i := range shared {
		shared[i] = float32(rng.NormFloat64() * .5)
	}
	resample := func() []float32 { return shared }
	tests := []struct {
		name     string
		networks int
		of       func(values []float64, resample func() []float32) []Term
	}{
		{"2 networks", 2, singles},
		{"3 networks", 3, singles},
		{"10 networks", 10, singles},
		{"ensembles of 5 of 10", 10, ensembles(5)},
		{"ensembles of 9 of 10", 10, ensembles(9)},
		{"ensembles of 5 of 10 less their networks", 10, func(v []float64, r func() []float32) []Term {
			return append(ensembles(5)(v, r), Term{-.5, singles(v, r)[0].Runs})
		}},
	}
	for _, test := range tests {
		held := 0
		for range trials {
			values := make([]float64, test.networks)
			for i := range values {
				values[i] = rng.NormFloat64()
			}
			example := rng.NormFloat64() * .5
			for i := range values {
				values[i] += example
			}
			e, ok := Of(test.of(values, resample)...)
			if !ok {
				t.Fatal("no estimate")
			}
			if i := e.Interval(.95); i[0] <= 0 && 0 <= i[1] {
				held++
			}
		}
		if share := float64(held) / trials; share < .93 {
			t.Errorf("%s: intervals cover the truth %v of the time", test.name, share)
		}
	}
}

func singles(values []float64, resample func() []float32) []Term {
	all := runs("", values...)
	for i := range all {
		all[i].Resamples = resample()
	}
	return []Term{{1, all}}
}

// ensembles returns all cyclic ensembles of a size; an ensemble's value is the mean of its members'.
func ensembles(size int) func([]float64, func() []float32) []Term {
	return func(values []float64, resample func() []float32) []Term {
		var all []Run
		for i := range values {
			r := Run{Resamples: resample()}
			for j := range size {
				k := (i + j) % len(values)
				r.Networks = append(r.Networks, k)
				r.Value += values[k] / float64(size)
			}
			all = append(all, r)
		}
		return []Term{{1, all}}
	}
}
