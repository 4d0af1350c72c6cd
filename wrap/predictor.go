package wrap

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Options says how a bundle is opened. The zero value runs the bundle's own
// model on the CPU, with an ONNX Runtime that is found and not installed.
type Options struct {
	// Model is the path of the model file, for a bundle that holds none. It must
	// be the file that was calibrated.
	Model string
	// Preprocess replaces the bundle's; nil keeps it.
	Preprocess *preprocess.Spec
	// MaxBad is how many unreadable records PredictDataset skips.
	MaxBad int

	Runtime
}

// Predictor gives predictions with uncertainty. It is safe for concurrent use.
type Predictor struct {
	bundle      *bundle.Bundle
	calibration *calibrate.Calibration
	head        calibrate.Head
	network     *network // nil where the bundle was made of ready-made features
	maxBad      int
}

// Open opens the bundle in a folder. The caller closes the Predictor.
func Open(dir string, o Options) (*Predictor, error) {
	return open(context.Background(), func() (*bundle.Bundle, error) { return bundle.Open(dir) }, o)
}

// OpenFS opens a bundle at the root of a file system, such as one embedded into
// the program; fs.Sub gets there.
func OpenFS(fsys fs.FS, o Options) (*Predictor, error) {
	return open(context.Background(), func() (*bundle.Bundle, error) { return bundle.OpenFS(fsys) }, o)
}

func open(ctx context.Context, read func() (*bundle.Bundle, error), o Options) (*Predictor, error) {
	b, err := read()
	if err != nil {
		return nil, err
	}
	p := &Predictor{bundle: b, calibration: b.Calibration(), head: b.Posterior.Head, maxBad: o.MaxBad}
	if b.Manifest.Model == nil {
		if o.Model != "" {
			return nil, errors.New("the bundle was made of ready-made features and goes with no model")
		}
		return p, nil
	}
	model, err := p.openModel(o.Model)
	if err != nil {
		return nil, err
	}
	if err := o.Runtime.load(ctx); err != nil {
		return nil, err
	}
	spec := o.Preprocess
	if spec == nil && len(model.Inputs()) == 1 {
		spec = &b.Manifest.Preprocess
	}
	if o.Runtime.Batch == 0 {
		o.Runtime.Batch = b.Manifest.Batch
	}
	h := b.Manifest.Head
	n, err := openNetwork(model, onnx.HeadOptions{Features: h.Features, Logits: h.Logits}, spec, o.Runtime)
	if err != nil {
		return nil, err
	}
	if n.head.FeatureDim != h.FeatureDim || n.head.Classes != h.Classes || n.head.Bias != h.Bias || string(n.head.Link) != string(h.Link) {
		n.close()
		return nil, fmt.Errorf("the model's head has %d features and %d classes, the bundle's %d and %d: the bundle is for another model", n.head.FeatureDim, n.head.Classes, h.FeatureDim, h.Classes)
	}
	p.network = n
	return p, nil
}

// openModel opens the model at path or else the bundle's own.
func (p *Predictor) openModel(path string) (*onnx.Model, error) {
	want := p.bundle.Manifest.Model
	if path != "" {
		m, err := onnx.Open(path)
		if err != nil {
			return nil, err
		}
		if m.SHA256() != want.SHA256 {
			return nil, fmt.Errorf("%s has SHA-256 %.12s…, the bundle is for the model with %.12s…: calibrate again for this one", path, m.SHA256(), want.SHA256)
		}
		return m, nil
	}
	switch {
	case want.File == nil:
		return nil, fmt.Errorf("the bundle holds no model: give the file with --model (SHA-256 %.12s…)", want.SHA256)
	case p.bundle.Dir() != "":
		return onnx.Open(p.bundle.Dir() + "/" + bundle.ModelName)
	}
	data, err := fs.ReadFile(p.bundle.FS(), bundle.ModelName)
	if err != nil {
		return nil, err
	}
	return onnx.Parse(bundle.ModelName, data)
}

// Close releases the runtime's memory. Calls that are running must have ended.
func (p *Predictor) Close() error {
	if p.network == nil {
		return nil
	}
	return p.network.close()
}

// Classes returns the class names in label order, nil if there are none.
func (p *Predictor) Classes() []string {
	if len(p.bundle.Manifest.Labels) == 0 {
		return nil
	}
	return slices.Clone(p.bundle.Manifest.Labels)
}

