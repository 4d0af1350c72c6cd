package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// Version is the format that is written. Formats from [oldest] on are read.
const Version = 2

const oldest = 1

// MaxManifest is the largest size of a manifest in bytes: room for the names of a hundred thousand classes.
const MaxManifest = 4 << 20

// MaxBatch is the largest inference batch of a manifest. Memory for a whole batch is allocated first.
const MaxBatch = 1 << 16

// The names of a bundle's files.
const (
	ManifestName  = "bundle.yaml"
	PosteriorName = "posterior.safetensors"
	CurvatureName = "curvature.safetensors"
	ScoresName    = "scores.safetensors"
	SampleName    = "sample.safetensors"
	ProbeName     = "probe.safetensors"
	ModelName     = "model.onnx"
	ModelDataName = "model.onnx.data" // the name is written in the model
)

// Manifest is the content of bundle.yaml. The caller of [Write] need not set fields marked "set by Write".
type Manifest struct {
	Format int    `yaml:"format"` // set by Write, to [Version]
	Tool   string `yaml:"tool"`   // what wrote the bundle, such as "mfgs v0.1.0"

	// Model is nil for precomputed features.
	Model *Model `yaml:"model,omitempty"`
	Head  Head   `yaml:"head"`

	// Preprocess is how images become the model's input. Nil means unknown: the calibration had only ready arrays,
	// and images are refused. In format 1 it is never nil: what is left out there changes no pixel.
	Preprocess *preprocess.Spec `yaml:"preprocess,omitempty"`

	// Bytes says that a model with several inputs, which has no Preprocess, was calibrated with
	// bytes for some of them, converted to numbers by the default. Format 1 does not record it.
	Bytes bool `yaml:"bytes,omitempty"`

	// Settings are those of the calibration. Nil in bundles written before they were recorded:
	// see [Manifest.CalibrationSettings].
	Settings *Settings `yaml:"settings,omitempty"`

	// Covariance, Structure, Damping and MeanField are those of the posterior. A head without a linear layer has none.
	Covariance calibrate.Covariance `yaml:"covariance,omitempty"` // set by Write
	Structure  calibrate.Structure  `yaml:"structure,omitempty"`  // full or kron; set by Write
	Damping    Damping              `yaml:"damping,omitempty"`
	// External describes the posterior of the covariance [calibrate.External], which another program computed and which
	// has no damping; else nil.
	External *External `yaml:"external_posterior,omitempty"`

	// Probabilities says which method's probabilities are predicted. Nil in format 1: mf0.
	Probabilities *calibrate.Choice `yaml:"probabilities,omitempty,flow"`
	Temperatures  Temperatures      `yaml:"temperatures"`
	MeanField     MeanField         `yaml:"mean_field,omitempty"`

	// ClassFrequencies are the mean probabilities of the C classes over the validation data, before [Settings.Prior]:
	// see [calibrate.ClassFrequencies]. Nil for a multi-label head, in format 1 and in early bundles of format 2.
	ClassFrequencies []float64 `yaml:"class_frequencies,omitempty,flow"`

	// PriorEstimate is the class frequencies in use if they were estimated; they take the place of [Settings.Prior].
	PriorEstimate *PriorEstimate `yaml:"prior_estimate,omitempty"`

	// OODScore is the selected OOD score. Nil in format 1 and in early bundles of format
	// 2: mf0.
	OODScore *OODScore `yaml:"ood_score,omitempty"`

	// Decisions say when to abstain, and which classes are in a prediction set; nil without any, as in format
	// 1.
	Decisions *conformal.Decisions `yaml:"decisions,omitempty"`

	Validation Validation `yaml:"held_out"`

	// Reference is the distribution of the predictions for validation examples; nil in format 1 and early bundles of
	// format 2.
	Reference *Reference `yaml:"reference,omitempty"`

	Datasets []Dataset `yaml:"datasets"`
	Batch    int       `yaml:"batch"` // inference batch, at most [MaxBatch]; 0 for precomputed features
	Warnings []string  `yaml:"warnings,omitempty"`

	Posterior File  `yaml:"posterior"`           // set by Write
	Curvature *File `yaml:"curvature,omitempty"` // set by Write
	Scores    *File `yaml:"scores,omitempty"`    // fitted tensors of the OOD score; set by Write
	Sample    *File `yaml:"sample,omitempty"`    // goes with Curvature; set by Write
	Probe     *File `yaml:"probe,omitempty"`     // validation inputs for Model; set by Write

	// Labels are the names of the classes, or of the labels of a multi-label head, in their order.
	// It may be empty. A head with one logit has two classes; the probability of the second
	// increases with the logit.
	Labels []string `yaml:"labels,omitempty"`

	// Columns are the columns of the tables that the bundle was calibrated on, in the order in which they feed the
	// model's only input. It is empty if there were none. Tables for the bundle need these columns, in any order.
	Columns []string `yaml:"columns,omitempty"`

	// Grids are the objectives over temperatures. It may be nil.
	Grids *Grids `yaml:"grids,omitempty"`

	// Extensions are fields whose names begin with "x-". They are kept, and otherwise ignored. Format 1 has
	// none.
	Extensions map[string]any `yaml:",inline"`
}

