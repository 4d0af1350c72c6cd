package calibrate

import (
	"fmt"
	"math"
)

// Choice is the selected method, with the reason: the simplest of the network itself (MLE), temperature scaling (TS)
// and MF0 that is not significantly worse on validation data than a more complex one. Gains are differences in the
// objective of tuning, in nats per example; a more complex method must gain more than the amount needed.
type Choice struct {
	Method Method `yaml:"method" json:"method"`

	// TSGain is the gain of temperature scaling over the network. It needs 1/(2N) for N examples: if the
	// network's probabilities are right, twice the total gain has a mean of about 1 (Wilks, The Large-Sample
	// Distribution of the Likelihood Ratio, 1938). A standard error would say less, since a few errors make up
	// nearly all the loss of a confident network.
	TSGain   float64 `yaml:"ts_gain" json:"ts_gain"`
	TSNeeded float64 `yaml:"ts_needed" json:"ts_needed"`

	// MF0Gain is the gain of mf0, at its optimum, over the better of these two. It needs one standard error of
	// the paired differences, and an NLL that is no higher without the half example that tuning adds.
	MF0Gain   float64 `yaml:"mf0_gain" json:"mf0_gain"`
	MF0Needed float64 `yaml:"mf0_needed" json:"mf0_needed"`
}

// trial is the losses and the mean NLL of a tuned method on validation data.
type trial struct {
	losses []float64
	nll    float64
}

func (e *examples) trial(j int) trial { return trial{e.losses(j), mean(e.nll[j])} }

// choose compares the network, temperature scaling and mf0.
func choose(network, scaled, mf0 trial) Choice {
	c := Choice{Method: MLE, TSGain: mean(network.losses) - mean(scaled.losses),
		TSNeeded: 0.5 / float64(len(network.losses))}
	simple := network
	if c.TSGain > c.TSNeeded {
		c.Method, simple = TS, scaled
	}
	c.MF0Gain, c.MF0Needed = pairedGain(simple.losses, mf0.losses)
	c.MF0Needed = math.Max(c.MF0Needed, resolution)
	if c.MF0Gain > c.MF0Needed && mf0.nll <= simple.nll {
		c.Method = MF0
	}
	return c
}

// String describes the choice in a sentence, with gains in nats.
func (c Choice) String() string {
	if c.Method == MF0 {
		return fmt.Sprintf("mf0: gains %.2g nats over the simpler methods on the validation data, above its threshold of %.2g", c.MF0Gain, c.MF0Needed)
	}
	mf0 := fmt.Sprintf("mf0 gains %.2g more, below its threshold of %.2g", c.MF0Gain, c.MF0Needed)
	if c.MF0Gain > c.MF0Needed {
		mf0 = "mf0 has a higher NLL"
	}
	if c.Method == TS {
		return fmt.Sprintf("temperature scaling: gains %.2g nats on the validation data, with half an error added; %s", c.TSGain, mf0)
	}
	return fmt.Sprintf("network (uncalibrated): temperature scaling gains %.2g nats on the validation data, below its threshold of %.2g; %s", c.TSGain, c.TSNeeded, mf0)
}
