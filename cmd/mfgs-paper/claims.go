package main

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
)

// variants are the tables that hold both mf0 and sampling, with the suffixes of their rows. The paper's damping is
// judged on networks that do not interpolate only.
var variants = []struct{ table, suffix, where string }{
	{"1", "", "interpolating networks"},
	{"short", ", eps = 1", "networks that do not interpolate, eps = 1"},
}

// inVariants contrasts a row with others in all variants.
func inVariants(q quantity, a string, others ...string) (all []contrast) {
	for _, v := range variants {
		for _, b := range others {
			if b == "M=500" && v.table != "1" {
				continue
			}
			all = append(all, contrast{v.table, mnistName, a + v.suffix, b + v.suffix, q, v.where})
		}
	}
	return all
}

// inTable contrasts a row with others of one table.
func inTable(table, data string, q quantity, a string, others ...string) (all []contrast) {
	for _, b := range others {
		all = append(all, contrast{table, data, a, b, q, data})
	}
	return all
}

// onOODSets contrasts the AUROC of rows on OOD sets of CIFAR-10.
func onOODSets(data string, sets []string, a string, others ...string) (all []contrast) {
	for _, set := range sets {
		for _, b := range others {
			all = append(all, contrast{"cifar10", data, a, b, rocOf(set), data + ", " + set})
		}
	}
	return all
}

// heatMapContrast compares a figure of the heat maps with 0.
func heatMapContrast(key string, higher bool) []contrast {
	return []contrast{{heatMapRow.table, heatMapRow.data, heatMapRow.row, "", moreOf(key, higher), ""}}
}

// imageSets replace the paper's OOD sets of CIFAR-10.
var imageSets, noiseSets = cifarSets[:2], cifarSets[2:]

