package calibrate

import (
	"fmt"
	"math"
)

// Choice is the selected method, with the reason: the simplest of the network itself (MLE), temperature scaling (TS),
// matrix scaling (Matrix) and MF0 that is not significantly worse on validation data than a more complex one. Gains are
// differences in the objective of tuning, in nats per example; a more complex method must gain more than the amount
// needed.
type Choice struct {
	Method Method `yaml:"method" json:"method"`

	// TSGain is the gain of temperature scaling over the network. It needs 1/(2N) for N examples: if the
	// network's probabilities are right, twice the total gain has a mean of about 1 (Wilks, The Large-Sample
	// Distribution of the Likelihood Ratio, 1938). A standard error would say less, since a few errors make up
	// nearly all the loss of a confident network.
	TSGain   float64 `yaml:"ts_gain" json:"ts_gain"`
	TSNeeded float64 `yaml:"ts_needed" json:"ts_needed"`

	// MatrixGain is the logarithm of the Bayes factor between matrix and temperature scaling, over N: what the
	// parameters gain by fitting noise is not in it. It needs 1/(2N), and in addition the NLL in five-fold
	// cross-validation must be lower. Matrix says that both hold: mf0 then has its logits. Gain and need are zero if
	// there was nothing to fit.
	Matrix       bool    `yaml:"matrix,omitempty" json:"matrix,omitempty"`
	MatrixGain   float64 `yaml:"matrix_gain,omitempty" json:"matrix_gain,omitempty"`
	MatrixNeeded float64 `yaml:"matrix_needed,omitempty" json:"matrix_needed,omitempty"`

	// MF0Gain is the gain of mf0, at its optimum, over the best of these. It needs one standard error of
	// the paired differences, and an NLL that is no higher without the half example that tuning adds.
	MF0Gain   float64 `yaml:"mf0_gain" json:"mf0_gain,omitempty"`
	MF0Needed float64 `yaml:"mf0_needed" json:"mf0_needed,omitempty"`

	// NoPosterior says that the head has no linear layer, and so no mf0.
	NoPosterior bool `yaml:"no_posterior,omitempty" json:"no_posterior,omitempty"`

	// KeepClass says that only MLE and TS, which keep the network's predicted class, were allowed.
	KeepClass bool `yaml:"keep_class,omitempty" json:"keep_class,omitempty"`
}

// trial is the losses and the mean NLL of a tuned method on validation data.
type trial struct {
	losses []float64
	nll    float64
}

func (e *examples) trial(j int) trial { return trial{e.losses(j), mean(e.nll[j])} }

// ladder is a choice on the way up from the simplest method, with the trial of the one chosen so far.
type ladder struct {
	Choice
	simple trial
}

// climb begins with the network and temperature scaling.
func climb(network, scaled trial) *ladder {
	l := &ladder{Choice{Method: MLE, TSGain: mean(network.losses) - mean(scaled.losses),
		TSNeeded: 0.5 / float64(len(network.losses))}, network}
	if l.TSGain > l.TSNeeded {
		l.Method, l.simple = TS, scaled
	}
	return l
}

// matrix compares matrix scaling, which is tried if the evidence suffices, and reports whether it is chosen.
func (l *ladder) matrix(f MatrixScaled, of trial) bool {
	if f.Affine == nil {
		return false
	}
	n := float64(len(l.simple.losses))
	l.MatrixGain, l.MatrixNeeded = f.Evidence/n, leastEvidence/n
	if of.losses == nil {
		return false
	}
	if l.Matrix = of.nll < l.simple.nll; l.Matrix {
		l.Method, l.simple = Matrix, of
	}
	return l.Matrix
}

// mf0 compares mf0 with the method chosen so far.
func (l *ladder) mf0(of trial) Choice {
	l.MF0Gain, l.MF0Needed = pairedGain(l.simple.losses, of.losses)
	l.MF0Needed = math.Max(l.MF0Needed, resolution)
	if l.MF0Gain > l.MF0Needed && of.nll <= l.simple.nll && !l.KeepClass {
		l.Method = MF0
	}
	return l.Choice
}

// String describes the choice in a sentence, with gains in nats.
func (c Choice) String() string {
	if c.Method == MF0 {
		of := ""
		if c.Matrix {
			of = " of the logits of matrix scaling"
		}
		return fmt.Sprintf("mf0%s: gains %.2g nats over the simpler methods on the validation data, above its threshold of %.2g", of, c.MF0Gain, c.MF0Needed)
	}
	mf0 := fmt.Sprintf("mf0 gains %.2g more, below its threshold of %.2g", c.MF0Gain, c.MF0Needed)
	switch {
	case c.NoPosterior && c.KeepClass:
		mf0 = "matrix scaling may change the predicted class"
	case c.NoPosterior:
		mf0 = "mf0 needs a linear last layer"
	case c.KeepClass:
		mf0 = "matrix scaling and mf0 may change the predicted class"
	case c.MF0Gain > c.MF0Needed:
		mf0 = "mf0 has a higher NLL"
	}
	switch c.Method {
	case Matrix:
		return fmt.Sprintf("matrix scaling: its evidence is %.2g nats per example above that of temperature scaling, more than the threshold of %.2g; %s", c.MatrixGain, c.MatrixNeeded, mf0)
	case TS:
		return fmt.Sprintf("temperature scaling: gains %.2g nats on the validation data, with half an error added; %s", c.TSGain, mf0)
	}
	return fmt.Sprintf("network (uncalibrated): temperature scaling gains %.2g nats on the validation data, below its threshold of %.2g; %s", c.TSGain, c.TSNeeded, mf0)
}
