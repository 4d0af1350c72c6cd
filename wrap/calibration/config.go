package calibration

import (
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Config says what Calibrate does. Model (or ready-made features), Train, Val and Out must be set. Fields with a
// YAML key are what a [Job] may say.
type Config struct {
	Model string `yaml:"model"` // path of the .onnx file

	// Dataset SPECs. Train needs labels only where the covariance asks for the
	// Fisher matrix, Val always does, and OOD, which may be empty, never. An OOD of [wrap.SyntheticOOD] makes
	// stand-ins of Val's images.
	Train string `yaml:"-"`
	Val   string `yaml:"-"`
	OOD   string `yaml:"-"`
	// PrecomputedFeatures says that Train, Val and OOD are .npz files of features and logits, and that there
	// is no model. The logits are those of a softmax; a single one is that of a sigmoid, and where
	// Val has targets of 0 and 1, [N,K], for labels, the head is multi-label.
	PrecomputedFeatures bool `yaml:"-"`

	// Preprocess turns images into the model's input; nil takes the default for the model's input: uint8 →
	// x/255, layout and flattening as it wants, never a resize, image files turned upright by their EXIF
	// orientation. Ready arrays say nothing of it: beside images it must be given, and a bundle from arrays
	// alone refuses images until it is.
	Preprocess *preprocess.Spec `yaml:"preprocess"`
	Classes    []string         `yaml:"labels"` // names in label order; nil: none, or the training folders' names

	// Settings say how. Where the validation data do not show Decisions that are asked for, Calibrate leaves
	// what it has read in a checkpoint: with Resume others may be asked for.
	bundle.Settings `yaml:",inline"`

	Out   string `yaml:"out"` // folder of the bundle to write
	Force bool   `yaml:"-"`   // replace a bundle that is there
	// Resume goes on with a calibration to Out that was interrupted, or begins one. Where Out is
	// its result already, the error is a [*DoneError].
	Resume bool `yaml:"-"`
	// KeepCurvature keeps the sums over the training data in the bundle, for Update and for
	// methods that bench.Evaluate compares.
	KeepCurvature bool `yaml:"keep_curvature"`
	NoModel       bool `yaml:"no_model"` // leave the model out of the bundle
	// NoProbe keeps no validation inputs in the bundle, for [wrap.Predictor.Probe]: for data that must not travel.
	NoProbe bool `yaml:"no_probe"`

	Shard   rows.Shard   `yaml:"-"`              // of each set, for Accumulate; zero: all
	Cache   string       `yaml:"features_cache"` // a folder that keeps features between runs; "" keeps none
	Runtime wrap.Runtime `yaml:",inline"`

	Expect Expect `yaml:"-"` // what model and data must be; zero: anything

	Progress func(wrap.Progress) `yaml:"-"`
	// Notice, if set, is told at once what need not be in the report.
	Notice func(string) `yaml:"-"`
}

// Report describes a calibration.
type Report struct {
	Bundle     string                `json:"bundle"`
	Model      *onnx.Info            `json:"model"` // null for ready-made features
	Head       HeadInfo              `json:"head"`
	Preprocess *bundle.Preprocessing `json:"preprocess"` // null for ready-made features
	bundle.Summary
	Validation Validation `json:"held_out"`
	Probe      ProbeInfo  `json:"probe"`
	// Recommendation is by Validation, which was tuned on; probabilities are those that serve.
	Recommendation metrics.Recommendation `json:"recommendation"`
	Examples       Examples               `json:"examples"`
	Seconds        map[string]float64     `json:"seconds"` // by stage, and "total"
	Bad            []string               `json:"bad_records"`
	Ignored        []string               `json:"ignored"` // files passed over, by reason
	Warnings       []string               `json:"warnings"`
}

// ProbeInfo says how many held-out inputs are kept for [Predictor.Probe], and of none why.
type ProbeInfo struct {
	Examples int    `json:"examples"`
	Reason   string `json:"reason,omitempty"`
}

// PartReport describes a part of a calibration.
type PartReport struct {
	Part       string                `json:"part"`
	Model      *onnx.Info            `json:"model"` // null for ready-made features
	Head       HeadInfo              `json:"head"`
	Preprocess *bundle.Preprocessing `json:"preprocess"` // null for ready-made features
	Structure  string                `json:"structure"`
	Covariance string                `json:"covariance"`
	Sets       []PartSet             `json:"sets"`
	Probe      *ProbeInfo            `json:"probe,omitempty"` // of a part that may have the first held-out examples
	Examples   Examples              `json:"examples"`
	Seconds    map[string]float64    `json:"seconds"` // by stage, and "total"
	Bad        []string              `json:"bad_records"`
	Ignored    []string              `json:"ignored"` // files passed over, by reason
	Warnings   []string              `json:"warnings"`
}

// PartSet says what a part has of a set.
type PartSet struct {
	Role   string   `json:"role"`
	Spec   string   `json:"spec"`
	Shards []string `json:"shards"` // "1/8", …
}

// HeadInfo describes the classification head.
type HeadInfo struct {
	bundle.Head
	// LogitError is the largest |φW + b - logits| on the first training batch,
	// relative to the largest logit there.
	LogitError float64 `json:"logit_error,omitempty"`
	// Proof compares what is made of the logits with what the model itself gives; nil where
	// nothing was compared.
	Proof *bundle.Proof `json:"proof,omitempty"`
}

// Validation compares the methods on the data that was tuned on.
type Validation struct {
	bundle.Validation
	// Scores are those of unfamiliarity that were compared, in the order of [score.All] but for the
	// first, which is the default one or the one asked for; nil without out-of-distribution data.
	Scores []score.Candidate `json:"scores,omitempty"`
	// StandIns are how scores tell stand-ins, which are no out-of-distribution data; nil without. The last
	// is learned from these very stand-ins.
	SyntheticOOD []score.Candidate `json:"stand_ins,omitempty"`
}

// Examples counts what was read.
type Examples struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	OOD   int `json:"ood"`
	// StandIns are those for held-out images.
	SyntheticOOD int `json:"stand_ins,omitempty"`
	Bad          int `json:"bad"` // records that could not be read, in all sets
}
