package bench

import (
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
)

// Config is the configuration of Evaluate. Bundle and Test must be set.
type Config struct {
	Bundle string
	Model  string // if the bundle holds none
	// Test is a SPEC with labels, or targets for a multi-label head; for a bundle without a model an .npz of features
	// and logits.
	Test string
	OOD  []NamedSpec // Spec wrap.SyntheticOOD, with Name synthetic_ood: synthetic OOD data from Test's images
	// Shifts are labelled sets under distribution shift: rotated, blurred, of another year. Sets of one size, and
	// Test if it has that size, are taken for the same examples in another form and share their draws, so that
	// figures of several sets can be combined, see metrics.Certainty. The interval of each set is the same, up to the
	// draws.
	Shifts []NamedSpec
	// InUse measures a sample of Test whose classes have the frequencies in use, if the bundle has such: for data like
	// the validation data.
	InUse bool
	Limit int // at most this many examples of each set, evenly spaced; 0: all

	PerClass bool // measure each class of the test set as well

	// Bins is the number of bins of confidence of the ECE, the debiased calibration error, the class-wise ECE and
	// reliability diagrams, at most MostBins; 0: metrics.DefaultBins.
	Bins int

	// Detailed fills Evaluation.Detail, and adds the network itself and what the bundle serves to the methods.
	Detailed bool

	// Methods are of Methods(), or taken by Comparators. Nil is mle, ts, mf0, ood_score, which is the score that the
	// bundle serves, and leverage.
	Methods []string

	// Comparators are methods that no bundle can serve; nil for none.
	Comparators Comparators

	// Alone leaves out the baselines mle and ts, unless Methods names them. Without mle there is no recommendation,
	// and no difference to it.
	Alone bool

	// Train is the data for fitting scores that the bundle does not serve. "": the data of the calibration, if
	// unchanged.
	Train string

	Seed uint64 // of everything random
	// Resamples is the number of bootstrap resamples; 0: 1,000.
	Resamples int

	Preprocess *preprocess.Spec // from images to the model's input; nil: the bundle's
	MaxBad     int              // unreadable records to skip before giving up
	Cache      string           // a folder that keeps features between runs; "": none
	Runtime    wrap.Runtime

	Progress func(wrap.Progress)
}

// MostBins bounds Config.Bins: each class has as many.
const MostBins = 1000

// step returns a callback for progress, nil without Progress.
func (c *Config) step() func(stage, unit string, done, total int) {
	if c.Progress == nil {
		return nil
	}
	return func(stage, unit string, done, total int) {
		c.Progress(wrap.Progress{Stage: stage, Unit: unit, Done: done, Total: total})
	}
}

// Evaluation is the result of Evaluate.
type Evaluation struct {
	Model   *onnx.Info      `json:"model"`
	Bundle  wrap.BundleInfo `json:"bundle"`
	Methods []MethodResult  `json:"methods"`
	// Decisions are the outcomes of the bundle's decisions on each set; nil if it has none.
	Decisions []DecisionResult `json:"decisions,omitempty"`
	// Texts says how far the texts read are from the right ones, on each labelled set; nil for other models.
	Texts []TextResult `json:"texts,omitempty"`
	// Tags says the same of the tags of sequences.
	Tags   []TagResult `json:"tags,omitempty"`
	Detail *Detail     `json:"-"`    // if Config.Detailed
	Bins   int         `json:"bins"` // of the ECE and other binned figures
	// Implausible says that the network's accuracy on the test set suggests wrong labels, class order or inputs.
	Implausible    bool                   `json:"implausible_accuracy,omitempty"`
	Bootstrap      BootstrapInfo          `json:"bootstrap"`
	Recommendation metrics.Recommendation `json:"recommendation"`
	Bad            []string               `json:"bad_records"`
	Ignored        []string               `json:"ignored"`
	Warnings       []string               `json:"warnings"`
}

// DecisionResult is the outcome of the bundle's decisions on a set: "test", or the name of another.
type DecisionResult struct {
	Set string `json:"set"`
	conformal.Realised
}

// TextResult are the figures of texts on a set: "test", or the name of another.
type TextResult struct {
	Set string `json:"set"`
	metrics.TextFigures
}

// TagResult are the figures of tags on a set: "test", or the name of another.
type TagResult struct {
	Set string `json:"set"`
	metrics.TagFigures
}

// BootstrapInfo says how intervals were computed. Level is their confidence, a fraction.
type BootstrapInfo struct {
	Resamples int     `json:"resamples"`
	Level     float64 `json:"level"`
	Seed      uint64  `json:"seed"`
}

// MethodResult is one method's figures. Scores without probabilities have no InDomain.
type MethodResult struct {
	Name string `json:"name"`
	// Draw is the draw of a random comparator, from 0 on.
	Draw     int               `json:"draw,omitempty"`
	InDomain *metrics.Labelled `json:"in_domain,omitempty"`
	// Shifts are the figures on Config.Shifts, in their order.
	Shifts []ShiftResult `json:"shifts,omitempty"`
	// Temperatures are those tuned for a comparator. T_ens is 1 if the method has none.
	Temperatures *TunedPairs `json:"temperatures,omitempty"`
	// Note says what a reader of the figures should know.
	Note string `json:"note,omitempty"`
	// Seconds are the times for fitting a score, or for fitting, tuning and testing a comparator; draws after the first
	// have no tuning.
	Seconds map[string]float64 `json:"seconds,omitempty"`
	// OOD are the figures under the temperatures for out-of-distribution data; OODNLL those of 1 - max p under the
	// temperatures for likelihood.
	OOD    []OODResult `json:"ood"`
	OODNLL []OODResult `json:"ood_nll"`
}

// TunedPairs are the temperatures for likelihood and for out-of-distribution data.
type TunedPairs struct {
	NLL layer.Temperatures `json:"nll"`
	OOD layer.Temperatures `json:"ood"`
}

// ShiftResult are the figures on one set under shift, at the temperatures for likelihood.
type ShiftResult struct {
	Name string `json:"name"`
	metrics.Labelled
}

// OODResult is how well one out-of-distribution set is detected.
type OODResult struct {
	Name string `json:"name"`
	metrics.DetectionResult
}
