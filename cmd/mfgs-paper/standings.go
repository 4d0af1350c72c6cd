package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/oodscores"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/ranks"
	"github.com/mfgs/mfgs/internal/chart"
)

// standings are the rows of scores by place. They compute and write the report's part on scores.
type standings map[place]row

func standingsOf(rows []row) standings {
	all := standings{}
	for _, r := range rows {
		if r.table == scoresTable {
			all[r.place] = r
		}
	}
	return all
}

// has reports whether a candidate was measured on a pair.
func (s standings) has(e pair, c candidate) bool { return len(s[scorePlace(e, c.by, c.name)].Runs) > 0 }

// measured returns the pairs on which a candidate was measured, of one nearness or, for "", all.
func (s standings) measured(c candidate, of nearness) (all []pair) {
	for _, e := range allPairs {
		if s.has(e, c) && (of == "" || of == e.nearness) {
			all = append(all, e)
		}
	}
	return all
}

// candidates are those of untunedCandidates that were measured.
func (s standings) candidates() []candidate {
	return slices.DeleteFunc(untunedCandidates(), func(c candidate) bool { return len(s.measured(c, "")) == 0 })
}

// pairs returns the pairs on which all candidates were measured, of one nearness or, for "", all.
func (s standings) pairs(of nearness) []pair {
	return slices.DeleteFunc(s.measured(candidate{untuned, score.Default}, of), func(e pair) bool {
		return slices.ContainsFunc(s.candidates(), func(c candidate) bool { return !s.has(e, c) })
	})
}

// pairsOf returns the pairs over which a candidate is averaged: those on which it was measured, and if it needs no OOD
// data all others too.
func (s standings) pairsOf(c candidate, of nearness) []pair {
	if c.by == untuned {
		return s.pairs(of)
	}
	return s.measured(c, of)
}

// tunedPairs are those with an OOD set that was tuned on.
func (s standings) tunedPairs(of nearness) []pair {
	return s.measured(candidate{tuned, chosenScore}, of)
}

// auroc returns the AUROC of a candidate, averaged over networks.
func (s standings) auroc(e pair, c candidate) float64 {
	return s[scorePlace(e, c.by, c.name)].over(rocOf(e.set)).mean()
}

// mean returns the mean AUROC over pairs.
func (s standings) mean(all []pair, c candidate) float64 {
	var v sample
	for _, e := range all {
		v = append(v, s.auroc(e, c))
	}
	return v.mean()
}

// lead returns a candidate's AUROC minus the default's. sign is 1 or -1 if the difference is significant: the paired
// interval over examples excludes 0, and the sign is the same on every network.
func (s standings) lead(e pair, c candidate) (d metrics.Difference, sign int) {
	var all []metrics.Difference
	for _, run := range s[scorePlace(e, c.by, c.name)].Runs {
		all = append(all, run.OverDefault[e.set])
	}
	higher := func(d metrics.Difference) bool { return d.Difference > 0 }
	d = meanDifference(all)
	switch {
	case d.Interval[0] > 0 && !slices.ContainsFunc(all, func(d metrics.Difference) bool { return !higher(d) }):
		return d, 1
	case d.Interval[1] < 0 && !slices.ContainsFunc(all, higher):
		return d, -1
	}
	return d, 0
}

// meanDifference averages differences measured on the same images. Its interval is the mean of theirs: whatever the
// correlation, the standard error of a mean is at most the mean of the standard errors.
func meanDifference(all []metrics.Difference) (mean metrics.Difference) {
	for _, d := range all {
		n := float64(len(all))
		mean.Difference += d.Difference / n
		mean.Interval[0] += d.Interval[0] / n
		mean.Interval[1] += d.Interval[1] / n
	}
	return mean
}

// A record counts on how many pairs a candidate is significantly better or worse than the default.
type record struct {
	better, worse, same int
	most, least         float64 // differences
	at                  pair    // where the difference is least
}

