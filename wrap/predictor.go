package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Tensor is one input of a model: its name, which may be empty if the model has one input only, its shape
// [n, …], and its elements in row-major order, a slice of the type that [Predictor.Inputs] gives:
//
//	wrap.Tensor{Shape: []int64{2, 3, 224, 224}, Data: make([]float32, 2*3*224*224)}
type Tensor = tensor.Tensor

// Options says how a bundle is opened. The zero value runs the bundle's own model on the CPU, with an ONNX
// Runtime that is found on this machine; nothing is installed.
type Options struct {
	// Model is the path of the model file, for a bundle that holds none. It must be the file that was
	// calibrated.
	Model string
	// Preprocess replaces the bundle's; nil keeps it, and a nil Exif in it keeps the bundle's Exif. A bundle
	// that was calibrated with arrays only has no preprocessing and refuses images unless it is set here.
	Preprocess *preprocess.Spec
	// FreeMemory returns memory to the operating system after the bundle is read, before the runtime
	// allocates as much: a quarter of the peak for a ResNet-50. It forces a garbage collection of the whole
	// program, and a second one if the model is held in memory.
	FreeMemory bool
	// Warn, if set, is called with warnings: for example, that the model is held in memory while it is
	// opened because no temporary file can be written.
	Warn func(message string)
	// Unlabelled says that datasets and lines are read without their labels, such as those of data whose
	// classes are not the model's.
	Unlabelled bool

	Runtime
}

// Predictor gives predictions with uncertainty. It is safe for concurrent use.
//
// The bundle's model and the mean-field head behind it run in one session of ONNX Runtime, with the network and
// its variances in float32. PredictFeatures computes in float64. Decisions, which are rules on the results, are
// computed by package conformal in every case; the graph of an exported model computes them again.
type Predictor struct {
	read       func() (*bundle.Bundle, error)
	bundle     *bundle.Bundle // without its posterior if the network is fused
	head       layer.Head
	network    *featurize.Network // with the mean-field head; nil for a bundle without a model
	outputs    []onnx.ValueInfo   // of the network
	unlabelled bool

	mu          sync.Mutex
	calibration *calibrate.Calibration // the float64 formulas; nil until they are needed

	probe *expected // nil for a bundle without a probe
}

// ErrNoModel is the error of calls that run the network, for a bundle that was calibrated from precomputed
// features and has none.
var ErrNoModel = errors.New("the bundle was made of ready-made features and runs no model")

var errUseFeatures = fmt.Errorf("%w: use PredictFeatures", ErrNoModel)

// ErrBundleChanged is the error of [Predictor.PredictFeatures] if the folder holds another bundle than the one
// that was opened.
var ErrBundleChanged = errors.New("the bundle is no longer the one that was opened: open it again")

// Open opens the bundle in a folder and checks all of it against its hashes. The caller closes the
// Predictor. Once open, a Predictor needs the folder for [Predictor.PredictFeatures] only: it runs a private
// copy of the model, so that files may be overwritten or removed. The end of ctx also ends the installation of
// ONNX Runtime that o may ask for; ctx is not retained after Open returns.
func Open(ctx context.Context, dir string, o Options) (*Predictor, error) {
	return open(ctx, func() (*bundle.Bundle, error) { return bundle.Open(dir) }, o)
}

// OpenFS opens a bundle at the root of a file system, such as one embedded into the program; use fs.Sub to get
// there. ctx is as for Open.
func OpenFS(ctx context.Context, fsys fs.FS, o Options) (*Predictor, error) {
	return open(ctx, func() (*bundle.Bundle, error) { return bundle.OpenFS(fsys) }, o)
}

