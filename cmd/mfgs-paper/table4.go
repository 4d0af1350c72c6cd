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
		{row: "RUE", method: "rue:50", maxNetworks: someNetworks, note: "M = 50, where the paper has 500"},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "EDL", method: "edl", evaluated: evidentialKind},
		{row: "Dropout", method: "dropout:20", network: dropoutKind, posterior: cheapestPosterior, note: "a network trained with dropout; M = 20, where the paper has 500"},
		{row: "BNN(VI)", method: "bnn-vi:20", evaluated: variationalKind, note: "a network trained so, all layers, the divergence from the prior weighed by 0.1; M = 20, where the paper has 500"},
		{row: "BNN(KFAC)", method: "bnn-kfac:20", layers: 3, maxNetworks: moreNetworks, note: "all layers; M = 20, where the paper has 500; tuned on a fifth of the held-out data"},
	}...)
	trials = append(trials, withDampings(trial{row: "mf0", method: "mf0"})...)
	trials[len(trials)-1].maxNetworks = someNetworks
	return append(trials,
		trial{row: "leverage", method: "leverage", note: "of mfgs, not of the paper: it tells unfamiliar inputs and gives no probabilities"},
		trial{row: "studentized", method: "studentized", note: "likewise; the score that mfgs serves unless told otherwise"})
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
	s.write("Deep E.(M) is the mean over M whole networks, each trained from a seed of its own, with T_act tuned as for mf0; Deep E.(1) is a single network " +
		"so. Of fewer networks than there are, every run of M in the circle of seeds is one ensemble, so that all networks have the same part. " +
		"± is over these, which share networks: the intervals of claims leave out one network at a time instead.")
	s.write("%s", render(s.of("4", mnistName, table4Trials()), mnistColumns()...))
	s.write("### Last layers in the place of networks")
	s.write("Where the paper trains 500 whole networks, 20 last layers were fitted here on the features of one: they differ far less " +
		"than networks do, and say nothing of the paper's rows. No claim is judged by them.")
	s.write("%s", render(s.of("4", mnistName, lastLayerTrials()), mnistColumns()...))
}
