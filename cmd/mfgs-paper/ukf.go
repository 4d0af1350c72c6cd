package main

import "context"

func ukfTrials() []trial {
	trials := withDampings(trial{row: "mf0", method: "mf0"}, trial{row: "ukf", method: "ukf", maxNetworks: someNetworks})
	for i := range trials {
		if i > 1 {
			trials[i].maxNetworks = someNetworks
		}
	}
	return trials
}

func measureUKF(ctx context.Context, l *lab, s *section) error {
	return l.measureMNIST(ctx, s, "ukf", ukfTrials())
}

func writeUKF(s *section) {
	s.write("%s", render(s.of("ukf", mnistName, ukfTrials()), mnistColumns()...))
}
