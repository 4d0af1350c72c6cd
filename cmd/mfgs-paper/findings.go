package main

import (
	"fmt"
	"strings"
)

// listClaims returns the tables of claims, first those of the paper.
func (r *report) listClaims() string {
	var b strings.Builder
	count := map[verdict]int{}
	for _, c := range r.claims {
		if c.Source != "" {
			count[c.Verdict]++
		}
	}
	fmt.Fprintf(&b, "Of the paper's claims that can be tried here %d hold, %d hold in part, %d do not hold, and of %d nothing can be said; %d cannot be tried. ",
		count[holds], count[inPart], count[fails], count[open], count[absent])
	b.WriteString("Each line shows the comparison that is least favourable to the claim, the first row less the second, with its interval of 95 %, and the paper's difference where it " +
		"prints both numbers; [every comparison](#every-comparison) is at the end. \"3 of 9\" are the comparisons that bear the claim out: where \"better\" is claimed those whose interval lies above 0 and is no tie, " +
		"where \"no worse\" is claimed those that leave out a loss beyond a tie, where \"equal\" is claimed ties. A claim holds where all bear it out; it fails, or holds in part, where one " +
		"contradicts it with a confidence that allows for how many there are. Of a hundred such intervals about five miss: that there are some sixty claims is not allowed for. " +
		"Sets that stand in for the paper's say nothing for certain of those: a claim that fails here may hold there.\n\n")
	b.WriteString(r.claimTable(func(c claim) bool { return c.Source != "" }))
	b.WriteString("\nClaims that are ours, and not the paper's. The studentized margin was designed on notMNIST and on CIFAR-10's sets:\n\n")
	b.WriteString(r.claimTable(func(c claim) bool { return c.Source == "" }))
	return b.String() + "\n"
}

func (r *report) claimTable(is func(claim) bool) string {
	t := textTable("claim", "in the paper", "least favourable comparison", "here", "95 %", "the paper", "verdict")
	for _, c := range r.claims {
		if !is(c) {
			continue
		}
		if c.Verdict == absent {
			t.row(c.Text, c.Source, c.Why, "", "", "", "*"+string(absent)+"*")
			continue
		}
		of := c.least()
		supported := 0
		for _, each := range c.Comparisons {
			if c.against(each) == 0 {
				supported++
			}
		}
		verdict := fmt.Sprintf("**%s**", c.Verdict)
		if len(c.Comparisons) > 1 {
			verdict += fmt.Sprintf(", %d of %d", supported, len(c.Comparisons))
		}
		t.row(c.Text, c.Source, of.title(), of.quantity.shown(of.Difference), of.interval(), of.paperText(), verdict)
	}
	return t.String()
}

// title describes a comparison: rows, quantity and data.
func (of comparison) title() string {
	parts := []string{of.between()}
	if of.quantity.scale != 1 || of.B != "" {
		parts = append(parts, of.quantity.title())
	} else {
		parts[0] = of.quantity.key
	}
	if where := of.where(); where != "" {
		parts = append(parts, where)
	}
	return strings.Join(parts, "; ")
}

// where names data and table unless they are the default ones.
func (of comparison) where() string {
	switch {
	case of.Table == "short":
		return "networks that do not interpolate"
	case of.Table == "cifar10" && of.quantity.set != "":
		return of.Data + ", " + of.quantity.set
	case of.Data != mnistName:
		return of.Data
	}
	return ""
}

func (of comparison) interval() string {
	return fmt.Sprintf("%s to %s", of.quantity.shown(of.Interval[0]), of.quantity.shown(of.Interval[1]))
}

func (of comparison) paperText() string {
	if of.Paper == nil {
		return ""
	}
	return of.quantity.shown(*of.Paper)
}

// listComparisons returns the table of all comparisons.
func (r *report) listComparisons() string {
	t := textTable("claim", "comparison", "difference", "95 %", "the paper", "networks", "result")
	for _, c := range r.claims {
		for i, of := range c.Comparisons {
			text := ""
			if i == 0 {
				text = c.Text
			}
			said := string(of.Result)
			if of.Refuted {
				said += ", against the claim"
			}
			t.row(text, of.title(), of.quantity.shown(of.Difference), of.interval(), of.paperText(),
				fmt.Sprint(of.Networks), said)
		}
	}
	return "Differences of the first row to the second; the result is what it is for the first.\n\n" + t.String() + "\n"
}

