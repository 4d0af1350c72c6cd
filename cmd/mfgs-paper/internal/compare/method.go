package compare

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods/layers"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Config says what Evaluate does. Methods are of Methods(), each NAME[:M][@COVARIANCE[/STRUCTURE]]: M is how
// many classifiers are drawn; COVARIANCE, one of hessian, fisher, sandwich and swag, and STRUCTURE, full or
// kron, are the bundle's where they are left out.
type Config struct {
	bench.Config

	// What methods are tuned on; those that are fitted are so to Train. SPECs that are left out are those of
	// the calibration, if their data is still the same.
	Val, ValOOD string

	// Layers is how many dense layers, from the last on, the posterior of mf0, mf1, mf2,
	// ukf, mc and bnn-kfac is over; 0 is the last alone. More have a block-diagonal
	// Kronecker posterior (hessian or fisher).
	Layers int

	// Draws are the seeds that methods which draw at random are fitted and measured with, each for a
	// MethodResult of its own; nil is Seed alone. The first tunes the temperatures of all. Examples are drawn
	// anew by Seed, whatever these are.
	Draws []uint64

	// With has ONNX files of other networks for the same data, with the same preprocessing, by
	// what they are for: see FileKinds. edl without one fits a last layer.
	With map[string][]string

	// Evidence says what makes evidence of an evidential network's logits: relu, softplus or exp.
	// "" is what the file's metadata says under mfgs.evidence, and for a fitted layer exp.
	Evidence string

	// DropoutRate is the part of the features, or of what goes into the network's own
	// Dropout nodes, that dropout leaves out. Zero keeps the nodes' own; where the
	// network has none it is chosen by held-out likelihood.
	DropoutRate float64
}

// A method is a way to make probabilities, scores of unfamiliarity, or both.
type method struct {
	name string
	doc  string // a few words

	gaussian bool // it integrates a Gaussian over logits, of any covariance
	sampled  bool // it draws classifiers, as many as are asked for
	layered  bool // its posterior may be over several layers
	train    bool // it is fitted to the training set, unless files take its place
	files    *Files

	// check refuses what would stop fit, before data is read; nil checks nothing.
	check func(b *comparison, r *request) error
	// fit makes the method ready to predict. The note says what was decided, where a reader of the
	// figures should know it. It is nil for methods that package bench measures.
	fit func(ctx context.Context, b *comparison, r *request) (p predictor, note string, err error)
}

// Files says which files [Config].With may hold under a name: ONNX models of other networks for the
// same data, with the same preprocessing.
type Files struct {
	Name  string
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
	seed       uint64              // of all that the method draws
}

// plain reports whether the bundle itself has all the method needs. Over several layers mf0 has
// another posterior.
func (r *request) plain(layers int) bool {
	return r.name == "mf0" && r.covariance == "" && layers <= 1 || r.fit == nil
}

// flag is what the command calls the files.
func (f *Files) flag() string { return "with " + f.Name + "=FILE" }

// A predictor prepares a set of examples for a method that is fitted.
type predictor func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error)

type curvatureKey struct {
	structure calibrate.Structure
	fisher    bool
}

type dampedKey struct {
	structure  calibrate.Structure
	covariance calibrate.Covariance
}

// dense is the dense layers on top of the network.
type dense struct {
	cut        *bench.Network
	network    *layers.Network
	posteriors map[calibrate.Covariance]*layers.Posterior
	sets       map[*bench.Set]*rows.Batch // what goes into them, for Features
}

// comparison is one run of Evaluate.
type comparison struct {
	Config
	requests []*request // all that Methods names

	session     *bench.Session
	model       *onnx.Model // nil of ready-made features
	modelHead   *head.Head
	manifest    *bundle.Manifest
	head        layer.Head
	calibration *calibrate.Calibration
	product     parallel.Product // nil: calibrate's own
	val, ood    *bench.Set       // ood may be nil
	train       *bench.Set       // nil where no method needs it
	limit       float64          // see calibrate.ScalingLimit

	weightsOfHead  []float64
	denseLayers    *dense
	curvatures     map[curvatureKey]*calibrate.Curvature
	dampings       map[dampedKey]float64 // ε, of others than the bundle's
	logitVariances map[dampedKey]*layers.LastLayer
	trajectory     *methods.SWAG
	computed       map[methods.Covariance]*computed
	room           int // numbers that these may keep more
	// By request.text, of the first draw for all.
	tuned map[string]*calibrate.Tuned
	rates map[string]float64 // of dropout of features
}

func newComparison(cfg Config) *comparison {
	return &comparison{
		Config: cfg, curvatures: map[curvatureKey]*calibrate.Curvature{}, dampings: map[dampedKey]float64{},
		logitVariances: map[dampedKey]*layers.LastLayer{}, computed: map[methods.Covariance]*computed{},
		room: mostComputed, tuned: map[string]*calibrate.Tuned{}, rates: map[string]float64{},
	}
}

const (
	// costlyHeldOut is how many examples of each held-out set a method is tuned on that works anew for
	// each T_ens.
	costlyHeldOut = 1000

	// drawnHeldOut is how many classifiers drawn, over the examples of a held-out set, a method is tuned on
	// at most: what more examples add to a tuning by so many is less than what other draws change.
	drawnHeldOut = 1_000_000
)

// nllOf returns -log p of each label.
func nllOf(logp []float64, labels []int, classes int) []float64 {
	nll := make([]float64, len(labels))
	for i, y := range labels {
		nll[i] = -logp[i*classes+y]
	}
	return nll
}

// checkMemory refuses sets of n examples, each so many float32, that are too large to keep.
func checkMemory(n, each int, name string) error {
	if bytes := float64(n) * float64(each) * 4; bytes > methods.MaxBytes {
		return fmt.Errorf("%s: the logits of %d examples take %.1f GB, want at most %.1f: take a part of the data, as in SPEC[0:100000]", name, n, bytes/1e9, float64(methods.MaxBytes)/1e9)
	}
	return nil
}
