package bench

import (
	"context"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/calibrate/methods/layers"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A method is a way to make probabilities, scores of unfamiliarity, or both.
type method struct {
	name string
	doc  string // a few words

	gaussian bool // it integrates a Gaussian over logits, of any covariance
	sampled  bool // it draws classifiers, as many as are asked for
	layered  bool // its posterior may be over several layers
	train    bool // it is fitted to the training set, unless files take its place
	files    *Files

	// check refuses what would stop fit; nil checks nothing. No set is open yet.
	check func(b *bench, r *request) error
	// fit makes the method ready to predict. The note says what was decided, where a reader of the
	// figures should know it. It is nil for methods of measure.Plain that nothing can be added to.
	fit func(ctx context.Context, b *bench, r *request) (p predictor, note string, err error)
}

// Files says which files [Config].With may hold under a name: ONNX models of other networks for the
// same data, with the same preprocessing.
type Files struct {
	Name  string
	Flag  string // of the command, beside --with NAME=FILE; "" for none
	least int
	Most  int    // 0 for any number
	of    string // whom they are for
	run   bool   // they are run, not only read
}

// request is a name of Config.Methods, read.
type request struct {
	*method
	text       string
	samples    int                 // of a sampled one
	covariance string              // of a gaussian one: a calibrate.Covariance, swag, or "" for the bundle's
	structure  calibrate.Structure // "" for the bundle's
	draw       int                 // which of Config.Draws
	seed       uint64              // of all that the method draws
}

// plain reports whether the bundle itself has all the method needs. Over several layers mf0 has
// another posterior.
func (r *request) plain(layers int) bool {
	return measure.Plain(r.name, nil) && r.covariance == "" && (layers <= 1 || !r.layered) || r.fit == nil
}

// flag is what the command calls the files.
func (f *Files) flag() string {
	if f.Flag == "" {
		return "with " + f.Name + "=FILE"
	}
	return f.Flag
}

// bench is one run of Evaluate.
type bench struct {
	Config
	requests []*request
	notes    source.Notes
	warnings []string

	attached    *attach.Attached
	cut         *attach.Cut // nil for ready-made features
	manifest    *bundle.Manifest
	head        calibrate.Head
	calibration *calibrate.Calibration
	sets        []*evalSet // those to measure on, the test set first
	decided     []DecisionResult
	detail      *Detail

	// For methods that are tuned and fitted.
	product        calibrate.Product // nil: calibrate's own
	learned        []*score.Fitted   // that the bundle does not serve
	closers        []func() error
	train, val     *evalSet // train is nil where no method needs it
	ood            *evalSet // may be nil
	limit          float64  // see calibrate.ScalingLimit
	weightsOfHead  []float64
	denseLayers    *dense
	curvatures     map[curvatureKey]*calibrate.Curvature
	dampings       map[dampedKey]float64 // ε, of others than the bundle's
	logitVariances map[dampedKey]*calibrate.LogitCovariance
	trajectory     *methods.SWAG
	computed       map[methods.Covariance]*computed
	room           int // numbers that these may keep more
	// By request.text, of the first draw for all.
	tuned map[string]*calibrate.Tuned
	rates map[string]float64 // of dropout of features
}

// A predictor prepares a set of examples for a method that is fitted.
type predictor func(ctx context.Context, s *evalSet) (calibrate.Predictive, error)

type curvatureKey struct {
	structure calibrate.Structure
	fisher    bool
}

type dampedKey struct {
	structure  calibrate.Structure
	covariance calibrate.Covariance
}

// evalSet is a set with its part in the evaluation.
type evalSet struct {
	*source.Set
	part  measure.Part
	data  *rows.Batch // kept where a method asks for more than a batch at a time
	whole *evalSet    // of which this is a part; nil of a whole one
}

// dense is the dense layers on top of the network.
type dense struct {
	cut        *network
	network    *layers.Network
	posteriors map[calibrate.Covariance]*layers.Posterior
	sets       map[*evalSet]*rows.Batch // what goes into them, for Features
}

// network is another model than the bundle's, ready to run.
type network struct {
	*featurize.Network
	model *onnx.Model
}
