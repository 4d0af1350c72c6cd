package bundle

import (
	"cmp"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx/head"
)

// Settings say how to calibrate. The zero value of each field is its default. Flags and YAML jobs set them,
// parts and manifests record them. Their YAML is the tag and the comment of each field. To add a setting, add a field
// here, its check in Validate, a flag, and its use.
type Settings struct {
	Head       head.Options         `yaml:"head,omitempty"`       // zero: find the head
	Covariance calibrate.Covariance `yaml:"covariance"`           // "": hessian
	Structure  calibrate.Structure  `yaml:"structure,omitempty"`  // "": auto, full if small
	Damping    calibrate.Damping    `yaml:"damping"`              // zero: auto, tuned on validation data
	Lambda0    float64              `yaml:"lambda0"`              // 0: 3/π²
	OODScore   string               `yaml:"ood_score,omitempty"`  // of [score.Names]; "": select one
	KeepClass  bool                 `yaml:"keep_class,omitempty"` // probabilities must not change the predicted class
	// Prior is the frequencies of classes in use, by name or by index, where they are not those of the validation data:
	// see [Manifest.ResolvePrior].
	Prior map[string]float64 `yaml:"prior,omitempty,flow"`
	// Decisions says when to abstain and which prediction sets to give; zero: none. Their thresholds are set on half
	// of the validation examples, one of each two neighbours; the rest is tuned on the other half.
	Decisions conformal.Plan `yaml:"decisions,omitempty"`
	Limit     int            `yaml:"limit"`   // the most training examples to use, spread evenly; 0: all
	MaxBad    int            `yaml:"max_bad"` // the most unreadable records to skip in each set
}

// Complete fills in the defaults that do not depend on the model or the data.
func (s Settings) Complete() Settings {
	s.Covariance = cmp.Or(s.Covariance, calibrate.Hessian)
	s.Structure = cmp.Or(s.Structure, calibrate.Auto)
	s.Lambda0 = cmp.Or(s.Lambda0, meanfield.Lambda0)
	s.Decisions = s.Decisions.Complete()
	return s
}

// Validate reports settings that are wrong for any model and data.
func (s Settings) Validate() error {
	if s.Covariance != "" {
		if err := s.Covariance.Validate(); err != nil {
			return err
		}
	}
	if err := s.Structure.Validate(); err != nil {
		return err
	}
	if err := s.Damping.Validate(); err != nil {
		return err
	}
	if s.OODScore != "" {
		if err := score.Check(s.OODScore); err != nil {
			return err
		}
	}
	if err := s.Decisions.Validate(); err != nil {
		return option.Errorf("decisions: %w", err)
	}
	if err := validatePrior(s.Prior); err != nil {
		return err
	}
	if s.Prior != nil && s.KeepClass {
		return option.Errorf("%s and %s exclude each other: the frequencies of classes change which is predicted", option.Prior, option.KeepClass)
	}
	if s.Head.Link != "" && s.Head.Link.Validate() != nil {
		return option.Errorf("head: %s %q: want %s", option.Link, s.Head.Link, layer.Names())
	}
	switch {
	case s.Head.Approximate != "" && s.Head.Approximate != head.IgnoreRelu:
		return option.Errorf("head: %s %q: want %s", option.Approximate, s.Head.Approximate, head.IgnoreRelu)
	case s.Lambda0 != 0 && !(s.Lambda0 >= 1e-6 && s.Lambda0 <= 1e6):
		return fmt.Errorf("lambda0 is %v, want 1e-6 to 1e6", s.Lambda0)
	case s.Limit < 0:
		return option.Errorf("%s %d is negative", option.Limit, s.Limit)
	case s.MaxBad < 0:
		return option.Errorf("%s %d is negative", option.MaxBad, s.MaxBad)
	}
	return nil
}
