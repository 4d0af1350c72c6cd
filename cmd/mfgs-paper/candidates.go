package main

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/oodscores"
)

const (
	scoresTitle = "OOD scores (not in the paper)"
	scoresTable = "scores" // as in paper.json
)

// A protocol is what a score may be tuned on or learned from.
type protocol string

const (
	untuned   protocol = "nothing to tune on"
	synthetic protocol = "synthetic"       // synthetic OOD images made from the network's validation images
	tuned     protocol = "tuned on a part" // of the OOD set itself
	// The mean over tuning on each of the network's other sets.
	tunedOnOther protocol = "tuned on another set"
)

// label is what a score is tuned on.
func (p protocol) label() string {
	return map[protocol]string{untuned: "nothing", synthetic: "synthetic OOD images", tuned: "part of the set", tunedOnOther: "another set"}[p]
}

// scoreResamples is the number of bootstrap resamples: fewer, to save time.
const scoreResamples = 300

// scoreLevel is the level of the intervals of differences between scores.
const scoreLevel = 0.95

const (
	learnedScore = "learned"
	chosenScore  = "chosen" // what mfgs selects with OOD examples
)

// guardedScore is also fitted to predicted classes.
const (
	guardedScore   = "guarded_margin"
	predictedScore = "guarded_margin, predicted labels"
)

// tunedScores are the scores that depend on OOD examples.
var tunedScores = []string{"ts", "mf0", learnedScore, chosenScore}

// scorePlace is the place of a score on a pair.
func scorePlace(e pair, by protocol, name string) place {
	return place{scoresTable, e.String() + ", " + string(by), name}
}

// untunedScores are the scores that need no OOD data, the network itself first and those of package oodscores last.
func untunedScores() []string {
	names := append([]string{"mle", "ts"}, ownScores()...)
	for _, s := range oodscores.All {
		names = append(names, s.Name)
	}
	return names
}

// ownScores are those of mfgs for classes.
func ownScores() []string {
	var names []string
	for _, s := range score.All {
		if s.Name != learnedScore && !s.Correctness {
			names = append(names, s.Name)
		}
	}
	return names
}

// softmaxScores are those that a sigmoid does not have.
func softmaxScores() []string {
	names := []string{"vim"}
	for _, s := range oodscores.All {
		names = append(names, s.Name)
	}
	return names
}

// A candidate is a score under a protocol.
type candidate struct {
	by   protocol
	name string
}

func (c candidate) String() string {
	if (c.by == tuned || c.by == tunedOnOther) && c.name != chosenScore {
		return c.name + ", tuned"
	}
	return c.name
}

// untunedCandidates need no OOD data.
func untunedCandidates() []candidate {
	var all []candidate
	for _, name := range untunedScores() {
		all = append(all, candidate{untuned, name})
	}
	return all
}

// learnedCandidate needs images, from which synthetic OOD images are made.
var learnedCandidate = candidate{synthetic, learnedScore}

// tunedCandidates depend on OOD examples.
func tunedCandidates(by protocol) []candidate {
	var all []candidate
	for _, name := range tunedScores {
		all = append(all, candidate{by, name})
	}
	return all
}

// fewerValidation are the numbers of validation examples that scores are compared with.
var fewerValidation = []int{100, 300, 1000}

// fewerScores are the scores measured with these.
var fewerScores = slices.Compact([]string{score.Default, guardedScore, "mf0"})

// fewerPlace is the place of a score calibrated with n validation examples.
func fewerPlace(e pair, n int, name string) place {
	return place{scoresTable, fmt.Sprintf("%v, %d validation examples", e, n), name}
}