// extensionPrefix marks fields that no version of the format will define.
const extensionPrefix = "x-"

// File is another file of the bundle.
type File struct {
	Name   string `yaml:"name"`
	SHA256 string `yaml:"sha256"`
}

// Model is the network that was calibrated.
type Model struct {
	SHA256   string `yaml:"sha256"` // of the model that was calibrated, see the package documentation
	Producer string `yaml:"producer,omitempty"`
	Opset    int64  `yaml:"opset"`

	// File is the copy in the bundle, nil if it was left out, and Data the file beside it with its weights, nil
	// if the copy has them all; set by Write. If the calibrated model had weights in other files, SHA256 is the
	// hash of neither.
	File *File `yaml:"file,omitempty"`
	Data *File `yaml:"data,omitempty"`
}

// Head is the last layer. Only its dimensions and link are set without a model.
type Head struct {
	Op             string `yaml:"op,omitempty" json:"op,omitempty"`
	Node           string `yaml:"node,omitempty" json:"node,omitempty"`
	FeaturesTensor string `yaml:"features,omitempty" json:"features,omitempty"`
	LogitsTensor   string `yaml:"logits,omitempty" json:"logits,omitempty"`
	layer.Head     `yaml:",inline"`
	Tail           []string `yaml:"tail,omitempty,flow" json:"tail,omitempty"` // operators after the logits

	// Approximation names a nonlinear operator between the layer and the logits, as in SqueezeNet; empty if the
	// logits are exactly φW + b.
	Approximation head.Approximation `yaml:"approximation,omitempty" json:"approximation,omitempty"`

	// Steps is the number of axes of steps of a head that answers for each step of an example, see [head.Head]; else 0.
	Steps int `yaml:"steps,omitempty" json:"steps,omitempty"`

	// Fix are inputs of the model that were made constants, see [head.Options].
	Fix string `yaml:"fix,omitempty" json:"fix,omitempty"`

	// State are inputs of the model that hold a state, and the outputs that hold its next value, see [head.Options].
	State string `yaml:"state,omitempty" json:"state,omitempty"`

	// Kind says what the logits are of without a linear layer, and is empty with one and for precomputed logits.
	Kind head.Kind `yaml:"kind,omitempty" json:"kind,omitempty"`
	// Decoding is how text is read, for the kind [head.CTC].
	Decoding *head.Decoding `yaml:"decoding,omitempty" json:"decoding,omitempty"`
}

// External is a posterior that another program computed.
type External struct {
	File    string        `yaml:"file" json:"file"`                           // as given on the command line
	SHA256  string        `yaml:"sha256" json:"sha256"`                       // of the file
	Program string        `yaml:"program,omitempty" json:"program,omitempty"` // "" for a file with the names of none
	Form    external.Form `yaml:"form" json:"form"`                           // of the covariance
	// Weights says that the file had the mean of the weights, and that the model's layer has the same.
	Weights bool `yaml:"weights,omitempty" json:"weights"`
}

// Damping says how ε was chosen.
type Damping struct {
	Rule    string  `yaml:"rule" json:"rule"`       // the setting: auto, EPS or rel:RHO
	Epsilon float64 `yaml:"epsilon" json:"epsilon"` // set by Write
	Rho     float64 `yaml:"rho" json:"rho"`         // ε over the mean eigenvalue; 0 if that is 0

	Candidates []calibrate.Candidate `yaml:"candidates,omitempty" json:"candidates"`
}

