package main

import "github.com/mfgs/mfgs/calibrate/score"

const (
	scoresTitle = "Scores of unfamiliarity: not the paper's"
	scoresTable = "scores" // as paper.json has it
)

// A protocol says what a score may be tuned on, or learned from.
type protocol string

const (
	untuned protocol = "nothing to tune on"
	standIn protocol = "stand-ins"       // made of the network's own held-out images
	tuned   protocol = "tuned on a part" // of the very set that is told
	// The mean over the other sets of the network.
	elsewhere protocol = "tuned on another set"
)

// For the time that it takes, so many images of every set are tested, spread evenly, and drawn anew so
// often for intervals.
const (
	scoreImages    = 2500
	scoreResamples = 300
)

// scoreLevel is that of the intervals of differences between scores.
const scoreLevel = 0.95

const (
	learnedScore = "learned"
	chosenScore  = "chosen" // what mfgs serves where it was given examples
)

// tunedScores are those that examples of what is to be told change.
var tunedScores = []string{"ts", "mf0", learnedScore, chosenScore}

// scorePlace is where a score of a pair stands in paper.json.
func scorePlace(e encounter, by protocol, name string) place {
	return place{scoresTable, e.String() + ", " + string(by), name}
}

// untunedScores are all that nothing unfamiliar is needed for, the network itself first.
func untunedScores() []string {
	names := []string{"mle", "ts"}
	for _, name := range score.Names() {
		if name != learnedScore {
			names = append(names, name)
		}
	}
	return names
}

// A contender is a score with what it may be tuned on.
type contender struct {
	by   protocol
	name string
}

func (c contender) String() string {
	if (c.by == tuned || c.by == elsewhere) && c.name != chosenScore {
		return c.name + ", tuned"
	}
	return c.name
}

// untunedContenders are all for which nothing unfamiliar is needed: stand-ins are made of familiar images.
func untunedContenders() []contender {
	var all []contender
	for _, name := range untunedScores() {
		all = append(all, contender{untuned, name})
	}
	return append(all, contender{standIn, learnedScore})
}

// tunedContenders are those that differ where there are unfamiliar examples.
func tunedContenders(by protocol) []contender {
	var all []contender
	for _, name := range tunedScores {
		all = append(all, contender{by, name})
	}
	return all
}
