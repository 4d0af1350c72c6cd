package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
)

// table1Trials are the upper and lower half of the table. The paper's damping is measured on few networks, and
// without sampling: on interpolating networks it makes H⁻¹ and J⁻¹ multiples of I.
func table1Trials() (sampling, covariances []trial) {
	sampling = []trial{
		{row: "M=20", method: "mc:20"},
		{row: "M=100", method: "mc:100"},
		{row: "M=500", method: "mc:500"},
	}
	sampling = append(sampling, withDampings(
		trial{row: "mf0", method: "mf0"},
		trial{row: "mf1", method: "mf1", maxNetworks: someNetworks},
		trial{row: "mf2", method: "mf2", maxNetworks: someNetworks},
	)...)
	covariances = withDampings(
		trial{row: "J^-1", method: "mf0", maxNetworks: someNetworks, posterior: posterior{covariance: calibrate.Fisher}},
		trial{
			row: "H^-1JH^-1", method: "mf0", maxNetworks: someNetworks,
			posterior: posterior{covariance: calibrate.Sandwich},
		},
	)
	covariances = append(covariances,
		trial{row: "SWAG", method: "mf0@swag", maxNetworks: someNetworks, note: "covariance of the weights over 20 epochs of training, in which weights of about 0.19 move by 0.002; no damping"},
		trial{
			row: "mf0, kron", paper: "mf0", method: "mf0", maxNetworks: someNetworks,
			posterior: posterior{structure: calibrate.Kronecker}, note: "Kronecker-factored H⁻¹",
		},
	)
	for _, half := range [][]trial{sampling, covariances} {
		for i := range half {
			if t := &half[i]; t.damping != (calibrate.Damping{}) && t.method == "mf0" {
				t.maxNetworks = someNetworks
			} else if t.damping != (calibrate.Damping{}) {
				t.maxNetworks = 1 // no claim depends on them
			}
		}
	}
	return sampling, covariances
}

func measureTable1(ctx context.Context, l *lab, s *section) error {
	upper, lower := table1Trials()
	return l.measureMNIST(ctx, s, "1", slices.Concat(upper, lower))
}

func writeTable1(s *section) {
	upper, lower := table1Trials()
	sampling, covariances := s.of("1", mnistName, upper), s.of("1", mnistName, lower)
	s.write("Sampling and the three closed-form approximations of the same integral, with H⁻¹ of the last layer:")
	s.write("%s", render(sampling, mnistColumns()...))
	s.write("mf0 with other covariances:")
	s.write("%s", render(covariances, mnistColumns()...))
	s.write("%s", chosenDampings(slices.Concat(sampling, covariances)))
	s.write("These networks interpolate: their training loss is about 1e-9 (seed 7: 4.6e-7), and H and J nearly vanish. The paper's ε = 1 is then ρ = %s times the "+
		"mean eigenvalue of H on the three networks, so H⁻¹ and J⁻¹ are close to I / ε, and the sandwich to J / ε². The rows with eps = 1 are for information only (mf1 and mf2 on one network): "+
		"claims about covariances use eps = 1 only on networks that do not interpolate.", rhos(s.at(place{"1", mnistName, "mf0, eps = 1"})))
}

// rhos lists the dampings of a row in units of the mean eigenvalue.
func rhos(r row) string {
	var all []string
	for _, run := range r.Runs {
		all = append(all, fmt.Sprintf("%.3g", run.Damping.Rho))
	}
	return strings.Join(all, ", ")
}

// chosenDampings lists the automatically chosen dampings.
func chosenDampings(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		name := map[string]string{"mf0": "H⁻¹", "J^-1": "J⁻¹", "H^-1JH^-1": "H⁻¹JH⁻¹"}[r.row]
		if name == "" {
			continue
		}
		var each []string
		for _, run := range r.Runs {
			each = append(each, fmt.Sprintf("ρ = %.3g (ε = %.2g)", run.Damping.Rho, run.Damping.Epsilon))
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, strings.Join(slices.Compact(each), ", "))
	}
	return "Damping chosen by validation likelihood, for each network; ρ is in units of the mean eigenvalue:\n\n" + b.String()
}

// mnistColumns are the columns of tables on MNIST and notMNIST.
func mnistColumns() []column {
	return slices.Concat(inDomain, detectionColumns(notMNIST, false), detectionColumns(notMNIST, true))
}

// measureMNIST measures the rows of a table on MNIST.
func (l *lab) measureMNIST(ctx context.Context, s *section, table string, trials []trial) error {
	rows, err := l.measure(ctx, table, l.mnist(), trials)
	s.add(rows...)
	return err
}
