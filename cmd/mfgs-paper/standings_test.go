package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/score"
)

// standingRows returns rows of all pairs, on one network per shift of the AUROC. of returns the AUROC of a candidate;
// its difference from the default has an interval of ± half.
func standingRows(half float64, shifts []float64, of func(pair, candidate) float64) []row {
	var rows []row
	for _, e := range allPairs {
		base := of(e, candidate{untuned, score.Default})
		for _, c := range slices.Concat(untunedCandidates(), tunedCandidates(tuned), tunedCandidates(tunedOnOther)) {
			r := row{place: scorePlace(e, c.by, c.name)}
			if c.name == chosenScore {
				r.Note = "vim"
			}
			for seed, shift := range shifts {
				var a answer
				v := of(e, c)
				a.OOD = map[string]detection{e.set: {AUROC: v + shift}}
				d := v - base
				interval := metrics.Interval{d - half, d + half}
				a.OverDefault = map[string]metrics.Difference{e.set: {Difference: d, Interval: interval}}
				r.Runs = append(r.Runs, measurement{Seed: seed, Networks: []int{seed}, answer: a})
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// falling gives each candidate a slightly lower AUROC than the one before it.
func falling(_ pair, c candidate) float64 {
	switch c.by {
	case tuned:
		return .95
	case tunedOnOther:
		return .6
	}
	for i, o := range untunedCandidates() {
		if o == c {
			return .9 - .02*float64(i)
		}
	}
	panic(c.name)
}

func TestRanksFollowTheRows(t *testing.T) {
	t.Parallel()
	s := standingsOf(standingRows(.01, []float64{0}, falling))
	all, c := s.ranked()
	for i := range all {
		if c.Mean[i] != float64(i+1) {
			t.Errorf("%s has the mean rank %v, want %d", all[i].name, c.Mean[i], i+1)
		}
	}
	if c.Sets != len(allPairs) {
		t.Errorf("%d pairs are ranked, want %d", c.Sets, len(allPairs))
	}
	svg := s.drawRanks().SVG
	wellFormed(t, "scores-ranks.svg", svg)
	for _, c := range all {
		if !strings.Contains(string(svg), ">"+c.name+" ") {
			t.Errorf("%s is not drawn", c.name)
		}
	}
}

func TestSignificantMeansBeyondTheIntervalOnEveryNetwork(t *testing.T) {
	t.Parallel()
	e := allPairs[0]
	c := candidate{untuned, "vim"}
	at := func(all ...metrics.Difference) standings {
		r := row{place: scorePlace(e, c.by, c.name)}
		for seed, d := range all {
			var a answer
			a.OverDefault = map[string]metrics.Difference{e.set: d}
			r.Runs = append(r.Runs, measurement{Seed: seed, Networks: []int{seed}, answer: a})
		}
		return standingsOf([]row{r})
	}
	of := func(d, half float64) metrics.Difference {
		return metrics.Difference{Difference: d, Interval: metrics.Interval{d - half, d + half}}
	}
	for _, test := range []struct {
		name string
		runs []metrics.Difference
		want int
	}{
		{"above", []metrics.Difference{of(.02, .01)}, 1},
		{"below", []metrics.Difference{of(-.02, .01)}, -1},
		{"within", []metrics.Difference{of(.02, .03)}, 0},
		{"above in all", []metrics.Difference{of(.02, .01), of(.001, .01)}, 1},
		{"above in one", []metrics.Difference{of(.06, .01), of(-.001, .01)}, 0},
		{"below in one", []metrics.Difference{of(-.06, .01), of(.001, .01)}, 0},
		{"the same", []metrics.Difference{of(0, 0)}, 0},
	} {
		if _, got := at(test.runs...).lead(e, c); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestAdviceFollowsTheRows(t *testing.T) {
	t.Parallel()
	learnedWins := func(e pair, c candidate) float64 {
		if c == (candidate{synthetic, learnedScore}) {
			return falling(e, candidate{untuned, score.Default}) + .03
		}
		return falling(e, c)
	}
	below := func(e pair, c candidate) float64 {
		if e == allPairs[3] && c.name == "residual" {
			return .321
		}
		return falling(e, c)
	}
	base := falling(allPairs[0], candidate{untuned, score.Default})
	n := len(allPairs)
	for _, test := range []struct {
		name string
		of   func(pair, candidate) float64
		want []string
	}{
		{"synthetic images help", learnedWins, []string{
			fmt.Sprintf("`learned`: near %s", points(base+.03)), fmt.Sprintf("better than the default on %d of %d pairs, worse on 0.", n, n),
			"Its mean is +3.0 points from the default's",
		}},
		{"synthetic images harm", falling, []string{
			fmt.Sprintf("better than the default on 0 of %d pairs, worse on %d; largest loss", n, n), "Its mean is -", "`learned` has the lowest mean",
			"below chance on some pair, with their lowest: none",
		}},
		{"below chance", below, []string{"`residual` (32.1, " + allPairs[3].label() + ")"}},
		{"a better one", falling, []string{"`mle` has the highest mean among scores that need no images", fmt.Sprintf("selected by `--ood`, `vim` %d times: near 95.0", n), fmt.Sprintf("is %+.1f points from the default", 100*(.6-base))}},
	} {
		text := standingsOf(standingRows(.01, []float64{-.01, .01}, test.of)).advice()
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the advice lacks %q:\n%s", test.name, want, text)
			}
		}
		if lines := strings.Count(text, "\n"); lines > 25 {
			t.Errorf("%s: the advice has %d lines", test.name, lines)
		}
	}
}

func TestStandingsIgnoreOtherTables(t *testing.T) {
	t.Parallel()
	rows := standingRows(.01, []float64{0}, falling)
	rows = append(rows[:len(rows)/len(allPairs)*2], row{place: place{"1", mnistName, "mf0"}})
	s := standingsOf(rows)
	if got := s.pairs(""); len(got) != 2 || got[0] != allPairs[0] || got[1] != allPairs[1] {
		t.Errorf("pairs are %v", got)
	}
	for _, n := range nearnesses {
		for _, e := range s.pairs(n.nearness) {
			if e.nearness != n.nearness {
				t.Errorf("%v is %s, and not %s", e, e.nearness, n.nearness)
			}
		}
	}
	written := section{Rows: standingRows(.01, []float64{0}, falling)}
	writeScores(&written)
	for _, bad := range []string{"NaN", "%!", "Inf"} {
		if strings.Contains(written.text.String(), bad) {
			t.Errorf("the text has %s", bad)
		}
	}
}
