package bench

import (
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
)

// Config says what Evaluate does. Bundle and Test must be set.
type Config struct {
	Bundle string
	Model  string // where the bundle holds none
	// Test is a SPEC with labels, for a multi-label head with targets; of a bundle without model,
	// an .npz of features and logits.
	Test string
	OOD  []NamedSpec // a Spec of wrap.SyntheticOOD, with the name stand-ins, makes them of Test's images
	// Shifts are labelled as Test, but unlike the training data: rotated, blurred, of another year.
	// Those of one size, and Test where it has that size, are taken for the same examples in
	// another form and resampled together, so that figures of several sets can be combined, see
	// metrics.Certainty. The interval of a set by itself is the same, up to the draws.
	Shifts []NamedSpec
	Limit  int // use at most so many examples of each of these sets, spread evenly; 0 is all

	PerClass bool // measure each class of the test set as well

	// Detailed asks for Evaluation.Detail. The network itself and what the bundle serves are then among
	// the methods, whether Methods has them or not.
	Detailed bool

	// Methods are of Methods(), or taken by Comparators. Nil is mle, ts, mf0, the score that the bundle
	// serves, which is called ood_score here, and leverage.
	Methods []string

	// Comparators are methods that no bundle can serve; nil for none.
	Comparators Comparators

	// Alone leaves out mle and ts, with which methods are compared otherwise, unless Methods names them.
	// Without mle nothing is recommended, and no figure has a difference to it.
	Alone bool

	// Train is what scores that the bundle does not serve are fitted to. "" is the data of the calibration, if
	// it is still the same.
	Train string

	Seed uint64 // of everything random
	// Resamples is how often all examples are drawn anew for intervals; 0 is 1,000.
	Resamples int

	Preprocess *preprocess.Spec // from images to the model's input; nil: the bundle's
	MaxBad     int              // how many records that cannot be read are skipped before giving up
	Cache      string           // a folder that keeps features between runs; "" keeps none
	Runtime    wrap.Runtime

	Progress func(wrap.Progress)
}

// step returns what hands progress on, nil where nobody asks for it.
func (c *Config) step() func(stage, unit string, done, total int) {
	if c.Progress == nil {
		return nil
	}
	return func(stage, unit string, done, total int) {
		c.Progress(wrap.Progress{Stage: stage, Unit: unit, Done: done, Total: total})
	}
}

// Evaluation compares methods on data that nothing was tuned on.
type Evaluation struct {
	Model   *onnx.Info      `json:"model"`
	Bundle  wrap.BundleInfo `json:"bundle"`
	Methods []MethodResult  `json:"methods"`
	// Decisions are what the bundle's came to on each set; nil where it has none.
	Decisions []DecisionResult `json:"decisions,omitempty"`
	Detail    *Detail          `json:"-"` // where Config.Detailed asks for it
	// Bootstrap says what intervals are of.
	Bootstrap      BootstrapInfo          `json:"bootstrap"`
	Recommendation metrics.Recommendation `json:"recommendation"`
	Bad            []string               `json:"bad_records"`
	Ignored        []string               `json:"ignored"`
	Warnings       []string               `json:"warnings"`
}

// DecisionResult is what the bundle's decisions came to on a set: "test", or one under shift or out
// of distribution by its name.
type DecisionResult struct {
	Set string `json:"set"`
	conformal.Realised
}

// BootstrapInfo says how often all examples were drawn anew, with which seed, and how often an
// interval is right, as a fraction.
type BootstrapInfo struct {
	Resamples int     `json:"resamples"`
	Level     float64 `json:"level"`
	Seed      uint64  `json:"seed"`
}

// MethodResult is one method's figures. Leverage, which gives no probabilities, has no InDomain.
type MethodResult struct {
	Name string `json:"name"`
	// Draw is which draw it is of a comparator that draws at random, from 0 on.
	Draw     int               `json:"draw,omitempty"`
	InDomain *metrics.Labelled `json:"in_domain,omitempty"`
	// Shifts are the figures on Config.Shifts, in their order.
	Shifts []ShiftResult `json:"shifts,omitempty"`
	// Temperatures are those tuned for a comparator. T_ens is 1 where the method has none.
	Temperatures *TunedPairs `json:"temperatures,omitempty"`
	// Note says what a reader of the figures should know.
	Note string `json:"note,omitempty"`
	// Seconds are those for fitting a score, and for fitting, tuning and testing a comparator; of draws behind
	// the first without tuning.
	Seconds map[string]float64 `json:"seconds,omitempty"`
	// OOD are the figures under the temperatures for out-of-distribution data; OODNLL those
	// of 1 - max p under the temperatures for likelihood.
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

// OODResult is how well one set is distinguished from the test set.
type OODResult struct {
	Name string `json:"name"`
	metrics.DetectionResult
}
