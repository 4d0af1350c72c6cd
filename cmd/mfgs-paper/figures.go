package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/report/chart"
)

func figureHeatMaps(ctx context.Context, l *lab, s *section) error {
	// The paper's damping, so that its temperatures can be compared.
	subject := subject{set: l.mnist(), seed: l.seeds[0], posterior: posterior{damping: calibrate.Damping{Absolute: 1}}}
	report, err := l.calibrate(ctx, subject)
	if err != nil {
		return err
	}
	b, err := bundle.Open(report.Bundle)
	if err != nil {
		return err
	}
	m := b.Manifest
	if m.Grids == nil || m.Grids.NLL == nil || m.Grids.AUROC == nil || report.Temperatures.Optimum == nil {
		return fmt.Errorf("%s: the bundle keeps no grids of temperatures", report.Bundle)
	}
	drawn := func(g *calibrate.Grid, best calibrate.Temperatures, h chart.Heat) []byte {
		h.X, h.Y, h.Cell = "T_ens, ensemble temperature", "T_act, activation temperature", 52
		h.Rows, h.Values, h.Best = g.Act, g.Value, [2]float64{best.Ens, best.Act}
		for _, tau := range g.Tau {
			h.Columns = append(h.Columns, tau*m.MeanField.MedianVariance)
		}
		return h.Document()
	}
	nll, auroc := *report.Temperatures.Optimum, report.Temperatures.OOD
	s.pictures = append(s.pictures,
		picture{"heatmap-nll.svg", drawn(m.Grids.NLL, nll, chart.Heat{
			Name: "Held-out NLL of mf0", Unit: "nats", Log: true, Format: "%.2g",
		})},
		picture{"heatmap-auroc.svg", drawn(m.Grids.AUROC, auroc, chart.Heat{
			Name: "Held-out AUROC of mf0, MNIST against notMNIST", Unit: "AUROC", Format: "%.3f",
		})})
	s.write("![Held-out NLL over T_act and T_ens](paper/heatmap-nll.svg)")
	s.write("![Held-out AUROC over T_act and T_ens](paper/heatmap-auroc.svg)")
	s.write("The held-out data of seed %d under mf0 with H⁻¹ of the last layer and the paper's damping, on the grid that mfgs searches; the star marks the best pair, refined from "+
		"the best cell: T_act = %.3g, T_ens = %.3g for likelihood, T_act = %.3g, T_ens = %.3g for telling notMNIST. (T_ens = ∞, T_act = 1) is MLE. "+
		"Where pairs cannot be told apart on held-out likelihood mfgs takes the one with the smallest T_ens: T_act = %.3g, T_ens = %.3g here.",
		subject.seed, nll.Act, nll.Ens, auroc.Act, auroc.Ens, report.Temperatures.NLL.Act,
		report.Temperatures.NLL.Ens)
	s.claims = append(s.claims, temperatureClaims(nll, auroc)...)
	return nil
}

// turns are the angles of the third figure, in degrees.
func turns() []int {
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
		{row: "Deep E.(5)", method: "ensemble", joint: 5},
		{row: "Dropout", method: "dropout:20", network: "dropout"},
		{row: "mf0", method: "mf0"},
	}
}

// drawRotation draws the rows of each trial, one for each turn.
func drawRotation(trials []trial, rows [][]row) []byte {
	c := chart.Chart{
		Name: "ECE on MNIST's test digits, rotated", Width: 640, Height: 420,
		X: chart.Axis{Label: "rotation in degrees", Max: 180}, Y: chart.Axis{Label: "ECE in %", Percent: true},
	}
	for i, t := range trials {
		stroke := chart.Strokes[i%len(chart.Strokes)]
		line := chart.Series{Name: t.row, Tone: stroke.Tone, Dashes: stroke.Dashes}
		for j, degrees := range turns() {
			line.X = append(line.X, float64(degrees))
			line.Y = append(line.Y, rows[i][j].over(eceOf).mean())
		}
		c.Series = append(c.Series, line)
	}
	return c.Document()
}

