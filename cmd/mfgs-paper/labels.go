package main

// Rows, data sets and claims are keys in paper.json, which other files refer to, and keep their first wording there.
// paper.md prints these labels.

// claimLabels are the labels of claims whose keys are worded otherwise.
var claimLabels = map[string]string{
	"mf0 tells notMNIST better than sampling":                                                         "mf0 has a higher AUROC on notMNIST than sampling",
	"mf1 and mf2 tell notMNIST better than sampling":                                                  "mf1 and mf2 have a higher AUROC on notMNIST than sampling",
	"sampling improves with more samples, 500 on 20":                                                  "sampling improves with more samples: 500 against 20",
	"mf0, mf1 and mf2 tell notMNIST equally well":                                                     "mf0, mf1 and mf2 have the same AUROC on notMNIST",
	"H⁻¹ tells notMNIST better than J⁻¹":                                                              "H⁻¹ has a higher AUROC on notMNIST than J⁻¹",
	"H⁻¹ tells notMNIST better than H⁻¹JH⁻¹":                                                          "H⁻¹ has a higher AUROC on notMNIST than H⁻¹JH⁻¹",
	"H⁻¹ tells notMNIST better than SWAG":                                                             "H⁻¹ has a higher AUROC on notMNIST than SWAG",
	"SWAG does as well as H⁻¹JH⁻¹":                                                                    "SWAG and H⁻¹JH⁻¹ have the same AUROC on notMNIST",
	"RUE tells notMNIST better than MLE":                                                              "RUE has a higher AUROC on notMNIST than MLE",
	"ensembles of five err less than mf0":                                                             "ensembles of five have a lower error than mf0",
	"likelihood wants T_act ≥ 1 (log₁₀ above 0)":                                                      "the best NLL has T_act ≥ 1 (log₁₀ above 0)",
	"likelihood wants T_ens ≤ 0.01 (log₁₀ below −2)":                                                  "the best NLL has T_ens ≤ 0.01 (log₁₀ below −2)",
	"T_act does more to NLL and ROC where T_ens is high":                                              "T_act has more effect on NLL and AUROC at high T_ens",
	"T_ens does more to NLL and ROC where T_act is low":                                               "T_ens has more effect on NLL and AUROC at low T_act",
	"the logits' variances of unfamiliar inputs are nearly the same, and far above their covariances": "on OOD inputs, the variances of the logits are nearly equal and much larger than their covariances",
	"mf0 tells notMNIST better than sampling, of however many layers (here M = 50)":                   "mf0 has a higher AUROC on notMNIST than sampling, for any number of layers (here M = 50)",
	"more layers than the last do not help mf0":                                                       "mf0 of more layers has no higher AUROC on notMNIST than mf0 of the last layer",
	"more layers than the last do not help sampling (here M = 50)":                                    "sampling of more layers has no higher AUROC on notMNIST than sampling of the last layer (here M = 50)",
	"mf0 has a lower NLL than other methods of one network":                                           "mf0 has a lower NLL than other single-network methods",
	"mf0 has a lower ECE than methods of one network":                                                 "mf0 has a lower ECE than single-network methods",
	"mf0 tells notMNIST better than methods of one network":                                           "mf0 has a higher AUROC on notMNIST than single-network methods",
	"mf0 tells notMNIST better than Bayesian networks":                                                "mf0 has a higher AUROC on notMNIST than Bayesian networks",
	"mf0 tells notMNIST better than ensembles of five":                                                "mf0 has a higher AUROC on notMNIST than ensembles of five",
	"mf0 tells notMNIST as well as far larger ensembles (here of nine)":                               "mf0 has no lower AUROC on notMNIST than far larger ensembles (here of nine)",
	"mf0 is on par with 500 networks, and these lead in domain":                                       "mf0 is on par with 500 networks on OOD data, and these are better in-distribution",
	"500 networks take 30 hours on a GPU, mf0 one network and seconds":                                "500 networks take 30 hours on a GPU; mf0 takes one network and seconds",
	"MLE, temperature scaling and EDL tell notMNIST worse than Bayesian networks and ensembles":       "MLE, temperature scaling and EDL have a lower AUROC on notMNIST than Bayesian networks and ensembles",
	"mf0 tells other data from CIFAR-10 better than other methods of one network":                     "mf0 has a higher AUROC on the OOD sets of CIFAR-10 than other single-network methods",
	"mf0 tells other data from CIFAR-10 better than ensembles (here of four)":                         "mf0 has a higher AUROC on the OOD sets of CIFAR-10 than ensembles (here of four)",
	"ensembles (here of four) err less than mf0 on CIFAR-10":                                          "ensembles (here of four) have a lower error than mf0 on CIFAR-10",
	"mf0 errs no more on CIFAR-10 than other methods of one network":                                  "mf0 has no higher error on CIFAR-10 than other single-network methods",
	"mf0 has no higher NLL on CIFAR-10 than other methods of one network":                             "mf0 has no higher NLL on CIFAR-10 than other single-network methods",
	"mf0 tells SVHN from CIFAR-10 and CIFAR-100, LSUN from both, and ImageNet-O best":                 "mf0 has the highest AUROC on SVHN and LSUN (for CIFAR-10 and CIFAR-100) and on ImageNet-O",
	"telling notMNIST wants a lower T_act than likelihood (log₁₀ of the ratio)":                       "the best AUROC on notMNIST has a lower T_act than the best NLL (log₁₀ of the ratio)",
	"telling notMNIST wants a lower T_ens than likelihood (log₁₀ of the ratio)":                       "the best AUROC on notMNIST has a lower T_ens than the best NLL (log₁₀ of the ratio)",
	"mf0 is better calibrated than others on rotated digits, or as well":                              "mf0 has no higher ECE on rotated digits than other methods",
	"mf0 tells notMNIST better than the unscented filter":                                             "mf0 has a higher AUROC on notMNIST than the unscented filter",

	"H⁻¹ tells notMNIST better than H⁻¹JH⁻¹ with the same damping (ρ = 1 and 0.01, interpolating networks)":              "H⁻¹ has a higher AUROC on notMNIST than H⁻¹JH⁻¹ with the same damping (ρ = 1 and 0.01, interpolating networks)",
	"the studentized margin, tuned on nothing, tells notMNIST as well as mf0 tuned on it":                                "the untuned studentized margin has no lower AUROC on notMNIST than mf0 tuned on it",
	"the studentized margin, tuned on nothing, tells other data from CIFAR-10 as well as mf0 tuned on them":              "the untuned studentized margin has no lower AUROC on the OOD sets of CIFAR-10 than mf0 tuned on them",
	"the studentized margin, tuned on nothing, tells other data as well as mf0 tuned on them, for a network under shift": "under shift, the untuned studentized margin has no lower AUROC on the OOD sets of CIFAR-10 than mf0 tuned on them",
	"mf0 tells noise from CIFAR-10 better than MLE, temperature scaling and BNN(KFAC)":                                   "mf0 has a higher AUROC on noise, for CIFAR-10, than MLE, temperature scaling and BNN(KFAC)",
	"mf0 tells other data better than MLE, temperature scaling and BNN(KFAC), for a network under shift":                 "under shift, mf0 has a higher AUROC on the OOD sets of CIFAR-10 than MLE, temperature scaling and BNN(KFAC)",
	"without letters to tune on, mf0 tells notMNIST better than the network and temperature scaling":                     "without OOD data to tune on, mf0 has a higher AUROC on notMNIST than the network and temperature scaling",
	"duplicates in notMNIST change nothing in how it is told":                                                            "duplicates in notMNIST do not change the AUROC",
	"Kronecker structure does as well as the full Hessian":                                                               "Kronecker structure has the same AUROC and NLL as the full Hessian",
}