func (s standings) record(all []pair, c candidate) record {
	r := record{most: math.Inf(-1), least: math.Inf(1)}
	for _, e := range all {
		d, sign := s.lead(e, c)
		switch sign {
		case 1:
			r.better++
		case -1:
			r.worse++
		default:
			r.same++
		}
		r.most = max(r.most, d.Difference)
		if d.Difference < r.least {
			r.least, r.at = d.Difference, e
		}
	}
	return r
}

// gain returns the mean over pairs of a candidate's AUROC minus the default's on the same networks.
func (s standings) gain(all []pair, c candidate) float64 {
	var v sample
	for _, e := range all {
		d, _ := s.lead(e, c)
		v = append(v, d.Difference)
	}
	return v.mean()
}

// leastLead is the least difference in AUROC that a table shows.
const leastLead = 0.0005

// overBest returns on how many pairs a score is significantly better than all other scores of mfgs, and on how many no
// other is significantly better.
func (s standings) overBest(all []pair, c candidate) (best, among int) {
	for _, e := range all {
		var over []metrics.Difference
		for _, run := range s[scorePlace(e, c.by, c.name)].Runs {
			over = append(over, run.OverBest[e.set])
		}
		d := meanDifference(over)
		lower := func(d metrics.Difference) bool { return d.Difference <= 0 }
		if d.Interval[0] > 0 && d.Difference >= leastLead && !slices.ContainsFunc(over, lower) {
			best++
		}
		if d.Interval[1] >= 0 {
			among++
		}
	}
	return best, among
}

// hasBest reports whether the best scores are known.
func (s standings) hasBest() bool {
	for _, r := range s {
		if len(r.Runs) > 0 && r.Runs[0].OverBest != nil {
			return true
		}
	}
	return false
}

// worst returns the pair on which a candidate has its lowest AUROC.
func (s standings) worst(c candidate) (at pair, auroc float64) {
	auroc = math.Inf(1)
	for _, e := range s.measured(c, "") {
		if v := s.auroc(e, c); v < auroc {
			at, auroc = e, v
		}
	}
	return at, auroc
}

// ranked compares the candidates that need no OOD data, over all pairs.
func (s standings) ranked() ([]candidate, ranks.Comparison) {
	all := s.candidates()
	var values [][]float64
	for _, e := range s.pairs("") {
		var v []float64
		for _, c := range all {
			v = append(v, s.auroc(e, c))
		}
		values = append(values, v)
	}
	return all, ranks.Compare(values)
}

// best sorts candidates by mean AUROC over pairs, best first.
func (s standings) best(all []pair, among []candidate) []candidate {
	among = slices.Clone(among)
	slices.SortStableFunc(among, func(a, b candidate) int { return cmp.Compare(s.mean(all, b), s.mean(all, a)) })
	return among
}

// drawRanks draws the diagram of critical differences.
func (s standings) drawRanks() picture {
	all, c := s.ranked()
	d := chart.Ranks{
		Name:     fmt.Sprintf("Mean ranks of scores over %d pairs of a network and an OOD set", c.Sets),
		Critical: c.Critical,
	}
	for _, i := range c.Order() {
		one := chart.Ranked{Name: all[i].name, Rank: c.Mean[i], Marked: all[i].name == score.Default}
		d.Methods = append(d.Methods, one)
	}
	for _, g := range c.Groups() {
		d.Groups = append(d.Groups, [2]float64{c.Mean[g[0]], c.Mean[g[len(g)-1]]})
	}
	return picture{"scores-ranks.svg", d.Document()}
}

// points formats a fraction in per cent.
func points(v float64) string { return fmt.Sprintf("%.1f", 100*v) }

var nearnesses = []nearness{near, far, noise, altered}

// means formats a candidate's means, as in "near 85.1, far 93.0, noise 81.2".
func (s standings) means(c candidate) string {
	var parts []string
	for _, n := range nearnesses {
		if all := s.pairsOf(c, n); len(all) > 0 {
			parts = append(parts, string(n)+" "+points(s.mean(all, c)))
		}
	}
	return strings.Join(parts, ", ")
}