// paperClaims are the claims of the paper, with their sections. Those with Why cannot be tested here.
func paperClaims() []claim {
	roc := rocOf(notMNIST)
	sampling := []string{"M=20", "M=100", "M=500"}
	var mf0Layers, samplingDepth []contrast
	for _, name := range layerNames {
		mf0Layers = append(mf0Layers, inTable("2", mnistName, roc, "mf0, "+name, "M=50, "+name)...)
	}
	samplingDepth = inTable("2", mnistName, roc, "M=50, last layer", "M=50, top two layers", "M=50, all three layers")
	singles := []string{"MLE", "T. Scale", "EDL", "RUE"}
	bayesian := []string{"Dropout", "BNN(VI)", "BNN(KFAC)"}
	others := []string{"MLE", "T. Scale", "RUE", "Dropout", "BNN(LL-VI)", "BNN(KFAC)"}
	of := func(text, source string, a assertion, contrasts ...[]contrast) claim {
		return claim{Text: text, Source: source, assertion: a, contrasts: slices.Concat(contrasts...)}
	}
	untried := func(text, source, why string) claim { return claim{Text: text, Source: source, Why: why} }
	mnist := func(q quantity, a string, others ...string) []contrast {
		return inTable("4", mnistName, q, a, others...)
	}
	cifar := func(q quantity, a string, others ...string) []contrast {
		return inTable("cifar10", cifar10Name, q, a, others...)
	}
	return []claim{
		of("mf0 has a higher AUROC on notMNIST than sampling", "§6.2, table 1", isBetter, inVariants(roc, "mf0", sampling...)),
		of("mf1 and mf2 have a higher AUROC on notMNIST than sampling", "§6.2, table 1", isBetter,
			inVariants(roc, "mf1", sampling...), inVariants(roc, "mf2", sampling...)),
		of("mf0 has a lower ECE than sampling", "§6.2, table 1", isBetter, inVariants(eceOf, "mf0", sampling...)),
		of("mf0 has no higher NLL than sampling", "§6.2, table 1", isNotWorse, inVariants(nllOf, "mf0", sampling...)),
		of("sampling improves with more samples: 500 against 20", "§6.2", isBetter, inTable("1", mnistName, roc, "M=500", "M=20")),
		of("mf0, mf1 and mf2 have the same AUROC on notMNIST", "§6.2, table 1", isEqual, inVariants(roc, "mf0", "mf1", "mf2")),
		of("mf0 has a lower ECE than mf1 and mf2", "§6.2, table 1", isBetter, inVariants(eceOf, "mf0", "mf1", "mf2")),
		of("H⁻¹ has a higher AUROC on notMNIST than J⁻¹", "§6.2, table 1", isBetter, inVariants(roc, "mf0", "J^-1")),
		of("H⁻¹ has a higher AUROC on notMNIST than H⁻¹JH⁻¹", "§6.2, table 1", isBetter, inVariants(roc, "mf0", "H^-1JH^-1")),
		of("H⁻¹ has a higher AUROC on notMNIST than SWAG", "§6.2, table 1", isBetter, inTable("1", mnistName, roc, "mf0", "SWAG")),
		of("SWAG and H⁻¹JH⁻¹ have the same AUROC on notMNIST", "§6.2, table 1", isEqual,
			inTable("1", mnistName, roc, "SWAG", "H^-1JH^-1", "H^-1JH^-1, eps = 1")),
		untried("on OOD inputs, the variances of the logits are nearly equal and much larger than their covariances", "§6.2",
			"the paper's conjecture about why mf0, mf1 and mf2 agree; it gives no figure"),
		of("mf0 has a higher AUROC on notMNIST than sampling, for any number of layers (here M = 50)", "§6.3, table 2", isBetter, mf0Layers),
		of("mf0 of more layers has no higher AUROC on notMNIST than mf0 of the last layer", "§6.3, table 2", isNotWorse,
			inTable("2", mnistName, roc, "mf0, last layer", "mf0, top two layers", "mf0, all three layers")),
		of("sampling of more layers has no higher AUROC on notMNIST than sampling of the last layer (here M = 50)", "§6.3, table 2", isNotWorse, samplingDepth),
		of("ensembles of five have a lower error than mf0", "§6.4, table 4", isBetter, mnist(errorOf, "Deep E.(5)", "mf0")),
		of("ensembles of five have a lower NLL than mf0", "§6.4, table 4", isBetter, mnist(nllOf, "Deep E.(5)", "mf0")),
		of("mf0 has no higher ECE than ensembles of five", "table 4", isNotWorse, mnist(eceOf, "mf0", "Deep E.(5)")),
		of("mf0 has a lower NLL than other single-network methods", "table 4", isBetter,
			mnist(nllOf, "mf0", slices.Concat(singles, bayesian)...)),
		of("mf0 has a lower ECE than single-network methods", "table 4", isBetter, mnist(eceOf, "mf0", singles...)),
		of("mf0 has a lower ECE than dropout and the variational network", "table 4", isBetter,
			mnist(eceOf, "mf0", "Dropout", "BNN(VI)")),
		of("mf0 and BNN(KFAC) have the same ECE", "table 4", isEqual, mnist(eceOf, "mf0", "BNN(KFAC)")),
		of("mf0 has a higher AUROC on notMNIST than single-network methods", "§6.4, table 4", isBetter, mnist(roc, "mf0", singles...)),
		of("mf0 has a higher AUROC on notMNIST than Bayesian networks", "§6.4, table 4", isBetter, mnist(roc, "mf0", bayesian...)),
		of("mf0 has a higher AUROC on notMNIST than ensembles of five", "§6.4, table 4", isBetter, mnist(roc, "mf0", "Deep E.(5)")),
		of("mf0 has no lower AUROC on notMNIST than far larger ensembles (here of nine)", "§6.4", isNotWorse, mnist(roc, "mf0", "Deep E.(9)")),
		untried("mf0 is on par with 500 networks on OOD data, and these are better in-distribution", "§6.4, table 4", "only ten networks were trained"),
		untried("500 networks take 30 hours on a GPU; mf0 takes one network and seconds", "§6.4", "500 networks were not trained here"),
		of("RUE has a higher AUROC on notMNIST than MLE", "§6.4, table 4", isBetter, mnist(roc, "RUE", "MLE")),
		of("MLE, temperature scaling and EDL have a lower AUROC on notMNIST than Bayesian networks and ensembles", "§6.4, table 4", isBetter,
			mnist(roc, "Dropout", "MLE", "T. Scale", "EDL"), mnist(roc, "BNN(VI)", "MLE", "T. Scale", "EDL"),
			mnist(roc, "BNN(KFAC)", "MLE", "T. Scale", "EDL"), mnist(roc, "Deep E.(5)", "MLE", "T. Scale", "EDL")),
		of("mf0 has a higher AUROC on the OOD sets of CIFAR-10 than other single-network methods", "appendix A.2, table 6", isBetter,
			onOODSets(cifar10Name, imageSets[:1], "mf0", others...), onOODSets(cifar10Name, imageSets[1:], "mf0", "MLE", "T. Scale", "BNN(KFAC)")),
		of("mf0 has a higher AUROC on the OOD sets of CIFAR-10 than ensembles (here of four)", "appendix A.2, table 6", isBetter,
			onOODSets(cifar10Name, imageSets, "mf0", "Deep E.(4)")),
		of("ensembles (here of four) have a lower error than mf0 on CIFAR-10", "appendix A.2, table 6", isBetter, cifar(errorOf, "Deep E.(4)", "mf0")),
		of("ensembles (here of four) have a lower NLL than mf0 on CIFAR-10", "appendix A.2, table 6", isBetter,
			cifar(nllOf, "Deep E.(4)", "mf0")),
		of("mf0 has no higher error on CIFAR-10 than other single-network methods", "appendix A.2, table 6", isNotWorse,
			cifar(errorOf, "mf0", others...)),
		of("mf0 has no higher NLL on CIFAR-10 than other single-network methods", "appendix A.2, table 6", isNotWorse,
			cifar(nllOf, "mf0", others...)),
		of("mf0 has a lower ECE on CIFAR-10 than MLE, RUE, BNN(LL-VI), BNN(KFAC) and ensembles (here of four)", "table 6", isBetter,
			cifar(eceOf, "mf0", "MLE", "RUE", "BNN(LL-VI)", "BNN(KFAC)", "Deep E.(4)")),
		of("mf0, temperature scaling and dropout have the same ECE on CIFAR-10", "table 6", isEqual,
			cifar(eceOf, "mf0", "T. Scale", "Dropout")),
		untried("mf0 is better than BNN(VI) on CIFAR-10 and on ImageNet", "tables 5 and 6", "no such networks were trained"),
		untried("mf0 has the highest AUROC on SVHN and LSUN (for CIFAR-10 and CIFAR-100) and on ImageNet-O", "§6.4, tables 3, 5, 6 and 7",
			"these data sets were not available"),
		untried("on CIFAR-100 mf0 has the lowest ECE, and ensembles the lowest error and NLL", "§6.4, tables 3 and 5", "CIFAR-100 was not available"),
		of("mf0 has a lower ECE on ImageNet than MLE and temperature scaling", "§6.4, appendix A.1, tables 3 and 5", isBetter,
			inTable("3", imagenetName, eceOf, "mf0", "MLE", "T. Scale")),
		untried("mf0 has a lower ECE on ImageNet than RUE, dropout and BNN(KFAC)", "§6.4, appendix A.1, tables 3 and 5",
			"tuning ten draws of last layers with 1,001 classes takes too long"),
		untried("on ImageNet ensembles have a lower error and NLL than mf0, and a higher ECE", "§6.4, table 3", "only one network was available"),
		of("the best NLL has T_act ≥ 1 (log₁₀ above 0)", "appendix A.3, figure 1", isBetter, heatMapContrast("log10 T_act, NLL", true)),
		of("the best NLL has T_ens ≤ 0.01 (log₁₀ below −2)", "appendix A.3, figure 1", isBetter, lowTens()),
		of("the best AUROC on notMNIST has a lower T_act than the best NLL (log₁₀ of the ratio)", "appendix A.3, figure 1", isBetter,
			heatMapContrast("log10 T_act, ROC less NLL", false)),
		of("the best AUROC on notMNIST has a lower T_ens than the best NLL (log₁₀ of the ratio)", "appendix A.3, figure 1", isBetter,
			heatMapContrast("log10 T_ens, ROC less NLL", false)),
		of("T_act has more effect on NLL and AUROC at high T_ens", "appendix A.3, figure 1", isBetter,
			heatMapContrast("effect of T_act on NLL at the highest minus at the lowest T_ens", true),
			heatMapContrast("effect of T_act on AUROC at the highest minus at the lowest T_ens", true)),
		of("T_ens has more effect on NLL and AUROC at low T_act", "appendix A.3, figure 1", isBetter,
			heatMapContrast("effect of T_ens on NLL at the lowest minus at the highest T_act", true),
			heatMapContrast("effect of T_ens on AUROC at the lowest minus at the highest T_act", true)),
		of("mf0 has no higher ECE on rotated digits than other methods", "appendix A.4, figure 1", isNotWorse,
			inTable("rotation", allRotations, rotatedECE, "mf0", "MLE", "T. Scale", "Deep E.(5)", "Dropout")),
		of("mf0 has a higher AUROC on notMNIST than the unscented filter", "appendix B, table 8", isBetter, ukfContrasts(roc)),
		of("mf0 has a lower ECE than the unscented filter", "appendix B, table 8", isBetter, ukfContrasts(eceOf)),
	}
}

