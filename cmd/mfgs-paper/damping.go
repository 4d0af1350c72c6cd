package main

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
)

// equalDampings are the dampings at which covariances are compared, in units of the mean eigenvalue of H.
var equalDampings = []float64{1, .01}

func dampingTrials() []trial {
	var trials []trial
	for _, rho := range equalDampings {
		for _, c := range []struct {
			name string
			of   calibrate.Covariance
		}{{"H^-1", calibrate.Hessian}, {"H^-1JH^-1", calibrate.Sandwich}} {
			trials = append(trials, trial{
				row: fmt.Sprintf("%s, rho = %g", c.name, rho), method: "mf0", maxNetworks: someNetworks,
				posterior: posterior{covariance: c.of, damping: calibrate.Damping{Relative: rho}},
			})
		}
	}
	return trials
}

func measureDamping(ctx context.Context, l *lab, s *section) error {
	return l.measureMNIST(ctx, s, "damping", dampingTrials())
}

func writeDamping(s *section) {
	s.write("H⁻¹ and the sandwich with the same damping, ρ in units of the mean eigenvalue of H, instead of a damping chosen for each by validation likelihood. " +
		"Which of them has the higher AUROC on notMNIST depends on ρ.")
	s.write("%s", render(s.of("damping", mnistName, dampingTrials()), mnistColumns()...))
}
