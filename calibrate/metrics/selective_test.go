package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowAURC averages the risk-coverage area over every order of the examples
// that the uncertainties allow.
func slowAURC(uncertainty []float64, wrong []bool) float64 {
	var total, orders float64
	order := make([]int, len(wrong))
	for i := range order {
		order[i] = i
	}
	var visit func(int)
	visit = func(k int) {
		if k == len(order) {
			if !slices.IsSortedFunc(order, func(a, b int) int {
				switch {
				case uncertainty[a] < uncertainty[b]:
					return -1
				case uncertainty[a] > uncertainty[b]:
					return 1
				}
				return 0
			}) {
				return
			}
			var mistakes, area float64
			for i, e := range order {
				if wrong[e] {
					mistakes++
				}
				area += mistakes / float64(i+1)
			}
			total += area / float64(len(order))
			orders++
			return
		}
		for i := k; i < len(order); i++ {
			order[k], order[i] = order[i], order[k]
			visit(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	visit(0)
	return total / orders
}

func TestAURCIsTheMeanOverTheOrdersOfTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 60 {
		n := 1 + rng.IntN(6)
		uncertainty, wrong := make([]float64, n), make([]bool, n)
		for i := range n {
			uncertainty[i] = float64(rng.IntN(4))
			wrong[i] = rng.IntN(2) == 0
		}
		got, err := AURC(uncertainty, wrong)
		if err != nil {
			t.Fatal(err)
		}
		wantClose(t, "AURC", got, slowAURC(uncertainty, wrong))
	}
}

func TestAURCRefuses(t *testing.T) {
	for want, uncertainty := range map[string][]float64{
		"uncertainty 0 is NaN": {math.NaN(), 1, 2}, "uncertainty 2 is NaN": {1, 2, math.NaN()}, "no predictions": nil,
	} {
		_, err := AURC(uncertainty, make([]bool, len(uncertainty)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", uncertainty, err, want)
		}
	}
}

func TestAURCOfNoInformationIsTheErrorRate(t *testing.T) {
	got, err := AURC(make([]float64, 8), []bool{true, false, false, true, false, false, false, false})
	if err != nil {
		t.Fatal(err)
	}
	wantClose(t, "AURC", got, 0.25)
}

func TestAURCRefusals(t *testing.T) {
	if _, err := AURC(nil, nil); err == nil {
		t.Error("AURC of nothing succeeded")
	}
	if _, err := AURC([]float64{0, math.NaN()}, make([]bool, 2)); err == nil {
		t.Error("AURC of NaN succeeded")
	}
}
