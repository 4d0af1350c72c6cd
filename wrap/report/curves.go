package report

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/chart"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
)

// reliability is the section with reliability diagrams.
func (v *view) reliability() section {
	s := section{ID: "reliability", Title: "Is the confidence calibrated?"}
	s.Lead = []string{fmt.Sprintf("Of the examples predicted with 80 %% confidence, 80 %% should be correct, which is the dashed line. Above it the classifier is underconfident, below it overconfident. "+
		"A bar is the %s interval of a bin’s accuracy (Clopper and Pearson).", v.level())}
	decisions := "examples"
	if v.multiLabel() {
		decisions = "decisions"
		s.Lead = append(s.Lead, "There is one decision per label and example. Intervals treat the decisions of an example as independent, and are somewhat too narrow.")
	}
	share := chart.Chart{
		Name: "Distribution of the confidence of " + decisions, X: chart.Axis{Label: "confidence in %", Max: 1, Percent: true},
		Y: chart.Axis{Label: decisions + " in %", Percent: true},
	}
	shares := table{Caption: "Fraction of the " + decisions + " by confidence", Head: []string{"confidence"}}
	for _, l := range v.drawn() {
		bins := v.e.Detail.Curves[l.method].Bins
		if len(bins) == 0 {
			continue
		}
		f := v.reliabilityOf(l)
		s.Figures = append(s.Figures, f)
		of := l.series(chart.Steps, nil)
		n := 0
		for _, b := range bins {
			n += b.N
		}
		for i, b := range bins {
			of.X, of.Y = append(of.X, float64(i)/float64(len(bins))), append(of.Y, float64(b.N)/float64(n))
			if len(shares.Rows) == i {
				shares.Rows = append(shares.Rows, cells(binRange(i, len(bins))))
			}
			shares.Rows[i] = append(shares.Rows[i], cell{Text: percent.write(of.Y[i])})
		}
		of.X = append(of.X, 1)
		share.Series, shares.Head = append(share.Series, of), append(shares.Head, l.title)
	}
	if len(share.Series) > 0 {
		s.Figures = append(s.Figures, newFigure("Distribution of the "+decisions, "", share, shares))
	}
	return s
}

func binRange(i, n int) string {
	return fmt.Sprintf("%.3g – %.3g %%", 100*float64(i)/float64(n), 100*float64(i+1)/float64(n))
}

func (v *view) reliabilityOf(l look) figure {
	in := l.result.InDomain
	t := table{Caption: "Bins of " + l.title, Head: []string{"confidence", "n", "mean confidence", "accuracy"}}
	points := chart.Series{Tone: l.tone, Kind: chart.Dots}
	if l.tone == chart.Orange {
		points.Tone = chart.Orange
	}
	bins := v.e.Detail.Curves[l.method].Bins
	for i, b := range bins {
		if b.N == 0 {
			t.Rows = append(t.Rows, cells(binRange(i, len(bins)), "0", "–", "–"))
			continue
		}
		points.X, points.Y = append(points.X, b.Confidence), append(points.Y, b.Accuracy)
		points.Low, points.High = append(points.Low, b.Interval[0]), append(points.High, b.Interval[1])
		row := cells(binRange(i, len(bins)), text.Count(b.N), percent.write(b.Confidence), percent.write(b.Accuracy))
		row[3].Interval = percent.bare(b.Interval[0]) + " – " + percent.bare(b.Interval[1])
		t.Rows = append(t.Rows, row)
	}
	c := chart.Chart{
		Name: "Accuracy by confidence, " + l.title, Diagonal: true, Series: []chart.Series{points},
		X: chart.Axis{Label: "mean confidence in %", Max: 1, Percent: true}, Y: chart.Axis{Label: "accuracy in %", Max: 1, Percent: true},
	}
	caption := fmt.Sprintf("ECE %s%s; debiased root mean square, %s%s; %d bins, n = %s.", percent.write(in.ECE), v.intervalOf(in.Intervals, "ece"),
		percent.write(in.DebiasedCE), v.intervalOf(in.Intervals, "debiased_ce"), len(bins), text.Count(in.N))
	return newFigure(sentence(l.title), caption, c, t)
}