// Temperatures are the two pairs of mf0, which there are with a linear layer, and the one of temperature scaling.
type Temperatures struct {
	// NLL is for the probabilities of mf0: of the pairs whose validation NLL is not significantly above the
	// minimum, the one with the smallest T_ens over median variance.
	NLL Pair `yaml:"nll,omitempty,flow"`

	// Optimum is the pair with the minimal validation NLL, tuned on "nll". It is not used for
	// predictions, and may be nil.
	Optimum *Pair `yaml:"optimum,omitempty,flow"`

	OOD Pair    `yaml:"ood,omitempty,flow"` // for out-of-distribution scores
	TS  float64 `yaml:"ts"`

	// Smoothing is temperature scaling's and matrix scaling's ε without a linear layer, see [layer.Affine]; else 0.
	Smoothing float64 `yaml:"smoothing,omitempty"`

	// TSOOD is the temperature of temperature scaling tuned on "ood"; 0 without OOD data.
	TSOOD float64 `yaml:"ts_ood,omitempty"`
}

// Pair is one pair of temperatures. TunedOn is "nll", the validation likelihood, or "ood", the detection of OOD
// data; without OOD data the pair OOD is "nll", and equal to the other.
type Pair struct {
	layer.Temperatures `yaml:",inline"`
	TunedOn            string `yaml:"tuned_on"`
}

// MeanField holds the other numbers of the approximation.
type MeanField struct {
	Lambda0 float64 `yaml:"lambda0"`

	// MedianVariance is the median logit variance of validation data at T_ens = 1, the unit of τ in Grids.
	MedianVariance float64 `yaml:"median_variance"`

	// MaxRatio is the largest T_max/T_min of a validation or OOD example. The degree of interpolation follows
	// from it, except for the links sigmoid and one-vs-rest, which need none.
	MaxRatio float64 `yaml:"max_ratio"`

	// MedianMargin is the median margin of validation data under the pair OOD, which scales
	// ood_score if there is no OODScore; otherwise 0. Format 1 has none: it is 1.
	MedianMargin float64 `yaml:"median_margin,omitempty"`
}

// Validation has the figures on the data that the temperatures were tuned on: they are better than on new data.
type Validation struct {
	Before Figures  `yaml:"before" json:"before"`                     // the network's own probabilities
	TS     Figures  `yaml:"ts" json:"ts"`                             // temperature scaling
	Matrix *Figures `yaml:"matrix,omitempty" json:"matrix,omitempty"` // matrix scaling, if the bundle has it
	MF0    *Figures `yaml:"mf0,omitempty" json:"mf0,omitempty"`       // of format 2, with a linear layer
	After  Figures  `yaml:"after" json:"after"`                       // the selected probabilities and OOD score; in format 1 mf0
}

// Figures are those of one method; of a multi-label head over all its labels (see metrics.MultiLabel). OOD,
// under the temperatures tuned for OOD detection, and OODNLL, under those for likelihood, are nil without OOD
// data.
type Figures struct {
	metrics.InDomain `yaml:"in_domain,flow"`
	OOD              *metrics.OOD `yaml:"ood,omitempty,flow" json:"ood,omitempty"`
	OODNLL           *metrics.OOD `yaml:"ood_nll,omitempty,flow" json:"ood_nll,omitempty"`
}

// Role says what a dataset was used for.
type Role string

const (
	Train Role = "train" // curvature
	Val   Role = "val"   // damping and temperatures
	OOD   Role = "ood"   // the temperatures of the pair OOD
	// SyntheticOOD images are made from those of val, and have its SPEC: scores are compared on them, and the
	// learned one is fitted to them.
	SyntheticOOD Role = "synthetic_ood"
)

// Dataset is a source of examples.
type Dataset struct {
	Role        Role   `yaml:"role"`
	Spec        string `yaml:"spec"`        // as given on the command line
	Fingerprint string `yaml:"fingerprint"` // SHA-256 of its content
	Count       int    `yaml:"count"`       // examples used
	Ignored     int    `yaml:"ignored,omitempty"`
	Bad         int    `yaml:"bad,omitempty"` // examples that could not be read

	// Parts are the shards in which it was read, in order; none if it was read as one. Fingerprint is then
	// [FingerprintOf] them.
	Parts []DatasetPart `yaml:"parts,omitempty"`
}

