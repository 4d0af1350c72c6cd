package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/chart"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// sets is the section on decisions: abstention and prediction sets.
func (v *view) sets() section {
	s := section{ID: "decisions", Title: "Decisions: abstention and prediction sets"}
	results, all := v.e.Decisions, v.e.Detail.Sizes
	switch decisions, trial := v.e.Detail.Manifest.Decisions, v.e.Detail.Trial; {
	case decisions != nil:
		s.Lead = []string{"Guaranteed: " + text.Line(strings.Join(decisions.Guarantees, "; ")) + "."}
	case trial != nil:
		s.Title = "What would prediction sets look like?"
		s.Lead = []string{fmt.Sprintf("The bundle answers each input with one class. These are the results of prediction sets that miss the label of at most %s of all inputs, the guarantee of alpha %v: fitted to %s of the %s examples, and measured on the others.",
			percent.words(trial.Alpha), trial.Alpha, text.Count(trial.Held), v.kind())}
		results = []bench.DecisionResult{{Set: "test", Realised: trial.Realised}}
		all = []bench.SetSizes{{Set: "test", Sizes: trial.Sizes}}
	default:
		return s
	}
	t := table{Caption: "Results", Head: []string{"", "n", "answered", "error among answered", "flagged as OOD", "sets with the label", "classes per set", "empty sets"}}
	part := func(v *float64, u unit) string {
		if v == nil {
			return "–"
		}
		return u.write(*v)
	}
	for _, d := range results {
		t.Rows = append(t.Rows, cells(v.set(d.Set), text.Count(d.N),
			part(d.Answered, percent), part(d.Error, percent), part(d.OOD, percent),
			part(d.Covered, percent), part(d.SetSize, plain), part(d.EmptySets, percent)))
	}
	s.Tables = []table{t}
	for _, of := range all {
		s.Figures = append(s.Figures, v.sizes(of))
	}
	return s
}

// maxSizes bounds the sizes of prediction sets in a figure; the last bar has all larger ones.
const maxSizes = 20

func (v *view) sizes(of bench.SetSizes) figure {
	n := 0
	for _, examples := range of.Sizes {
		n += examples
	}
	few := make([]int, min(len(of.Sizes), maxSizes+1))
	for size, examples := range of.Sizes {
		few[min(size, maxSizes)] += examples
	}
	bars := chart.Series{Tone: chart.Blue, Kind: chart.Bars}
	t := table{Caption: "Examples by the size of their set", Head: []string{"classes", "examples", "fraction"}}
	for size, examples := range few {
		share := float64(examples) / float64(max(1, n))
		bars.X, bars.Y = append(bars.X, float64(size)-.5), append(bars.Y, share)
		label := text.Count(size)
		if size == maxSizes && len(of.Sizes) > len(few) {
			label += " and more"
		}
		t.Rows = append(t.Rows, cells(label, text.Count(examples), percent.write(share)))
	}
	bars.X = append(bars.X, float64(len(few))-.5)
	c := chart.Chart{
		Name: "Sizes of prediction sets, " + v.set(of.Set), X: chart.Axis{Label: "classes in the set", Whole: true, Min: -.5, Max: float64(len(few)) - .5},
		Y: chart.Axis{Label: "fraction of the examples in %", Percent: true}, Series: []chart.Series{bars},
	}
	caption := fmt.Sprintf("n = %s.", text.Count(n))
	if len(of.Sizes) > len(few) {
		caption += fmt.Sprintf(" The last bar includes all sets of %d or more classes; the largest has %s.", maxSizes, text.Count(len(of.Sizes)-1))
	}
	return newFigure("Sizes of prediction sets: "+v.set(of.Set), caption, c, t)
}

const (
	shownClasses = 20   // in the table
	maxDots      = 2000 // in the figure
	fewClasses   = 100  // at most, with linear axes
	leastECE     = 1e-7 // on logarithmic axes
)

