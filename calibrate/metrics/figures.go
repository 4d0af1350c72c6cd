package metrics

import "slices"

// Unit is the unit of a figure.
type Unit string

const (
	Fraction Unit = "fraction"
	Nats     Unit = "nats"
	Plain    Unit = "" // a number without a unit
)

// Figure is a number that says how good a method is: a field of [Labelled] or [OOD] and a row of
// [LabelledFigures] or [DetectionFigures].
type Figure struct {
	Key    string // in JSON
	Label  string // in tables
	Unit   Unit
	Higher bool   // higher is better
	Column bool   // a column of tables in the terminal; JSON and the report have all
	About  string // what it is, in Markdown
}

// LabelledFigure is a figure of probabilities on a labelled set.
type LabelledFigure struct {
	Figure
	Of func(*Labelled) float64

	// How it is computed on resamples, by one of these. Without any it is not resampled.
	mean   func(*exampleStats) []float64 // the mean of this
	binned func([]bin, float64) float64  // from the bins of the ECE and the number of decisions
	ranked bool                          // from the risk-coverage curve: Of, with Selective alone
	// biased figures are larger in small samples: their draws are centred. squared ones are computed as a square,
	// which may be negative.
	biased, squared bool
}

// LabelledFigures are all figures of [Labelled], in the order of tables.
var LabelledFigures = []LabelledFigure{
	{
		Figure: Figure{Key: "error", Label: "error", Unit: Fraction, Column: true, About: "the fraction of the examples whose most probable class is not the label"},
		Of:     func(l *Labelled) float64 { return l.Error },
		mean:   func(k *exampleStats) []float64 { return k.wrong },
	},
	{
		Figure: Figure{Key: "nll", Label: "NLL", Unit: Nats, Column: true, About: "the mean of −log p of the label"},
		Of:     func(l *Labelled) float64 { return l.NLL },
		mean:   func(k *exampleStats) []float64 { return k.nll },
	},
	{
		Figure: Figure{Key: "ece", Label: "ECE", Unit: Fraction, Column: true, About: "the ℓ1 calibration error of the most probable class over bins of equal width"},
		Of:     func(l *Labelled) float64 { return l.ECE },
		binned: ece, biased: true,
	},
	{
		Figure: Figure{Key: "debiased_ce", Label: "debiased", Unit: Fraction, Column: true, About: "the ℓ2 calibration error over the ECE's bins, corrected for its bias in finite samples: the debiased estimator of Kumar, Liang and Ma (*Verified Uncertainty Calibration*, 2019), √max(0, Σ_b (n_b/n)[(accuracy_b − confidence_b)² − accuracy_b(1 − accuracy_b)/(n_b − 1)])"},
		Of:     func(l *Labelled) float64 { return l.DebiasedCE },
		binned: debiased, biased: true, squared: true,
	},
	{
		Figure: Figure{Key: "brier", Label: "Brier", Unit: Plain, Column: true, About: "the mean of Σ_k (p_k − y_k)², from 0 to 2"},
		Of:     func(l *Labelled) float64 { return l.Brier },
		mean:   func(k *exampleStats) []float64 { return k.brier },
	},
	{
		Figure: Figure{Key: "classwise_ece", Label: "classwise ECE", Unit: Fraction, About: "the mean over classes of the ECE of p_k as a probability of class k (Kull et al. 2019); it has no interval"},
		Of:     func(l *Labelled) float64 { return l.ClasswiseECE },
	},
	{
		Figure: Figure{Key: "aurc", Label: "AURC", Unit: Fraction, Column: true, About: "the area under the risk-coverage curve (Geifman and El-Yaniv 2017): the mean error over all coverages, where the least uncertain examples are answered"},
		Of:     func(l *Labelled) float64 { return l.AURC },
		ranked: true,
	},
	riskFigure("risk80", "80", func(l *Labelled) float64 { return l.Risk80 }),
	riskFigure("risk90", "90", func(l *Labelled) float64 { return l.Risk90 }),
	riskFigure("risk95", "95", func(l *Labelled) float64 { return l.Risk95 }),
}

// riskFigure is the error at a coverage in per cent.
func riskFigure(key, coverage string, of func(*Labelled) float64) LabelledFigure {
	return LabelledFigure{
		Figure: Figure{Key: key, Label: "error at " + coverage + " %", Unit: Fraction, About: "the error among the " + coverage + " % least uncertain examples"},
		Of:     of,
		ranked: true,
	}
}

// DetectionFigure is a figure of how well a score detects an out-of-distribution set.
type DetectionFigure struct {
	Figure
	Of func(*OOD) float64
}

// DetectionFigures are all figures of [OOD], in the order of tables. All are resampled.
var DetectionFigures = []DetectionFigure{
	{
		Figure{Key: "accuracy", Label: "accuracy", Unit: Fraction, Higher: true, Column: true, About: "the detection accuracy at equal priors and the best threshold"},
		func(o *OOD) float64 { return o.Accuracy },
	},
	{
		Figure{Key: "auroc", Label: "AUROC", Unit: Fraction, Higher: true, Column: true, About: "the probability that an out-of-distribution example scores higher than one of the test set"},
		func(o *OOD) float64 { return o.AUROC },
	},
	{
		Figure{Key: "aupr_in", Label: "AUPR in", Unit: Fraction, Higher: true, Column: true, About: "the average precision, with the test set as the positive class"},
		func(o *OOD) float64 { return o.AUPRIn },
	},
	{
		Figure{Key: "aupr_out", Label: "AUPR out", Unit: Fraction, Higher: true, Column: true, About: "the average precision, with the out-of-distribution set as the positive class"},
		func(o *OOD) float64 { return o.AUPROut },
	},
	{
		Figure{Key: "fpr95", Label: "FPR95", Unit: Fraction, Column: true, About: "the fraction of out-of-distribution examples accepted at the threshold that accepts 95 % of the test set: FPR@95TPR with in-distribution as positive, as in ODIN and most papers"},
		func(o *OOD) float64 { return o.FPR95 },
	},
	{
		Figure{Key: "fpr95_ood", Label: "FPR95 (OOD positive)", Unit: Fraction, About: "the fraction of the test set flagged at the threshold that flags 95 % of the out-of-distribution examples: FPR@95TPR with out-of-distribution as positive, as in OpenOOD (auc_and_fpr_recall) and pytorch-ood"},
		func(o *OOD) float64 { return o.FPR95OOD },
	},
}

// FigureOf returns the figure with a key. It panics if there is none.
func FigureOf(key string) Figure {
	for _, f := range LabelledFigures {
		if f.Key == key {
			return f.Figure
		}
	}
	for _, f := range DetectionFigures {
		if f.Key == key {
			return f.Figure
		}
	}
	panic("metrics: there is no figure " + key)
}

// Columns returns the figures that are columns of tables.
func Columns[F interface{ isColumn() bool }](list []F) []F {
	return slices.DeleteFunc(slices.Clone(list), func(f F) bool { return !f.isColumn() })
}

func (f Figure) isColumn() bool { return f.Column }
