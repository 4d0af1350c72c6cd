package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
)

// Differences smaller than these count as none: a little more than two networks, or
// two runs of one method, differ by chance.
const (
	aurocResolution = .003
	eceResolution   = .001

	rotatedResolution = .01 // of the ECE on rotated digits, which is larger by far
)

// pair returns a quantity of two rows for the networks that both were measured on. A
// row of several networks together stands beside each network of the other.
func pair(a, b row, q quantity) (of, against sample) {
	for _, x := range a.runs {
		for _, y := range b.runs {
			_, joint := y.seed.(string)
			if x.seed != y.seed && !joint {
				continue
			}
			if u, v := q(x.figures), q(y.figures); u != nil && v != nil {
				of, against = append(of, *u), append(against, *v)
			}
		}
	}
	return of, against
}

// compare says whether a is better than b, network by network: in every one of them,
// and on average by at least resolution. Not to be better by that is to fail.
func compare(a, b sample, higher bool, resolution float64) verdict {
	if len(a) == 0 || len(a) != len(b) {
		return open
	}
	var differences sample
	for i := range a {
		d := a[i] - b[i]
		if !higher {
			d = -d
		}
		differences = append(differences, d)
	}
	switch m := differences.mean(); {
	case m >= resolution && slices.Min(differences) > 0:
		return holds
	case m <= -resolution || slices.Max(differences) < resolution:
		return fails
	}
	return open
}

// results finds rows of the report.
type results map[place]row

func (r *report) results() results {
	all := results{}
	for _, s := range r.sections {
		for _, row := range s.rows {
			all[row.place] = row
		}
	}
	return all
}

// A contest is a comparison of two rows of a table by one quantity.
type contest struct {
	table, data string
	a, b        string // rows
	column
	where string // what tells the contest from others of its claim; may be empty
}

// better claims that a is better than b in all contests that were held.
func (r results) better(text string, resolution float64, contests ...contest) []claim {
	return r.judge(text, contests, func(c contest, a, b sample) verdict {
		return compare(a, b, strings.HasSuffix(c.name, "ROC"), resolution)
	})
}

// same claims that a and b differ by no more than resolution, network by network.
func (r results) same(text string, resolution float64, contests ...contest) []claim {
	return r.judge(text, contests, func(_ contest, a, b sample) verdict {
		for i := range a {
			if d := a[i] - b[i]; d > resolution || d < -resolution {
				return fails
			}
		}
		return holds
	})
}

// judge makes a claim of contests, none where none was held.
func (r results) judge(text string, contests []contest, of func(c contest, a, b sample) verdict) []claim {
	names := map[verdict][]string{} // of what a was compared with
	var evidence []string
	held, last := 0, ""
	for _, c := range contests {
		a, b := r[place{c.table, c.data, c.a}], r[place{c.table, c.data, c.b}]
		mine, theirs := pair(a, b, c.of[0])
		if len(mine) == 0 {
			continue
		}
		held++
		v := of(c, mine, theirs)
		names[v] = append(names[v], strings.TrimSpace(c.b+" "+c.where))
		if first := c.name + " " + c.where + c.a; first != last {
			evidence = append(evidence, fmt.Sprintf("%s: %s %s", strings.TrimSpace(c.name+" "+c.where), c.a, c.cell(a)))
			last = first
		}
		evidence[len(evidence)-1] += fmt.Sprintf(", %s %s", c.b, c.cell(b))
	}
	if evidence == nil {
		return nil
	}
	c := claim{text: text, verdict: holds, evidence: strings.Join(evidence, "; "), comparisons: held}
	for _, v := range []struct {
		verdict
		as string
	}{{open, "undecided"}, {fails, "not so"}} {
		if len(names[v.verdict]) == 0 {
			continue
		}
		c.verdict = v.verdict
		if len(contests) > 1 {
			c.but = strings.TrimSuffix(v.as+": "+strings.Join(names[v.verdict], ", ")+"; "+c.but, "; ")
		}
	}
	return []claim{c}
}

// acrossName is MNIST under all rotations but that by nothing.
const acrossName = mnistName + " rotated by 15 to 180, mean"

