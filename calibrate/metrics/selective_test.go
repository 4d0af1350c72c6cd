package metrics

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// aurc is the area that [Classifier.Selective] computes.
func aurc(uncertainty []float64, wrong []bool) float64 {
	losses := make([]float64, len(wrong))
	for i, w := range wrong {
		if w {
			losses[i] = 1
		}
	}
	return newRanked(uncertainty).selective(losses, nil).AURC
}

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
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 9))
	for range 60 {
		n := 1 + rng.IntN(6)
		uncertainty, wrong := make([]float64, n), make([]bool, n)
		for i := range n {
			uncertainty[i] = float64(rng.IntN(4))
			wrong[i] = rng.IntN(2) == 0
		}
		wantClose(t, "AURC", aurc(uncertainty, wrong), slowAURC(uncertainty, wrong))
	}
}

func TestAURCOfNoInformationIsTheErrorRate(t *testing.T) {
	t.Parallel()
	wrong := []bool{true, false, false, true, false, false, false, false}
	wantClose(t, "AURC", aurc(make([]float64, 8), wrong), 0.25)
}
