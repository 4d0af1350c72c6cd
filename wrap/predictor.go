package wrap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Tensor is one of the inputs of a model: its name, which may be empty where
// there is only one, its shape [n, …], and its elements in row-major order,
// a slice of the type that [Predictor.Inputs] gives:
//
//	wrap.Tensor{Shape: []int64{2, 3, 224, 224}, Data: make([]float32, 2*3*224*224)}
type Tensor = ort.Tensor

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
	// Unlabelled says that PredictDataset reads no labels, such as those of data
	// whose classes are not the model's.
	Unlabelled bool

	Runtime
}

// Predictor gives predictions with uncertainty. It is safe for concurrent use.
type Predictor struct {
	bundle      *bundle.Bundle
	calibration *calibrate.Calibration
	head        calibrate.Head
	network     *network // nil where the bundle was made of ready-made features
	maxBad      int
	unlabelled  bool
}

// Open opens the bundle in a folder. The caller closes the Predictor. When ctx
// ends, so does the installation of ONNX Runtime that o may ask for; it has no say
// in what the Predictor does.
func Open(ctx context.Context, dir string, o Options) (*Predictor, error) {
	return open(ctx, func() (*bundle.Bundle, error) { return bundle.Open(dir) }, o)
}

// OpenFS opens a bundle at the root of a file system, such as one embedded into
// the program; fs.Sub gets there. ctx is as for Open.
func OpenFS(ctx context.Context, fsys fs.FS, o Options) (*Predictor, error) {
	return open(ctx, func() (*bundle.Bundle, error) { return bundle.OpenFS(fsys) }, o)
}

