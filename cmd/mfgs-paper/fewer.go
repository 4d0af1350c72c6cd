package main

import (
	"fmt"
	"math"
)

// hasFewer reports whether scores were measured with fewer validation examples.
func (s standings) hasFewer() bool {
	for _, e := range allPairs {
		if len(s[fewerPlace(e, fewerValidation[0], guardedScore)].Runs) > 0 {
			return true
		}
	}
	return false
}

// aurocAt is the AUROC of a score on the first network, calibrated with n validation examples, or with all for 0; NaN
// if it was not measured.
func (s standings) aurocAt(e pair, n int, name string) float64 {
	at := scorePlace(e, untuned, name)
	if n > 0 {
		at = fewerPlace(e, n, name)
	}
	return s.first()[at].over(rocOf(e.set)).mean()
}

// fewer compares calibrations with fewer validation examples, and those with predicted classes in place of labels.
func (s standings) fewer() string {
	head := []string{"network", "validation examples", "pairs"}
	for _, name := range fewerScores {
		head = append(head, "`"+name+"`")
	}
	t, most := numberTable(head...), 0.
	for _, network := range []string{cifar10Name, smallDigitsName} {
		for i, n := range append([]int{0}, fewerValidation...) {
			of := map[string]sample{}
			for _, e := range allPairs {
				for _, name := range fewerScores {
					v := s.aurocAt(e, n, name)
					if e.network != network || math.IsNaN(v) {
						continue
					}
					of[name] = append(of[name], v)
					if name == guardedScore {
						most = max(most, math.Abs(v-s.aurocAt(e, 0, name)))
					}
				}
			}
			if len(of[guardedScore]) == 0 {
				continue
			}
			cells := []string{network, "all", fmt.Sprint(len(of[guardedScore]))}
			if i > 0 {
				cells[1] = fmt.Sprint(n)
			}
			for _, name := range fewerScores {
				cells = append(cells, points(of[name].mean()))
			}
			t.row(cells...)
		}
	}
	return fmt.Sprintf("Mean AUROC over the pairs of the first network. Validation examples set the temperatures of `mf0`; the other scores do not use them. "+
		"The AUROC of `%s` changes by at most %.2g points on any pair.\n\n%s\n%s", guardedScore, 100*most, t, s.predicted())
}

// predicted says what predicted classes in place of labels change.
func (s standings) predicted() string {
	var change sample
	least, greatest := math.Inf(1), math.Inf(-1)
	var at pair
	for _, e := range s.measured(candidate{untuned, predictedScore}, "") {
		d := s.auroc(e, candidate{untuned, predictedScore}) - s.auroc(e, candidate{untuned, guardedScore})
		change, greatest = append(change, d), max(greatest, d)
		if d < least {
			least, at = d, e
		}
	}
	if len(change) == 0 {
		return ""
	}
	return fmt.Sprintf("`%s` uses the labels of the training data, or without labels the predicted classes. With these its AUROC changes by %+.2f points in the mean of %d pairs, "+
		"by %+.2f (%s) to %+.2f.", guardedScore, 100*change.mean(), len(change), 100*least, at.label(), 100*greatest)
}
