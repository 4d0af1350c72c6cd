package main

import "github.com/mfgs/mfgs/calibrate/score"

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

// To save time, at most scoreImages evenly spaced images of each set are tested, with scoreResamples bootstrap
// resamples.
const (
	scoreImages    = 2500
	scoreResamples = 300
)

// scoreLevel is the level of the intervals of differences between scores.
const scoreLevel = 0.95

const (
	learnedScore = "learned"
	chosenScore  = "chosen" // what mfgs selects with OOD examples
)

// tunedScores are the scores that depend on OOD examples.
var tunedScores = []string{"ts", "mf0", learnedScore, chosenScore}

// scorePlace is the place of a score on a pair.
func scorePlace(e pair, by protocol, name string) place {
	return place{scoresTable, e.String() + ", " + string(by), name}
}

// untunedScores are the scores that need no OOD data, the network itself first.
func untunedScores() []string {
	names := []string{"mle", "ts"}
	for _, name := range score.Names() {
		if name != learnedScore {
			names = append(names, name)
		}
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

// untunedCandidates need no OOD data: synthetic OOD images are made from in-distribution ones.
func untunedCandidates() []candidate {
	var all []candidate
	for _, name := range untunedScores() {
		all = append(all, candidate{untuned, name})
	}
	return append(all, candidate{synthetic, learnedScore})
}

// tunedCandidates depend on OOD examples.
func tunedCandidates(by protocol) []candidate {
	var all []candidate
	for _, name := range tunedScores {
		all = append(all, candidate{by, name})
	}
	return all
}