func (p *Predictor) info(path string) BundleInfo {
	m := p.bundle.Manifest
	info := BundleInfo{
		Path: path, Structure: string(m.Structure), Covariance: string(m.Covariance),
		Damping: DampingInfo{Rule: m.Damping.Rule, Epsilon: m.Damping.Epsilon, Rho: m.Damping.Rho},
		Temperatures: TemperatureInfo{
			NLL:      Pair{Act: m.Temperatures.NLL.Act, Ens: m.Temperatures.NLL.Ens},
			OOD:      Pair{Act: m.Temperatures.OOD.Act, Ens: m.Temperatures.OOD.Ens},
			OODTuned: m.Temperatures.OOD.TunedOn == "ood", TS: m.Temperatures.TS,
		},
	}
	for _, d := range m.Damping.Candidates {
		info.Damping.Candidates = append(info.Damping.Candidates, DampingCandidate{Rho: d.Rho, NLL: d.NLL, Gain: d.Gain, StdErr: d.StdErr})
	}
	return info
}

var errNoModel = errors.New("the bundle was made of ready-made features and runs no model: use PredictFeatures")

// Predict evaluates ready model inputs: one tensor for each of the model's
// inputs, the first dimension of each being the number of examples, which may
// be any. When ctx ends, so does the call, within about 0.1 s.
func (p *Predictor) Predict(ctx context.Context, inputs []ort.Tensor) ([]Prediction, error) {
	if p.network == nil {
		return nil, errNoModel
	}
	rows, err := p.network.extractor.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.predict(&featurize.Block{Rows: rows})
}

// PredictImages preprocesses images as the bundle says and evaluates them.
func (p *Predictor) PredictImages(ctx context.Context, images ...image.Image) ([]Prediction, error) {
	if p.network == nil {
		return nil, errNoModel
	}
	inputs, err := p.network.extractor.Images(images)
	if err != nil {
		return nil, err
	}
	return p.Predict(ctx, inputs)
}

// PredictFeatures evaluates features [n,d] and logits [n,K] that the caller got
// from the network by other means.
func (p *Predictor) PredictFeatures(phi, logits []float32) ([]Prediction, error) {
	n := len(logits) / p.head.Logits
	if len(logits) != n*p.head.Logits || len(phi) != n*p.head.Features {
		return nil, fmt.Errorf("%d features and %d logits, want %d and %d for each example", len(phi), len(logits), p.head.Features, p.head.Logits)
	}
	return p.predict(&featurize.Block{Rows: featurize.Rows{N: n, Features: phi, Logits: logits}})
}

// DatasetReport tells what PredictDataset passed over.
type DatasetReport struct {
	Bad     []string // records that could not be read
	Ignored []string // files that were none
}

// PredictDataset evaluates a dataset and calls yield with each prediction, in
// order. Labels are reported where the dataset has them.
func (p *Predictor) PredictDataset(ctx context.Context, spec string, yield func(Prediction) error) (DatasetReport, error) {
	notes := &notes{}
	opener := &opener{network: p.network, classes: p.Classes(), inputs: Inputs{MaxBad: p.maxBad}, notes: notes}
	s, err := opener.open("input", spec, p.head.Classes(), true)
	if err != nil {
		return DatasetReport{}, err
	}
	defer s.close()
	if err := p.fits(s); err != nil {
		return DatasetReport{}, err
	}
	_, _, err = s.stream(ctx, notes, func(b *featurize.Block) error {
		predictions, err := p.predict(b)
		if err != nil {
			return err
		}
		for _, one := range predictions {
			if err := yield(one); err != nil {
				return err
			}
		}
		return nil
	})
	return DatasetReport{Bad: notes.bad, Ignored: notes.ignored}, err
}

// predict turns rows into predictions.
func (p *Predictor) predict(b *featurize.Block) ([]Prediction, error) {
	if err := p.head.CheckFinite(b.Features, b.Logits, b.N); err != nil {
		return nil, err
	}
	r := p.calibration.Predict(b.Features, b.Logits, b.N)
	c, k := p.head.Classes(), p.head.Logits
	names := p.bundle.Manifest.Labels
	out := make([]Prediction, b.N)
	for i := range out {
		one := Prediction{
			Probabilities: make([]float64, c),
			Logits:        b.Logits[i*k : (i+1)*k : (i+1)*k],
			LogitVariance: r.Variance[i*k : (i+1)*k : (i+1)*k],
			OODScore:      r.OODScore[i],
			Leverage:      r.Leverage[i],
		}
		for j, l := range r.LogP[i*c : (i+1)*c] {
			v := math.Exp(l)
			one.Probabilities[j] = v
			if v > 0 { // 0 log 0 is 0
				one.Entropy -= v * l
			}
			if v > one.Probabilities[one.Class] {
				one.Class = j
			}
		}
		one.Confidence = one.Probabilities[one.Class]
		if len(names) > 0 {
			one.ClassName = names[one.Class]
		}
		if b.Names != nil {
			one.Input = b.Names[i]
		} else if b.Positions != nil {
			one.Input = fmt.Sprintf("[%d]", b.Positions[i])
		}
		if b.Labels != nil && b.Labels[i] >= 0 {
			one.Label = &b.Labels[i]
		}
		out[i] = one
	}
	return out, nil
}