// classes is the section on each class.
func (v *view) classes() section {
	s := section{ID: "classes", Title: "Which classes are miscalibrated?"}
	before, after := v.e.Detail.Classes[v.before.Name], v.e.Detail.Classes[v.after.Name]
	if len(after) == 0 {
		return s
	}
	what, examples := "class", "examples of it"
	if v.multiLabel() {
		what, examples = "label", "examples"
	}
	order := make([]int, len(after))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(after[b].ECE, after[a].ECE) })
	order = order[:min(len(order), shownClasses)]
	t := table{Head: []string{what, examples, "error", "ECE before", "ECE"}}
	t.Caption = fmt.Sprintf("The %d of %s with the largest calibration error", len(order), text.Plural(len(after), what))
	if len(order) == len(after) {
		t.Caption = fmt.Sprintf("All %s, those with the largest calibration error first", text.Plural(len(after), what))
	}
	for _, k := range order {
		c := after[k]
		row := cells(v.label(k), text.Count(c.N), "–", percent.write(before[k].ECE), percent.write(c.ECE))
		if c.N > 0 {
			low, high := conformal.ClopperPearson(int(math.Round(c.Error*float64(c.N))), c.N, v.e.Bootstrap.Level)
			row[2] = cell{Text: percent.write(c.Error), Interval: percent.bare(low) + " – " + percent.bare(high)}
		}
		t.Rows = append(t.Rows, row)
	}
	s.Lead = []string{fmt.Sprintf("The calibration error of a %s is that of its probability over all examples. It is biased upwards where a %[1]s has few examples. Its mean over all is %[2]s, and %[3]s for the network.",
		what, percent.words(v.after.InDomain.ClasswiseECE), percent.words(v.before.InDomain.ClasswiseECE))}
	s.Tables = []table{t}
	if v.after != v.before && len(after) > 2 {
		s.Figures = []figure{v.classDots(what, before, after)}
	}
	return s
}

// classDots has a dot for each class, for at most maxDots of them.
func (v *view) classDots(what string, before, after []metrics.ClassFigures) figure {
	dots := chart.Series{Tone: chart.Blue, Kind: chart.Dots}
	log := len(after) > fewClasses
	least, most, better := math.Inf(1), 0.0, 0
	for k := range after {
		if after[k].ECE < before[k].ECE {
			better++
		}
		if len(after) > maxDots && !rows.InSubsample(k, len(after), maxDots) {
			continue
		}
		x, y := before[k].ECE, after[k].ECE
		if log && (x < leastECE || y < leastECE) {
			continue
		}
		dots.X, dots.Y = append(dots.X, x), append(dots.Y, y)
		least, most = min(least, x, y), max(most, x, y)
	}
	end := chart.Step(most) * math.Ceil(most/chart.Step(most))
	axis := func(label string) chart.Axis {
		if log {
			return chart.Axis{Label: label, Min: least / 1.2, Max: most * 1.2, Log: true, Percent: true}
		}
		return chart.Axis{Label: label, Max: end, Percent: true}
	}
	c := chart.Chart{
		Name: "Calibration error of each " + what, Diagonal: true, Series: []chart.Series{dots},
		X: axis("ECE of the network in %"), Y: axis("ECE of the selected method in %"),
	}
	caption := fmt.Sprintf("Each dot is a %s. Below the dashed line it is better calibrated than before: %s of %s are.", what, text.Count(better), text.Count(len(after)))
	if len(after) > len(dots.X) {
		caption += fmt.Sprintf(" %s of them are drawn.", text.Count(len(dots.X)))
	}
	return newFigure("Each "+what+", before and after", caption, c, table{})
}

// temperatures is the section with the grids of temperatures.
func (v *view) temperatures() section {
	s := section{ID: "temperatures", Title: "How were the temperatures chosen?"}
	m := v.e.Detail.Manifest
	if m.Grids == nil {
		return s
	}
	s.Lead = []string{"Mean-field probabilities have two temperatures, tuned on the validation data. T_act divides the logits, T_ens the covariance of the posterior. A star marks the chosen pair."}
	if v.after.Name != "mf0" {
		s.Lead = append(s.Lead, "They are not used here: "+text.Line(v.e.Bundle.Probabilities.Reason)+".")
	}
	add := func(title, caption, unit, format string, log bool, g *calibrate.Grid, best layer.Temperatures) {
		if g == nil || len(g.Act) < 2 || len(g.Tau) < 2 {
			return
		}
		h := chart.Heat{
			Name: title, X: "T_ens, ensemble temperature", Y: "T_act, activation temperature", Rows: g.Act, Values: g.Value,
			Unit: unit, Format: format, Log: log, Best: [2]float64{best.Ens, best.Act},
		}
		t := table{Caption: title, Head: []string{"T_act ╲ T_ens"}}
		for _, tau := range g.Tau {
			h.Columns = append(h.Columns, tau*m.MeanField.MedianVariance)
			t.Head = append(t.Head, chart.Short(tau*m.MeanField.MedianVariance))
		}
		for i, act := range g.Act {
			row := cells(chart.Short(act))
			for _, value := range g.Value[i] {
				row = append(row, cell{Text: fmt.Sprintf("%.4g", value)})
			}
			t.Rows = append(t.Rows, row)
		}
		caption += fmt.Sprintf(" Chosen: T_act = %.3g, T_ens = %.3g.", best.Act, best.Ens)
		s.Figures = append(s.Figures, figure{Title: title, Caption: caption, SVG: template.HTML(h.SVG()), Table: t})
	}
	add("Validation NLL", "Lower is better. Among pairs without a significant difference, the one with the smallest T_ens is chosen.", "nats", "", true, m.Grids.NLL, m.Temperatures.NLL.Temperatures)
	add("Validation AUROC", "Higher is better: OOD detection on the validation data.", "AUROC", "%.2f", false, m.Grids.AUROC, m.Temperatures.OOD.Temperatures)
	return s
}

