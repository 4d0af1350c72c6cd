package main

// Rows and data sets are keys in paper.json, which other files refer to, and keep their first wording there.
// paper.md prints these labels.

// setLabels are the labels of OOD sets.
var setLabels = map[string]string{
	"notmnist": "notMNIST", "tinyimagenet": "Tiny-ImageNet", "mnist": "MNIST", "cifar10": "CIFAR-10", "gaussian noise": "Gaussian noise",
	"romance": "Romance languages", "others": "other languages",
}

func setLabel(set string) string { return labelOf(setLabels, set) }

// detectionLabels are the labels of detection figures.
var detectionLabels = map[string]string{"ROC": "AUROC", "PR in : out": "AUPR in : out", "PR out": "AUPR out"}

// moreLabels are the labels of figures of a single part.
var moreLabels = map[string]string{
	"log10 T_act, ROC": "log10 T_act, AUROC", "log10 T_ens, ROC": "log10 T_ens, AUROC",
	"log10 T_act, ROC less NLL": "log10 T_act, AUROC minus NLL", "log10 T_ens, ROC less NLL": "log10 T_ens, AUROC minus NLL",
}

// labelOf returns the label of a key, or the key itself.
func labelOf[K ~string](labels map[K]string, key K) string {
	if l, ok := labels[key]; ok {
		return l
	}
	return string(key)
}