func open(ctx context.Context, read func() (*bundle.Bundle, error), o Options) (*Predictor, error) {
	if err := o.Runtime.Validate(); err != nil {
		return nil, err
	}
	b, err := read()
	if err != nil {
		return nil, err
	}
	a, err := attach.Open(b, o.Model, o.Preprocess)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	p := &Predictor{
		read: read, bundle: b, calibration: b.Calibration(), head: b.Posterior.Head, unlabelled: o.Unlabelled,
	}
	if a.Model == nil {
		return p, nil
	}
	held := a.Model.Held()
	if held != nil && o.Warn != nil {
		o.Warn(held.Error())
	}
	if o.Runtime.Batch == 0 {
		o.Runtime.Batch = a.Batch()
	}
	if err := o.Runtime.Load(ctx); err != nil {
		return nil, err
	}
	fused, outputs, err := a.Fuse("", true, false)
	if err != nil {
		return nil, err
	}
	if err := p.expect(b.Probe, fused.Inputs()); err != nil {
		return nil, err
	}
	// The graph holds the posterior now: a second copy would only take memory.
	small := *b
	small.Posterior, small.Probe = nil, nil
	p.bundle, p.calibration = &small, nil
	b, a.Bundle = nil, &small
	if o.FreeMemory {
		debug.FreeOSMemory()
	}
	p.outputs = outputs.Infos()
	run := attach.RunConfig(o.Runtime.Provider, o.Runtime.Threads, o.Runtime.Batch)
	err = a.Run(o.Preprocess, run, func(c featurize.Config) (err error) {
		c.Model, c.Doubles = fused, true
		p.network, err = featurize.New(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	if held != nil && o.FreeMemory {
		a.Close()
		a.Model, a.Head, fused = nil, nil, nil
		debug.FreeOSMemory()
	}
	return p, nil
}

// Close waits for running calls and releases the runtime's memory. Calls that begin later fail.
func (p *Predictor) Close() error {
	if p.network == nil {
		return nil
	}
	return p.network.Close()
}

// Classes returns the class names in label order, nil if there are none.
func (p *Predictor) Classes() []string {
	if len(p.bundle.Manifest.Labels) == 0 {
		return nil
	}
	return slices.Clone(p.bundle.Manifest.Labels)
}

// Batch returns the largest number of examples in one inference: Run splits what is larger. It is 0 if there is
// no model.
func (p *Predictor) Batch() int {
	if p.network == nil {
		return 0
	}
	return p.network.Batch()
}

// Reference summarises the predictions of the validation data: the distributions of Confidence, Entropy,
// OODScore and Class. It is nil for bundles written before it was kept, and for a single validation example.
// It is the Predictor's own and must not be changed.
func (p *Predictor) Reference() *bundle.Reference { return p.bundle.Manifest.Reference }

// SHA256 identifies the bundle: the hash in the last line of its manifest, which covers all files.
func (p *Predictor) SHA256() string { return p.bundle.SHA256() }

// Inputs describes what Predict takes: name, element type and shape of each input, the first axis of which
// counts examples. It is nil if there is no model.
func (p *Predictor) Inputs() []onnx.ValueInfo {
	if p.network == nil {
		return nil
	}
	return cloned(p.network.Inputs())
}

// Outputs describes what Run gives: probabilities [N,C], logits [N,K] and logit_variance [N,K] as float32,
// ood_score and ood_percentile, [N], as float64, and leverage, [N], as float32. It is nil if there is no model.
func (p *Predictor) Outputs() []onnx.ValueInfo { return cloned(p.outputs) }

// Head describes the model's last layer: the numbers of features and logits that PredictFeatures takes, the
// number of classes, and whether it is multi-label.
func (p *Predictor) Head() bundle.Head {
	h := p.bundle.Manifest.Head
	h.Tail = slices.Clone(h.Tail)
	return h
}

// Bundle describes the bundle. Its Path is "" after OpenFS.
func (p *Predictor) Bundle() BundleInfo {
	return BundleInfo{p.bundle.Dir(), p.bundle.Manifest.Summary()}
}

// cloned copies descriptions with their shapes, which a caller may change.
func cloned(infos []onnx.ValueInfo) []onnx.ValueInfo {
	infos = slices.Clone(infos)
	for i := range infos {
		infos[i].Shape = slices.Clone(infos[i].Shape)
	}
	return infos
}

// Run evaluates model inputs: one tensor for each of the model's inputs, the first dimension of each being the
// number of examples, which may be any. It gives the numbers of an exported model, but for decisions, in the
// order of Outputs, as they come from the runtime: [Predictor.Predictions] checks them and makes predictions of
// them. The end of ctx ends the call within about 0.1 s.
func (p *Predictor) Run(ctx context.Context, inputs []Tensor) ([]Tensor, error) {
	if p.network == nil {
		return nil, errUseFeatures
	}
	r, err := p.network.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.tensors(r), nil
}

// tensors names the network's results, whose memory they share.
func (p *Predictor) tensors(r featurize.Results) []Tensor {
	out := make([]Tensor, len(p.outputs))
	for i, info := range p.outputs {
		out[i] = Tensor{Name: info.Name, Shape: []int64{int64(r.N)}}
		for _, d := range info.Shape[1:] {
			out[i].Shape = append(out[i].Shape, d.Value)
		}
		if out[i].Data = r.Columns[i]; r.Doubles[i] != nil {
			out[i].Data = r.Doubles[i]
		}
	}
	return out
}

// Predict evaluates model inputs, as Run takes them.
func (p *Predictor) Predict(ctx context.Context, inputs []Tensor) ([]Prediction, error) {
	outputs, err := p.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.Predictions(outputs, Override{})
}

// PredictImages preprocesses images as the bundle says and evaluates them. At least one image must be given,
// and none may be nil. Images are taken as they are: package image's decoders drop the EXIF orientation of a
// file, which [Predictor.ImageInputs] applies.
func (p *Predictor) PredictImages(ctx context.Context, images ...image.Image) ([]Prediction, error) {
	if p.network == nil {
		return nil, errUseFeatures
	}
	inputs, err := p.network.Images(images)
	if err != nil {
		return nil, err
	}
	return p.Predict(ctx, inputs)
}

// PredictFeatures evaluates features [n,d] and logits [n,K] that the caller got from the network by other
// means, by the formulas in float64. If the bundle has a model, the first call reads the bundle once more.
func (p *Predictor) PredictFeatures(phi, logits []float32) ([]Prediction, error) {
	n := len(logits) / p.head.Logits
	if len(logits) != n*p.head.Logits || len(phi) != n*p.head.Features {
		return nil, fmt.Errorf("%d features and %d logits, want %d and %d for each example", len(phi), len(logits), p.head.Features, p.head.Logits)
	}
	b := &rows.Batch{N: n, Features: phi, Logits: slices.Clone(logits)}
	if err := source.CheckFinite(p.head, b); err != nil {
		return nil, err
	}
	c, err := p.formulas()
	if err != nil {
		return nil, err
	}
	return p.predictRows(c, b)
}

// formulas returns what computes in float64. The posterior of a thousand classes is half as large as their
// network and is in its graph already, so that it is read a second time only if it is asked for.
func (p *Predictor) formulas() (*calibrate.Calibration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calibration != nil {
		return p.calibration, nil
	}
	b, err := p.read()
	if err != nil {
		return nil, err
	}
	if b.SHA256() != p.bundle.SHA256() {
		return nil, fmt.Errorf("%s: %w", cmp.Or(p.bundle.Dir(), bundle.ManifestName), ErrBundleChanged)
	}
	p.calibration = b.Calibration()
	return p.calibration, nil
}