// claimOf returns a claim by its text.
func (r *report) claimOf(text string) claim {
	for _, c := range r.claims {
		if c.Text == text {
			return c
		}
	}
	return claim{}
}

// A wording formats figures for a sentence, and records whether any is missing.
type wording struct {
	rows    results
	claims  []claim
	missing bool
}

// of formats the mean of a row.
func (t *wording) of(table, data, row string, q quantity) string {
	all := t.rows[place{table, data, row}].over(q)
	if len(all) == 0 {
		t.missing = true
		return ""
	}
	return fmt.Sprintf("%.*f", q.digits, q.scale*all.mean())
}

// less formats the difference of two rows as compared by a claim, with its interval and result.
func (t *wording) less(table, data, a, b string, q quantity) string {
	for _, c := range t.claims {
		for _, of := range c.Comparisons {
			if of.Table != table || of.Data != data || of.Quantity != q.key {
				continue
			}
			if of.A == b && of.B == a {
				of = of.swapped()
			}
			if of.A == a && of.B == b {
				return fmt.Sprintf("%s (%s, %s)", q.shown(of.Difference), of.interval(), of.Result)
			}
		}
	}
	t.missing = true
	return ""
}

// swapped compares the second row with the first.
func (of comparison) swapped() comparison {
	of.A, of.B, of.Difference = of.B, of.A, -of.Difference
	of.Interval = [2]float64{-of.Interval[1], -of.Interval[0]}
	of.Result = of.quantity.judge(of.Interval)
	return of
}

// findings lists the main results with their figures, except those of missing parts.
func (r *report) findings() string {
	var b strings.Builder
	n := 0
	for _, f := range findings {
		t := &wording{rows: r.results(), claims: r.claims}
		if text := f(t); !t.missing {
			n++
			fmt.Fprintf(&b, "%d. %s\n", n, text)
		}
	}
	if text := r.shiftFinding(); text != "" {
		fmt.Fprintf(&b, "%d. %s\n", n+1, text)
	}
	return "Differences are of the first named less the second, with their interval and what it makes of the first.\n\n" + b.String() + "\n"
}

