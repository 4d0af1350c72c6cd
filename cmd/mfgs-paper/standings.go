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
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/markdown"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/ranks"
	"github.com/mfgs/mfgs/internal/chart"
)

// Standings are rows of scores by where they stand. All that is said of scores is said by them.
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

// met are the pairs of a network and a set that there are rows of, of one nearness or, for "", of all.
func (s standings) met(of nearness) (all []encounter) {
	for _, e := range encounters {
		_, ok := s[scorePlace(e, untuned, score.Default)]
		if ok && (of == "" || of == e.nearness) {
			all = append(all, e)
		}
	}
	return all
}

// auroc returns that of a contender, the mean over networks.
func (s standings) auroc(e encounter, c contender) float64 {
	return s[scorePlace(e, c.by, c.name)].over(rocOf(e.set)).mean()
}

// mean returns the mean AUROC over pairs.
func (s standings) mean(all []encounter, c contender) float64 {
	var v sample
	for _, e := range all {
		v = append(v, s.auroc(e, c))
	}
	return v.mean()
}

// lead returns by how much a contender's AUROC is above the default's: 1 and -1 say that it is better or
// worse beyond chance, which is by more than the paired interval over examples and in every network.
func (s standings) lead(e encounter, c contender) (d metrics.Difference, sign int) {
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

// meanDifference is the mean of differences that are measured on the same images. Its interval is the
// mean of theirs: the standard error of a mean is at most the mean of the standard errors, however what
// is averaged goes together.
func meanDifference(all []metrics.Difference) (mean metrics.Difference) {
	for _, d := range all {
		n := float64(len(all))
		mean.Difference += d.Difference / n
		mean.Interval[0] += d.Interval[0] / n
		mean.Interval[1] += d.Interval[1] / n
	}
	return mean
}

// A record is how often a contender is better than the default beyond chance, and worse, and by how much
// at most.
type record struct {
	better, worse, same int
	most, least         float64   // of the differences
	at                  encounter // of the least
}

func (s standings) record(all []encounter, c contender) record {
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

// gain returns the mean over pairs of a contender's AUROC less the default's, of the same networks.
func (s standings) gain(all []encounter, c contender) float64 {
	var v sample
	for _, e := range all {
		d, _ := s.lead(e, c)
		v = append(v, d.Difference)
	}
	return v.mean()
}

// worst returns where a contender has its lowest AUROC.
func (s standings) worst(c contender) (at encounter, auroc float64) {
	auroc = math.Inf(1)
	for _, e := range s.met("") {
		if v := s.auroc(e, c); v < auroc {
			at, auroc = e, v
		}
	}
	return at, auroc
}

// ranked compares the contenders for which nothing unfamiliar is needed over all pairs.
func (s standings) ranked() ([]contender, ranks.Comparison) {
	all := untunedContenders()
	var values [][]float64
	for _, e := range s.met("") {
		var v []float64
		for _, c := range all {
			v = append(v, s.auroc(e, c))
		}
		values = append(values, v)
	}
	return all, ranks.Compare(values)
}

// best returns contenders by their mean AUROC over pairs, the best first.
func (s standings) best(all []encounter, among []contender) []contender {
	among = slices.Clone(among)
	slices.SortStableFunc(among, func(a, b contender) int { return cmp.Compare(s.mean(all, b), s.mean(all, a)) })
	return among
}

// drawRanks draws the diagram of critical differences.
func (s standings) drawRanks() picture {
	all, c := s.ranked()
	d := chart.Ranks{
		Name:     fmt.Sprintf("Mean ranks of scores over %d pairs of a network and an unfamiliar set", c.Sets),
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

// points writes a fraction in per cent.
func points(v float64) string { return fmt.Sprintf("%.1f", 100*v) }

// nearnesses are all, with how a sentence has them.
var nearnesses = []struct {
	nearness
	text string
}{{near, "near"}, {far, "far"}, {noise, "noise"}}

// means writes the means of a contender, as in "near 85.1, far 93.0, noise 81.2".
func (s standings) means(c contender) string {
	var parts []string
	for _, n := range nearnesses {
		if all := s.met(n.nearness); len(all) > 0 {
			parts = append(parts, n.text+" "+points(s.mean(all, c)))
		}
	}
	return strings.Join(parts, ", ")
}

// summary is the table of all that needs nothing unfamiliar, by mean rank.
func (s standings) summary() string {
	all, c := s.ranked()
	t := markdown.NewTable("score", "mean rank", "near", "far", "noise", "all", "lowest", "better", "no difference", "worse")
	for _, i := range c.Order() {
		cells := []string{"`" + all[i].name + "`", fmt.Sprintf("%.1f", c.Mean[i])}
		if all[i].name == score.Default {
			cells[0] = "**" + cells[0] + "**, the default"
		}
		if all[i].by == standIn {
			cells[0] += ", from stand-ins"
		}
		for _, n := range nearnesses {
			cells = append(cells, points(s.mean(s.met(n.nearness), all[i])))
		}
		_, lowest := s.worst(all[i])
		cells = append(cells, points(s.mean(s.met(""), all[i])), points(lowest))
		if r := s.record(s.met(""), all[i]); all[i].name == score.Default {
			cells = append(cells, "", "", "")
		} else {
			cells = append(cells, fmt.Sprint(r.better), fmt.Sprint(r.same), fmt.Sprint(r.worse))
		}
		t.Row(cells...)
	}
	return t.String()
}

// networks are the tables of each network: scores and sets.
func (s standings) networks() string {
	var b strings.Builder
	var names []string
	for _, e := range s.met("") {
		if !slices.Contains(names, e.network) {
			names = append(names, e.network)
		}
	}
	for _, name := range names {
		var all []encounter
		head := []string{name + ", AUROC %"}
		for _, e := range s.met("") {
			if e.network == name {
				all = append(all, e)
				head = append(head, e.set+" ("+string(e.nearness)+")")
			}
		}
		t := markdown.NewTable(head...)
		for _, list := range [][]contender{untunedContenders(), tunedContenders(tuned), tunedContenders(elsewhere)} {
			for _, c := range list {
				cells := []string{"`" + c.name + "`" + map[protocol]string{standIn: ", from stand-ins", tuned: ", tuned on a part of it", elsewhere: ", tuned on another set"}[c.by]}
				for _, e := range all {
					text := points(s.auroc(e, c))
					if s.leads(e, c, list) {
						text = "**" + text + "**"
					}
					cells = append(cells, text)
				}
				t.Row(cells...)
			}
		}
		fmt.Fprintf(&b, "%s\n", t)
	}
	return b.String()
}

// leads reports whether none of a list has a higher AUROC.
func (s standings) leads(e encounter, c contender, list []contender) bool {
	return !slices.ContainsFunc(list, func(o contender) bool { return s.auroc(e, o) > s.auroc(e, c) })
}

// first are the standings of the first network of each kind, the one that is tuned.
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

// protocols is the table of what differs by what there is to tune on, of the first network of each kind.
func (s standings) protocols() string {
	s = s.first()
	t := markdown.NewTable("score", "tuned on", "near", "far", "noise", "all", "better than the default", "no difference", "worse")
	for _, c := range []contender{
		{untuned, "mle"}, {untuned, "ts"}, {tuned, "ts"}, {untuned, "mf0"}, {tuned, "mf0"}, {untuned, score.Default},
		{standIn, learnedScore}, {tuned, learnedScore}, {tuned, chosenScore},
		{elsewhere, "ts"}, {elsewhere, "mf0"}, {elsewhere, learnedScore}, {elsewhere, chosenScore},
	} {
		cells := []string{"`" + c.name + "`", map[protocol]string{untuned: "nothing", standIn: "stand-ins", tuned: "a part of the set", elsewhere: "another set"}[c.by]}
		if c.name == chosenScore {
			cells[0] = "what mfgs chooses"
		}
		for _, n := range nearnesses {
			cells = append(cells, points(s.mean(s.met(n.nearness), c)))
		}
		cells = append(cells, points(s.mean(s.met(""), c)))
		if r := s.record(s.met(""), c); c.name == score.Default {
			cells = append(cells, "", "", "")
		} else {
			cells = append(cells, fmt.Sprint(r.better), fmt.Sprint(r.same), fmt.Sprint(r.worse))
		}
		t.Row(cells...)
	}
	return t.String()
}

// test says what the ranks show.
func (s standings) test() string {
	all, c := s.ranked()
	told := func(i int) bool { return math.Abs(c.Mean[i]-c.Mean[placeOf(all, score.Default)]) >= c.Critical }
	var worse, better []string
	for _, i := range c.Order() {
		if told(i) && c.Mean[i] > c.Mean[placeOf(all, score.Default)] {
			worse = append(worse, "`"+all[i].name+"`")
		} else if told(i) {
			better = append(better, "`"+all[i].name+"`")
		}
	}
	return fmt.Sprintf("Friedman's test of %d scores over %d pairs: χ² = %.1f, p = %.2g, and %.2g by the F of Iman and Davenport. Nemenyi's critical difference at .05: "+
		"%.2f ranks, by which the default is behind %s and ahead of %s. The pairs are not independent, as the test takes them to be: networks of one kind meet "+
		"the same sets, and noise is noise. So p is too small, and the critical difference too; the counts of better and worse, pair by pair, do not rest on it.",
		len(all), c.Sets, c.ChiSquared, c.P, c.FP, c.Critical, listed(better), listed(worse))
}

// listed joins names, none of which is "none".
func listed(names []string) string {
	switch n := len(names); n {
	case 0:
		return "none"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

func placeOf(all []contender, name string) int {
	return slices.IndexFunc(all, func(c contender) bool { return c.name == name })
}

// counted says a record in words.
func (r record) counted() string {
	text := fmt.Sprintf("better than the default in %d of %d pairs, worse in %d", r.better, r.better+r.same+r.worse, r.worse)
	if r.least < 0 {
		text += fmt.Sprintf(", by %s points at most (%v)", points(-r.least), r.at)
	}
	return text
}

// advice says which score to use when.
func (s standings) advice() string {
	base := contender{untuned, score.Default}
	network := contender{untuned, "mle"}
	all, c := s.ranked()
	pairs := s.met("")
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }

	order := c.Order()
	rank := slices.Index(order, placeOf(all, score.Default)) + 1
	alone := slices.DeleteFunc(untunedContenders(), func(c contender) bool { return c.by != untuned })
	first := s.best(pairs, alone)[0]
	text := fmt.Sprintf("**Nothing to tune on.** The default, `%s`: %s; the network itself: %s. By mean rank it is number %d of %d.",
		score.Default, s.means(base), s.means(network), rank, len(all))
	if first.name != score.Default {
		text += fmt.Sprintf(" The best mean of those that need no images has `%s` (%s), %s.", first.name, s.means(first), s.record(pairs, first).counted())
	}
	line("%s", text)

	stand := contender{standIn, learnedScore}
	r := s.record(pairs, stand)
	line("**Images, and stand-ins made of them.** `%s`: %s; %s. %s", learnedScore, s.means(stand), r.counted(), s.gained(stand))

	served := map[string]int{}
	for _, e := range pairs {
		served[s[scorePlace(e, tuned, chosenScore)].Note]++
	}
	names := slices.SortedFunc(maps.Keys(served), func(a, b string) int {
		return cmp.Or(cmp.Compare(served[b], served[a]), cmp.Compare(a, b))
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("`%s` %d times", n, served[n])
	}
	called := map[string]string{chosenScore: "what `--ood` chooses, " + listed(names), "mf0": "`mf0`, its temperatures tuned on them",
		learnedScore: "`learned` from them", "ts": "temperature scaling, tuned on them"}
	group := func(by protocol) {
		for _, c := range s.best(pairs, tunedContenders(by)) {
			fmt.Fprintf(&b, "  - %s: %s; %s\n", called[c.name], s.means(c), s.record(pairs, c).counted())
		}
	}
	line("**Examples of what comes**, by their mean:")
	group(tuned)
	other := s.best(pairs, tunedContenders(elsewhere))[0]
	line("**Examples, and then something else comes** (the mean over the network's other sets to tune on). The best of these is %+.1f points from the default that knows no examples:",
		100*s.gain(pairs, other))
	group(elsewhere)

	for _, n := range nearnesses {
		met := s.met(n.nearness)
		if len(met) == 0 {
			continue
		}
		var top []string
		for _, c := range s.best(met, untunedContenders())[:3] {
			top = append(top, fmt.Sprintf("`%s` %s", c, points(s.mean(met, c))))
		}
		line("**%s** (%d pairs). Best without tuning: %s; the default %s, the network itself %s.", strings.ToUpper(n.text[:1])+n.text[1:], len(met),
			listed(top), points(s.mean(met, base)), points(s.mean(met, network)))
	}

	var below []string
	for _, c := range untunedContenders() {
		if at, v := s.worst(c); v < .5 {
			below = append(below, fmt.Sprintf("`%s` (%s: %v)", c, points(v), at))
		}
	}
	last := s.best(pairs, untunedContenders())
	worst := last[len(last)-1]
	line("**To avoid.** Below chance somewhere, with their lowest AUROC: %s. The lowest mean has `%s`, %s, %s points below the default's.",
		listed(below), worst, points(s.mean(pairs, worst)), points(s.mean(pairs, base)-s.mean(pairs, worst)))

	fresh := slices.DeleteFunc(slices.Clone(pairs), encounter.designed)
	if len(fresh) > 0 && len(fresh) < len(pairs) {
		line("**On data that it was not designed on**, %d of the pairs: the default has %s, `%s` from stand-ins %s, the network itself %s.", len(fresh),
			points(s.mean(fresh, base)), learnedScore, points(s.mean(fresh, stand)), points(s.mean(fresh, network)))
	}
	return b.String()
}

// gained says by how much a contender's mean is above the default's.
func (s standings) gained(c contender) string {
	return fmt.Sprintf("Its mean is %+.1f points from the default's, of the same networks.", 100*s.gain(s.met(""), c))
}

// preamble says what was measured, and how figures are to be read.
func (s standings) preamble() string {
	networks, runs := map[string]bool{}, 0 // of the pair with the most networks
	for _, e := range s.met("") {
		networks[e.network] = true
		runs = max(runs, len(s[scorePlace(e, untuned, score.Default)].Runs))
	}
	return fmt.Sprintf("How well scores of unfamiliarity, the network itself (`mle`, 1 − max p) and temperature scaling (`ts`) tell unfamiliar sets from test data, in %d pairs of such a set with one of %d kinds of networks, in the manner of "+
		"OpenOOD (Yang et al. 2022). Near are other classes in pictures of the same make, far are pictures of another make, and noise is what no camera gives. "+
		"At most %d images of each set are tested, spread evenly. Figures are AUROC in per cent, of MNIST and CIFAR-10 means over %d networks. All have a Kronecker-factored posterior. "+
		"Three protocols: nothing to tune on, with mf0 at its temperatures for likelihood; stand-ins, made of the network's own held-out images, from which only `%s` is learned; and a part of the very set, "+
		"set aside, on which temperatures are tuned, a score is learned, or mfgs chooses one, for the first network of each alone; it is measured on that set, and on the network's others. "+
		"Better and worse than the default, `%s`, are differences that the paired 95 %% interval over images sets apart from 0, with the same sign in every network.",
		len(s.met("")), len(networks), scoreImages, runs, learnedScore, score.Default)
}

// list is the table of pairs, with what makes them near or far.
func (s standings) list() string {
	t := markdown.NewTable("pair", "is", "because it has")
	for _, e := range s.met("") {
		t.Row(e.String(), string(e.nearness), e.why)
	}
	return t.String()
}
