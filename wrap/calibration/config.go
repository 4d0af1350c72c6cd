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

// Config says what Calibrate does. Model or PrecomputedFeatures, Train or Posterior, Val and Out must be set. A [Job]
// sets the fields with a YAML key.
type Config struct {
	Model string `yaml:"model"` // path of the .onnx file

	// Dataset SPECs. Train needs labels only if the covariance needs the Fisher matrix, Val always does,
	// and OOD, which may be empty, never. An OOD of [wrap.SyntheticOOD] makes synthetic OOD images from Val's.
	Train string `yaml:"-"`
	Val   string `yaml:"-"`
	OOD   string `yaml:"-"`
	// Expected, unless empty, is the SPEC of arrays with the probabilities that are expected of the model for Val's
	// records, in their order, such as those of the library that exported it. Calibrate warns of others.
	Expected string `yaml:"expected"`
	// Posterior, unless empty, is the path of a safetensors file with a posterior over the last layer's weights, see
	// package external: of laplace-torch, vbll, SNGP or any other program. It takes the place of the one that is
	// computed from Train, to which then only scores are fitted, and in whose place Val may stand: leave it out.
	Posterior string `yaml:"posterior"`
	// PrecomputedFeatures says that Train, Val and OOD are .npz files of features and logits, and that there
	// is no model. The link is softmax, sigmoid for a single logit; if Val has targets of 0 and 1, [N,K],
	// as labels, the head is multi-label.
	PrecomputedFeatures bool `yaml:"-"`

	// Preprocess turns images into the model's input. nil is the default: uint8 → x/255, the layout and
	// flattening of the model's input, no resizing, image files turned upright by their EXIF
	// orientation. If some sets are images and others ready arrays it must be set. A bundle calibrated with arrays
	// alone refuses images until it is given one.
	Preprocess *preprocess.Spec `yaml:"preprocess"`
	Classes    []string         `yaml:"labels"` // names in label order; nil: none, or the training folders' names
	// Alphabet, for the kind [head.CTC], are the symbols in the order of the model's numbers: all K with "" for the
	// blank, or without the blank, which is then the first or last. Nil is that of the model's metadata.
	Alphabet []string `yaml:"alphabet"`

	// Settings say how. If the validation data are too few for Decisions, Calibrate keeps
	// what it has read in a checkpoint, so that it can Resume with other ones.
	bundle.Settings `yaml:",inline"`

	Out   string `yaml:"out"` // folder of the bundle to write
	Force bool   `yaml:"-"`   // replace an existing bundle
	// Resume continues an interrupted calibration to Out, or begins one. If Out is its result already, the
	// error is a [*DoneError].
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

	Expect Expect `yaml:"-"` // hashes of model and data; zero: any

	Progress func(wrap.Progress) `yaml:"-"`
	// Notice, if set, receives messages that are not in the report, at once.
	Notice func(string) `yaml:"-"`
}

// Report describes a calibration.
type Report struct {
	Bundle     string                `json:"bundle"`
	Model      *onnx.Info            `json:"model"` // null for precomputed features
	Head       HeadInfo              `json:"head"`
	Preprocess *bundle.Preprocessing `json:"preprocess"` // null for precomputed features
	bundle.Summary
	Validation Validation `json:"held_out"`
	Probe      ProbeInfo  `json:"probe"`
	// Recommendation follows from Validation, which was tuned on; its probabilities are the selected ones.
	Recommendation metrics.Recommendation `json:"recommendation"`
	Examples       Examples               `json:"examples"`
	Seconds        map[string]float64     `json:"seconds"` // by stage, and "total"
	Bad            []string               `json:"bad_records"`
	Ignored        []string               `json:"ignored"` // files that were skipped, by reason
	Warnings       []string               `json:"warnings"`
}

// ProbeInfo says how many validation inputs are kept for [wrap.Predictor.Probe], and if none, why.
type ProbeInfo struct {
	Examples int    `json:"examples"`
	Reason   string `json:"reason,omitempty"`
}

// PartReport describes a part of a calibration.
type PartReport struct {
	Part       string                `json:"part"`
	Model      *onnx.Info            `json:"model"` // null for precomputed features
	Head       HeadInfo              `json:"head"`
	Preprocess *bundle.Preprocessing `json:"preprocess"` // null for precomputed features
	Structure  string                `json:"structure"`
	Covariance string                `json:"covariance"`
	Sets       []PartSet             `json:"sets"`
	Probe      *ProbeInfo            `json:"probe,omitempty"` // of a part that may have the first validation examples
	Examples   Examples              `json:"examples"`
	Seconds    map[string]float64    `json:"seconds"` // by stage, and "total"
	Bad        []string              `json:"bad_records"`
	Ignored    []string              `json:"ignored"` // files that were skipped, by reason
	Warnings   []string              `json:"warnings"`
}

// PartSet lists the shards of a set in a part.
type PartSet struct {
	Role   string   `json:"role"`
	Spec   string   `json:"spec"`
	Shards []string `json:"shards"` // "1/8", …
}

// HeadInfo describes the classification head.
type HeadInfo struct {
	bundle.Head
	// LogitError is the largest |φW + b - logits| on the first training batch, relative to the largest logit
	// there.
	LogitError float64 `json:"logit_error,omitempty"`
	// Proof compares the probabilities or classes computed from the logits with the model's own; nil if
	// nothing was compared.
	Proof *bundle.Proof `json:"proof,omitempty"`
}

// Validation compares the methods on the data that they were tuned on.
type Validation struct {
	bundle.Validation
	// Scores are the OOD scores that were compared: first the default or configured one, then the others in the
	// order of [score.All]; nil without OOD data.
	Scores []score.Candidate `json:"scores,omitempty"`
	// SyntheticOOD is how well scores detect synthetic OOD data; nil without. The last score was fitted to
	// these very data.
	SyntheticOOD []score.Candidate `json:"synthetic_ood,omitempty"`
	// ClassChanges counts the examples, of at most 10,000 evenly spaced ones, whose predicted class, or one of whose
	// labels, is another than the network's.
	ClassChanges int `json:"class_changes"`
}

// Examples counts what was read.
type Examples struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	OOD   int `json:"ood"`
	// SyntheticOOD counts images made from validation images.
	SyntheticOOD int `json:"synthetic_ood,omitempty"`
	Bad          int `json:"bad"` // records that could not be read, in all sets
}