// findings are the sentences, in order.
var findings = []func(*wording) string{
	func(t *wording) string {
		return fmt.Sprintf("**Probabilities.** NLL of the network, temperature scaling and mf0 is %s, %s and %s on MNIST, and %s, %s and %s on CIFAR-10; mf0 less temperature scaling: %s and %s.",
			t.of("4", mnistName, "MLE", nllOf), t.of("4", mnistName, "T. Scale", nllOf), t.of("4", mnistName, "mf0", nllOf),
			t.of("cifar10", cifar10Name, "MLE", nllOf), t.of("cifar10", cifar10Name, "T. Scale", nllOf), t.of("cifar10", cifar10Name, "mf0", nllOf),
			t.less("4", mnistName, "mf0", "T. Scale", nllOf), t.less("cifar10", cifar10Name, "mf0", "T. Scale", nllOf))
	},
	func(t *wording) string {
		roc, nll := rocOf(notMNIST), nllROCOf(notMNIST)
		return fmt.Sprintf("**Telling letters from digits.** ROC of mf0 is %s where letters are tuned on and %s where none are, of temperature scaling %s and %s; mf0 less temperature scaling without letters: %s.",
			t.of("4", mnistName, "mf0", roc), t.of("4", mnistName, "mf0", nll), t.of("4", mnistName, "T. Scale", roc), t.of("4", mnistName, "T. Scale", nll),
			t.less("4", mnistName, "mf0", "T. Scale", nll))
	},
	func(t *wording) string {
		return fmt.Sprintf("**A score tuned on nothing**, the studentized margin, less mf0 tuned on that very set: notMNIST %s; from CIFAR-10 Tiny-ImageNet %s, digits %s, uniform noise %s.",
			t.less("4", mnistName, "studentized", "mf0", rocOf(notMNIST)), t.less("cifar10", cifar10Name, "studentized", "mf0", rocOf(tinyImageNet)),
			t.less("cifar10", cifar10Name, "studentized", "mf0", rocOf(digits)), t.less("cifar10", cifar10Name, "studentized", "mf0", rocOf(uniformNoise)))
	},
	func(t *wording) string {
		roc := rocOf(notMNIST)
		return fmt.Sprintf("**The closed form against samples.** mf0 less M = 20, 100 and 500, in ROC: %s, %s and %s; in NLL less M = 500: %s.",
			t.less("1", mnistName, "mf0", "M=20", roc), t.less("1", mnistName, "mf0", "M=100", roc), t.less("1", mnistName, "mf0", "M=500", roc),
			t.less("1", mnistName, "mf0", "M=500", nllOf))
	},
	func(t *wording) string {
		roc := rocOf(notMNIST)
		return fmt.Sprintf("**Covariances and damping.** ROC of H⁻¹ less that of the sandwich: at ρ = 1 %s, at ρ = 0.01 %s, and with the paper's ε = 1 on networks that do not interpolate %s.",
			t.less("damping", mnistName, "H^-1, rho = 1", "H^-1JH^-1, rho = 1", roc), t.less("damping", mnistName, "H^-1, rho = 0.01", "H^-1JH^-1, rho = 0.01", roc),
			t.less("short", mnistName, "mf0, eps = 1", "H^-1JH^-1, eps = 1", roc))
	},
	func(t *wording) string {
		return fmt.Sprintf("**Ensembles.** Five networks less mf0 of one: error %s, NLL %s, ROC against notMNIST %s; ten networks have a ROC of %s.",
			t.less("4", mnistName, "Deep E.(5)", "mf0", errorOf), t.less("4", mnistName, "Deep E.(5)", "mf0", nllOf),
			t.less("4", mnistName, "Deep E.(5)", "mf0", rocOf(notMNIST)), t.of("4", mnistName, "Deep E.(10)", rocOf(notMNIST)))
	},
	func(t *wording) string {
		roc := rocOf(notMNIST)
		return fmt.Sprintf("**Bayesian networks.** mf0 less BNN(VI), dropout and BNN(KFAC) of all layers, in ROC: %s, %s and %s. The first two are trainings of their own.",
			t.less("4", mnistName, "mf0", "BNN(VI)", roc), t.less("4", mnistName, "mf0", "Dropout", roc), t.less("4", mnistName, "mf0", "BNN(KFAC)", roc))
	},
	func(t *wording) string {
		roc := rocOf(notMNIST)
		return fmt.Sprintf("**Layers.** ROC of mf0 over the last layer less that over two: %s; less that over all three: %s. The paper finds that more layers do not help.",
			t.less("2", mnistName, "mf0, last layer", "mf0, top two layers", roc), t.less("2", mnistName, "mf0, last layer", "mf0, all three layers", roc))
	},
	func(t *wording) string {
		of := func(row string) string { return t.of("rotation", allRotations, row, rotatedECE) }
		less := func(row string) string { return t.less("rotation", allRotations, "mf0", row, rotatedECE) }
		return fmt.Sprintf("**A large shift.** ECE on rotated digits is %s %% for the network, %s %% for temperature scaling, %s %% for mf0, %s %% for five networks and %s %% for dropout; mf0 less these others: %s, %s, %s and %s.",
			of("MLE"), of("T. Scale"), of("mf0"), of("Deep E.(5)"), of("Dropout"), less("MLE"), less("T. Scale"), less("Deep E.(5)"), less("Dropout"))
	},
}

// shiftFinding compares the NLL of mf0 and of temperature scaling by severity.
func (r *report) shiftFinding() string {
	var parts []string
	for _, set := range shiftedSets {
		c := r.claimOf(underShift(shiftNLL, "T. Scale", set.name))
		if len(c.Comparisons) == 0 {
			return ""
		}
		by := map[result][]string{}
		for _, of := range c.Comparisons {
			_, severity, _ := strings.Cut(of.Data, ", severity ")
			text := fmt.Sprintf("%s (%s; %s)", severity, of.quantity.shown(of.Difference), of.interval())
			by[of.Result] = append(by[of.Result], text)
		}
		text := "on " + set.name
		for _, v := range []result{better, tie, worse, unclear} {
			if len(by[v]) > 0 {
				said := map[result]string{better: "lower", tie: "the same", worse: "higher", unclear: "not told apart"}[v]
				text += fmt.Sprintf(" %s at severity %s;", said, strings.Join(by[v], ", "))
			}
		}
		parts = append(parts, strings.TrimSuffix(text, ";"))
	}
	return "**Corruptions.** mf0's NLL against temperature scaling's is " + strings.Join(parts, "; ") + "."
}

