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

// Config configures Evaluate. Methods have the form NAME[:M][@COVARIANCE[/STRUCTURE]], with NAME from
// [Methods]: M is the number of classifiers drawn; COVARIANCE (hessian, fisher, sandwich or swag) and STRUCTURE
// (full or kron) default to the bundle's.
type Config struct {
	bench.Config

	// SPECs of the sets for tuning; Train is for fitting. The default is the calibration's, if its data
	// is unchanged.
	Val, ValOOD string

	// Layers is the number of top dense layers that the posterior of mf0, mf1, mf2, ukf, mc and bnn-kfac covers;
	// 0 is the last layer only. More than one have a block-diagonal Kronecker posterior (hessian or fisher).
	Layers int

	// Draws are the seeds with which random methods are fitted and measured, each giving a MethodResult;
	// nil is Seed only. Temperatures are tuned with the first. Examples are resampled by Seed in any case.
	Draws []uint64

	// With has ONNX files of other networks for the same data and preprocessing, by method:
	// ensemble, jackknife, bnn-vi, edl and swag. edl without a file fits a last layer.
	With map[string][]string

	// Evidence is the evidence function of an evidential network: relu, softplus or exp.
	// "" takes it from the file's metadata mfgs.evidence, or exp for a fitted layer.
	Evidence string

	// DropoutRate is the fraction that dropout drops, of features or of the inputs of the network's own
	// Dropout nodes. Zero keeps the nodes' own rate; for features it is chosen by validation NLL.
	DropoutRate float64
}

// A method yields probabilities, OOD scores, or both.
type method struct {
	name string
	doc  string // a few words

	gaussian bool // integrates a Gaussian over logits, with any covariance
	sampled  bool // draws as many classifiers as requested
	layered  bool // its posterior may cover several layers
	train    bool // is fitted to the training set, unless files replace it
	within   bool // adds noise with the covariance of the features within classes
	files    *files

	// check finds errors of fit before data is read; nil checks nothing.
	check func(b *comparison, r *request) error
	// fit fits the method, and may set its temperatures. The note states choices that matter for its figures. Nil for
	// methods that package bench measures.
	fit func(ctx context.Context, b *comparison, r *request) (p predictor, note string, err error)
}

// files describes the files that [Config].With holds under a name.
type files struct {
	name  string
	least int
	most  int    // 0 for any number
	of    string // the methods that use them
	run   bool   // they are run, not only read
}

// request is a parsed name of Config.Methods.
type request struct {
	*method
	text       string
	samples    int                 // if sampled
	covariance string              // if gaussian: a calibrate.Covariance, swag, or "" for the bundle's
	structure  calibrate.Structure // "" for the bundle's
	seed       uint64              // of the method's draws
}

// plain reports whether package bench measures the method. Over several layers mf0 has another posterior.
func (r *request) plain(layers int) bool {
	return r.name == "mf0" && r.covariance == "" && layers <= 1 || r.fit == nil
}

// flag is the command's flag for the files.
func (f *files) flag() string { return "with " + f.name + "=FILE" }

// A predictor prepares a set of examples for a fitted method.
type predictor func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error)

type curvatureKey struct {
	structure calibrate.Structure
	fisher    bool
}

type dampedKey struct {
	structure  calibrate.Structure
	covariance calibrate.Covariance
}

// dense is the top dense layers of the network.
type dense struct {
	cut        *bench.Network
	network    *layers.Network
	posteriors map[calibrate.Covariance]*layers.Posterior
	sets       map[*bench.Set]*rows.Batch // their inputs, as Features
}

// comparison is one run of Evaluate.
type comparison struct {
	Config
	requests []*request // of Methods

	session     *bench.Session
	model       *onnx.Model // nil for precomputed features
	modelHead   *head.Head
	manifest    *bundle.Manifest
	head        layer.Head
	calibration *calibrate.Calibration
	product     parallel.Product // nil: calibrate's own
	val, ood    *bench.Set       // ood may be nil
	train       *bench.Set       // nil if no method needs it
	limit       float64          // see calibrate.ScalingLimit

	weightsOfHead  []float64
	denseLayers    *dense
	curvatures     map[curvatureKey]*calibrate.Curvature
	dampings       map[dampedKey]float64 // ε, except the bundle's
	logitVariances map[dampedKey]*layers.LastLayer
	trajectory     *methods.SWAG
	noisy          map[bool]*methods.FeatureNoise // by whether it is within classes
	computed       map[methods.Covariance]*computed
	room           int // how many more numbers these may cache
	// By request.text, from the first draw, or set by fit.
	tuned map[string]*calibrate.Tuned
	rates map[string]float64 // of feature dropout
}

func newComparison(cfg Config) *comparison {
	return &comparison{
		Config: cfg, curvatures: map[curvatureKey]*calibrate.Curvature{}, dampings: map[dampedKey]float64{},
		logitVariances: map[dampedKey]*layers.LastLayer{}, computed: map[methods.Covariance]*computed{},
		room: maxComputed, tuned: map[string]*calibrate.Tuned{}, rates: map[string]float64{},
		noisy: map[bool]*methods.FeatureNoise{},
	}
}

const (
	// costlyVal is how many examples of each validation set tune a method that is recomputed for each T_ens.
	costlyVal = 1000

	// drawnVal bounds examples × classifiers drawn in tuning. Beyond it more examples change the
	// temperatures less than other draws do.
	drawnVal = 1_000_000
)

// nllOf returns -log p of each label.
func nllOf(logp []float64, labels []int, classes int) []float64 {
	nll := make([]float64, len(labels))
	for i, y := range labels {
		nll[i] = -logp[i*classes+y]
	}
	return nll
}

// checkMemory returns an error if n examples of each float32 are too large for memory.
func checkMemory(n, each int, name string) error {
	if bytes := float64(n) * float64(each) * 4; bytes > methods.MaxBytes {
		return fmt.Errorf("%s: the logits of %d examples take %.1f GB, want at most %.1f: take a part of the data, as in SPEC[0:100000]", name, n, bytes/1e9, float64(methods.MaxBytes)/1e9)
	}
	return nil
}
