package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/wrap/bench"
)

// evaluationText formats an evaluation as Markdown: a table of methods for each set, figures with half the width of
// their intervals, and the recommendation.
func evaluationText(e *bench.Evaluation) string {
	var b strings.Builder
	labelled := func(set string, of func(*bench.MethodResult) *metrics.Labelled) {
		columns := metrics.Columns(metrics.LabelledFigures)
		head := []string{set, "n"}
		for _, f := range columns {
			head = append(head, f.Label)
		}
		t := numberTable(head...)
		for i := range e.Methods {
			m := &e.Methods[i]
			l := of(m)
			if l == nil {
				continue
			}
			cells := []string{m.Name, strconv.Itoa(l.N)}
			for _, f := range columns {
				cells = append(cells, figureText(f.Figure, f.Of(l), l.Certainty))
			}
			t.row(cells...)
		}
		fmt.Fprintf(&b, "%s\n", t)
	}
	labelled("test", func(m *bench.MethodResult) *metrics.Labelled { return m.InDomain })
	var shifts, oods []string
	for _, m := range e.Methods {
		if m.Shifts != nil && shifts == nil {
			for _, s := range m.Shifts {
				shifts = append(shifts, s.Name)
			}
		}
	}
	for _, s := range e.Methods[0].OOD {
		oods = append(oods, s.Name)
	}
	for i, s := range shifts {
		labelled(s, func(m *bench.MethodResult) *metrics.Labelled {
			if i >= len(m.Shifts) {
				return nil
			}
			return &m.Shifts[i].Labelled
		})
	}
	columns := metrics.Columns(metrics.DetectionFigures)
	for i, s := range oods {
		head := []string{"test vs " + s, "n"}
		for _, f := range columns {
			head = append(head, f.Label)
		}
		t := numberTable(head...)
		for _, m := range e.Methods {
			o := &m.OOD[i]
			cells := []string{m.Name, strconv.Itoa(o.N)}
			for _, f := range columns {
				cells = append(cells, figureText(f.Figure, f.Of(&o.OOD), o.Certainty))
			}
			t.row(cells...)
		}
		fmt.Fprintf(&b, "%s\n", t)
	}
	for _, m := range e.Methods {
		if m.Note != "" {
			fmt.Fprintf(&b, "- %s: %s\n", m.Name, m.Note)
		}
	}
	if r := e.Recommendation.Probabilities; r != nil {
		fmt.Fprintf(&b, "- recommended probabilities: %s\n", r.Sentence)
	}
	if r := e.Recommendation.Score; r != nil {
		fmt.Fprintf(&b, "- recommended score: %s\n", r.Sentence)
	}
	return b.String()
}

// figureText formats a figure and half the width of its interval.
func figureText(f metrics.Figure, value float64, c metrics.Certainty) string {
	write := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	if f.Unit == metrics.Fraction {
		write = func(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }
	}
	if i, ok := c.Intervals[f.Key]; ok {
		return write(value) + " ± " + write((i[1]-i[0])/2)
	}
	return write(value)
}