// claims are those of the paper that the report's parts can tell of.
func (r *report) claims() []claim {
	all := r.results()
	roc, nllROC, ece := detecting(notMNIST, false)[1], detecting(notMNIST, true)[1], inDomain[2]
	// on compares rows of a table on MNIST, under each of the dampings.
	on := func(table string, column column, a string, others ...string) []contest {
		var contests []contest
		for _, d := range dampings {
			for _, b := range others {
				contests = append(contests, contest{table, mnistName, a + d.suffix, b + d.suffix, column, ""})
			}
		}
		return contests
	}
	one := func(table, data string, column column, where, a string, others ...string) []contest {
		var contests []contest
		for _, b := range others {
			contests = append(contests, contest{table, data, a, b, column, where})
		}
		return contests
	}
	singles := []string{"MLE", "T. Scale", "EDL", "Dropout", "BNN(VI)", "BNN(KFAC)", "RUE"}
	ensembles := []string{"Deep E.(5)"}
	sampling := []string{"M=20", "M=100", "M=500"}
	var layers, depths []contest
	for _, name := range []string{"last layer", "top two layers", "all three layers"} {
		layers = append(layers, one("2", mnistName, roc, "", "mf0, "+name, "M=500, "+name)...)
	}
	depths = one("2", mnistName, roc, "", "mf0, last layer", "mf0, top two layers", "mf0, all three layers")

	cs := slices.Concat(
		all.better("mf0 tells notMNIST better than sampling", aurocResolution, on("1", roc, "mf0", sampling...)...),
		all.better("mf0 has a smaller ECE than sampling", eceResolution, on("1", ece, "mf0", sampling...)...),
		all.same("mf0, mf1 and mf2 tell notMNIST equally well", aurocResolution, on("1", roc, "mf0", "mf1", "mf2")...),
		all.better("mf0 has a smaller ECE than mf1 and mf2", eceResolution, on("1", ece, "mf0", "mf1", "mf2")...),
		all.better("H⁻¹ tells notMNIST better than J⁻¹ and H⁻¹JH⁻¹", aurocResolution, on("1", roc, "mf0", "J^-1", "H^-1JH^-1")...),
		all.better("H⁻¹ tells notMNIST better than SWAG", aurocResolution, one("1", mnistName, roc, "", "mf0", "SWAG")...),
		all.better("mf0 tells notMNIST better than sampling, of however many layers", aurocResolution, layers...),
		all.same("more layers than the last change nothing in how mf0 tells notMNIST", aurocResolution, depths...),
		all.better("mf0 tells notMNIST better than methods of one network and Bayesian ones", aurocResolution, one("4", mnistName, roc, "", "mf0", singles...)...),
		all.better("mf0 tells notMNIST better than ensembles", aurocResolution, one("4", mnistName, roc, "", "mf0", ensembles...)...),
		all.better("mf0 tells notMNIST better than all of these where no such data is tuned on", aurocResolution,
			one("4", mnistName, nllROC, "", "mf0", slices.Concat(singles, ensembles)...)...),
		all.better("mf0 has a smaller ECE on MNIST than methods of one network", eceResolution, one("4", mnistName, ece, "", "mf0", "MLE", "T. Scale", "EDL", "Dropout")...),
		all.better("mf0 tells notMNIST better than the unscented filter", aurocResolution, on("ukf", roc, "mf0", "ukf")...),
		all.better("mf0 has a smaller ECE than the unscented filter", eceResolution, on("ukf", ece, "mf0", "ukf")...),
	)
	for _, data := range []string{cifar10Name, shiftName} {
		var told []contest
		for _, set := range []string{tinyImageNet, digits, uniformNoise, gaussianNoise} {
			told = append(told, one("cifar10", data, detecting(set, false)[1], "on "+set, "mf0", "MLE", "T. Scale", "BNN(KFAC)")...)
		}
		cs = append(cs, all.better(fmt.Sprintf("mf0 tells other data from %s better than MLE, temperature scaling and BNN(KFAC)", data), aurocResolution, told...)...)
		cs = append(cs, all.better("mf0 has a smaller ECE than MLE on "+data, eceResolution, one("cifar10", data, ece, "", "mf0", "MLE")...)...)
		cs = append(cs, all.same("mf0 and temperature scaling have nearly the same ECE on "+data, eceResolution, one("cifar10", data, ece, "", "mf0", "T. Scale")...)...)
	}
	cs = append(cs, all.better("mf0 has a smaller ECE on ImageNet than MLE, temperature scaling and BNN(KFAC)", eceResolution,
		one("3", imagenetName, ece, "", "mf0", "MLE", "T. Scale", "BNN(KFAC)")...)...)
	cs = append(cs, all.judge("mf0 is as well calibrated as others on rotated digits, or better",
		one("rotation", acrossName, ece, "", "mf0", "MLE", "T. Scale", "Deep E.(5)", "Dropout"),
		func(_ contest, a, b sample) verdict {
			if compare(b, a, false, rotatedResolution) == holds {
				return fails
			}
			return holds
		})...)
	for _, s := range r.sections {
		cs = append(cs, s.claims...)
	}
	return cs
}

