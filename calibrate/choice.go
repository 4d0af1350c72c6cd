package calibrate

import (
	"fmt"
	"math"
)

// Choice says whose probabilities serve, and why: the simplest of the network itself
// (MLE), temperature scaling (TS) and MF0 that held-out data cannot tell from a better
// one. Gains are nats of the objective that tuning minimises, a mean over the held-out
// examples; a method is taken for one that gains more than is needed.
type Choice struct {
	Method Method `yaml:"method" json:"method"`

	// TSGain is what temperature scaling gains on the network. With N examples it needs 1/(2N): if
	// the network's probabilities are right, twice the gain of all examples together has about the
	// mean 1 (Wilks, The Large-Sample Distribution of the Likelihood Ratio, 1938). The spread
	// between examples would say less: of a sure network a few errors have all the loss.
	TSGain   float64 `yaml:"ts_gain" json:"ts_gain"`
	TSNeeded float64 `yaml:"ts_needed" json:"ts_needed"`

	// MF0Gain is what mf0 gains, at its optimum, on the one of these two that was
	// chosen. It needs one standard error of the paired differences between examples, and
	// an NLL that is no higher without the half of an example that tuning adds.
	MF0Gain   float64 `yaml:"mf0_gain" json:"mf0_gain"`
	MF0Needed float64 `yaml:"mf0_needed" json:"mf0_needed"`
}

// trial is a method as tuned, on the held-out examples: its losses and its mean NLL.
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

// String says it in a sentence, with nats.
func (c Choice) String() string {
	if c.Method == MF0 {
		return fmt.Sprintf("mf0: on the held-out data it gains %.2g nats on what is simpler, and %.2g may be chance", c.MF0Gain, c.MF0Needed)
	}
	mf0 := fmt.Sprintf("what mf0 gains, %.2g, may be chance up to %.2g", c.MF0Gain, c.MF0Needed)
	if c.MF0Gain > c.MF0Needed {
		mf0 = "mf0 has a higher NLL there"
	}
	if c.Method == TS {
		return fmt.Sprintf("temperature scaling: on the held-out data it gains %.2g nats on the network itself; %s", c.TSGain, mf0)
	}
	return fmt.Sprintf("the network's own: what temperature scaling gains on the held-out data, %.2g nats, may be chance up to %.2g; %s", c.TSGain, c.TSNeeded, mf0)
}
