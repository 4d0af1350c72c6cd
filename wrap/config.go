package wrap

import (
	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Setup says where ONNX Runtime is looked for, and whether it may be installed.
// The zero value looks in the usual places and installs nothing.
type Setup = install.Config

// Runtime says how networks are run. The zero value runs them on the CPU with
// an ONNX Runtime found on this machine, and installs nothing. A process loads
// one ONNX Runtime: Setup counts only where none is loaded yet.
type Runtime struct {
	Setup    Setup
	Provider string // one of ort.Providers; "" is the CPU
	Threads  int    // of one inference; 0 is one for each CPU
	Batch    int    // examples per inference; 0 chooses, and a model with a fixed batch keeps its own
}

// Inputs says how records become model inputs.
type Inputs struct {
	// Preprocess turns images into the model's input; nil takes the default for
	// the model's input: uint8 → x/255, layout and flattening as it wants, never
	// a resize, image files turned upright by their EXIF orientation. Ready arrays say
	// nothing of it: beside images it must be given, and a bundle from arrays alone refuses
	// images until it is.
	Preprocess *preprocess.Spec
	// MaxBad is how many records that cannot be read are skipped before giving up.
	MaxBad int
	// Cache is a folder that keeps features between runs; "" keeps none.
	Cache string
}

// Config says what Calibrate does. Model (or ready-made features), Train, Val and Out must be set.
type Config struct {
	Model string       // path of the .onnx file
	Head  head.Options // zero: the head is found

	// Dataset SPECs. Train needs labels only where the covariance asks for the
	// Fisher matrix, Val always does, and OOD, which may be empty, never. An OOD of [StandIns] makes
	// stand-ins of Val's images.
	Train, Val, OOD string
	// ReadyMade says that Train, Val and OOD are .npz files of features and logits, and that there
	// is no model. The logits are those of a softmax; a single one is that of a sigmoid, and where
	// Val has targets of 0 and 1, [N,K], for labels, the head is multi-label.
	ReadyMade bool

	Out     string // folder of the bundle to write
	Force   bool   // replace a bundle that is there
	NoModel bool   // leave the model out of the bundle
	// NoProbe keeps no held-out inputs in the bundle, for [Predictor.Probe]: for data that must not travel.
	NoProbe bool
	// KeepCurvature keeps the sums over the training data in the bundle, for Update and for
	// methods that bench.Evaluate compares.
	KeepCurvature bool

	Classes    []string             // class names in label order; nil: none, or the training folders' names
	Covariance calibrate.Covariance // zero: hessian
	Structure  calibrate.Structure  // zero: auto, full while it is small
	Damping    calibrate.Damping    // zero: chosen on held-out data
	Lambda0    float64              // zero: 3/π²
	OODScore   string               // of [score.Names], that is to serve; "": it is chosen
	// Decisions says when not to answer and which prediction sets are wanted; zero: none. They take half
	// of the held-out examples, one of each two neighbours, to set thresholds on: the others tune all else.
	// Where these do not show one, Calibrate leaves what it has read in a checkpoint: with Resume another
	// may be asked for.
	Decisions conformal.Plan
	Shard     rows.Shard // of each set, for Accumulate; zero: all
	Limit     int        // use at most so many training examples, spread evenly; 0 is all

	Inputs
	Runtime

	// Known is what model and data must be; zero: anything.
	Known Known

	// Resume goes on with a calibration to Out that was interrupted, or begins one. Where Out is
	// its result already, the error is a [*DoneError].
	Resume bool

	Progress func(Progress)
	// Notice, if set, is told at once what need not be in the report.
	Notice func(string)
}

// Known identifies what a calibration reads.
type Known = part.Known

// StandIns for Config.OOD takes stand-ins for unfamiliar data, made of the held-out images. They are
// not out-of-distribution data: scores are compared on them, and nothing else is tuned to them.
const StandIns = "auto"

// Progress is how far a stage of the work is. Stages follow one another; the
// last report of a stage has Done equal to Total.
type Progress struct {
	Stage string // "train", "val", "ood", "test", "tuning", …
	Done  int    // examples, or steps of tuning
	Total int    // 0 where it is not known yet: of standard input
	Unit  string // "examples" or "steps"
}

// step returns what hands progress on, nil where nobody asks for it.
func step(report func(Progress)) func(stage, unit string, done, total int) {
	if report == nil {
		return nil
	}
	return func(stage, unit string, done, total int) {
		report(Progress{Stage: stage, Unit: unit, Done: done, Total: total})
	}
}

// Report describes a calibration.
type Report struct {
	Bundle        string          `json:"bundle"`
	Model         *ModelInfo      `json:"model"` // null for ready-made features
	Head          HeadInfo        `json:"head"`
	Preprocess    *PreprocessInfo `json:"preprocess"` // null for ready-made features
	Structure     string          `json:"structure"`
	Covariance    string          `json:"covariance"`
	Damping       bundle.Damping  `json:"damping"`
	Probabilities ChoiceInfo      `json:"probabilities"`
	OODScore      ScoreInfo       `json:"ood_score"`
	Temperatures  TemperatureInfo `json:"temperatures"`
	HeldOut       HeldOut         `json:"held_out"`
	// Decisions are those that were asked for.
	Decisions *conformal.Decisions `json:"decisions,omitempty"`
	Probe     ProbeInfo            `json:"probe"`
	// Recommendation is by HeldOut, which was tuned on; probabilities are those that serve.
	Recommendation Recommendation     `json:"recommendation"`
	Examples       Examples           `json:"examples"`
	Seconds        map[string]float64 `json:"seconds"` // by stage, and "total"
	Bad            []string           `json:"bad_records"`
	Ignored        []string           `json:"ignored"` // files passed over, by reason
	Warnings       []string           `json:"warnings"`
}

// Recommendation says which probabilities and which score of unfamiliarity to use, and how sure that
// is.
type Recommendation = measure.Recommendation

// ProbeInfo says how many held-out inputs are kept for [Predictor.Probe], and of none why.
type ProbeInfo struct {
	Examples int    `json:"examples"`
	Reason   string `json:"reason,omitempty"`
}

// PartReport describes a part of a calibration.
type PartReport struct {
	Part       string             `json:"part"`
	Model      *ModelInfo         `json:"model"` // null for ready-made features
	Head       HeadInfo           `json:"head"`
	Preprocess *PreprocessInfo    `json:"preprocess"` // null for ready-made features
	Structure  string             `json:"structure"`
	Covariance string             `json:"covariance"`
	Sets       []PartSet          `json:"sets"`
	Probe      *ProbeInfo         `json:"probe,omitempty"` // of a part that may have the first held-out examples
	Examples   Examples           `json:"examples"`
	Seconds    map[string]float64 `json:"seconds"` // by stage, and "total"
	Bad        []string           `json:"bad_records"`
	Ignored    []string           `json:"ignored"` // files passed over, by reason
	Warnings   []string           `json:"warnings"`
}

// PartSet says what a part has of a set.
type PartSet struct {
	Role   string   `json:"role"`
	Spec   string   `json:"spec"`
	Shards []string `json:"shards"` // "1/8", …
}

// ModelInfo names a model file.
type ModelInfo struct {
	Path     string `json:"path,omitempty"`
	SHA256   string `json:"sha256"`
	Opset    int64  `json:"opset"`
	Producer string `json:"producer"`
	// Inputs and Outputs are left out where the model is not looked at, as in merging.
	Inputs  []onnx.ValueInfo `json:"inputs,omitempty"`
	Outputs []onnx.ValueInfo `json:"outputs,omitempty"`
}

// PreprocessInfo says how images become the model's input, and how that is known.
type PreprocessInfo = part.Preprocess

// PreprocessSource is how preprocessing is known.
type PreprocessSource = part.PreprocessSource

const (
	Given   = part.Given   // it was given
	Assumed = part.Assumed // the data are images, and the default was taken
	Unknown = part.Unknown // the data are ready arrays
)

// HeadInfo describes the classification head.
type HeadInfo struct {
	bundle.Head
	// LogitError is the largest |φW + b - logits| on the first training batch,
	// relative to the largest logit there.
	LogitError float64 `json:"logit_error,omitempty"`
	// Proof compares what is made of the logits with what the model itself gives; nil where
	// nothing was compared.
	Proof *Proof `json:"proof,omitempty"`
}

// ChoiceInfo says whose probabilities are served: "mf0", "ts" (temperature scaling) or "mle" (the
// network's own), and why. The numbers are those of a [calibrate.Choice], in nats.
type ChoiceInfo struct {
	Method    string  `json:"method"`
	Reason    string  `json:"reason"`
	TSGain    float64 `json:"ts_gain"`
	TSNeeded  float64 `json:"ts_needed"`
	MF0Gain   float64 `json:"mf0_gain"`
	MF0Needed float64 `json:"mf0_needed"`
}

// ScoreInfo says which score of unfamiliarity is served as ood_score, and why.
type ScoreInfo struct {
	score.Choice
	Reason string `json:"reason"`
}

func scoreInfo(c score.Choice) ScoreInfo { return ScoreInfo{c, c.String()} }

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

// HeldOut compares the methods on the data that was tuned on.
type HeldOut struct {
	bundle.HeldOut
	// Scores are those of unfamiliarity that were compared, in the order of [score.All] but for the
	// first, which is the default one or the one asked for; nil without out-of-distribution data.
	Scores []score.Tried `json:"scores,omitempty"`
	// StandIns are how scores tell stand-ins, which are no out-of-distribution data; nil without. The last
	// is learned from these very stand-ins.
	StandIns []score.Tried `json:"stand_ins,omitempty"`
}

// Examples counts what was read.
type Examples struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	OOD   int `json:"ood"`
	// StandIns are those for held-out images.
	StandIns int `json:"stand_ins,omitempty"`
	Bad      int `json:"bad"` // records that could not be read, in all sets
}

// BundleInfo names a bundle.
type BundleInfo struct {
	Path          string               `json:"path"`
	Structure     string               `json:"structure"`
	Covariance    string               `json:"covariance"`
	Damping       bundle.Damping       `json:"damping"`
	Probabilities ChoiceInfo           `json:"probabilities"`
	OODScore      ScoreInfo            `json:"ood_score"`
	Decisions     *conformal.Decisions `json:"decisions,omitempty"`
	Temperatures  TemperatureInfo      `json:"temperatures"`
}

// Proof says how far what is made of the logits is from what the model itself gives.
type Proof = part.Proof

func choiceInfo(c calibrate.Choice) ChoiceInfo {
	return ChoiceInfo{
		Method: string(c.Method), Reason: c.String(),
		TSGain: c.TSGain, TSNeeded: c.TSNeeded, MF0Gain: c.MF0Gain, MF0Needed: c.MF0Needed,
	}
}
