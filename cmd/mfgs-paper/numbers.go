package main

import "math"

// Names of data sets, as in paper.json.
const (
	mnistName    = "MNIST"
	cifar10Name  = "CIFAR-10"
	cifar100Name = "CIFAR-100"
	imagenetName = "ImageNet"

	notMNIST  = "notmnist"
	lsun      = "lsun"
	svhn      = "svhn"
	imagenetO = "imagenet-o"
)

// A paperRow is a row of the paper's tables.
type paperRow struct {
	place
	figures
}

// paperTable holds the numbers of the paper's tables, rows in their order there. Table 3
// and its extension in the appendix are one.
var paperTable = func() []paperRow {
	var all []paperRow
	mnist := func(table, name string, err, nll, ece float64, ood ...float64) {
		all = append(all, paperRow{place{table, mnistName, name},
			percent(err, nll, ece, map[string][]float64{notMNIST: ood})})
	}
	mnist("1", "M=20", 1.7, .06, .4, 87.6, 93.5, 91.7, 94.3)
	mnist("1", "M=100", 1.7, .05, .5, 90.1, 95.6, 94.6, 96.1)
	mnist("1", "M=500", 1.7, .05, .5, 90.8, 96.2, 95.8, 96.5)
	mnist("1", "mf0", 1.7, .05, .2, 91.9, 96.9, 96.7, 97.0)
	mnist("1", "mf1", 1.7, .05, .5, 91.9, 96.9, 96.7, 97.0)
	mnist("1", "mf2", 1.7, .05, .5, 91.9, 96.9, 96.7, 97.0)
	mnist("1", "J^-1", 1.7, .05, .2, 90.8, 96.1, 95.9, 96.2)
	mnist("1", "H^-1JH^-1", 1.7, .05, .3, 87.0, 93.4, 92.1, 94.0)
	mnist("1", "SWAG", 1.6, .05, .3, 87.6, 93.3, 91.5, 94.0)

	mnist("2", "M=500, last layer", 1.7, .05, .5, 90.8, 96.2, 95.8, 96.5)
	mnist("2", "M=500, top two layers", 1.7, .05, .5, 90.9, 96.2, 96.0, 96.4)
	mnist("2", "M=500, all three layers", 1.7, .06, .4, 87.5, 92.5, 87.0, 93.5)
	mnist("2", "mf0, last layer", 1.7, .05, .2, 91.9, 96.9, 96.7, 97.0)
	mnist("2", "mf0, top two layers", 1.7, .05, .3, 91.9, 96.9, 96.7, 97.0)
	mnist("2", "mf0, all three layers", 1.7, .05, .3, 91.9, 96.9, 96.8, 97.0)

	mnist("4", "Deep E.(5)", 1.3, .05, .3, 86.5, 88.0, 70.4, 92.8)
	mnist("4", "Deep E.(500)", 1.2, .04, .2, 92.9, 96.1, 90.6, 96.6)
	mnist("4", "JKnife(500)", 1.2, .04, .3, 93.4, 96.6, 91.8, 97.0)
	mnist("4", "RUE", 1.7, .08, .9, 61.1, 64.7, 60.5, 68.4)
	mnist("4", "MLE", 1.7, .10, 1.2, 67.6, 53.8, 40.1, 72.5)
	mnist("4", "T. Scale", 1.7, .06, .7, 67.4, 66.7, 48.8, 77.0)
	mnist("4", "EDL", 1.8, .09, 1.1, 83.1, 80.9, 59.8, 90.1)
	mnist("4", "Dropout", 1.7, .06, .7, 88.8, 91.4, 78.7, 93.5)
	mnist("4", "BNN(VI)", 1.7, .14, 1.1, 86.9, 81.1, 59.8, 89.9)
	mnist("4", "BNN(KFAC)", 1.7, .06, .2, 88.7, 93.5, 89.1, 93.8)
	mnist("4", "mf0", 1.7, .05, .2, 91.9, 96.9, 96.7, 97.0)

	mnist("ukf", "mf0", 1.67, .05, .20, 91.93, 96.91, 96.67, 96.99)
	mnist("ukf", "ukf", 1.67, .05, .42, 89.07, 96.37, 95.32, 97.42)

	large := func(name string, cifar, imagenet, versusLSUN, versusO []float64) {
		all = append(all,
			paperRow{place{"3", cifar100Name, name},
				percent(cifar[0], cifar[1], cifar[2], map[string][]float64{lsun: versusLSUN})},
			paperRow{place{"3", imagenetName, name},
				percent(imagenet[0], imagenet[1], imagenet[2], map[string][]float64{imagenetO: versusO})})
	}
	type f = []float64
	large("Deep E.(5)", f{19.6, .71, 2.00}, f{21.2, .83, 3.10}, f{74.4, 82.3, 85.7, 77.8}, f{60.1, 50.6, 78.9, 25.7})
	large("RUE", f{24.3, .99, 8.60}, f{23.6, .92, 2.83}, f{75.2, 83.0, 86.7, 77.8}, f{58.4, 51.6, 78.3, 26.3})
	large("MLE", f{24.3, 1.03, 10.4}, f{23.7, .92, 3.03}, f{72.7, 80.0, 83.5, 75.2}, f{58.4, 51.6, 78.4, 26.3})
	large("T. Scale", f{24.3, .92, 3.13}, f{23.7, .92, 2.09}, f{76.6, 84.3, 86.7, 80.3}, f{58.5, 54.5, 79.2, 27.8})
	large("Dropout", f{23.7, .84, 3.43}, f{24.9, .99, 1.62}, f{69.8, 77.3, 81.1, 72.9}, f{59.5, 51.7, 79.0, 26.3})
	large("BNN(VI)", f{25.6, .98, 8.35}, f{26.5, 1.17, 4.41}, f{62.5, 67.7, 71.4, 63.1}, f{57.8, 52.0, 75.7, 26.8})
	large("BNN(KFAC)", f{24.1, .89, 3.36}, f{23.6, .92, 2.95}, f{72.9, 80.4, 83.9, 75.5}, f{60.3, 53.1, 79.6, 26.9})
	large("mf0", f{24.3, .91, 1.49}, f{23.7, .91, .93}, f{82.2, 89.9, 92.0, 86.6}, f{63.2, 62.9, 83.5, 33.3})
	large("mf1", f{24.3, .91, 2.20}, f{23.7, .91, 1.17}, f{82.2, 89.9, 92.0, 86.6}, f{63.2, 62.9, 83.5, 33.3})
	large("mf2", f{24.3, .91, 2.22}, f{23.7, .91, 1.17}, f{82.2, 89.9, 92.0, 86.6}, f{63.2, 62.9, 83.5, 33.3})

	cifar10 := func(name string, err, nll, ece float64, versusLSUN, versusSVHN []float64) {
		all = append(all, paperRow{place{"cifar10", cifar10Name, name},
			percent(err, nll, ece, map[string][]float64{lsun: versusLSUN, svhn: versusSVHN})})
	}
	cifar10("Deep E.(5)", 6.66, .20, 1.37, f{88.0, 94.4, 95.9, 92.1}, f{88.7, 93.4, 92.4, 94.8})
	cifar10("RUE", 8.71, .28, 1.87, f{85.0, 91.3, 93.8, 87.8}, f{86.3, 90.7, 89.5, 92.6})
	cifar10("MLE", 8.81, .30, 3.59, f{85.0, 91.3, 93.8, 87.8}, f{86.3, 90.7, 89.5, 92.6})
	cifar10("T. Scale", 8.81, .26, .52, f{89.0, 95.3, 96.5, 93.4}, f{88.9, 94.0, 92.7, 95.0})
	cifar10("Dropout", 8.83, .26, .58, f{81.8, 88.6, 91.7, 84.3}, f{86.0, 91.6, 90.1, 94.0})
	cifar10("BNN(VI)", 11.09, .33, 1.57, f{79.9, 87.3, 90.5, 83.3}, f{85.7, 91.4, 89.5, 93.9})
	cifar10("BNN(LL-VI)", 8.94, .33, 4.15, f{84.6, 91.0, 93.5, 87.2}, f{87.8, 93.3, 91.7, 95.4})
	cifar10("BNN(KFAC)", 8.75, .29, 3.45, f{85.0, 91.3, 93.8, 87.8}, f{86.3, 90.7, 89.5, 92.6})
	cifar10("mf0", 8.81, .26, .56, f{91.0, 96.4, 97.4, 94.8}, f{89.7, 94.6, 93.3, 95.3})

	cifar100 := func(name string, ood ...float64) {
		var f figures
		f.OOD = map[string]detection{svhn: percentDetection(ood)}
		all = append(all, paperRow{place{"cifar100", cifar100Name, name}, f})
	}
	cifar100("Deep E.(5)", 75.99, 83.48, 77.75, 88.85)
	cifar100("RUE", 73.90, 80.69, 74.03, 86.93)
	cifar100("MLE", 73.90, 80.69, 74.03, 86.93)
	cifar100("T. Scale", 76.94, 83.43, 77.53, 88.11)
	cifar100("Dropout", 74.13, 81.87, 75.78, 88.07)
	cifar100("BNN(VI)", 71.87, 79.55, 72.08, 87.27)
	cifar100("BNN(KFAC)", 74.13, 80.97, 74.46, 87.06)
	cifar100("mf0", 81.38, 88.04, 84.59, 91.23)
	return all
}()

// percent converts the paper's units to fractions and nats.
func percent(err, nll, ece float64, ood map[string][]float64) figures {
	err, ece = fraction(err), fraction(ece)
	f := figures{Error: &err, NLL: &nll, ECE: &ece, OOD: map[string]detection{}}
	for name, t := range ood {
		f.OOD[name] = percentDetection(t)
	}
	return f
}

// percentDetection takes accuracy, ROC, PR in and PR out, in per cent.
func percentDetection(t []float64) detection {
	return detection{fraction(t[0]), fraction(t[1]), fraction(t[2]), fraction(t[3])}
}

// fraction converts per cent with at most two decimals to a fraction.
func fraction(percent float64) float64 { return math.Round(100*percent) / 1e4 }

// paperFigures returns the paper's figures for a row, nil if it has no such row.
func paperFigures(p place) *figures {
	for _, r := range paperTable {
		if r.place == p {
			return &r.figures
		}
	}
	return nil
}

// paperRowNames returns the names of the rows of one of the paper's tables, in order.
func paperRowNames(table, data string) []string {
	var names []string
	for _, r := range paperTable {
		if r.table == table && r.data == data {
			names = append(names, r.row)
		}
	}
	return names
}
