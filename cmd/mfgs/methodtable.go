package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
)

// The columns of tables of methods.
var (
	labelledColumns  = metrics.Columns(metrics.LabelledFigures)
	detectionColumns = metrics.Columns(metrics.DetectionFigures)
)

// inDomainColumns are the figures in the table of a calibration, which is about validation data.
var inDomainColumns = slices.DeleteFunc(slices.Clone(metrics.LabelledFigures), func(f metrics.LabelledFigure) bool {
	return !slices.Contains([]string{"error", "nll", "ece", "brier"}, f.Key)
})

func inDomainLabels() (labels []string) {
	for _, f := range inDomainColumns {
		labels = append(labels, f.Label)
	}
	return labels
}

// inDomain returns the cells of a row.
func inDomain(m metrics.InDomain) (cells []string) {
	for _, f := range inDomainColumns {
		cells = append(cells, writeAs(f.Unit)(f.Of(&metrics.Labelled{InDomain: m})))
	}
	return cells
}

// writeAs returns the format of a unit.
func writeAs(u metrics.Unit) func(float64) string {
	if u == metrics.Fraction {
		return percent
	}
	return nats
}

// labelledTable returns an empty table for figures on a labelled set.
func labelledTable() *table {
	var header []string
	for _, f := range labelledColumns {
		header = append(header, f.Label)
	}
	t := &table{align: "l" + strings.Repeat("r", len(header))}
	t.row("", header...)
	return t
}

// setTitle is the line above the table of a set.
func setTitle(what, name string, n int) string {
	of := fmt.Sprintf(" (n = %s)", text.Count(n))
	return what + shortenMiddle(printable(name), textWidth-utf8.RuneCountInString(what+of)) + of + "\n"
}

// labelledRows adds a method's figures to a labelledTable, and their intervals below.
func labelledRows(t *table, name string, m metrics.Labelled) {
	var cells, below []string
	for _, f := range labelledColumns {
		value, write := f.Of(&m), writeAs(f.Unit)
		cells = append(cells, write(value))
		below = append(below, bound(m.Certainty, f.Key, value, write))
	}
	t.row(name, cells...)
	bounds(t, below...)
}

// detectionTable returns an empty table for figures on an out-of-distribution set.
func detectionTable() *table {
	var header []string
	for _, f := range detectionColumns {
		header = append(header, f.Label)
	}
	t := &table{align: "l" + strings.Repeat("r", len(header))}
	t.row("", header...)
	return t
}

// detection returns the cells of a row in a detectionTable.
func detection(m metrics.OOD) (cells []string) {
	for _, f := range detectionColumns {
		cells = append(cells, writeAs(f.Unit)(f.Of(&m)))
	}
	return cells
}

// detectionRows adds a method at the temperatures for out-of-distribution data and, if its figures differ there,
// at those for NLL.
func detectionRows(t *table, name string, m, nll metrics.OOD) {
	t.row(name, detection(m)...)
	if nll != m {
		t.row("  NLL temperatures", detection(nll)...)
	}
}

// sureDetectionRows is detectionRows with intervals below each row.
func sureDetectionRows(t *table, name string, m, nll metrics.DetectionResult) {
	add := func(name string, m metrics.DetectionResult) {
		t.row(name, detection(m.OOD)...)
		var below []string
		for _, f := range detectionColumns {
			below = append(below, bound(m.Certainty, f.Key, f.Of(&m.OOD), writeAs(f.Unit)))
		}
		bounds(t, below...)
	}
	add(name, m)
	if nll.OOD != m.OOD {
		add("  NLL temperatures", nll)
	}
}

// bounds adds a row without a name unless all cells are empty.
func bounds(t *table, cells ...string) {
	for _, c := range cells {
		if c != "" {
			t.row("", cells...)
			return
		}
	}
}

// bound writes half the width of a figure's interval, after marks for the methods it differs significantly from.
func bound(c metrics.Certainty, figure string, value float64, write func(float64) string) string {
	i, ok := c.Intervals[figure]
	if !ok {
		return ""
	}
	marks := ""
	for _, r := range []struct{ method, mark string }{{"mle", "*"}, {"ts", "†"}} {
		if d, ok := c.Differences[r.method][figure]; ok && d.Significant() {
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

// boundsLegend explains bounds.
func boundsLegend(e *bench.Evaluation) string {
	return wrapText("", fmt.Sprintf("± is half of the %s %% interval (%s bootstrap resamples). * differs significantly from mle, † from ts; each difference is tested on its own. ECE and debiased: %d bins.", number(100*e.Bootstrap.Level), text.Count(e.Bootstrap.Resamples), e.Bins))
}

// classTable lists the classes with the largest errors.
func classTable(method string, classes []metrics.ClassFigures) *table {
	const most = 20
	order := make([]int, len(classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(classes[j].Error, classes[i].Error) })
	t := &table{align: "lrrr"}
	t.row("classes, with "+method, "n", "error", "ECE")
	for at, i := range order {
		if at == most {
			t.row(fmt.Sprintf("and %s more", text.Count(len(order)-most)))
			break
		}
		c := classes[i]
		t.row(cmp.Or(c.Class, strconv.Itoa(i)), text.Count(c.N), percent(c.Error), percent(c.ECE))
	}
	return t
}
