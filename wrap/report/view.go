package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/chart"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Options are options of a report.
type Options struct {
	// Tuned says that the bundle was tuned on the measured data, so that the figures are optimistic.
	Tuned bool
}

// network is the name of the method that is the network itself.
const network = "mle"

// syntheticSet is the name of a set of synthetic OOD data.
const syntheticSet = string(bundle.SyntheticOOD)

// view is an evaluation with what a report needs of it.
type view struct {
	e       *bench.Evaluation
	options Options
	// The network itself, the method that the bundle serves in its place, and the served score: entries of e.Methods,
	// which may be the same.
	before, after, score *bench.MethodResult
}

// newView is a view with the names of the selected probabilities and score.
func newView(e *bench.Evaluation, o Options, probabilities, score string) *view {
	v := &view{e: e, options: o}
	find := func(name string) *bench.MethodResult {
		i := slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == name })
		return &e.Methods[max(i, 0)]
	}
	v.before, v.after, v.score = find(network), find(probabilities), find(score)
	return v
}

// kind is what the measured examples are called.
func (v *view) kind() string {
	if v.options.Tuned {
		return "validation"
	}
	return "test"
}

// set is what a set is called.
func (v *view) set(s string) string {
	if s == "test" {
		return v.kind()
	}
	return name(s)
}

func (v *view) multiLabel() bool {
	if v.e.Detail == nil {
		d := v.e.Bundle.Decisions
		return d != nil && d.MultiLabel
	}
	return v.e.Detail.Manifest.Head.MultiLabel()
}

// decisions are those of the bundle.
func (v *view) decisions() *conformal.Decisions {
	if v.e.Detail == nil {
		return v.e.Bundle.Decisions
	}
	return v.e.Detail.Manifest.Decisions
}

// page builds the page. It leaves out sections without content.
func (v *view) page() *page {
	p := &page{Title: name(filepath.Base(v.e.Bundle.Path))}
	p.Headline, p.Verdict = v.verdict()
	p.Caveats = v.caveats()
	for _, s := range []section{
		v.figures(), v.reliability(), v.selective(), v.ood(), v.sets(), v.classes(), v.examples(),
		v.temperatures(), v.provenance(),
	} {
		if len(s.Tables)+len(s.Figures)+len(s.Galleries) > 0 {
			p.Sections = append(p.Sections, s)
		}
	}
	return p
}

// caveats are warnings before the figures.
func (v *view) caveats() (all []string) {
	if v.options.Tuned {
		all = append(all, "These results are on the data that the calibration was tuned on. Results on new data will be worse: measure them with mfgs eval.")
	}
	for _, w := range v.e.Warnings {
		all = append(all, text.Line(w))
	}
	return all
}

// name makes a name printable.
func name(s string) string { return text.Name(s) }

// titles are the long names of methods.
var titles = map[string]string{
	"mle": "network, uncalibrated", "ts": "temperature scaling", "matrix": "matrix scaling", "mf0": "mean-field", "studentized": "studentized margin",
	"guarded_margin": "guarded margin",
}

// called is the title and name of a method.
func (v *view) called(m *bench.MethodResult) string {
	s := name(m.Name)
	if title := titles[m.Name]; title != "" && title != m.Name {
		s = title + " (" + m.Name + ")"
	}
	return s
}

// calledServed is called, and says whether the bundle serves the method's probabilities, or its score.
func (v *view) calledServed(m *bench.MethodResult, probabilities bool) string {
	s := v.called(m)
	if probabilities && m == v.after || !probabilities && m == v.score {
		s += ", selected"
	}
	return s
}

// bounded is a figure with its interval.
func bounded(c metrics.Certainty, figure string, value float64, u unit) cell {
	out := cell{Text: u.write(value)}
	if i, ok := c.Intervals[figure]; ok {
		out.Interval = u.bare(i[0]) + " – " + u.bare(i[1])
	}
	if d, ok := c.Differences[network][figure]; ok && d.Significant() {
		out.Significant = true
	}
	return out
}

// The columns of tables of methods.
var (
	labelledColumns  = metrics.Columns(metrics.LabelledFigures)
	detectionColumns = metrics.DetectionFigures
)

// unitOf is how a figure is formatted.
func unitOf(f metrics.Figure) unit {
	if f.Unit == metrics.Fraction {
		return percent
	}
	return nats
}

// columnHead is the head of a figure's column.
func columnHead(f metrics.Figure) string {
	if f.Unit == metrics.Nats {
		return f.Label + ", nats"
	}
	return f.Label
}

// labelledHead is the head of tables of labelledRow.
func labelledHead() []string {
	head := []string{""}
	for _, f := range labelledColumns {
		head = append(head, columnHead(f.Figure))
	}
	return head
}

// labelledRow is a method's figures on a labelled set.
func (v *view) labelledRow(m *bench.MethodResult, f *metrics.Labelled) []cell {
	cells := []cell{{Text: v.calledServed(m, true)}}
	for _, column := range labelledColumns {
		cells = append(cells, bounded(f.Certainty, column.Key, column.Of(f), unitOf(column.Figure)))
	}
	return cells
}

