package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/chart"
	"github.com/mfgs/mfgs/wrap/bench"
)

// rotationAngles returns the angles of the figure, in degrees.
func rotationAngles() []int {
	var all []int
	for d := 0; d <= 180; d += 15 {
		all = append(all, d)
	}
	return all
}

func rotationTrials() []trial {
	return []trial{
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "Deep E.(5)", method: "ensemble", ensembleSize: 5},
		{row: "Dropout", method: "dropout:20", network: dropoutKind, posterior: cheapestPosterior},
		{row: "mf0", method: "mf0"},
	}
}

// drawRotation draws the chart; rows are by trial and angle.
func drawRotation(trials []trial, rows [][]row) []byte {
	c := chart.Chart{
		Name: "ECE on MNIST's test digits, rotated", Width: 640, Height: 420,
		X: chart.Axis{Label: "rotation in degrees", Max: 180}, Y: chart.Axis{Label: "ECE in %", Percent: true},
	}
	for i, t := range trials {
		stroke := chart.Strokes[i%len(chart.Strokes)]
		line := chart.Series{Name: t.row, Tone: stroke.Tone, Dashes: stroke.Dashes}
		for j, degrees := range rotationAngles() {
			line.X = append(line.X, float64(degrees))
			line.Y = append(line.Y, rows[i][j].over(eceOf).mean())
		}
		c.Series = append(c.Series, line)
	}
	return c.Document()
}

// rotatedImages is how many test images are rotated, evenly spaced.
const rotatedImages = 2500

func measureRotation(ctx context.Context, l *lab, s *section) error {
	set := l.mnist()
	g, err := images.Read(ctx, set.test)
	if err != nil {
		return err
	}
	g = g.Subsample(rotatedImages)
	l.say("rotating %d images", g.Len())
	var shifts []bench.NamedSpec
	for _, degrees := range rotationAngles() {
		spec, err := g.WriteRotated(filepath.Join(l.scratch, "rotated"), degrees)
		if err != nil {
			return err
		}
		shifts = append(shifts, bench.NamedSpec{Name: fmt.Sprint(degrees), Spec: spec})
	}
	trials := rotationTrials()
	rows, err := l.measureShifts(ctx, set, trials, shifts, func(degrees string, t trial) place {
		return place{"rotation", rotationData(degrees), t.row}
	})
	if err != nil {
		return err
	}
	for i, t := range trials {
		s.add(rows[i]...)
		s.add(meanRow(place{"rotation", allRotations, t.row}, rows[i][1:]))
	}
	return nil
}

// allRotations is the mean over all rotations except 0.
const allRotations = mnistName + " rotated by 15 to 180, mean"

func rotationData(degrees any) string { return fmt.Sprintf("%s rotated by %v", mnistName, degrees) }

func writeRotation(s *section) {
	trials := rotationTrials()
	rows := make([][]row, len(trials))
	for i, t := range trials {
		for _, degrees := range rotationAngles() {
			rows[i] = append(rows[i], s.at(place{"rotation", rotationData(degrees), t.row}))
		}
	}
	s.draw(picture{"rotation.svg", drawRotation(trials, rows)})
	s.write("![ECE over the angle of rotation](paper/rotation.svg)")
	s.write("2,500 evenly subsampled test digits, rotated about their centre with bilinear interpolation. Means over the networks; dropout with 20 runs. Nothing was tuned on rotated digits.")
	head := []string{"ECE %"}
	for _, degrees := range rotationAngles() {
		head = append(head, fmt.Sprintf("%d°", degrees))
	}
	t := numberTable(head...)
	for i, trial := range trials {
		cells := []string{trial.row}
		for j := range rotationAngles() {
			cells = append(cells, fmt.Sprintf("%.1f", 100*rows[i][j].over(eceOf).mean()))
		}
		t.row(cells...)
	}
	s.write("%s", t)
}

// measureShifts measures rows by trial and shifted set. at returns their places. A shift with the SPEC "" is the test
// data, which are measured in any case.
func (l *lab) measureShifts(ctx context.Context, set *benchmark, trials []trial, shifts []bench.NamedSpec,
	at func(shift string, t trial) place) ([][]row, error) {
	rows := make([][]row, len(trials)) // by trial and shift
	var order []request
	of := map[request][]int{} // trials
	for i, t := range trials {
		for _, shift := range shifts {
			rows[i] = append(rows[i], row{place: at(shift.Name, t)})
		}
		for _, q := range set.requests(t) {
			if of[q] == nil {
				order = append(order, q)
			}
			of[q] = append(of[q], i)
		}
	}
	// Networks of another kind, dropout, are slowest and come first, so that no processor idles at the end.
	slices.SortStableFunc(order, func(a, b request) int { return cmp.Compare(b.kind, a.kind) })
	isTest := func(s bench.NamedSpec) bool { return s.Spec == "" }
	others := slices.DeleteFunc(slices.Clone(shifts), isTest)
	made := make([]*bench.Evaluation, len(order))
	network := func(at int) string { return order[at].network() }
	err := runGrouped(ctx, len(order), network, func(ctx context.Context, at int) (err error) {
		var methods []string
		for _, i := range of[order[at]] {
			methods = append(methods, trials[i].method)
		}
		made[at], err = l.evaluate(ctx, order[at], methods, 1, nil, others)
		return err
	})
	if err != nil {
		return nil, err
	}
	for at, q := range order {
		e := made[at]
		for j, m := range e.Methods {
			i, next := of[q][j], 0
			for k, shift := range shifts {
				labelled := m.InDomain
				if !isTest(shift) {
					labelled = &m.Shifts[next].Labelled
					next++
				}
				a := answer{Damping: &e.Bundle.Damping}
				a.addLabelled(labelled)
				rows[i][k].Runs = append(rows[i][k].Runs, measurement{q.label(), trials[i].network, q.networks(), 0, a})
			}
		}
	}
	return rows, nil
}