func open(ctx context.Context, read func() (*bundle.Bundle, error), o Options) (*Predictor, error) {
	if o.MaxBad < 0 {
		return nil, fmt.Errorf("max-bad is %d, want no negative number", o.MaxBad)
	}
	if err := o.Runtime.check(); err != nil {
		return nil, err
	}
	b, err := read()
	if err != nil {
		return nil, err
	}
	p := &Predictor{bundle: b, calibration: b.Calibration(), head: b.Posterior.Head, maxBad: o.MaxBad, unlabelled: o.Unlabelled}
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
	head, err := p.findHead(model)
	if err != nil {
		return nil, err
	}
	if o.Runtime.Batch == 0 {
		o.Runtime.Batch = b.Manifest.Batch
	}
	if err := o.Runtime.load(ctx); err != nil {
		return nil, err
	}
	if o.Preprocess != nil {
		p.network, err = openNetwork(model, head, o.Preprocess, o.Runtime)
	} else {
		p.network, err = openNetwork(model, head, &b.Manifest.Preprocess, o.Runtime)
		if errors.Is(err, featurize.ErrSeveralInputs) { // of which nothing is recorded
			p.network, err = openNetwork(model, head, nil, o.Runtime)
		}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// findHead finds in a model the head that the bundle is for.
func (p *Predictor) findHead(model *onnx.Model) (*onnx.Head, error) {
	want := p.bundle.Manifest.Head
	h, err := onnx.FindHead(model, onnx.HeadOptions{Features: want.Features, Logits: want.Logits, Link: onnx.Link(want.Link), Approximate: onnx.Approximation(want.Approximation)})
	if err != nil {
		return nil, err
	}
	if got := headOf(h); got != p.head {
		return nil, fmt.Errorf("the model's head has %d features, %d logits, bias %t and link %s, the bundle's %d, %d, %t and %s: the bundle is for another model",
			got.Features, got.Logits, got.Bias, got.Link, p.head.Features, p.head.Logits, p.head.Bias, p.head.Link)
	}
	return h, nil
}

// openModel opens the model at path or else the bundle's own.
func (p *Predictor) openModel(path string) (*onnx.Model, error) {
	want := p.bundle.Manifest.Model
	if path != "" {
		m, err := onnx.Open(path)
		if err != nil {
			return nil, err
		}
		// The bundle's copy is another model to SHA256 where weights were gathered.
		if m.SHA256() != want.SHA256 && (want.File == nil || m.SHA256() != copySHA256(want)) {
			return nil, fmt.Errorf("%s has SHA-256 %.12s…, the bundle is for the model with %.12s…: calibrate again for this one", path, m.SHA256(), want.SHA256)
		}
		return m, nil
	}
	if want.File == nil {
		return nil, fmt.Errorf("the bundle holds no model: give the file with --model (SHA-256 %.12s…)", want.SHA256)
	}
	m, err := p.ownModel()
	if err != nil {
		return nil, err
	}
	switch {
	// No hash in the bundle covers other files.
	case want.Data == nil && !m.SelfContained():
		return nil, fmt.Errorf("%s: it keeps weights in other files, which the bundle's manifest does not name: calibrate again", bundle.ModelName)
	case want.Data != nil && m.SelfContained():
		return nil, fmt.Errorf("%s: it keeps no weights in %s, which the bundle's manifest names: calibrate again", bundle.ModelName, bundle.ModelDataName)
	}
	// The bundle's hashes were checked when it was opened; this is another reading.
	if m.SHA256() != copySHA256(want) {
		reason := "it was replaced while the bundle was opened"
		if want.Data != nil {
			reason += ", or keeps weights in other files than " + bundle.ModelDataName
		}
		return nil, fmt.Errorf("%s: %w: %s", bundle.ModelName, bundle.ErrHash, reason)
	}
	return m, nil
}

// copySHA256 is what [onnx.Model.SHA256] must give for the bundle's copy.
func copySHA256(m *bundle.Model) string {
	if m.Data == nil {
		return m.File.SHA256
	}
	all := sha256.New()
	for _, f := range []*bundle.File{m.File, m.Data} {
		sum, _ := hex.DecodeString(f.SHA256) // the manifest is valid
		all.Write(sum)
	}
	return hex.EncodeToString(all.Sum(nil))
}

func (p *Predictor) ownModel() (*onnx.Model, error) {
	if dir := p.bundle.Dir(); dir != "" {
		return onnx.Open(filepath.Join(dir, bundle.ModelName))
	}
	if p.bundle.Manifest.Model.Data != nil {
		return nil, fmt.Errorf("%s: its weights, %s, are read from a folder of the operating system only: copy the bundle into one and open that, or give the model's file as Options.Model", bundle.ModelName, bundle.ModelDataName)
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

// NumClasses returns C, how many classes the probabilities are of.
func (p *Predictor) NumClasses() int { return p.head.Classes() }

// MultiLabel reports whether the classes are labels that are told independently
// of each other, any number of which an input may have.
func (p *Predictor) MultiLabel() bool { return p.head.MultiLabel() }

// Inputs describes what Predict takes: name, element type and shape of each
// input, the first axis of which counts examples. It is nil where there is no
// model.
func (p *Predictor) Inputs() []onnx.ValueInfo {
	if p.network == nil {
		return nil
	}
	return p.network.extractor.Inputs()
}

// Head describes the model's last layer: how many features and logits
// PredictFeatures takes.
func (p *Predictor) Head() HeadInfo {
	return headInfo(p.bundle.Manifest.Head)
}

// Bundle describes the bundle. Its Path is "" after OpenFS.
func (p *Predictor) Bundle() BundleInfo {
	m := p.bundle.Manifest
	info := BundleInfo{
		Path: p.bundle.Dir(), Structure: string(m.Structure), Covariance: string(m.Covariance),
		Damping: DampingInfo{Rule: m.Damping.Rule, Epsilon: m.Damping.Epsilon, Rho: m.Damping.Rho},
		Temperatures: TemperatureInfo{
			NLL:      Pair{Act: m.Temperatures.NLL.Act, Ens: m.Temperatures.NLL.Ens},
			OOD:      Pair{Act: m.Temperatures.OOD.Act, Ens: m.Temperatures.OOD.Ens},
			OODTuned: m.Temperatures.OOD.TunedOn == "ood", TS: m.Temperatures.TS,
		},
	}
	if o := m.Temperatures.Optimum; o != nil {
		info.Temperatures.Optimum = &Pair{Act: o.Act, Ens: o.Ens}
	}
	for _, d := range m.Damping.Candidates {
		info.Damping.Candidates = append(info.Damping.Candidates, DampingCandidate(d))
	}
	return info
}

var errNoModel = errors.New("the bundle was made of ready-made features and runs no model: use PredictFeatures")

// Predict evaluates ready model inputs: one tensor for each of the model's
// inputs, the first dimension of each being the number of examples, which may
// be any. When ctx ends, so does the call, within about 0.1 s.
func (p *Predictor) Predict(ctx context.Context, inputs []Tensor) ([]Prediction, error) {
	if p.network == nil {
		return nil, errNoModel
	}
	rows, err := p.network.extractor.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.checked(rows)
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
	return p.checked(featurize.Rows{N: n, Features: phi, Logits: slices.Clone(logits)})
}

// DatasetReport tells what PredictDataset passed over.
type DatasetReport struct {
	Bad      []string // records that could not be read
	Ignored  []string // files that were none
	Warnings []string // such as labels that mean nothing to the model
}

// PredictDataset evaluates a dataset, or an .npz of features and logits where
// there is no model, and calls yield with each prediction, in order. Labels are
// reported where the dataset has them; those that are no classes of the model's
// are left out, with a warning.
func (p *Predictor) PredictDataset(ctx context.Context, spec string, yield func(Prediction) error) (DatasetReport, error) {
	notes, report := &notes{}, DatasetReport{}
	opener := &opener{network: p.network, classes: p.Classes(), inputs: Inputs{MaxBad: p.maxBad}, multi: p.head.MultiLabel(), stray: true, notes: notes}
	s, err := opener.open("input", spec, p.head.Classes(), !p.unlabelled)
	if err != nil {
		var e error
		if s, e = opener.open("input", spec, p.head.Classes(), false); e != nil {
			return report, err
		}
		report.Warnings = append(report.Warnings, fmt.Sprintf("%v; predicted without labels", err))
	}
	defer s.close()
	if err := p.fits(s); err != nil {
		return report, err
	}
	stray := 0
	n, _, err := s.stream(ctx, p.head, notes, func(b *featurize.Block) error {
		predictions, err := p.predict(b)
		if err != nil {
			return err
		}
		for _, one := range predictions {
			if one.Label == nil && one.Targets == nil && s.labelled() {
				stray++
			}
			if err := yield(one); err != nil {
				return err
			}
		}
		return nil
	})
	if stray > 0 {
		report.Warnings = append(report.Warnings, fmt.Sprintf("input: %d of %d labels lie outside [0,%d), the model's classes, and are left out", stray, n, p.head.Classes()))
	}
	report.Bad, report.Ignored = notes.bad, notes.ignored
	return report, err
}

// checked is predict for rows that nobody has checked.
func (p *Predictor) checked(rows featurize.Rows) ([]Prediction, error) {
	b := &featurize.Block{Rows: rows}
	if err := checkFinite(p.head, b); err != nil {
		return nil, err
	}
	return p.predict(b)
}

// predict turns finite rows into predictions.
func (p *Predictor) predict(b *featurize.Block) ([]Prediction, error) {
	r := p.calibration.Predict(b.Features, b.Logits, b.N)
	k, width := p.head.Logits, p.head.Outcomes()
	names := p.bundle.Manifest.Labels
	out := make([]Prediction, b.N)
	for i := range out {
		one := Prediction{
			Logits:        b.Logits[i*k : (i+1)*k : (i+1)*k],
			LogitVariance: r.Variance[i*k : (i+1)*k : (i+1)*k],
			OODScore:      r.OODScore[i],
			Leverage:      r.Leverage[i],
		}
		logp := r.LogP[i*width : (i+1)*width]
		for j, l := range logp {
			v := math.Exp(l)
			if v > 0 { // 0 log 0 is 0
				one.Entropy -= v * l
			}
			if !p.head.MultiLabel() || j%2 == 1 {
				one.Probabilities = append(one.Probabilities, v)
			}
		}
		for j, v := range one.Probabilities {
			if v > one.Probabilities[one.Class] {
				one.Class = j
			}
		}
		one.Confidence = one.Probabilities[one.Class]
		if p.head.MultiLabel() {
			one.multiLabel(logp, names)
		}
		// The logits are finite: what is left is a bundle of absurd numbers.
		if sum := one.Confidence + one.Entropy + one.OODScore + one.Leverage; math.IsNaN(sum) || math.IsInf(sum, 0) {
			return nil, fmt.Errorf("%s: the prediction is not finite: the bundle's posterior and temperatures do not fit the model", nameOf(b, i))
		}
		if len(names) > 0 {
			one.ClassName = names[one.Class]
		}
		if b.Names != nil {
			one.Input = b.Names[i]
		}
		if b.Labels != nil && b.Labels[i] >= 0 {
			one.Label = &b.Labels[i]
		}
		if b.Targets != nil {
			one.Targets = present(k, func(j int) bool { return b.Targets[i*k+j] == 1 })
		}
		out[i] = one
	}
	return out, nil
}

// multiLabel sets what only predictions of a multi-label head have.
func (p *Prediction) multiLabel(logp []float64, names []string) {
	k := len(p.Probabilities)
	p.Confidence = 0
	for j := range k {
		p.Confidence += math.Exp(max(logp[2*j], logp[2*j+1])) / float64(k)
	}
	p.Labels = present(k, func(j int) bool { return logp[2*j+1] > logp[2*j] })
	if len(names) > 0 {
		p.LabelNames = make([]string, len(p.Labels))
		for i, j := range p.Labels {
			p.LabelNames[i] = names[j]
		}
	}
}

// present lists those of k labels that are there; the list is never nil.
func present(k int, is func(int) bool) []int {
	list := []int{}
	for j := range k {
		if is(j) {
			list = append(list, j)
		}
	}
	return list
}
