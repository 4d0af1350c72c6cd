package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/chart"
	"github.com/mfgs/mfgs/wrap/bench"
)

const shiftTitle = "Corrupted images (not in the paper)"

// shiftImages is how many test images are corrupted in every way.
const shiftImages = 400

// corrupt writes the test images of a benchmark under each corruption.
func (l *lab) corrupt(ctx context.Context, set *benchmark) ([]bench.NamedSpec, error) {
	g, err := images.Read(ctx, set.test)
	if err != nil {
		return nil, err
	}
	g = g.Subsample(shiftImages)
	corruptions := corrupt.Corruptions()
	l.say("corrupting %d images of %s in %d ways", g.Len(), set.name, len(corruptions)-1)
	specs, err := corrupt.WriteAll(ctx, g, filepath.Join(l.scratch, "corrupted", fileName(set.name)))
	var shifts []bench.NamedSpec
	for i, spec := range specs {
		shifts = append(shifts, bench.NamedSpec{Name: corruptions[i].String(), Spec: spec})
	}
	return shifts, err
}

// shiftTrials are the trials of a benchmark: dropout only if there are networks trained with it.
func shiftTrials(ensembleSize int, dropout bool) []trial {
	all := []trial{
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "mf0", method: "mf0"},
		{row: fmt.Sprintf("Deep E.(%d)", ensembleSize), method: "ensemble", ensembleSize: ensembleSize},
	}
	if dropout {
		all = append(all, trial{row: "Dropout", method: "dropout:20", network: dropoutKind, posterior: cheapestPosterior})
	}
	return all
}

// Quantities under shift.
var (
	shiftNLL      = shiftOf(nllOf, nllOf.name, .005, 3)
	shiftDebiased = shiftOf(debiasedOf, "debiased calibration error", .005, 1)
	shiftAURC     = shiftOf(aurcOf, aurcOf.name, .002, 2)
	shiftError    = shiftOf(errorOf, errorOf.name, .005, 1)
)

// shiftOf is a quantity with a larger resolution, and a name that may be several words.
func shiftOf(q quantity, name string, resolution float64, digits int) quantity {
	q = q.coarser(resolution, digits)
	q.name = name
	if q.unit != "" {
		q.unit = ", %"
	}
	return q
}

// shiftQuantities are printed; the first shiftPictures are also drawn.
var shiftQuantities = []quantity{shiftNLL, shiftDebiased, shiftAURC, shiftError}

const shiftPictures = 3

func shiftPlace(set string, severity int, row string) place {
	return place{"shift", fmt.Sprintf("%s, severity %d", set, severity), row}
}

func kindPlace(set, kind, row string) place {
	return place{"shift", set + ", " + kind, row}
}

// drawShift charts a quantity over severities; rows are by trial and severity.
func drawShift(set string, trials []trial, rows [][]row, quantity int) picture {
	q := shiftQuantities[quantity]
	c := chart.Chart{
		Name: set + ", corrupted: " + q.name, Width: 480, Height: 340,
		X: chart.Axis{Label: "severity", Max: corrupt.Severities, Whole: true},
		Y: chart.Axis{Label: strings.Replace(q.title(), ", %", " in %", 1), Percent: q.scale == 100},
	}
	for i, t := range trials {
		stroke := chart.Strokes[i%len(chart.Strokes)]
		line := chart.Series{Name: t.row, Tone: stroke.Tone, Dashes: stroke.Dashes}
		for severity, r := range rows[i] {
			line.X, line.Y = append(line.X, float64(severity)), append(line.Y, r.over(q).mean())
		}
		c.Series = append(c.Series, line)
	}
	return picture{"shift-" + fileName(set) + "-" + strings.ReplaceAll(q.key, "_", "-") + ".svg", c.Document()}
}

// shiftedSets are the benchmarks whose test images are corrupted.
var shiftedSets = []struct {
	name   string
	trials []trial
}{{mnistName, shiftTrials(5, true)}, {cifar10Name, shiftTrials(4, false)}}