// summary is the table of candidates that need no OOD data, by mean rank. The score learned from synthetic OOD images,
// which needs images, has no rank and comes last.
func (s standings) summary() string {
	all, c := s.ranked()
	head := []string{"score", "mean rank"}
	for _, n := range s.kinds() {
		head = append(head, string(n))
	}
	head = append(head, "all", "lowest", "better", "not significant", "worse")
	if s.hasBest() {
		head = append(head, "best", "among the best")
	}
	t := numberTable(head...)
	row := func(of candidate, rank string) {
		cells := []string{"`" + of.name + "`", rank}
		switch {
		case of.name == score.Default:
			cells[0] = "**" + cells[0] + "**, the default"
		case of.by == synthetic:
			cells[0] += ", synthetic OOD"
		case oodscores.Find(of.name) != nil:
			cells[0] += ", not in mfgs"
		}
		for _, n := range s.kinds() {
			cells = append(cells, points(s.mean(s.pairsOf(of, n), of)))
		}
		_, lowest := s.worst(of)
		cells = append(cells, points(s.mean(s.pairsOf(of, ""), of)), points(lowest))
		if r := s.record(s.pairsOf(of, ""), of); of.name == score.Default {
			cells = append(cells, "", "", "")
		} else {
			cells = append(cells, fmt.Sprint(r.better), fmt.Sprint(r.same), fmt.Sprint(r.worse))
		}
		if s.hasBest() {
			best, among := s.overBest(s.measured(of, ""), of)
			cells = append(cells, fmt.Sprint(best), fmt.Sprint(among))
		}
		t.row(cells...)
	}
	for _, i := range c.Order() {
		row(all[i], fmt.Sprintf("%.1f", c.Mean[i]))
	}
	if len(s.measured(learnedCandidate, "")) > 0 {
		row(learnedCandidate, "")
	}
	text := t.String()
	if n := len(s.measured(learnedCandidate, "")); n > 0 {
		text += fmt.Sprintf("\n`%s` needs images to make synthetic ones of: its figures are over the %d pairs of a network on images and its own data, and it has no rank.",
			learnedScore, n)
	}
	if s.hasBest() {
		text += " Lowest is over all pairs. Best: the pairs on which a score is better than every other score of mfgs that needs no OOD data, significantly and by 0.05 points or more; among the best: those on which none of them is significantly better."
	}
	return text + "\n"
}

// kinds are those of the pairs.
func (s standings) kinds() (all []nearness) {
	for _, n := range nearnesses {
		if len(s.pairs(n)) > 0 {
			all = append(all, n)
		}
	}
	return all
}

// networks returns a table of scores and sets for each network.
func (s standings) networks() string {
	var b strings.Builder
	var names []string
	base := candidate{untuned, score.Default}
	for _, e := range s.measured(base, "") {
		if !slices.Contains(names, e.network) {
			names = append(names, e.network)
		}
	}
	for _, name := range names {
		var all []pair
		head := []string{name + ", AUROC %"}
		for _, e := range s.measured(base, "") {
			if e.network == name {
				all = append(all, e)
				head = append(head, setLabel(e.set)+" ("+string(e.nearness)+")")
			}
		}
		t := numberTable(head...)
		for _, list := range [][]candidate{
			append(untunedCandidates(), learnedCandidate), tunedCandidates(tuned), tunedCandidates(tunedOnOther),
		} {
			for _, c := range list {
				if !slices.ContainsFunc(all, func(e pair) bool { return s.has(e, c) }) {
					continue
				}
				cells := []string{"`" + c.name + "`" + map[protocol]string{synthetic: ", synthetic OOD", tuned: ", tuned on part of it", tunedOnOther: ", tuned on another set"}[c.by]}
				for _, e := range all {
					if !s.has(e, c) {
						cells = append(cells, "")
						continue
					}
					text := points(s.auroc(e, c))
					if s.leads(e, c, list) {
						text = "**" + text + "**"
					}
					cells = append(cells, text)
				}
				t.row(cells...)
			}
		}
		fmt.Fprintf(&b, "%s\n", t)
	}
	return b.String()
}