func figureRotation(ctx context.Context, l *lab, s *section) error {
	set := l.mnist()
	g, err := readGallery(ctx, set.test)
	if err != nil {
		return err
	}
	l.say("rotating %d images", g.len())
	var shifts []bench.NamedSpec
	for _, degrees := range turns() {
		spec, err := g.writeRotated(filepath.Join(l.scratch, "rotated"), degrees)
		if err != nil {
			return err
		}
		shifts = append(shifts, bench.NamedSpec{Name: fmt.Sprint(degrees), Spec: spec})
	}
	trials := rotationTrials()
	rows, err := l.measureShifts(ctx, set, l.seeds, trials, shifts, func(degrees string, t trial) place {
		return place{"rotation", set.name + " rotated by " + degrees, t.row}
	})
	if err != nil {
		return err
	}
	for i, t := range trials {
		s.add(rows[i]...)
		s.add(across(place{"rotation", acrossName, t.row}, rows[i][1:]))
	}
	s.pictures = append(s.pictures, picture{"rotation.svg", drawRotation(trials, rows)})
	s.write("![ECE over the angle of rotation](paper/rotation.svg)")
	s.write("The test digits turned about their centre, with bilinear interpolation; means over the networks, dropout by 20 runs. Nothing was tuned on rotated digits.")
	head := []string{"ECE %"}
	for _, degrees := range turns() {
		head = append(head, fmt.Sprintf("%d°", degrees))
	}
	t := newTable(head...)
	for i, trial := range trials {
		cells := []string{trial.row}
		for j := range turns() {
			cells = append(cells, fmt.Sprintf("%.1f", 100*rows[i][j].over(eceOf).mean()))
		}
		t.row(cells...)
	}
	s.write("%s", t)
	return nil
}

// measureShifts makes the rows of each trial, one for each shifted set, over the networks of some seeds.
// at names them.
func (l *lab) measureShifts(ctx context.Context, set *benchmark, seeds []int, trials []trial, shifts []bench.NamedSpec,
	at func(shift string, t trial) place) ([][]row, error) {
	rows := make([][]row, len(trials)) // by trial and shift
	for i, t := range trials {
		for _, shift := range shifts {
			rows[i] = append(rows[i], row{place: at(shift.Name, t)})
		}
	}
	for i, seed := range seeds {
		for _, kind := range []string{"", "dropout"} {
			q := request{subject: subject{set: set, kind: kind, seed: seed}}
			var methods []string
			var of []int // trials
			for j, t := range trials {
				if t.network == kind && (i == 0 || t.joint == 0) {
					methods, of = append(methods, t.method), append(of, j)
					if t.joint > 0 {
						q.members = members{0, t.joint}
					}
				}
			}
			if len(methods) == 0 {
				continue
			}
			e, err := l.evaluate(ctx, q, methods, nil, shifts)
			if err != nil {
				return nil, err
			}
			for j, m := range e.Methods {
				own := q
				if trials[of[j]].joint == 0 {
					own.members = members{}
				}
				for k, in := range m.Shifts {
					a := answer{damping: &e.Bundle.Damping}
					a.Error, a.NLL, a.ECE, a.DebiasedCE, a.AURC = &in.Error, &in.NLL, &in.ECE, &in.DebiasedCE, &in.AURC
					if d, ok := in.Differences["ts"]["nll"]; ok {
						a.overTS = &d
					}
					r := &rows[of[j]][k]
					r.runs = append(r.runs, measurement{own.label(), a})
				}
			}
		}
	}
	return rows, nil
}

// across is a row of the means of others, network by network.
func across(p place, rows []row) row {
	all := row{place: p}
	for i, first := range rows[0].runs {
		one := row{}
		for _, r := range rows {
			one.runs = append(one.runs, r.runs[i])
		}
		all.runs = append(all.runs, measurement{first.seed, answer{figures: one.mean(), damping: first.damping}})
	}
	return all
}
