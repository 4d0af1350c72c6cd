package main

import (
	"context"
	"fmt"
	"slices"
)

// ensembleSizes are limited by the number of networks.
var ensembleSizes = []int{1, 2, 3, 5, 9, 10}

func ensembleTrials() []trial {
	var trials []trial
	for _, m := range ensembleSizes {
		trials = append(trials, trial{row: fmt.Sprintf("Deep E.(%d)", m), method: "ensemble", ensembleSize: m})
	}
	return trials
}

func table4Trials() []trial {
	trials := append(ensembleTrials(), []trial{
		{row: "RUE", method: "rue:50", maxNetworks: someNetworks, note: "M = 50 (paper: 500)"},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "EDL", method: "edl", evaluated: evidentialKind},
		{row: "Dropout", method: "dropout:20", network: dropoutKind, posterior: cheapestPosterior, note: "network trained with dropout; M = 20 (paper: 500)"},
		{row: "BNN(VI)", method: "bnn-vi:20", evaluated: variationalKind, note: "network trained variationally, all layers, KL term weighted by 0.1; M = 20 (paper: 500)"},
		{row: "BNN(KFAC)", method: "bnn-kfac:20", layers: 3, maxNetworks: moreNetworks, note: "all layers; M = 20 (paper: 500)"},
	}...)
	trials = append(trials, withDampings(trial{row: "mf0", method: "mf0"})...)
	trials[len(trials)-1].maxNetworks = someNetworks
	return append(trials,
		trial{row: "leverage", method: "leverage", note: "from mfgs, not the paper: an OOD score without probabilities"},
		trial{row: "studentized", method: "studentized", note: "likewise; the default OOD score of mfgs"})
}

// lastLayerTrials replace ensembles of hundreds of networks.
func lastLayerTrials() []trial {
	return []trial{
		{row: "Deep E.(20), last layers", paper: "Deep E.(500)", method: "ensemble-ll:20", maxNetworks: 1, oneDraw: true},
		{row: "JKnife(20), last layers", paper: "JKnife(500)", method: "jackknife-ll:20", maxNetworks: 1, oneDraw: true},
	}
}

func measureTable4(ctx context.Context, l *lab, s *section) error {
	return l.measureMNIST(ctx, s, "4", slices.Concat(table4Trials(), lastLayerTrials()))
}

func writeTable4(s *section) {
	s.write("Deep E.(M) is the mean over M networks trained from different seeds, with T_act tuned as for mf0; Deep E.(1) is one network with that tuning. " +
		"If M is smaller than the number of networks, each run of M consecutive seeds, cyclically, is one ensemble, so every network is used equally often. " +
		"± is over these ensembles, which share networks; the intervals of claims leave out one network at a time instead.")
	s.write("%s", render(s.of("4", mnistName, table4Trials()), mnistColumns()...))
	s.write("### Ensembles of last layers")
	s.write("The paper trains 500 networks. Here, 20 last layers were fitted on the features of one network. They differ far less than networks do, " +
		"so they cannot be compared with the paper's rows, and no claim uses them.")
	s.write("%s", render(s.of("4", mnistName, lastLayerTrials()), mnistColumns()...))
}