// DatasetPart is a shard of a dataset.
type DatasetPart struct {
	Shard       rows.Shard `yaml:"shard"`       // "i/n"
	Fingerprint string     `yaml:"fingerprint"` // SHA-256 of its content
}

// FingerprintOf returns the fingerprint of a dataset that was read in parts: the SHA-256 of a line
// for each, its shard, a space and its fingerprint.
func FingerprintOf(parts []DatasetPart) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintln(h, p.Shard, p.Fingerprint)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Grids are the objectives over temperatures; AUROC is nil without out-of-distribution data.
type Grids struct {
	NLL   *calibrate.Grid `yaml:"nll,omitempty"`
	AUROC *calibrate.Grid `yaml:"auroc,omitempty"`
}

// CalibrationSettings returns the settings of the calibration that made a bundle. If they are not recorded, it
// returns settings with the same result.
func (m *Manifest) CalibrationSettings() Settings {
	if m.Settings != nil {
		return *m.Settings
	}
	damping, _ := calibrate.ParseDamping(m.Damping.Rule) // the manifest is valid
	s := Settings{
		Head: head.Options{
			Features: m.Head.FeaturesTensor, Logits: m.Head.LogitsTensor, Link: m.Head.Link,
			Approximate: m.Head.Approximation, Fix: m.Head.Fix, State: m.Head.State,
		},
		Covariance: m.Covariance, Structure: m.Structure, Damping: damping, Lambda0: m.MeanField.Lambda0,
	}
	if o := m.OODScore; o != nil && o.Requested {
		s.OODScore = o.Name
	}
	if m.Decisions != nil {
		s.Decisions = m.Decisions.Plan
	}
	for _, d := range m.Datasets {
		if d.Role == Train && len(d.Parts) == 0 {
			s.Limit = d.Count + d.Bad
		}
		s.MaxBad = max(s.MaxBad, d.Bad)
	}
	return s
}

// ResolvePrior returns the class frequencies in use, [C]: those of PriorEstimate or those that [Settings.Prior] asks
// for, nil if there are none. Classes that the settings do not name share the rest in the proportions of
// ClassFrequencies. No frequency is below [LeastPrior].
func (m *Manifest) ResolvePrior() ([]float64, error) {
	switch {
	case m.PriorEstimate != nil:
		prior := slices.Clone(m.PriorEstimate.Frequencies)
		for c, v := range prior {
			prior[c] = max(v, LeastPrior)
		}
		return prior, nil
	case m.Settings == nil || m.Settings.Prior == nil:
		return nil, nil
	}
	return resolvePrior(m.Settings.Prior, newClassNames(m.Labels, len(m.ClassFrequencies)), m.ClassFrequencies)
}

// HasPrior reports whether there are class frequencies in use.
func (m *Manifest) HasPrior() bool {
	return m.PriorEstimate != nil || m.Settings != nil && m.Settings.Prior != nil
}

// TuningExamples returns how many validation examples ClassFrequencies are of: all, or the half that sets no
// thresholds.
func (m *Manifest) TuningExamples() (n int) {
	for _, d := range m.Datasets {
		if d.Role == Val {
			n += d.Count
		}
	}
	if m.Decisions != nil {
		n = (n + 1) / 2
	}
	return n
}

// PriorEstimate says how class frequencies in use were estimated.
type PriorEstimate struct {
	Spec                    string `yaml:"spec" json:"spec"`         // of the unlabelled data
	Examples                int    `yaml:"examples" json:"examples"` // of them
	calibrate.PriorEstimate `yaml:",inline"`
}

// Preprocessing says how images become the model's input, and how we know. A model with several inputs takes
// ready arrays, and has no Spec.
type Preprocessing struct {
	Source PreprocessSource `yaml:"source" json:"source"`
	// Spec is nil if it is unknown or there are several inputs.
	Spec *preprocess.Spec `yaml:"spec,omitempty" json:"spec,omitempty"`
}

// PreprocessSource is how we know the preprocessing.
type PreprocessSource string

const (
	Given   PreprocessSource = "given"   // it was configured
	Assumed PreprocessSource = "assumed" // the data are images: the default
	Unknown PreprocessSource = "unknown" // the data are ready arrays
)

