package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/chart"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// heatMapRow is the only row: the paper's method and damping on networks that do not interpolate.
var heatMapRow = place{"heatmap", mnistName, "mf0, eps = 1"}

func measureHeatMaps(ctx context.Context, l *lab, s *section) error {
	set := l.mnist()
	r := row{place: heatMapRow}
	for i, seed := range set.seedsOf(trial{network: short}) {
		papers := posterior{damping: calibrate.Damping{Absolute: 1}}
		q := request{subject: subject{set: set, kind: short, seed: seed, posterior: papers}}
		report, err := l.calibrate(ctx, q.subject, false)
		if err != nil {
			return err
		}
		b, err := bundle.Open(report.Bundle)
		if err != nil {
			return err
		}
		m := &b.Manifest
		if m.Grids == nil || m.Grids.NLL == nil || m.Grids.AUROC == nil || report.Temperatures.Optimum == nil {
			return fmt.Errorf("%s: the bundle has no grids of temperatures", report.Bundle)
		}
		a := answer{figures: figures{More: temperatureFigures(report, m)}, Damping: &m.Damping}
		r.Runs = append(r.Runs, measurement{q.label(), short, q.networks(), 0, a})
		if i == 0 {
			s.Measured = heatMaps(report, m)
		}
	}
	s.add(r)
	return nil
}

// temperatureFigures returns the best temperatures of a bundle, and the effect of each when the other is high or low.
func temperatureFigures(r *calibration.Report, m *bundle.Manifest) map[string]float64 {
	nll, roc := *r.Temperatures.Optimum, r.Temperatures.OOD
	all := map[string]float64{
		"log10 T_act, NLL": math.Log10(nll.Act), "log10 T_ens, NLL": math.Log10(nll.Ens),
		"log10 T_act, ROC": math.Log10(roc.Act), "log10 T_ens, ROC": math.Log10(roc.Ens),
		"log10 T_act, ROC less NLL": math.Log10(roc.Act / nll.Act), "log10 T_ens, ROC less NLL": math.Log10(roc.Ens / nll.Ens),
	}
	extent := func(values []float64) float64 { return slices.Max(values) - slices.Min(values) }
	for name, g := range map[string]*calibrate.Grid{"NLL": m.Grids.NLL, "AUROC": m.Grids.AUROC} {
		column := func(j int) (of []float64) {
			for i := range g.Act {
				of = append(of, g.Value[i][j])
			}
			return of
		}
		all["effect of T_act on "+name+" at the highest minus at the lowest T_ens"] = extent(column(len(g.Tau)-1)) - extent(column(0))
		all["effect of T_ens on "+name+" at the lowest minus at the highest T_act"] = extent(g.Value[0]) - extent(g.Value[len(g.Act)-1])
	}
	return all
}

func heatMaps(r *calibration.Report, m *bundle.Manifest) []picture {
	drawn := func(g *calibrate.Grid, best layer.Temperatures, h chart.Heat) []byte {
		h.X, h.Y, h.Cell = "T_ens, ensemble temperature", "T_act, activation temperature", 52
		h.Rows, h.Values, h.Best = g.Act, g.Value, [2]float64{best.Ens, best.Act}
		for _, tau := range g.Tau {
			h.Columns = append(h.Columns, tau*m.MeanField.MedianVariance)
		}
		return h.Document()
	}
	return []picture{
		{"heatmap-nll.svg", drawn(m.Grids.NLL, *r.Temperatures.Optimum, chart.Heat{
			Name: "Validation NLL of mf0", Unit: "nats", Log: true, Format: "%.2g",
		})},
		{"heatmap-auroc.svg", drawn(m.Grids.AUROC, r.Temperatures.OOD, chart.Heat{
			Name: "Validation AUROC of mf0, MNIST against notMNIST", Unit: "AUROC", Format: "%.3f",
		})},
	}
}

func writeHeatMaps(s *section) {
	s.write("![Validation NLL over T_act and T_ens](paper/heatmap-nll.svg)")
	s.write("![Validation AUROC over T_act and T_ens](paper/heatmap-auroc.svg)")
	r := s.at(heatMapRow)
	of := func(key string) string {
		var all []string
		for _, v := range r.over(moreOf(key, true)) {
			all = append(all, fmt.Sprintf("%.2g", math.Pow(10, v)))
		}
		return strings.Join(all, ", ")
	}
	s.write("mf0 on the validation data of the first network that does not interpolate, with H⁻¹ of the last layer and the paper's damping, on the grid that mfgs searches. "+
		"The star is the best pair, refined from the best cell. (T_ens = ∞, T_act = 1) is MLE. The best pairs for each network: for NLL T_act = %s and T_ens = %s; "+
		"for AUROC on notMNIST T_act = %s and T_ens = %s.",
		of("log10 T_act, NLL"), of("log10 T_ens, NLL"), of("log10 T_act, ROC"), of("log10 T_ens, ROC"))
}