// figures is the section that compares methods.
func (v *view) figures() section {
	s := section{ID: "figures", Title: "Before and after"}
	test := table{Caption: "On the " + v.kind() + " data", Head: labelledHead()}
	for i := range v.e.Methods {
		m := &v.e.Methods[i]
		if m.InDomain != nil {
			test.Caption = fmt.Sprintf("On the %s data, %s", v.kind(), text.Plural(m.InDomain.N, "example"))
			test.Rows = append(test.Rows, v.labelledRow(m, m.InDomain))
		}
	}
	b := v.e.Bootstrap
	test.Note = fmt.Sprintf("Below each result is its %s interval, over %s resamples of the examples. * marks a significant difference from the network, on the same resamples. "+
		"ECE is the mean difference between confidence and accuracy over %d bins of confidence; debiased is its root mean square, corrected for the bias of finite samples. "+
		"AURC is the mean error over all coverages, where the least uncertain examples are answered.", v.level(), text.Count(b.Resamples), v.e.Bins)
	if len(test.Rows) > 0 {
		s.Tables = append(s.Tables, test)
	}
	for i, shift := range v.before.Shifts {
		t := table{Caption: fmt.Sprintf("Under shift: %s, %s", name(shift.Name), text.Plural(shift.N, "example")), Head: labelledHead()}
		for j := range v.e.Methods {
			if m := &v.e.Methods[j]; i < len(m.Shifts) {
				t.Rows = append(t.Rows, v.labelledRow(m, &m.Shifts[i].Labelled))
			}
		}
		s.Tables = append(s.Tables, t)
	}
	s.Tables = append(s.Tables, v.answers()...)
	if r := v.e.Recommendation.Probabilities; r != nil && !v.options.Tuned {
		s.Lead = append(s.Lead, "Recommended on this data: "+text.Line(r.Sentence)+".")
	}
	return s
}

// answers are the figures of texts and of tags beside the right ones; none for classes.
func (v *view) answers() (list []table) {
	if len(v.e.Texts) > 0 {
		t := table{Caption: "Texts", Head: []string{"", "texts", "right", "CER", "WER"},
			Note: "CER and WER are edits of characters per character, and of words per word, of the right texts."}
		for _, r := range v.e.Texts {
			t.Rows = append(t.Rows, cells(name(r.Set), text.Count(r.N),
				percent.write(r.Exact), percent.write(r.CER), percent.write(r.WER)))
		}
		list = append(list, t)
	}
	if len(v.e.Tags) > 0 {
		t := table{Caption: "Tags", Head: []string{"", "sequences", "right", "steps", "accuracy", "F1"},
			Note: "A sequence is right without a wrong tag. Accuracy is that of steps, and F1 that of spans such as B-PER I-PER, as by seqeval."}
		for _, r := range v.e.Tags {
			f1 := "–"
			if r.F1 != nil {
				f1 = percent.write(*r.F1)
			}
			t.Rows = append(t.Rows, cells(name(r.Set), text.Count(r.N),
				percent.write(r.Exact), text.Count(r.Steps), percent.write(r.Accuracy), f1))
		}
		list = append(list, t)
	}
	return list
}

// drawn are the methods whose curves are drawn: the network, temperature scaling and the served method, each with the
// look it has in all figures.
func (v *view) drawn() (list []look) {
	for _, l := range []look{
		{network, "network (uncalibrated)", chart.Grey, []float64{2, 3}, nil},
		{"ts", "temperature scaling", chart.Orange, []float64{7, 4}, nil},
		{"matrix", "matrix scaling", chart.Green, []float64{10, 3, 2, 3}, nil},
		{"mf0", "mean-field", chart.Green, []float64{10, 3, 2, 3}, nil},
	} {
		i := slices.IndexFunc(v.e.Methods, func(m bench.MethodResult) bool { return m.Name == l.method })
		if i < 0 || v.e.Methods[i].InDomain == nil {
			continue
		}
		l.result = &v.e.Methods[i]
		if l.result == v.after {
			if l.result != v.before {
				l.tone, l.dashes = chart.Blue, nil
			}
			l.title += ", selected"
		} else if l.result != v.before && (l.method == "mf0" || l.method == "matrix") {
			continue // it is in the tables
		}
		list = append(list, l)
	}
	return list
}

// look is how a method is drawn.
type look struct {
	method, title string
	tone          chart.Tone
	dashes        []float64
	result        *bench.MethodResult
}

func (l look) series(kind chart.Kind, points []metrics.Point) chart.Series {
	s := chart.Series{Name: l.title, Tone: l.tone, Dashes: l.dashes, Kind: kind}
	for _, p := range points {
		s.X, s.Y = append(s.X, p.X), append(s.Y, p.Y)
	}
	return s
}

// label is what a class is called.
func (v *view) label(k int) string {
	if k < 0 {
		return "–"
	}
	names := v.e.Detail.Manifest.Labels
	if k < len(names) {
		return cmp.Or(name(names[k]), strconv.Itoa(k))
	}
	return strconv.Itoa(k)
}