// Proof says how far the probabilities or classes computed from the logits are from the model's own output.
type Proof struct {
	Output   string `yaml:"output" json:"output"`     // the model's output that was compared
	Examples int    `yaml:"examples" json:"examples"` // of the training data
	// Difference is the largest difference of probabilities, or the fraction of
	// examples with another class.
	Difference float64 `yaml:"difference" json:"difference"`
}

// comments stand above the fields of a manifest.
var comments = map[string]string{
	"format":             "A calibrated classifier, by mfgs. After an edit by hand, run: mfgs reseal FOLDER",
	"model":              "The network: sha256 is that of the calibrated file, file the copy in this folder.",
	"head":               "What gives the logits: the last layer, W·features + b, or none of that kind (nonlinear).",
	"preprocess":         "How images become the input tensor; unknown if it is left out.",
	"settings":           "The settings of the calibration.",
	"covariance":         "The posterior covariance: its kind and structure.",
	"external_posterior": "The posterior was not computed from training data, but read from this file.",
	"damping":            "Added to every eigenvalue; rho is epsilon divided by the mean eigenvalue.",
	"probabilities":      "Which probabilities are used: mf0, matrix (matrix scaling), ts (temperature scaling) or mle (the network's own), and why: gains in nats and their thresholds.",
	"temperatures":       "Logits are divided by ts or act, the covariance by ens.",
	"mean_field":         "Constants of the approximation.",
	"class_frequencies":  "The mean probabilities of the classes over the validation data. Where settings.prior or prior_estimate has other frequencies, probabilities are corrected.",
	"ood_score":          "The OOD score, why it was selected, and its quantiles on the validation data.",
	"decisions":          "When the model abstains, the prediction sets, and what is guaranteed.",
	"held_out":           "Metrics on the validation data, which was used for tuning: fractions, and nats for the NLL.",
	"reference":          "The predictions for the validation data, with which a server detects drift: quantiles, and how many values are below and at most each.",
	"datasets":           "The datasets and their roles.",
	"batch":              "The batch size of inference.",
	"posterior":          "The other files of this folder.",
	"labels":             "The class names, in order.",
	"grids":              "The objectives on a grid over T_act and tau = T_ens / median_variance.",
}

// render returns the document of a manifest, without a seal.
func (m *Manifest) render() ([]byte, error) { return folder.Render(m, comments) }

const resealHint = "after an edit by hand run mfgs reseal"

// ParseManifest reads and validates a manifest, sealed or not, without looking at the files that it names.
func ParseManifest(document []byte) (*Manifest, error) { return parse(document) }

// parse reads a document and validates it.
func parse(document []byte) (*Manifest, error) {
	root, err := folder.Parse(document)
	if err != nil {
		return nil, err
	}
	format, err := folder.Format(root)
	if err != nil {
		return nil, err
	}
	switch {
	case format == nil:
		return nil, fmt.Errorf("%w: field format is missing", ErrVersion)
	case *format < oldest || *format > Version:
		return nil, fmt.Errorf("%w: format %d, this program reads %d to %d", ErrVersion, *format, oldest, Version)
	}

	var m Manifest
	if err := folder.Decode(document, root, &m); err != nil {
		return nil, err
	}
	if err := checkExtensions(root, &m); err != nil {
		return nil, err
	}
	if m.Format == 1 && m.Preprocess == nil {
		m.Preprocess = &preprocess.Spec{}
	}
	if p := m.Preprocess; p != nil && p.Exif == nil {
		p.Exif = new(false) // older than the field: images were taken as stored
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &m, nil
}

// checkExtensions refuses unknown fields: the decoder takes all of them for extensions.
func checkExtensions(root *yaml.Node, m *Manifest) error {
	fields := root.Content[0].Content
	for i := 0; i < len(fields); i += 2 {
		key := fields[i]
		_, unknown := m.Extensions[key.Value]
		if unknown && (m.Format == 1 || !strings.HasPrefix(key.Value, extensionPrefix)) {
			return fmt.Errorf("%w: line %d: field %s", ErrUnknownField, key.Line, text.Line(strings.Join(strings.Fields(key.Value), " ")))
		}
	}
	return nil
}