func measureShift(ctx context.Context, l *lab, s *section) error {
	own, _, err := l.cifar10(ctx)
	if err != nil {
		return err
	}
	for i, set := range []*benchmark{l.mnist(), own} {
		shifts, err := l.corrupt(ctx, set)
		if err != nil {
			return err
		}
		trials := shiftedSets[i].trials
		rows, err := l.measureShifts(ctx, set, trials, shifts, func(way string, t trial) place {
			return place{"shift", set.name + " " + way, t.row}
		})
		if err != nil {
			return err
		}
		for j, t := range trials {
			s.add(bySeverity(set.name, t, rows[j])...)
			s.add(byKind(set.name, t, rows[j])...)
		}
	}
	return nil
}

// bySeverity averages the rows of a trial over kinds: one row per severity from 0 on.
func bySeverity(set string, t trial, rows []row) (all []row) {
	for severity := range corrupt.Severities + 1 {
		var of []row
		for i, w := range corrupt.Corruptions() {
			if w.Severity == severity {
				of = append(of, rows[i])
			}
		}
		all = append(all, meanRow(shiftPlace(set, severity, t.row), of))
	}
	return all
}

// byKind averages the rows of a trial over severities: one row per kind.
func byKind(set string, t trial, rows []row) (all []row) {
	for _, kind := range corrupt.Kinds() {
		var of []row
		for i, w := range corrupt.Corruptions() {
			if w.Kind == kind {
				of = append(of, rows[i])
			}
		}
		all = append(all, meanRow(kindPlace(set, kind, t.row), of))
	}
	return all
}

func writeShift(s *section) {
	s.write("Test images with the fifteen corruptions of CIFAR-10-C (Hendrycks and Dietterich, 2019), each in five severities: %s. "+
		"The corruptions are our implementation with our own strengths, and frost is drawn rather than photographed, so these numbers cannot be compared with results on CIFAR-10-C. "+
		"%d evenly subsampled test images are corrupted in all 75 ways; severity 0 is the uncorrupted images. Nothing was tuned on corrupted images. "+
		"Figures are means over the corruptions and the networks. The debiased calibration error is that of the top class, ℓ2. "+
		"Dropout uses networks trained with it, which exist for MNIST only. Corruptions that brighten the black background of MNIST, such as fog, take images far from the training data.",
		strings.Join(corrupt.Kinds(), ", "), shiftImages)
	for _, set := range shiftedSets {
		writeShifted(s, set.name, set.trials)
	}
}

// writeShifted writes the figures and tables of a benchmark.
func writeShifted(s *section, set string, trials []trial) {
	rows := make([][]row, len(trials))
	for i, t := range trials {
		for severity := range corrupt.Severities + 1 {
			rows[i] = append(rows[i], s.at(shiftPlace(set, severity, t.row)))
		}
	}
	s.write("### %s", set)
	var pictures []string
	for i, q := range shiftQuantities[:shiftPictures] {
		p := drawShift(set, trials, rows, i)
		s.draw(p)
		pictures = append(pictures, fmt.Sprintf("![%s over severity](paper/%s)", q.name, p.Name))
	}
	s.write("%s", strings.Join(pictures, "\n"))
	for _, q := range shiftQuantities {
		head := []string{q.title()}
		for severity := range corrupt.Severities + 1 {
			head = append(head, fmt.Sprintf("severity %d", severity))
		}
		t := numberTable(head...)
		for i, trial := range trials {
			cells := []string{trial.row}
			for _, r := range rows[i] {
				cells = append(cells, fmt.Sprintf("%.*f", q.digits, q.scale*r.over(q).mean()))
			}
			t.row(cells...)
		}
		s.write("%s", t)
	}
	t := numberTable(append([]string{"corruption, mean over severities", "error of MLE, %"}, "NLL: MLE", "T. Scale", "mf0")...)
	for _, kind := range corrupt.Kinds() {
		at := func(method string, q quantity) string {
			return fmt.Sprintf("%.*f", q.digits, q.scale*s.at(kindPlace(set, kind, method)).over(q).mean())
		}
		t.row(kind, at("MLE", shiftError), at("MLE", shiftNLL), at("T. Scale", shiftNLL), at("mf0", shiftNLL))
	}
	s.write("%s", t)
}