// sentence capitalises the first letter.
func sentence(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// selective is the section with risk-coverage curves.
func (v *view) selective() section {
	s := section{ID: "selective", Title: "Does the uncertainty find errors?"}
	s.Lead = []string{"If the most uncertain examples are left unanswered, the error among the rest falls. The lower the curve, the better the uncertainty finds errors."}
	c := chart.Chart{
		Name: "Error among the answered examples", X: chart.Axis{Label: "least uncertain examples answered in %", Max: 1, Percent: true},
		Y: chart.Axis{Label: "error among them in %", Percent: true},
	}
	t := table{Caption: "Error among the answered examples", Head: []string{"answered", "80 %", "90 %", "95 %", "all"}}
	for _, l := range v.drawn() {
		points := v.e.Detail.Curves[l.method].Risk
		if len(points) == 0 {
			continue
		}
		c.Series = append(c.Series, l.series(chart.Line, points))
		in := l.result.InDomain
		if l.result == v.after {
			c.Series = append(c.Series, intervalsAt(l, in))
		}
		certainty := in.Certainty
		t.Rows = append(t.Rows, []cell{
			{Text: sentence(l.title)},
			bounded(certainty, "risk80", in.Risk80, percent), bounded(certainty, "risk90", in.Risk90, percent),
			bounded(certainty, "risk95", in.Risk95, percent), bounded(certainty, "error", in.Error, percent),
		})
	}
	if len(c.Series) == 0 {
		return s
	}
	caption := fmt.Sprintf("Bars are %s intervals of the selected method where 80, 90, 95 and 100 %% are answered.", v.level())
	s.Figures = []figure{newFigure("Risk and coverage", caption, c, t)}
	return s
}

// intervalsAt are a method's risks with intervals.
func intervalsAt(l look, in *metrics.Labelled) chart.Series {
	s := chart.Series{Tone: l.tone, Kind: chart.Dots}
	for _, at := range []struct {
		coverage, risk float64
		figure         string
	}{{.8, in.Risk80, "risk80"}, {.9, in.Risk90, "risk90"}, {.95, in.Risk95, "risk95"}, {1, in.Error, "error"}} {
		i, ok := in.Intervals[at.figure]
		if !ok {
			i = metrics.Interval{math.NaN(), math.NaN()}
		}
		s.X, s.Y = append(s.X, at.coverage), append(s.Y, at.risk)
		s.Low, s.High = append(s.Low, i[0]), append(s.High, i[1])
	}
	return s
}

// detectionRow is a method's figures on an out-of-distribution set.
func (v *view) detectionRow(m *bench.MethodResult, f *metrics.DetectionResult) []cell {
	cells := []cell{{Text: v.calledServed(m, false)}}
	for _, column := range detectionColumns {
		cells = append(cells, bounded(f.Certainty, column.Key, column.Of(&f.OOD), unitOf(column.Figure)))
	}
	return cells
}

// ood is the section on out-of-distribution data.
func (v *view) ood() section {
	s := section{ID: "ood", Title: "Does it detect out-of-distribution inputs?"}
	s.Lead = []string{"A threshold on the OOD score flags some in-distribution inputs and misses some out-of-distribution ones. The curve shows all thresholds. AUROC is the area under it, and 50 % is chance. FPR95 is the fraction of out-of-distribution inputs that are accepted where 95 % of the in-distribution ones are; FPR95 (OOD positive) is the fraction of in-distribution inputs that are flagged where 95 % of the out-of-distribution ones are."}
	for i, set := range v.score.OOD {
		t := table{Caption: fmt.Sprintf("OOD detection: %s, %s", name(set.Name), text.Plural(set.N, "example")),
			Head: []string{""}}
		for _, column := range detectionColumns {
			t.Head = append(t.Head, columnHead(column.Figure))
		}
		for j := range v.e.Methods {
			if m := &v.e.Methods[j]; i < len(m.OOD) {
				t.Rows = append(t.Rows, v.detectionRow(m, &m.OOD[i].DetectionResult))
			}
		}
		s.Tables = append(s.Tables, t)
		s.Figures = append(s.Figures, v.roc(i, set), v.scores(i, set))
	}
	if r := v.e.Recommendation.Score; r != nil {
		s.Lead = append(s.Lead, "Recommended on this data: "+r.Sentence+".")
	}
	return s
}

// maxCurves bounds the methods in a figure: more lines are hard to distinguish.
const maxCurves = 5

func (v *view) roc(i int, set bench.OODResult) figure {
	c := chart.Chart{
		Name: "ROC curve: " + name(set.Name), Diagonal: true,
		X: chart.Axis{Label: "in-distribution inputs flagged in %", Max: 1, Percent: true}, Y: chart.Axis{Label: "out-of-distribution inputs flagged in %", Max: 1, Percent: true},
	}
	falseAlarms := []float64{.01, .02, .05, .1, .2}
	t := table{Caption: "Out-of-distribution inputs flagged, by the fraction of in-distribution ones flagged", Head: []string{""}}
	for _, x := range falseAlarms {
		t.Head = append(t.Head, chart.Short(100*x)+percent.suffix)
	}
	strokes := 0
	for j := range v.e.Methods {
		m := &v.e.Methods[j]
		curves := v.e.Detail.Curves[m.Name].ROC
		if i >= len(curves) || len(c.Series) == maxCurves && m != v.score {
			continue
		}
		l := look{title: v.calledServed(m, false), tone: chart.Blue}
		if m == v.before {
			l.tone, l.dashes = chart.Grey, []float64{2, 3}
		}
		if m != v.score && m != v.before {
			stroke := chart.Strokes[2+strokes%4]
			strokes++
			l.tone, l.dashes = stroke.Tone, stroke.Dashes
		}
		c.Series = append(c.Series, l.series(chart.Line, curves[i]))
		row := cells(l.title)
		for _, x := range falseAlarms {
			row = append(row, cell{Text: percent.write(along(curves[i], x))})
		}
		t.Rows = append(t.Rows, row)
	}
	return newFigure("ROC curve: "+name(set.Name), fmt.Sprintf("%s and %s.", text.Plural(v.before.InDomain.N, "in-distribution input"), text.Plural(set.N, "out-of-distribution one")), c, t)
}

// along interpolates a curve of rising points linearly at x.
func along(points []metrics.Point, x float64) float64 {
	y := math.NaN()
	for i, p := range points {
		if p.X > x {
			if i == 0 {
				return p.Y
			}
			q := points[i-1]
			return q.Y + (p.Y-q.Y)*(x-q.X)/(p.X-q.X)
		}
		y = p.Y
	}
	return y
}

// scores is the histogram of the selected score, for the test set and an out-of-distribution set.
func (v *view) scores(i int, set bench.OODResult) figure {
	all := v.e.Detail.Scores
	c := chart.Chart{
		Name: "OOD scores of " + name(set.Name) + " and of the " + v.kind() + " data", X: chart.Axis{Label: "ood_score"},
		Y: chart.Axis{Label: "fraction of the examples in %", Percent: true},
	}
	if len(all.Edges) > 0 {
		c.X.Min, c.X.Max = all.Edges[0], all.Edges[len(all.Edges)-1]
	}
	t := table{Caption: "Examples by ood_score", Head: []string{"from", "to", v.kind(), name(set.Name)}}
	series := func(at int, s chart.Series) chart.Series {
		s.X = all.Edges
		for _, n := range all.Counts[at] {
			s.Y = append(s.Y, float64(n)/float64(max(1, all.N[at])))
		}
		return s
	}
	if 1+i < len(all.Counts) {
		c.Series = []chart.Series{
			series(0, chart.Series{Name: v.kind() + ", n = " + text.Count(all.N[0]), Tone: chart.Grey, Kind: chart.Bars}),
			series(1+i, chart.Series{
				Name: name(set.Name) + ", n = " + text.Count(all.N[1+i]), Tone: chart.Red, Kind: chart.Steps,
			}),
		}
		for b := range all.Counts[0] {
			t.Rows = append(t.Rows, cells(fmt.Sprintf("%.4g", all.Edges[b]), fmt.Sprintf("%.4g", all.Edges[b+1]),
				text.Count(all.Counts[0][b]), text.Count(all.Counts[1+i][b])))
		}
	}
	caption := fmt.Sprintf("The selected score, %s. The first and the last bar include scores beyond the axis, 0.5 %% on each side.", v.called(v.score))
	return newFigure("OOD scores: "+name(set.Name), caption, c, t)
}