// provenance is the section on the bundle, the data and the intervals.
func (v *view) provenance() section {
	d, b := v.e.Detail, v.e.Bundle
	s := section{ID: "provenance", Title: "About this report"}
	t := table{Head: []string{"", ""}}
	add := func(term, format string, args ...any) {
		t.Rows = append(t.Rows, cells(term, text.Line(fmt.Sprintf(format, args...))))
	}
	add("bundle", "%s, written by %s", b.Path, d.Manifest.Tool)
	if m := v.e.Model; m != nil {
		add("model", "SHA-256 %s", m.SHA256)
	}
	h := d.Manifest.Head
	if d := h.Decoding; d != nil && d.Tags() {
		add("output", "a tag for each step, by %s of %s in %s", d.Of, text.Plural(len(d.Alphabet), "tag"), h.LogitsTensor)
	} else if d != nil {
		add("output", "text of %s, by CTC from %s of %s at each step", h.LogitsTensor, d.Of, text.Plural(len(d.Alphabet), "symbol"))
	} else if h.Nonlinear {
		add("output", "%s of %s, %s, link %s; no linear last layer", h.Kind, h.LogitsTensor, text.Plural(h.Classes(), "class"), h.Link)
	} else {
		add("last layer", "%s, %s, link %s", text.Plural(h.Features, "feature"), text.Plural(h.Classes(), "class"), h.Link)
	}
	if images := d.Manifest.Preprocess; images != nil {
		add("images", "%s", images.Summary())
	}
	if !h.Nonlinear {
		add("posterior", "%s", b.PosteriorLine())
	}
	add("probabilities", "%s", b.Probabilities.Reason)
	if n := len(b.ClassFrequencies); n > 0 {
		from := "as given"
		if e := b.PriorEstimate; e != nil {
			from = fmt.Sprintf("estimated from %s of %s", text.Plural(e.Examples, "unlabelled example"), e.Spec)
		}
		add("class frequencies", "corrected for those in use, %s: %s", from, frequencies(b.ClassFrequencies))
	}
	add("score", "%s", b.OODScore.Reason)
	for _, set := range d.Sets {
		add(v.set(set.Name), "%s, %s", set.Spec, text.Plural(set.N, "example"))
	}
	for _, set := range d.Manifest.Datasets {
		add("calibration data, "+string(set.Role), "%s, %s", set.Spec, text.Plural(set.Count, "example"))
	}
	add("intervals", "%s, %s resamples, seed %d", v.level(), text.Count(v.e.Bootstrap.Resamples), v.e.Bootstrap.Seed)
	if n := len(v.e.Bad); n > 0 {
		add("skipped", "%s that could not be read, such as %s", text.Plural(n, "record"), v.e.Bad[0])
	}
	for _, line := range v.e.Ignored {
		add("ignored", "%s", line)
	}
	s.Tables = []table{t}
	return s
}

// frequencies lists the classes whose frequencies in use differ most from those of the validation data.
func frequencies(all []bundle.ClassFrequency) string {
	const most = 10
	var parts []string
	for _, c := range bundle.ByChange(all)[:min(most, len(all))] {
		f := all[c]
		parts = append(parts, fmt.Sprintf("%s %s (validation data %s)", f.Class, percent.write(f.Use), percent.write(f.Validation)))
	}
	if n := len(all) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%s with smaller changes", text.Plural(n, "other class")))
	}
	return strings.Join(parts, ", ")
}
