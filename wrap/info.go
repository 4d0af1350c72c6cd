package wrap

import (
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// StandIns, in place of a SPEC of out-of-distribution data, takes synthetic ones, made of images in distribution.
const StandIns = "auto"

// Progress is how far a stage of the work is. Stages follow one another; the
// last report of a stage has Done equal to Total.
type Progress struct {
	Stage string // "train", "val", "ood", "test", "tuning", …
	Done  int    // examples, or steps of tuning
	Total int    // 0 where it is not known yet: of standard input
	Unit  string // "examples" or "steps"
}

// BundleInfo names a bundle and says what it serves.
type BundleInfo struct {
	Path string `json:"path"`
	Summary
}

// Summary says what a bundle serves, and how that was chosen.
type Summary struct {
	Structure     string               `json:"structure"`
	Covariance    string               `json:"covariance"`
	Damping       bundle.Damping       `json:"damping"`
	Probabilities ChoiceInfo           `json:"probabilities"`
	OODScore      ScoreInfo            `json:"ood_score"`
	Decisions     *conformal.Decisions `json:"decisions,omitempty"`
	Temperatures  TemperatureInfo      `json:"temperatures"`
}

// ChoiceInfo says whose probabilities are served: "mf0", "ts" (temperature scaling) or "mle" (the
// network's own), and why.
type ChoiceInfo struct {
	calibrate.Choice
	Reason string `json:"reason"`
}

// ScoreInfo says which out-of-distribution score is served as ood_score, and why.
type ScoreInfo struct {
	score.Choice
	Reason string `json:"reason"`
}

// TemperatureInfo holds the tuned temperatures.
type TemperatureInfo struct {
	// NLL are those for likelihood: of the pairs that held-out data cannot distinguish
	// from the Optimum, the one with the smallest T_ens.
	NLL      calibrate.Temperatures  `json:"nll"`
	Optimum  *calibrate.Temperatures `json:"optimum,omitempty"`
	OOD      calibrate.Temperatures  `json:"ood"`
	OODTuned bool                    `json:"ood_tuned"` // else OOD is NLL again
	TS       float64                 `json:"ts"`        // temperature scaling
	// TSOOD is temperature scaling's for out-of-distribution data; zero where OODTuned is false.
	TSOOD float64 `json:"ts_ood,omitempty"`
}

// Recommendation says which probabilities and which score of unfamiliarity to use, and how sure that
// is.
type Recommendation = measure.Recommendation

// Summarise says what the bundle with a manifest serves.
func Summarise(m *bundle.Manifest) Summary {
	s := Summary{
		Structure: string(m.Structure), Covariance: string(m.Covariance), Damping: m.Damping,
		Decisions: m.Decisions.Clone(),
		Temperatures: TemperatureInfo{
			NLL: m.Temperatures.NLL.Temperatures, OOD: m.Temperatures.OOD.Temperatures,
			OODTuned: m.Temperatures.OOD.TunedOn == "ood", TS: m.Temperatures.TS, TSOOD: m.Temperatures.TSOOD,
		},
	}
	s.Damping.Candidates = slices.Clone(m.Damping.Candidates)
	if o := m.Temperatures.Optimum; o != nil {
		s.Temperatures.Optimum = &o.Temperatures
	}
	if o := m.OODScore; o != nil {
		s.OODScore = ScoreInfo{o.Choice, o.Choice.String()}
	} else {
		s.OODScore = ScoreInfo{score.Choice{Name: "mf0"}, "mf0: the bundle was written before there were others"}
	}
	if c := m.Probabilities; c != nil {
		s.Probabilities = ChoiceInfo{*c, c.String()}
	} else {
		s.Probabilities = ChoiceInfo{calibrate.Choice{Method: calibrate.MF0}, "mf0: bundles of format 1 have no other"}
	}
	return s
}
