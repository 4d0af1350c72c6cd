package bundle

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
)

// Summary says what a bundle predicts with, and how it was selected. JSON leaves out what there is only with a linear
// layer where there is none.
type Summary struct {
	Structure     string     `json:"structure,omitempty"`
	Covariance    string     `json:"covariance,omitempty"`
	Damping       Damping    `json:"damping,omitzero"`
	External      *External  `json:"external_posterior,omitempty"`
	Probabilities ChoiceInfo `json:"probabilities"`
	// ClassFrequencies are those in use, nil if they are those of the validation data. Probabilities are corrected for
	// them, unless PriorEstimate is not significant.
	ClassFrequencies []ClassFrequency `json:"class_frequencies,omitempty"`
	// PriorEstimate is how they were estimated, nil if they were not. In a bundle it is significant.
	PriorEstimate *PriorEstimate `json:"prior_estimate,omitempty"`

	OODScore     ScoreInfo            `json:"ood_score"`
	Decisions    *conformal.Decisions `json:"decisions,omitempty"`
	Temperatures TemperatureInfo      `json:"temperatures"`
}

// ChoiceInfo says which probabilities were selected, "mf0", "matrix" (matrix scaling), "ts" (temperature scaling)
// or "mle" (the network's own), and why.
type ChoiceInfo struct {
	calibrate.Choice
	Reason string `json:"reason"`
}

// ClassFrequency is the frequency of a class in the validation data and in use.
type ClassFrequency struct {
	Class      string  `json:"class"` // its name, or its index if it has none of its own
	Validation float64 `json:"validation"`
	Use        float64 `json:"use"`
}

// Frequencies returns class frequencies in use, nil for nil, beside those of the validation data.
func (m *Manifest) Frequencies(use []float64) (all []ClassFrequency) {
	names := newClassNames(m.Labels, len(use))
	for c, f := range use {
		all = append(all, ClassFrequency{names.name(c), m.ClassFrequencies[c], f})
	}
	return all
}

// ByChange returns the indices of classes, those whose frequency changes most first.
func ByChange(all []ClassFrequency) []int {
	order := make([]int, len(all))
	for c := range order {
		order[c] = c
	}
	change := func(f ClassFrequency) float64 { return math.Abs(f.Use - f.Validation) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(change(all[b]), change(all[a])) })
	return order
}

// ScoreInfo says which out-of-distribution score was selected, and why.
type ScoreInfo struct {
	score.Selection
	Reason string `json:"reason"`
}

// TemperatureInfo holds the tuned temperatures.
type TemperatureInfo struct {
	// NLL are those for likelihood: of the pairs that are not significantly worse than
	// Optimum on validation data, the one with the smallest T_ens.
	NLL      layer.Temperatures  `json:"nll,omitzero"`
	Optimum  *layer.Temperatures `json:"optimum,omitempty"`
	OOD      layer.Temperatures  `json:"ood,omitzero"`
	OODTuned bool                `json:"ood_tuned"` // if false, OOD equals NLL
	TS       float64             `json:"ts"`        // temperature scaling
	// TSOOD is temperature scaling's for OOD detection; zero if OODTuned is false.
	TSOOD float64 `json:"ts_ood,omitempty"`
	// Smoothing is added to probabilities before temperature and matrix scaling; zero is none.
	Smoothing float64 `json:"smoothing,omitempty"`
}

// PosteriorLine says in a line what the posterior of a linear layer is.
func (s *Summary) PosteriorLine() string {
	if e := s.External; e != nil {
		return fmt.Sprintf("of %s, %s covariance, from %s", cmp.Or(e.Program, "another program"), e.Form, e.File)
	}
	return fmt.Sprintf("%s structure, %s covariance", s.Structure, s.Covariance)
}

// Summary says what the bundle predicts with.
func (m *Manifest) Summary() Summary {
	s := Summary{
		Structure: string(m.Structure), Covariance: string(m.Covariance), Damping: m.Damping, External: m.External,
		Decisions: m.Decisions.Clone(),
		Temperatures: TemperatureInfo{
			NLL: m.Temperatures.NLL.Temperatures, OOD: m.Temperatures.OOD.Temperatures,
			OODTuned: m.Temperatures.OOD.TunedOn == "ood", TS: m.Temperatures.TS, TSOOD: m.Temperatures.TSOOD,
			Smoothing: m.Temperatures.Smoothing,
		},
	}
	prior, _ := m.ResolvePrior() // the manifest is valid
	s.ClassFrequencies, s.PriorEstimate = m.Frequencies(prior), m.PriorEstimate
	s.Damping.Candidates = slices.Clone(m.Damping.Candidates)
	if o := m.Temperatures.Optimum; o != nil {
		s.Temperatures.Optimum = &o.Temperatures
	}
	if o := m.OODScore; o != nil {
		s.OODScore = ScoreInfo{o.Selection, o.Selection.String()}
	} else {
		s.OODScore = ScoreInfo{score.Selection{Name: "mf0"}, "mf0: the only score when this bundle was written"}
	}
	if c := m.Probabilities; c != nil {
		s.Probabilities = ChoiceInfo{*c, c.String()}
	} else {
		s.Probabilities = ChoiceInfo{calibrate.Choice{Method: calibrate.MF0}, "mf0: the only method of format 1"}
	}
	return s
}
