package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
)

// labelledHeader has the columns of labelledRows.
var labelledHeader = []string{"n", "error", "NLL", "ECE", "debiased", "Brier", "AURC"}

// labelledRows adds a method's figures on a labelled set, and below them how sure they are.
func labelledRows(t *table, name string, m metrics.Labelled) {
	t.row(name, count(m.N), percent(m.Error), nats(m.NLL), percent(m.ECE), percent(m.DebiasedCE), nats(m.Brier),
		percent(m.AURC))
	c := m.Certainty
	bounds(t, "", bound(c, "error", m.Error, percent), bound(c, "nll", m.NLL, nats),
		bound(c, "ece", m.ECE, percent), bound(c, "debiased_ce", m.DebiasedCE, percent),
		bound(c, "brier", m.Brier, nats), bound(c, "aurc", m.AURC, percent))
}

// toldRows adds a method's figures on an out-of-distribution set as oodRows does, and below them
// how sure they are.
func toldRows(t *table, name string, m, nll metrics.Told) {
	add := func(name string, m metrics.Told) {
		t.row(name, ood(m.OOD)...)
		c := m.Certainty
		bounds(t, bound(c, "accuracy", m.Accuracy, percent), bound(c, "auroc", m.AUROC, percent),
			bound(c, "aupr_in", m.AUPRIn, percent), bound(c, "aupr_out", m.AUPROut, percent),
			bound(c, "fpr95", m.FPR95, percent))
	}
	add(name, m)
	if nll.OOD != m.OOD {
		add("  likelihood temperatures", nll)
	}
}

// bounds adds a row without a name, unless it is empty.
func bounds(t *table, cells ...string) {
	for _, c := range cells {
		if c != "" {
			t.row("", cells...)
			return
		}
	}
}

// bound writes half of a figure's interval, behind marks that say from which methods it differs
// beyond chance.
func bound(c metrics.Certainty, figure string, value float64, write func(float64) string) string {
	i, ok := c.Intervals[figure]
	if !ok {
		return ""
	}
	marks := ""
	for _, r := range []struct{ method, mark string }{{"mle", "*"}, {"ts", "†"}} {
		if d, ok := c.Differences[r.method][figure]; ok && d.Sure() {
			marks += r.mark
		}
	}
	switch {
	case i[0] == 0 && value == 0:
		return marks + "≤" + write(i[1])
	case i[1] == 1 && value == 1:
		return marks + "≥" + write(i[0])
	}
	return marks + "±" + write((i[1]-i[0])/2)
}

// boundsLegend says what bounds mean.
func boundsLegend(b bench.BootstrapInfo) string {
	return wrapText("", fmt.Sprintf("± is half of the %s %% interval over %s resamples of the examples; * differs from mle, † from ts beyond chance, on the same resamples, each by itself.", number(100*b.Level), count(b.Resamples)))
}

// classTable has the classes with the most errors.
func classTable(method string, classes []metrics.ClassFigures) *table {
	const most = 20
	order := make([]int, len(classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(classes[j].Error, classes[i].Error) })
	t := &table{align: "lrrr"}
	t.row("classes, by "+method, "n", "error", "ECE")
	for at, i := range order {
		if at == most {
			t.row(fmt.Sprintf("and %s more", count(len(order)-most)))
			break
		}
		c := classes[i]
		t.row(cmp.Or(c.Class, strconv.Itoa(i)), count(c.N), percent(c.Error), percent(c.ECE))
	}
	return t
}

// recommendation says for people what to use.
func recommendation(r wrap.Recommendation, b bench.BootstrapInfo) string {
	probabilities, score := "no method has any", "no out-of-distribution data was given to compare scores on"
	if r.Probabilities != nil {
		probabilities = r.Probabilities.Sentence
	}
	if r.Score != nil {
		score = r.Score.Sentence
	}
	return fmt.Sprintf("recommended, by %s %% intervals of all pairs of methods together\n", number(100*b.Level)) +
		wrapText("  probabilities  ", printable(probabilities)) + wrapText("  score          ", printable(score))
}
