package main

import (
	"slices"
	"strings"
	"testing"
)

// fewerRow is a row of a single network, with an AUROC.
func fewerRow(p place, set string, auroc float64) row {
	var a answer
	a.OOD = map[string]detection{set: {AUROC: auroc}}
	return row{place: p, Runs: []measurement{{Seed: 0, Networks: []int{0}, answer: a}}}
}

func TestFewerValidationExamplesAreComparedWithAll(t *testing.T) {
	t.Parallel()
	var rows []row
	for i, e := range allPairs {
		if e.network != cifar10Name {
			continue
		}
		for _, name := range fewerScores {
			rows = append(rows, fewerRow(scorePlace(e, untuned, name), e.set, .9),
				fewerRow(fewerPlace(e, fewerValidation[0], name), e.set, .8))
		}
		rows = append(rows, fewerRow(scorePlace(e, untuned, predictedScore), e.set, .9+float64(i%2)/100))
	}
	s := standingsOf(rows)
	if !s.hasFewer() || standingsOf(rows[:1]).hasFewer() {
		t.Error("whether there are fewer examples is wrong")
	}
	text := s.fewer()
	for _, want := range []string{
		"| CIFAR-10 | all | 6 | 90.0 |", "| CIFAR-10 | 100 | 6 | 80.0 |", "changes by at most 10 points",
		"mean of 6 pairs, by +0.00 (", "to +1.00.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| digits |") || strings.Contains(text, "| CIFAR-10 | 300 |") {
		t.Errorf("the text has a row that was not measured:\n%s", text)
	}
	without := standingsOf(slices.DeleteFunc(rows, func(r row) bool { return r.row == predictedScore }))
	if strings.Contains(without.fewer(), "predicted classes") {
		t.Error("the text has predicted classes that were not measured")
	}
}