func ukfContrasts(q quantity) []contrast {
	return []contrast{{"ukf", mnistName, "mf0", "ukf", q, ""}, {"ukf", mnistName, "mf0, eps = 1", "ukf, eps = 1", q, ""}}
}

// rotatedECE is the ECE under rotation, where it is much larger.
var rotatedECE = eceOf.coarser(.01, 1)

// lowTens compares T_ens for likelihood with 0.01.
func lowTens() []contrast {
	q := moreOf("log10 T_ens, NLL", false)
	of := q.of
	q.of = func(f figures) *float64 {
		v := of(f)
		if v == nil {
			return nil
		}
		above := *v + 2
		return &above
	}
	q.key += ", above that of 0.01"
	q.name += ", relative to 0.01"
	return []contrast{{heatMapRow.table, heatMapRow.data, heatMapRow.row, "", q, ""}}
}

// ownClaims are claims that the paper does not make.
func ownClaims() []claim {
	roc := rocOf(notMNIST)
	kron := func(q quantity) []contrast { return inTable("1", mnistName, q, "mf0", "mf0, kron") }
	all := []claim{
		{Text: sameDampingText, assertion: isBetter, contrasts: sameDamping(roc)},
		{Text: marginMNISTText, assertion: isNotWorse, contrasts: inTable("4", mnistName, roc, "studentized", "mf0")},
		{Text: marginCIFARText, assertion: isNotWorse, contrasts: onOODSets(cifar10Name, cifarSets, "studentized", "mf0")},
		{Text: "under shift, the untuned studentized margin has no lower AUROC on the OOD sets of CIFAR-10 than mf0 tuned on them",
			assertion: isNotWorse, contrasts: onOODSets(shiftName, cifarSets, "studentized", "mf0")},
		{Text: "mf0 has a higher AUROC on noise, for CIFAR-10, than MLE, temperature scaling and BNN(KFAC)", assertion: isBetter,
			contrasts: onOODSets(cifar10Name, noiseSets, "mf0", "MLE", "T. Scale", "BNN(KFAC)")},
		{Text: "under shift, mf0 has a higher AUROC on the OOD sets of CIFAR-10 than MLE, temperature scaling and BNN(KFAC)", assertion: isBetter,
			contrasts: onOODSets(shiftName, cifarSets, "mf0", "MLE", "T. Scale", "BNN(KFAC)")},
		{Text: "without OOD data to tune on, mf0 has a higher AUROC on notMNIST than the network and temperature scaling", assertion: isBetter,
			contrasts: inTable("4", mnistName, nllROCOf(notMNIST), "mf0", "MLE", "T. Scale")},
		{Text: "mf0 has no higher debiased calibration error than temperature scaling", assertion: isNotWorse,
			contrasts: slices.Concat(inTable("4", mnistName, debiasedOf, "mf0", "T. Scale"),
				inTable("cifar10", cifar10Name, debiasedOf, "mf0", "T. Scale"), inTable("cifar10", shiftName, debiasedOf, "mf0", "T. Scale"),
				inTable("3", imagenetName, debiasedOf, "mf0", "T. Scale"))},
		{Text: "mf0 has a lower debiased calibration error than the network", assertion: isBetter,
			contrasts: slices.Concat(inTable("4", mnistName, debiasedOf, "mf0", "MLE"),
				inTable("cifar10", cifar10Name, debiasedOf, "mf0", "MLE"), inTable("cifar10", shiftName, debiasedOf, "mf0", "MLE"),
				inTable("3", imagenetName, debiasedOf, "mf0", "MLE"))},
		{Text: "duplicates in notMNIST do not change the AUROC", assertion: isEqual, contrasts: withoutDuplicates()},
		{Text: "Kronecker structure has the same AUROC and NLL as the full Hessian", assertion: isEqual, contrasts: slices.Concat(kron(roc), kron(nllOf))},
	}
	for _, set := range shiftedSets {
		for _, trial := range set.trials {
			if trial.row == "MLE" || trial.row == "mf0" {
				continue
			}
			for _, q := range []quantity{shiftNLL, shiftDebiased, shiftAURC} {
				c := claim{Text: underShift(q, trial.row, set.name), assertion: isNotWorse}
				for severity := range corrupt.Severities + 1 {
					at := shiftPlace(set.name, severity, "")
					where := fmt.Sprintf("%d", severity)
					c.contrasts = append(c.contrasts, contrast{at.table, at.data, "mf0", trial.row, q, where})
				}
				all = append(all, c)
			}
		}
	}
	return append(all, confidenceClaims()...)
}