// preamble describes data, networks, intervals and choices.
func (r *report) preamble() string {
	tie := func(q quantity) string { return strings.TrimPrefix(q.shown(q.resolution), "+") }
	return fmt.Sprintf(`**Data.** MNIST is split as in the paper: the first 55,000 training images for training and curvature, the last 5,000 held out,
10,000 tested; of notMNIST 5,000 are held out and the other 13,724 tested. What else is missing or replaced stands with its table.

**Networks.** Those in `+"`models`"+`: on MNIST %d that interpolate, as the paper's training makes them, and five that do not; of dropout, evidential, variational
and SWAG three each; on CIFAR-10 five. What takes long is on three of them, or on five. A figure is the mean over networks ± their standard deviation. Below each row stand the paper's printed numbers in italics.
What draws at random and claims are about draws ten times at least in all, each network tuned with its first draw; dropout under shift and rotation draws once on each of three networks.

**Columns.** Error, ECE, debiased (the ℓ2 calibration error with the bias of its bins taken off), Acc. (the best accuracy at equal priors), ROC and PR are in per cent, NLL in nats.
Columns without a mark have temperatures tuned on held-out out-of-distribution data, as the paper does; "nll" marks those with the temperatures for in-domain
likelihood, for which no such data is needed. Error, NLL and calibration errors are always under the latter. Rows marked eps = 1 have the paper's damping, H + I; its
words, that the smallest eigenvalue be 1, could also mean to raise that one. The others have one chosen on held-out likelihood.

**Intervals** are of 95 %%. They add what other examples would change (the spread over %d resamples of the examples, the same for both sides of a difference) and what other networks of the same kind would
(the jackknife over networks; an ensemble is left out with each of its members, which makes intervals of ensembles of five rather too wide). Draws of different networks count as part of their difference. Where there is one network, as on ImageNet, an interval has what other random draws
would change in the place of that, and says nothing of other networks. Each part has the quantile of Student's t for its degrees of freedom (Banerjee, 1960): with three networks only large differences can be told.
What goes with examples and networks together is counted in both, so that intervals are rather too wide; what other held-out data would change is not in them.

A difference is better or worse where its interval leaves out 0, and a tie where it lies within %s points of ROC, %s of an error or calibration error or %s nats, under shift %s points of calibration error, %s of AURC and %s nats, on rotated digits %s point.
Ensembles are judged by nine of ten networks, and four of five, since one ensemble of all leaves nothing to tell its spread by. Where fewer samples were drawn than in the paper, the rows say so; that is against them.

**What was chosen, and when.** Adam's ε, which the paper does not give, is 1e-7: with 1e-8 one of the first three MNIST networks did not settle. That one, set aside, is nearer to the paper's network
in how badly its softmax tells letters (ROC 65 where the paper has 54), and a prototype of mf0 had 83 on it, where it had 95 on the others. The automatic damping's grid and its default were argued with notMNIST's ROC in sight, so that "nll" columns are not blind to it. Rivals had the same search for
temperatures as mf0, on the same data, what draws 500 classifiers on two fifths of it. The weight 0.1 of the divergence in BNN(VI) and its prior were chosen on held-out likelihood. RUE has a tuned T_ens here, which makes it nearly sampling from the sandwich, and explains why it is so far above the paper's.
The sizes up to which a difference is a tie were set before this run, at about half the spread over networks. Row names say where last layers stand in for networks.

`, len(r.seeds), resamples, tie(rocOf(notMNIST)), tie(eceOf), tie(nllOf), tie(shiftDebiased), tie(shiftAURC),
		tie(shiftNLL), tie(rotatedECE))
}