// temperatureClaims are those about where the best temperatures lie.
func temperatureClaims(nll, auroc calibrate.Temperatures) []claim {
	of := func(text string, ok bool, evidence string) claim {
		c := claim{text: text, verdict: fails, evidence: evidence, comparisons: 1}
		if ok {
			c.verdict = holds
		}
		return c
	}
	pairs := fmt.Sprintf("T_act %.3g and T_ens %.3g for likelihood, %.3g and %.3g for telling", nll.Act, nll.Ens, auroc.Act, auroc.Ens)
	return []claim{
		of("likelihood wants T_act ≥ 1 and T_ens ≤ 0.01", nll.Act >= 1 && nll.Ens <= .01, pairs),
		of("telling notMNIST wants lower temperatures than likelihood, both of them", auroc.Act < nll.Act && auroc.Ens < nll.Ens, pairs),
	}
}

// summary is the first paragraph.
func (r *report) summary() string {
	cs := r.claims()
	by := map[verdict][]string{}
	comparisons := 0
	for _, c := range cs {
		comparisons += c.comparisons
		text := c.text
		if c.but != "" {
			text += " (" + c.but + ")"
		}
		by[c.verdict] = append(by[c.verdict], text)
	}
	if len(cs) == 0 {
		return "The parts made here test none of the paper's claims."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Claims of the paper that can be tried here: %d, by %d comparisons. Borne out in full: %d; not, or not in full: %d; undecided: %d.", len(cs), comparisons, len(by[holds]), len(by[fails]), len(by[open]))
	for _, v := range []struct {
		verdict
		name string
	}{{holds, "Borne out"}, {fails, "Not borne out"}, {open, "Undecided"}} {
		if len(by[v.verdict]) > 0 {
			fmt.Fprintf(&b, " **%s:** %s.", v.name, strings.Join(by[v.verdict], "; "))
		}
	}
	return b.String()
}

// listClaims is the table of claims with their evidence.
func (r *report) listClaims() string {
	cs := r.claims()
	if len(cs) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "A method counts as better where it is in every network, and by %.1f points of AUROC or %.1f of ECE on average; by less it is not. "+
		"What is better in some networks only is undecided. ROC is that under temperatures tuned to tell such data, as in the paper, unless \"nll\" stands before it. Figures are in per cent.\n",
		100*aurocResolution, 100*eceResolution)
	for _, c := range cs {
		fmt.Fprintf(&b, "\n- **%s: %s.** %s.", c.text, c.verdict, c.evidence)
		if c.but != "" {
			fmt.Fprintf(&b, " (%s)", c.but)
		}
	}
	return b.String() + "\n"
}

// preamble tells of data and networks.
func (r *report) preamble() string {
	var seeds []string
	for _, s := range r.seeds {
		seeds = append(seeds, fmt.Sprint(s))
	}
	return fmt.Sprintf(`MNIST is split as in the paper: the first 55,000 training images for training and curvature, the last 5,000 held out,
10,000 tested; of notMNIST 5,000 are held out and the other 13,724 tested. The networks are those in `+"`models`"+`, of seeds %s; a figure is
the mean over their networks ± the standard deviation, where there are several. Below each row stand the paper's printed numbers in italics.

Error, ECE, Acc. (the best accuracy at equal priors), ROC and PR are in per cent, NLL in nats. Columns without a mark have
temperatures tuned on held-out out-of-distribution data, as the paper does; "nll" marks those with the temperatures for in-domain
likelihood, for which no such data is needed. Error, NLL and ECE are always under the latter. Rows marked eps = 1 have the paper's damping; the
others have one chosen on held-out likelihood. Every row, network by network, is in [paper.json](paper.json), in fractions and nats.

The score that mfgs serves unless told otherwise, the studentized margin, is none of the paper's: its figures are in [scores.md](scores.md).`, strings.Join(seeds, ", "))
}
