package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// AURC is the area under the risk-coverage curve (Geifman and El-Yaniv, "Selective Classification
// for Deep Neural Networks", 2017): the mean over i = 1 … n of the fraction of mistakes among the i
// examples of least uncertainty. 0 is best; an uncertainty that says nothing gives the error rate.
// Within a tie it is the expectation over all orders.
//
// uncertainty is any score that grows with doubt, such as 1 − max p (formed as the sum of the other
// probabilities: a confidence near 1 has no digits left), and wrong says which predictions are
// mistakes. It panics if the lengths differ and costs O(n log n).
func AURC(uncertainty []float64, wrong []bool) (float64, error) {
	if len(uncertainty) != len(wrong) {
		panic(fmt.Sprintf("metrics: %d uncertainties for %d predictions", len(uncertainty), len(wrong)))
	}
	if len(wrong) == 0 {
		return 0, errors.New("no predictions to measure")
	}
	if i := slices.IndexFunc(uncertainty, math.IsNaN); i >= 0 {
		return 0, fmt.Errorf("uncertainty %d is NaN", i)
	}
	var right, mistaken []float64
	for i, u := range uncertainty {
		if wrong[i] {
			mistaken = append(mistaken, u)
		} else {
			right = append(right, u)
		}
	}
	slices.Sort(right)
	slices.Sort(mistaken)

	var area float64
	for g := range groups(right, mistaken) {
		tied := g.tiedIn + g.tiedOut
		for j := 1; j <= tied; j++ {
			mistakes := float64(g.out) + float64(g.tiedOut)*float64(j)/float64(tied)
			area += mistakes / float64(g.in+g.out+j)
		}
	}
	return area / float64(len(wrong)), nil
}