// leads reports whether no candidate in list has a higher AUROC.
func (s standings) leads(e pair, c candidate, list []candidate) bool {
	return !slices.ContainsFunc(list, func(o candidate) bool { return s.auroc(e, o) > s.auroc(e, c) })
}

// first returns the standings of the first network of each kind, the only one that is tuned.
func (s standings) first() standings {
	all := standings{}
	for at, r := range s {
		if len(r.Runs) > 1 {
			r.Runs = r.Runs[:1]
		}
		all[at] = r
	}
	return all
}

// protocols is the table of scores by protocol, on the first network of each kind.
func (s standings) protocols() string {
	s = s.first()
	t := numberTable("score", "tuned on", "near", "far", "noise", "all", "better", "not significant", "worse")
	for _, c := range []candidate{
		{untuned, "mle"}, {untuned, "ts"}, {tuned, "ts"}, {untuned, "mf0"}, {tuned, "mf0"}, {untuned, score.Default},
		{synthetic, learnedScore}, {tuned, learnedScore}, {tuned, chosenScore},
		{tunedOnOther, "ts"}, {tunedOnOther, "mf0"}, {tunedOnOther, learnedScore}, {tunedOnOther, chosenScore},
	} {
		cells := []string{"`" + c.name + "`", c.by.label()}
		if c.name == chosenScore {
			cells[0] = "selected by `--ood`"
		}
		for _, n := range []nearness{near, far, noise} {
			cells = append(cells, points(s.mean(s.tunedPairs(n), c)))
		}
		cells = append(cells, points(s.mean(s.tunedPairs(""), c)))
		if r := s.record(s.tunedPairs(""), c); c.name == score.Default {
			cells = append(cells, "", "", "")
		} else {
			cells = append(cells, fmt.Sprint(r.better), fmt.Sprint(r.same), fmt.Sprint(r.worse))
		}
		t.row(cells...)
	}
	return t.String()
}

// test reports Friedman's and Nemenyi's tests.
func (s standings) test() string {
	all, c := s.ranked()
	base := c.Mean[candidateIndex(all, score.Default)]
	significant := func(i int) bool { return math.Abs(c.Mean[i]-base) >= c.Critical }
	var worse, better []string
	for _, i := range c.Order() {
		if significant(i) && c.Mean[i] > base {
			worse = append(worse, "`"+all[i].name+"`")
		} else if significant(i) {
			better = append(better, "`"+all[i].name+"`")
		}
	}
	return fmt.Sprintf("Friedman's test of %d scores over %d pairs: χ² = %.1f, p = %.2g, and %.2g with the F statistic of Iman and Davenport. Nemenyi's critical difference at .05 is "+
		"%.2f ranks: the default is significantly behind %s and ahead of %s. The test assumes independent pairs, but networks of one kind are tested on "+
		"the same sets, so p and the critical difference are too small. The counts of better and worse do not depend on this test.",
		len(all), c.Sets, c.ChiSquared, c.P, c.FP, c.Critical, enumerate(better), enumerate(worse))
}

