package main

import (
	"fmt"
	"io"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
)

// writeDecisions writes the thresholds and their guarantees.
func writeDecisions(w io.Writer, d *conformal.Decisions) {
	if d == nil {
		return
	}
	fmt.Fprintf(w, "\nabstention and prediction sets (thresholds from %s validation examples)\n", text.Count(d.Examples))
	for _, r := range []struct {
		what string
		rule *conformal.Rule
	}{{"uncertainty", d.Uncertainty}, {"OOD score", d.OOD}} {
		if r.rule != nil {
			fmt.Fprintf(w, "  - answers if the %s is at most %s: %s of %s\n", r.what, number(r.rule.Threshold),
				text.Count(r.rule.Accepted), text.Count(r.rule.Examples))
		}
	}
	for _, guarantee := range d.Guarantees {
		fmt.Fprint(w, wrapText("  - ", printable(guarantee)))
	}
}

// decisionColumns are the columns that decisions add to predictions.
func decisionColumns(d *conformal.Decisions) (columns []string) {
	if d != nil && d.Abstains() {
		columns = append(columns, "abstain", "abstain_reason")
	}
	if d != nil && d.Set != nil {
		columns = append(columns, "prediction_set", "prediction_set_names")
	}
	return columns
}

// abstains writes whether to abstain from a prediction, "" if the bundle has no rule for it.
func abstains(p *wrap.Prediction) string {
	if p.Abstain == nil {
		return ""
	}
	return fmt.Sprint(*p.Abstain)
}

// writeRealised writes the realised rates of decisions beside the guaranteed ones.
func writeRealised(w io.Writer, d *conformal.Decisions, results []bench.DecisionResult) {
	if len(results) == 0 {
		return
	}
	t := table{align: "lrrrrrr"}
	t.row("", "", "", "error of", "flagged", "label", "set")
	t.row("decisions", "n", "answered", "answered", "OOD", "in set", "size")
	guarantee := func(mark string, v float64) string {
		if v == 0 {
			return ""
		}
		return mark + percent(v)
	}
	covered := ""
	if d.Alpha > 0 {
		covered = guarantee("≥ ", 1-d.Alpha)
	}
	t.row("guarantee", "", guarantee("≥ ", d.TargetCoverage), guarantee("≤ ", d.TargetError), guarantee("≤ ", d.FalseAlarm), covered, "")
	part := func(v *float64, format func(float64) string) string {
		if v == nil {
			return "-"
		}
		return format(*v)
	}
	for _, r := range results {
		t.row(r.Set, text.Count(r.N), part(r.Answered, percent), part(r.Error, percent), part(r.OOD, percent),
			part(r.Covered, percent), part(r.SetSize, number))
	}
	fmt.Fprintln(w)
	_ = t.write(w)
}