// setLabels are the labels of OOD sets.
var setLabels = map[string]string{
	"notmnist": "notMNIST", "tinyimagenet": "Tiny-ImageNet", "mnist": "MNIST", "cifar10": "CIFAR-10", "gaussian noise": "Gaussian noise",
}

func setLabel(set string) string { return labelOf(setLabels, set) }

// detectionLabels are the labels of detection figures.
var detectionLabels = map[string]string{"ROC": "AUROC", "PR in : out": "AUPR in : out", "PR out": "AUPR out"}

// moreLabels are the labels of figures of a single part.
var moreLabels = map[string]string{
	"log10 T_act, ROC": "log10 T_act, AUROC", "log10 T_ens, ROC": "log10 T_ens, AUROC",
	"log10 T_act, ROC less NLL": "log10 T_act, AUROC minus NLL", "log10 T_ens, ROC less NLL": "log10 T_ens, AUROC minus NLL",
	"what T_act does to NLL, at the highest T_ens less at the lowest": "effect of T_act on NLL at the highest minus at the lowest T_ens",
	"what T_act does to ROC, at the highest T_ens less at the lowest": "effect of T_act on AUROC at the highest minus at the lowest T_ens",
	"what T_ens does to NLL, at the lowest T_act less at the highest": "effect of T_ens on NLL at the lowest minus at the highest T_act",
	"what T_ens does to ROC, at the lowest T_act less at the highest": "effect of T_ens on AUROC at the lowest minus at the highest T_act",
}

// labelOf returns the label of a key, or the key itself.
func labelOf[K ~string](labels map[K]string, key K) string {
	if l, ok := labels[key]; ok {
		return l
	}
	return string(key)
}
