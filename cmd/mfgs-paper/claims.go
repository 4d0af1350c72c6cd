package main

import (
	"fmt"
	"slices"
	"strings"
)

// A verdict is what the results say of a claim.
type verdict string

const (
	holds verdict = "holds"
	fails verdict = "does not hold"
	open  verdict = "cannot be told"
)

// A claim is one of the paper's, with what came out.
type claim struct {
	text     string // as in "mf0 tells notMNIST better than sampling"
	verdict  verdict
	evidence string
}

// Differences smaller than these count as none: a little more than two networks, or
// two runs of one method, differ by chance.
const (
	aurocResolution = .003
	eceResolution   = .001
)

// compare says whether a is better than b, by at least resolution on average and in
// every network; equal wants them within it instead. Samples are network by network,
// and a single value of either stands for all networks.
func compare(a, b sample, higher bool, resolution float64) verdict {
	n := max(len(a), len(b))
	if len(a) == 0 || len(b) == 0 {
		return open
	}
	var differences sample
	for i := range n {
		d := a[min(i, len(a)-1)] - b[min(i, len(b)-1)]
		if !higher {
			d = -d
		}
		differences = append(differences, d)
	}
	m := differences.mean()
	switch {
	case m >= resolution && slices.Min(differences) > 0:
		return holds
	case m <= resolution && (m <= -resolution || slices.Max(differences) < resolution):
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

// better claims that a row is better than others of its table by one quantity.
func (r results) better(table, data, a string, others []string, of column, resolution float64, text string) []claim {
	first, ok := r[place{table, data, a}]
	if !ok || len(first.runs) == 0 {
		return nil
	}
	higher := strings.HasSuffix(of.name, "ROC")
	verdicts := map[verdict]int{}
	evidence := []string{fmt.Sprintf("%s %s", a, of.cell(first))}
	for _, name := range others {
		other, ok := r[place{table, data, name}]
		if !ok || len(other.runs) == 0 {
			continue
		}
		v := compare(first.over(of.of[0]), other.over(of.of[0]), higher, resolution)
		verdicts[v]++
		evidence = append(evidence, fmt.Sprintf("%s %s", name, of.cell(other)))
	}
	if len(evidence) == 1 {
		return nil
	}
	c := claim{text: text, verdict: open, evidence: of.name + ": " + strings.Join(evidence, ", ")}
	switch {
	case verdicts[fails] > 0:
		c.verdict = fails
	case verdicts[open] == 0:
		c.verdict = holds
	}
	return []claim{c}
}

// same claims that rows of a table do not differ by a quantity, network by network.
func (r results) same(table, data string, names []string, of column, resolution float64, text string) []claim {
	var rows []row
	var evidence []string
	for _, name := range names {
		row, ok := r[place{table, data, name}]
		if !ok || len(row.runs) == 0 {
			return nil
		}
		rows, evidence = append(rows, row), append(evidence, fmt.Sprintf("%s %s", name, of.cell(row)))
	}
	c := claim{text: text, verdict: holds, evidence: of.name + ": " + strings.Join(evidence, ", ")}
	for _, row := range rows[1:] {
		a, b := rows[0].over(of.of[0]), row.over(of.of[0])
		for i := range a {
			if d := a[i] - b[i]; d > resolution || d < -resolution {
				c.verdict = fails
			}
		}
	}
	return []claim{c}
}

// claims are those of the paper that the report's parts can tell of.
func (r *report) claims() []claim {
	all := r.results()
	roc, nllROC := detecting(notMNIST, false)[1], detecting(notMNIST, true)[1]
	ece := inDomain[2]
	var cs []claim
	add := func(c []claim) { cs = append(cs, c...) }
	sampling := []string{"M=20", "M=100", "M=500"}
	for _, d := range []struct{ suffix, where string }{{"", "at the damping chosen on held-out data"}, {", eps = 1", "at the paper's damping, ε = 1"}} {
		names := func(rows ...string) []string {
			for i := range rows {
				rows[i] += d.suffix
			}
			return rows
		}
		mf0 := "mf0" + d.suffix
		add(all.better("1", mnistName, mf0, names(slices.Clone(sampling)...), roc, aurocResolution, "mf0 tells notMNIST better than sampling with 20, 100 and 500 draws, "+d.where))
		add(all.better("1", mnistName, mf0, names(slices.Clone(sampling)...), ece, eceResolution, "mf0 has a smaller ECE than sampling, "+d.where))
		add(all.same("1", mnistName, names("mf0", "mf1", "mf2"), roc, aurocResolution, "mf0, mf1 and mf2 tell notMNIST equally well, "+d.where))
		add(all.better("1", mnistName, mf0, names("mf1", "mf2"), ece, eceResolution, "mf0 has a smaller ECE than mf1 and mf2, "+d.where))
		add(all.better("1", mnistName, mf0, names("J^-1"), roc, aurocResolution, "H⁻¹ tells notMNIST better than J⁻¹, "+d.where))
		add(all.better("1", mnistName, mf0, names("H^-1JH^-1"), roc, aurocResolution, "H⁻¹ tells notMNIST better than H⁻¹JH⁻¹, "+d.where))
		add(all.better("ukf", mnistName, mf0, names("ukf"), ece, eceResolution, "mf0 has a smaller ECE than the unscented filter, "+d.where))
		add(all.better("ukf", mnistName, mf0, names("ukf"), roc, aurocResolution, "mf0 tells notMNIST better than the unscented filter, "+d.where))
	}
	add(all.better("1", mnistName, "mf0", []string{"SWAG"}, roc, aurocResolution, "H⁻¹ tells notMNIST better than SWAG"))
	for _, layers := range []string{"last layer", "top two layers", "all three layers"} {
		add(all.better("2", mnistName, "mf0, "+layers, []string{"M=500, " + layers}, roc, aurocResolution, "mf0 tells notMNIST better than sampling, "+layers))
	}
	add(all.same("2", mnistName, []string{"mf0, last layer", "mf0, top two layers", "mf0, all three layers"}, roc, aurocResolution, "more layers than the last do not help mf0 to tell notMNIST"))
	for _, other := range []string{"MLE", "T. Scale", "EDL", "Dropout", "BNN(VI)", "BNN(KFAC)", "RUE", "Deep E.(5)", "Deep E.(500), last layers", "JKnife(500), last layers"} {
		add(all.better("4", mnistName, "mf0", []string{other}, roc, aurocResolution, "mf0 tells notMNIST better than "+other))
	}
	add(all.better("4", mnistName, "mf0", []string{"MLE", "T. Scale", "EDL", "Dropout", "BNN(VI)", "BNN(KFAC)", "RUE"}, nllROC, aurocResolution,
		"mf0 tells notMNIST better than all single networks and Bayesian ones where no such data is tuned on"))
	add(all.better("4", mnistName, "mf0", []string{"MLE", "T. Scale", "EDL"}, ece, eceResolution, "mf0 has a smaller ECE on MNIST than MLE, temperature scaling and EDL"))
	for _, data := range []string{cifar10Name, shiftName} {
		for _, set := range []string{tinyImageNet, digits, uniformNoise, gaussianNoise} {
			add(all.better("cifar10", data, "mf0", []string{"MLE", "T. Scale", "BNN(KFAC)"}, detecting(set, false)[1], aurocResolution,
				fmt.Sprintf("mf0 tells %s from %s better than MLE, temperature scaling and BNN(KFAC)", set, data)))
		}
		add(all.better("cifar10", data, "mf0", []string{"MLE"}, ece, eceResolution, "mf0 has a smaller ECE than MLE on "+data))
		add(all.same("cifar10", data, []string{"mf0", "T. Scale"}, ece, 2*eceResolution, "mf0 and temperature scaling have much the same ECE on "+data))
	}
	add(all.better("3", imagenetName, "mf0", []string{"T. Scale", "BNN(KFAC)", "MLE"}, ece, eceResolution, "mf0 has a smaller ECE on ImageNet than temperature scaling, BNN(KFAC) and MLE"))
	for _, s := range r.sections {
		cs = append(cs, s.claims...)
	}
	return cs
}

// temperatureClaims are those about where the best temperatures lie.
func temperatureClaims(nll, auroc heat) []claim {
	of := func(text string, ok bool, evidence string) claim {
		if ok {
			return claim{text, holds, evidence}
		}
		return claim{text, fails, evidence}
	}
	pairs := fmt.Sprintf("T_act %.3g and T_ens %.3g for likelihood, %.3g and %.3g for telling", nll.best.Act, nll.best.Ens, auroc.best.Act, auroc.best.Ens)
	return []claim{
		of("likelihood wants T_act ≥ 1 and T_ens ≤ 0.01", nll.best.Act >= 1 && nll.best.Ens <= .01, pairs),
		of("telling notMNIST wants lower temperatures than likelihood, both of them", auroc.best.Act < nll.best.Act && auroc.best.Ens < nll.best.Ens, pairs),
	}
}

// summary is the first paragraph.
func summary(r *report) string {
	cs := r.claims()
	by := map[verdict][]string{}
	for _, c := range cs {
		by[c.verdict] = append(by[c.verdict], c.text)
	}
	if len(cs) == 0 {
		return "The parts made here test none of the paper's claims."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Of %d claims of the paper that can be tried here, %d hold, %d do not, and %d cannot be told.", len(cs), len(by[holds]), len(by[fails]), len(by[open]))
	for _, v := range []struct {
		verdict
		name string
	}{{holds, "These hold"}, {fails, "These do not hold"}, {open, "These cannot be told"}} {
		if len(by[v.verdict]) > 0 {
			fmt.Fprintf(&b, " **%s**: %s.", v.name, strings.Join(by[v.verdict], "; "))
		}
	}
	return b.String()
}

// listClaims is the table of claims with their evidence.
func listClaims(r *report) string {
	cs := r.claims()
	if len(cs) == 0 {
		return ""
	}
	t := newTable("claim", "", "figures, in %")
	for _, c := range cs {
		t.row(c.text, string(c.verdict), c.evidence)
	}
	return fmt.Sprintf("A method counts as better where it is in every network, and by %.1f points of AUROC or %.1f of ECE on average. "+
		"ROC is that under temperatures tuned to tell such data, as in the paper, unless \"nll\" stands before it.\n\n%s",
		100*aurocResolution, 100*eceResolution, t)
}

// preamble tells of data and networks.
func preamble(r *report) string {
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
others have one chosen on held-out likelihood. Every row, network by network, is in [paper.json](paper.json), in fractions and nats.`, strings.Join(seeds, ", "))
}