// enumerate joins names with commas and "and".
func enumerate(names []string) string {
	switch n := len(names); n {
	case 0:
		return "none"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

func candidateIndex(all []candidate, name string) int {
	return slices.IndexFunc(all, func(c candidate) bool { return c.name == name })
}

// sentence words a record.
func (r record) sentence() string {
	text := fmt.Sprintf("significantly better than the default on %d of %d pairs, worse on %d", r.better, r.better+r.same+r.worse, r.worse)
	if r.least < 0 {
		text += fmt.Sprintf("; largest loss %s points (%s)", points(-r.least), r.at.label())
	}
	return text
}

// advice says which score to use when.
func (s standings) advice() string {
	base := candidate{untuned, score.Default}
	network := candidate{untuned, "mle"}
	all, c := s.ranked()
	pairs := s.pairs("")
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }

	order := c.Order()
	rank := slices.Index(order, candidateIndex(all, score.Default)) + 1
	own := slices.DeleteFunc(s.candidates(), func(c candidate) bool { return oodscores.Find(c.name) != nil })
	first := s.best(pairs, own)[0]
	text := fmt.Sprintf("**Without OOD data.** The default, `%s`: %s. The network's softmax: %s. The default is number %d of %d by mean rank.",
		score.Default, s.means(base), s.means(network), rank, len(all))
	if first.name != score.Default {
		text += fmt.Sprintf(" `%s` has the highest mean among the scores of mfgs that need no images (%s): %s.", first.name, s.means(first), s.record(pairs, first).sentence())
	}
	line("%s", text)

	stand, tuning, learned := learnedCandidate, s.tunedPairs(""), s.measured(learnedCandidate, "")
	r := s.record(learned, stand)
	line("**With synthetic OOD images.** `%s`: %s; %s. %s", learnedScore, s.means(stand), r.sentence(), s.gainSentence(stand))

	served := map[string]int{}
	for _, e := range tuning {
		served[s[scorePlace(e, tuned, chosenScore)].Note]++
	}
	names := slices.SortedFunc(maps.Keys(served), func(a, b string) int {
		return cmp.Or(cmp.Compare(served[b], served[a]), cmp.Compare(a, b))
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("`%s` %d times", n, served[n])
	}
	called := map[string]string{chosenScore: "the score selected by `--ood`, " + enumerate(names), "mf0": "`mf0` with tuned temperatures",
		learnedScore: "`learned`", "ts": "tuned temperature scaling"}
	group := func(by protocol) {
		for _, c := range s.best(tuning, tunedCandidates(by)) {
			fmt.Fprintf(&b, "  - %s: %s; %s\n", called[c.name], s.means(c), s.record(tuning, c).sentence())
		}
	}
	line("**With examples of the OOD set**, by mean AUROC:")
	group(tuned)
	other := s.best(tuning, tunedCandidates(tunedOnOther))[0]
	line("**With examples of another OOD set** (mean over the network's other sets). The best of these is %+.1f points from the default, which uses no OOD data:",
		100*s.gain(tuning, other))
	group(tunedOnOther)

	for _, n := range s.kinds() {
		these := s.pairs(n)
		var top []string
		for _, c := range s.best(these, s.candidates())[:3] {
			top = append(top, fmt.Sprintf("`%s` %s", c, points(s.mean(these, c))))
		}
		line("**%s** (%d pairs). Best without OOD data: %s. The default: %s. The network's softmax: %s.", strings.ToUpper(string(n[:1]))+string(n[1:]), len(these),
			enumerate(top), points(s.mean(these, base)), points(s.mean(these, network)))
	}

	var below []string
	for _, c := range s.candidates() {
		if at, v := s.worst(c); v < .5 {
			below = append(below, fmt.Sprintf("`%s` (%s, %s)", c, points(v), at.label()))
		}
	}
	last := s.best(pairs, s.candidates())
	worst := last[len(last)-1]
	line("**Worst cases.** Scores with an AUROC below chance on some pair, with their lowest: %s. `%s` has the lowest mean, %s, %s points below the default.",
		enumerate(below), worst, points(s.mean(pairs, worst)), points(s.mean(pairs, base)-s.mean(pairs, worst)))

	if s.hasBest() {
		line("%s", s.needed(own))
	}
	fresh := slices.DeleteFunc(slices.Clone(learned), pair.usedForDesign)
	if len(fresh) > 0 && len(fresh) < len(learned) {
		line("**On the %d pairs with images not used in the design** of the default: the default %s, `%s` with synthetic OOD images %s, the network's softmax %s.", len(fresh),
			points(s.mean(fresh, base)), learnedScore, points(s.mean(fresh, stand)), points(s.mean(fresh, network)))
	}
	return b.String()
}

// needed says which scores of mfgs are best on some pair.
func (s standings) needed(own []candidate) string {
	counts, without := map[string]int{}, []string{}
	for _, c := range own {
		if best, _ := s.overBest(s.measured(c, ""), c); best > 0 {
			counts[c.name] = best
		} else if slices.Contains(ownScores(), c.name) {
			without = append(without, "`"+c.name+"`")
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, n := range names {
		if names[i] = fmt.Sprintf("`%s` (%d pairs)", n, counts[n]); counts[n] == 1 {
			names[i] = fmt.Sprintf("`%s` (1 pair)", n)
		}
	}
	return fmt.Sprintf("**Best on some pair**, better than every other score of mfgs that needs no OOD data, significantly and by 0.05 points or more: %s. On none: %s.",
		enumerate(names), enumerate(without))
}

// gainSentence words a candidate's gain.
func (s standings) gainSentence(c candidate) string {
	return fmt.Sprintf("Its mean is %+.1f points from the default's on the same networks.", 100*s.gain(s.pairsOf(c, ""), c))
}

// preamble says what was measured and how to read it.
func (s standings) preamble() string {
	networks, runs := map[string]bool{}, 0 // runs: of the pair with the most
	measured := s.measured(candidate{untuned, score.Default}, "")
	for _, e := range measured {
		networks[e.network] = true
		runs = max(runs, len(s[scorePlace(e, untuned, score.Default)].Runs))
	}
	return fmt.Sprintf("AUROC of all OOD scores, the network's softmax (`mle`, 1 − max p) and temperature scaling (`ts`) against test data, on %d pairs of an OOD set and one of %d kinds of networks, "+
		"in the style of OpenOOD (Yang et al. 2022). Near sets have other classes in similar images, far sets other kinds of images, and noise sets no objects. "+
		"At most %d evenly subsampled images of each set are tested. Figures are AUROC in per cent; for MNIST and CIFAR-10, means over %d networks. All have a Kronecker-factored posterior.\n\n"+
		"There are three protocols. Without OOD data, mf0 has its temperatures for likelihood. With synthetic OOD images, made from the network's validation images, only `%s` is fitted. "+
		"With OOD examples, a separate part of an OOD set is used to tune temperatures, fit `learned` or let `mfgs calibrate --ood` select a score; this is done for the first network of each kind, and measured on that OOD set and on the network's others. "+
		"Scores are significantly better or worse than the default, `%s`, if the paired 95 %% interval over images excludes 0 and the sign is the same on every network.",
		len(measured), len(networks), scoreImages, runs, learnedScore, score.Default) + s.harder(len(measured))
}

// harder says what there is beside the pairs of images that are tuned on, if anything is.
func (s standings) harder(measured int) string {
	if len(s.pairs("")) == len(s.tunedPairs("")) {
		return ""
	}
	text := "\n\nAltered sets are the test data themselves, faded, inverted or damaged: whether these should be detected depends on the use. A network with 2, 3 or 8 of 10 classes is the first network with the other rows of its last layer removed, " +
		"and its training, validation and test data are those of the classes kept: **its features were trained with all ten**, so classes that it has never seen may be harder to detect than those left out. " +
		"On these networks, and on texts and tables, nothing is tuned on OOD data. "
	var field []string
	for _, c := range s.candidates() {
		if of := oodscores.Find(c.name); of != nil {
			field = append(field, fmt.Sprintf("`%s` (%s)", of.Name, of.Source))
		}
	}
	if len(field) > 0 {
		text += fmt.Sprintf("%d scores of the field that mfgs does not have are measured too, with the parameters of their authors' code or OpenOOD's: %s. ", len(field), enumerate(field))
	}
	if n := len(s.pairs("")); n < measured {
		text += fmt.Sprintf("Means, ranks and counts are over the %d pairs of softmax heads, on which all scores are defined.", n)
	}
	return text
}

// list is the table of pairs, with the reasons for their nearness.
func (s standings) list() string {
	t := textTable("pair", "kind", "images")
	for _, e := range s.measured(candidate{untuned, score.Default}, "") {
		t.row(e.label(), string(e.nearness), e.why)
	}
	return t.String()
}
