package wrap

import (
	"context"
	"io/fs"
	"runtime/debug"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
)

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

	Runtime Runtime
}

// Open opens the bundle in a folder and checks all of it against its hashes. The caller closes the
// Predictor. Once open, a Predictor needs the folder for [Predictor.PredictFeatures] only: it runs a private
// copy of the model, so that files may be overwritten or removed. The end of ctx ends the reading of large files, and
// the installation of ONNX Runtime that o may ask for; ctx is not retained after Open returns.
func Open(ctx context.Context, dir string, o Options) (*Predictor, error) {
	return open(ctx, func(ctx context.Context) (*bundle.Bundle, error) { return bundle.OpenContext(ctx, dir) }, o)
}

// OpenFS opens a bundle at the root of a file system, such as one embedded into the program; use fs.Sub to get
// there. ctx is as for Open.
func OpenFS(ctx context.Context, fsys fs.FS, o Options) (*Predictor, error) {
	return open(ctx, func(ctx context.Context) (*bundle.Bundle, error) { return bundle.OpenFSContext(ctx, fsys) }, o)
}

func open(ctx context.Context, read reader, o Options) (*Predictor, error) {
	if err := o.Runtime.Validate(); err != nil {
		return nil, err
	}
	b, err := read(ctx)
	if err != nil {
		return nil, err
	}
	a, err := attach.Open(ctx, b, o.Model, o.Preprocess)
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
	fused, outputs, err := a.Fuse("", attach.Form{Alone: true})
	if err != nil {
		return nil, err
	}
	if err := p.expect(b.Probe, fused.Inputs()); err != nil {
		return nil, err
	}
	// The graph holds the posterior and the score's tensors now: a second copy would only take memory.
	small := *b
	small.Posterior, small.Probe = &calibrate.Posterior{Head: b.Posterior.Head, Affine: b.Posterior.Affine}, nil
	if b.Score != nil {
		served := *b.Score
		served.Tensors = nil
		small.Score = &served
	}
	p.bundle, p.calibration = &small, nil
	b, a.Bundle = nil, &small
	if o.FreeMemory {
		debug.FreeOSMemory()
	}
	p.outputs, p.decoding = outputs.Infos(), small.Manifest.Head.Decoding
	if p.decoding != nil { // numbers of symbols become symbols
		p.outputs[len(p.outputs)-textOutputs].Type = tensor.String
	}
	fused, states, err := head.Carry(fused)
	if err != nil {
		return nil, err
	}
	run := attach.RunConfig(o.Runtime.Provider, o.Runtime.Threads, o.Runtime.Batch)
	err = a.Run(o.Preprocess, run, func(c featurize.Config) (err error) {
		c.Model, c.Doubles, c.Decoding, c.Steps = fused, true, p.decoding, small.Manifest.Head.Steps
		c.States = states
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