// Claims that findings refer to.
const (
	sameDampingText = "H⁻¹ has a higher AUROC on notMNIST than H⁻¹JH⁻¹ with the same damping (ρ = 1 and 0.01, interpolating networks)"
	marginMNISTText = "the untuned studentized margin has no lower AUROC on notMNIST than mf0 tuned on it"
	marginCIFARText = "the untuned studentized margin has no lower AUROC on the OOD sets of CIFAR-10 than mf0 tuned on them"
)

// underShift is the claim that mf0 is no worse than another method on corrupted images.
func underShift(q quantity, other, set string) string {
	return fmt.Sprintf("mf0 has no higher %s than %s on corrupted %s, at any severity", q.name, other, set)
}

// withoutDuplicates compares the AUROC on notMNIST without and with duplicates.
func withoutDuplicates() (all []contrast) {
	q := rocOf(notMNIST)
	q.key, q.name = "ROC without duplicates less with them", "AUROC without minus with duplicates"
	q.of = func(f figures) *float64 {
		without, with := rocOf(deduplicated).of(f), rocOf(notMNIST).of(f)
		if without == nil || with == nil {
			return nil
		}
		d := *without - *with
		return &d
	}
	for _, t := range duplicatesTrials() {
		all = append(all, contrast{"duplicates", mnistName, t.row, "", q, ""})
	}
	return all
}

func sameDamping(q quantity) (all []contrast) {
	for _, rho := range equalDampings {
		all = append(all, contrast{"damping", mnistName, fmt.Sprintf("H^-1, rho = %g", rho), fmt.Sprintf("H^-1JH^-1, rho = %g", rho), q, ""})
	}
	return all
}

// judge judges all claims whose rows were measured.
func (r *report) judge() {
	all := r.results()
	r.claims = nil
	for _, q := range slices.Concat(paperClaims(), ownClaims()) {
		if q.Why != "" {
			q.Verdict, q.Comparisons = absent, []comparison{}
			r.claims = append(r.claims, q)
		} else if c, ok := all.judge(q); ok {
			r.claims = append(r.claims, c)
		}
	}
}
