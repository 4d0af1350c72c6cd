package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"iter"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/probe"
)

// Tensor is one of the inputs of a model: its name, which may be empty where
// there is only one, its shape [n, …], and its elements in row-major order,
// a slice of the type that [Predictor.Inputs] gives:
//
//	wrap.Tensor{Shape: []int64{2, 3, 224, 224}, Data: make([]float32, 2*3*224*224)}
type Tensor = tensor.Tensor

// Options says how a bundle is opened. The zero value runs the bundle's own
// model on the CPU, with an ONNX Runtime that is found and not installed.
type Options struct {
	// Model is the path of the model file, for a bundle that holds none. It must
	// be the file that was calibrated.
	Model string
	// Preprocess replaces the bundle's; nil keeps it, and a nil Exif in it keeps the bundle's. A bundle
	// that was calibrated with ready arrays alone has none, and images are refused until it is given
	// here.
	Preprocess *preprocess.Spec
	// MaxBad is how many unreadable records PredictDataset skips.
	MaxBad int
	// FreeMemory returns to the operating system what reading the bundle took, before the runtime
	// takes as much: a quarter of the most memory that a ResNet-50 needs. It costs the whole
	// program a forced collection of garbage, and a second one where the model is held in memory.
	FreeMemory bool
	// Warn, unless it is nil, is called with what is no error and yet to be known: that the model is held
	// in memory while it is opened, as no file can be written.
	Warn func(message string)
	// Unlabelled says that PredictDataset reads no labels, such as those of data
	// whose classes are not the model's.
	Unlabelled bool

	Runtime
}

// Predictor gives predictions with uncertainty. It is safe for concurrent use.
//
// The bundle's model and the mean-field head behind it run in one session of ONNX
// Runtime, the network and its variances in float32; PredictFeatures computes in float64.
type Predictor struct {
	read       func() (*bundle.Bundle, error)
	bundle     *bundle.Bundle // without posterior where the network is fused
	head       calibrate.Head
	network    *featurize.Network // with the mean-field head behind it; nil of ready-made features
	outputs    []onnx.ValueInfo   // of the network
	maxBad     int
	unlabelled bool

	mu          sync.Mutex
	calibration *calibrate.Calibration // of formulas

	probe *expected // nil of a bundle that keeps none
}

// Open opens the bundle in a folder and checks all of it against its hashes. The caller closes the
// Predictor. An open Predictor needs the folder for [Predictor.PredictFeatures] alone: it runs a private
// copy of the model, so that files may be overwritten or removed. When ctx ends, so does the installation of
// ONNX Runtime that o may ask for; ctx is not retained after Open returns.
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
		read: read, bundle: b, calibration: b.Calibration(), head: b.Posterior.Head,
		maxBad: o.MaxBad, unlabelled: o.Unlabelled,
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
	// The posterior is in the graph now, and takes no second place in memory.
	small := *b
	small.Posterior, small.Probe = nil, nil
	p.bundle, p.calibration = &small, nil
	b, a.Bundle = nil, &small
	if o.FreeMemory {
		debug.FreeOSMemory()
	}
	p.outputs = outputs.Infos()
	run := attach.RunConfig(o.Runtime.Provider, o.Runtime.Threads, o.Runtime.Batch)
	err = a.Run(o.Preprocess, run, func(c featurize.Config) error { return p.run(fused, c) })
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

// expected is what the bundle's probe is to give.
type expected struct {
	inputs      []Tensor // in the model's order
	predictions []Prediction
	err         error // of the formulas, in place of predictions
}

// expect computes what a probe, if there is one, is to give.
func (p *Predictor) expect(given *bundle.Probe, infos []onnx.ValueInfo) error {
	if given == nil {
		return nil
	}
	inputs, err := probe.Inputs(given, infos)
	if err != nil {
		return err
	}
	p.probe = &expected{inputs: inputs}
	b := &rows.Batch{N: given.N, Features: given.Features, Logits: given.Logits}
	p.probe.predictions, p.probe.err = p.predict(p.calibration, b)
	return nil
}

// run prepares a fused model.
func (p *Predictor) run(model *onnx.Model, c featurize.Config) error {
	c.Model, c.Doubles = model, true
	var err error
	p.network, err = featurize.NewNetwork(c)
	return err
}

// Close waits for calls that are running, and then releases the runtime's memory. Calls that begin
// later fail.
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

// NumClasses returns C, how many classes the probabilities are of.
func (p *Predictor) NumClasses() int { return p.head.Classes() }

// Batch returns how many examples one inference takes at most: Run parts what is more.
func (p *Predictor) Batch() int {
	if p.network == nil {
		return 0
	}
	return p.network.Batch()
}

// Reference returns how the held-out examples are predicted: confidence, entropy, OODScore and Class of
// their predictions. It is nil of bundles that were written before it was kept, and of a single held-out
// example. It is the Predictor's own, and not to be changed.
func (p *Predictor) Reference() *bundle.Reference { return p.bundle.Manifest.Reference }

// SHA256 identifies the bundle: it is what its manifest is sealed with.
func (p *Predictor) SHA256() string { return p.bundle.SHA256() }

// MultiLabel reports whether the classes are labels that are told independently
// of each other, any number of which an input may have.
func (p *Predictor) MultiLabel() bool { return p.head.MultiLabel() }

// Inputs describes what Predict takes: name, element type and shape of each input, the first axis
// of which counts examples. It is nil where there is no model.
func (p *Predictor) Inputs() []onnx.ValueInfo {
	if p.network == nil {
		return nil
	}
	return cloned(p.network.Inputs())
}

// Head describes the model's last layer: how many features and logits PredictFeatures takes.
func (p *Predictor) Head() bundle.Head {
	h := p.bundle.Manifest.Head
	h.Tail = slices.Clone(h.Tail)
	return h
}

// Bundle describes the bundle. Its Path is "" after OpenFS.
func (p *Predictor) Bundle() BundleInfo {
	return BundleInfo{p.bundle.Dir(), p.bundle.Manifest.Summary()}
}

var errNoModel = errors.New("the bundle was made of ready-made features and runs no model: use PredictFeatures")

// cloned copies descriptions with their shapes, which a caller may change.
func cloned(infos []onnx.ValueInfo) []onnx.ValueInfo {
	infos = slices.Clone(infos)
	for i := range infos {
		infos[i].Shape = slices.Clone(infos[i].Shape)
	}
	return infos
}

// Outputs describes what Run gives: probabilities [N,C], logits [N,K] and logit_variance [N,K],
// which are float32, then ood_score and ood_percentile, [N] of float64, and leverage, [N] of float32.
// It is nil where there is no model.
func (p *Predictor) Outputs() []onnx.ValueInfo { return cloned(p.outputs) }

// Run evaluates ready model inputs: one tensor for each of the model's inputs, the first dimension
// of each being the number of examples, which may be any. It gives the numbers of an exported
// model, in the order of Outputs, as they come from the runtime: Predict rounds and checks them.
// When ctx ends, so does the call, within about 0.1 s.
func (p *Predictor) Run(ctx context.Context, inputs []Tensor) ([]Tensor, error) {
	if p.network == nil {
		return nil, errNoModel
	}
	r, err := p.network.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.tensors(r), nil
}

// tensors names what the network gave. They share its memory.
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

// Predict evaluates ready model inputs, as Run takes them.
func (p *Predictor) Predict(ctx context.Context, inputs []Tensor) ([]Prediction, error) {
	out, err := p.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return p.predictions(out, &rows.Batch{N: int(out[0].Shape[0])})
}

// PredictImages preprocesses images as the bundle says and evaluates them. No
// images are an error, and so is one that is nil. Package image's decoders drop the EXIF orientation
// of a file, so images are taken as they are: give the file itself to ImageInputs to have it turned.
func (p *Predictor) PredictImages(ctx context.Context, images ...image.Image) ([]Prediction, error) {
	if p.network == nil {
		return nil, errNoModel
	}
	inputs, err := p.network.Images(images)
	if err != nil {
		return nil, err
	}
	return p.Predict(ctx, inputs)
}

// formulas returns what computes in float64. The posterior of a thousand classes is half as large
// as their network, which has it in its graph: beside that it is read only when it is asked for.
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
		return nil, fmt.Errorf("%s: the bundle is no longer the one that was opened: open it again", cmp.Or(p.bundle.Dir(), bundle.ManifestName))
	}
	p.calibration = b.Calibration()
	return p.calibration, nil
}

// PredictFeatures evaluates features [n,d] and logits [n,K] that the caller got
// from the network by other means. Where the bundle has a model, the first call
// reads the bundle once more, which must be unchanged.
func (p *Predictor) PredictFeatures(phi, logits []float32) ([]Prediction, error) {
	n := len(logits) / p.head.Logits
	if len(logits) != n*p.head.Logits || len(phi) != n*p.head.Features {
		return nil, fmt.Errorf("%d features and %d logits, want %d and %d for each example", len(phi), len(logits), p.head.Features, p.head.Logits)
	}
	b := &rows.Batch{N: n, Features: phi, Logits: slices.Clone(logits)}
	if err := source.CheckFinite(b); err != nil {
		return nil, err
	}
	c, err := p.formulas()
	if err != nil {
		return nil, err
	}
	return p.predict(c, b)
}

// DatasetReport tells what PredictDataset passed over.
type DatasetReport struct {
	Bad      []string // records that could not be read
	Ignored  []string // files that were none
	Warnings []string // such as labels that mean nothing to the model
}

// PredictDataset evaluates a dataset, or a file of features and logits where there is no model,
// and calls yield with each prediction, in order. Labels are reported where the dataset has them;
// those that are no classes of the model's are left out, with a warning.
func (p *Predictor) PredictDataset(
	ctx context.Context, spec string, yield func(Prediction) error,
) (DatasetReport, error) {
	return p.predictDataset(ctx, spec, p.maxBad, &rows.Stats{}, func(one Prediction, _ int) error { return yield(one) })
}

// PredictRecords is PredictDataset for who wants an answer to every record: yield is called in the
// place of one that cannot be read, or does not suit the model, with an error that says why and a
// Prediction of nothing but the record's name. However many there are of them, and be there no others,
// the call goes on, unless yield ends it.
func (p *Predictor) PredictRecords(
	ctx context.Context, spec string, yield func(Prediction, error) error,
) (DatasetReport, error) {
	var met rows.Stats
	told := 0 // of the records that cannot be read
	answer := func(before int) error {
		for ; told < len(met.Bad) && met.Bad[told].Position < before; told++ {
			name, reason, _ := strings.Cut(met.Bad[told].Message, ": ")
			if err := yield(Prediction{Input: name}, errors.New(reason)); err != nil {
				return err
			}
		}
		return nil
	}
	report, err := p.predictDataset(ctx, spec, math.MaxInt, &met, func(one Prediction, position int) error {
		if err := answer(position); err != nil {
			return err
		}
		return yield(one, nil)
	})
	report.Bad = nil
	if errors.Is(err, featurize.ErrNoExamples) {
		err = nil
	}
	if err == nil {
		err = answer(math.MaxInt)
	}
	return report, err
}

// predictDataset counts what it meets, a record that is passed over before yield is called with one behind
// it. yield also takes positions.
func (p *Predictor) predictDataset(ctx context.Context, spec string, maxBad int, met *rows.Stats,
	yield func(Prediction, int) error) (DatasetReport, error) {
	notes, report := &source.Notes{}, DatasetReport{}
	opener := &source.Opener{
		Network: p.network, Classes: p.Classes(), MaxBad: maxBad, MultiLabel: p.head.MultiLabel(),
		IgnoreUnknownLabels: true,
		Notes:               notes,
	}
	s, err := opener.Open(ctx, "input", spec, p.head.Classes(), !p.unlabelled)
	if err != nil {
		var e error
		if s, e = opener.Open(ctx, "input", spec, p.head.Classes(), false); e != nil {
			return report, err
		}
		report.Warnings = append(report.Warnings, fmt.Sprintf("%v; predicted without labels", err))
	}
	defer s.Close()
	if err := s.Fits(p.head, "the bundle's head"); err != nil {
		return report, err
	}
	s.Config.Stats = met
	outside := 0
	for of, e := range p.predictSet(ctx, s) {
		if err = e; err != nil {
			break
		}
		for i, one := range of.predictions {
			if one.Label == nil && one.Targets == nil && s.Labelled() {
				outside++
			}
			if err = yield(one, of.examples.Positions[i]); err != nil {
				break
			}
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", s.Name, err)
			break
		}
	}
	if outside > 0 {
		report.Warnings = append(report.Warnings, fmt.Sprintf("input: %d of %d labels lie outside [0,%d), the model's classes, and are left out", outside, met.Examples, p.head.Classes()))
	}
	report.Bad, report.Ignored = notes.Bad, notes.Ignored
	return report, err
}

// predicted is what a bundle serves for some examples.
type predicted struct {
	predictions []Prediction
	examples    *rows.Batch
}

// predictSet predicts an open set: by the graph, or of precomputed features by the formulas.
func (p *Predictor) predictSet(ctx context.Context, s *source.Set) iter.Seq2[predicted, error] {
	return func(yield func(predicted, error) bool) {
		// give reports whether there is to be more.
		give := func(predictions []Prediction, b *rows.Batch, err error) bool {
			if err != nil {
				err = fmt.Errorf("%s: %w", s.Name, err)
			}
			return yield(predicted{predictions, b}, err) && err == nil
		}
		if p.network == nil {
			for b, err := range s.Batches(ctx) {
				if err != nil {
					yield(predicted{}, err)
					return
				}
				predictions, err := p.predict(p.calibration, b)
				if !give(predictions, b, err) {
					return
				}
			}
			return
		}
		for r, err := range s.Results(ctx) {
			if err != nil {
				yield(predicted{}, err)
				return
			}
			predictions, err := p.predictions(p.tensors(r), r.Examples)
			if !give(predictions, r.Examples, err) {
				return
			}
		}
	}
}

// predict turns finite rows into predictions, in float64.
func (p *Predictor) predict(calibration *calibrate.Calibration, b *rows.Batch) ([]Prediction, error) {
	r := calibration.Predict(b.Features, b.Logits, b.N)
	k, c := p.head.Logits, p.head.Classes()
	probabilities := measure.OfClasses(p.head, r.LogP)
	out := make([]Prediction, b.N)
	for i := range out {
		out[i] = Prediction{
			Probabilities: row(probabilities, i, c),
			Logits:        row(b.Logits, i, k),
			LogitVariance: row(r.Variance, i, k),
			OODScore:      r.OODScore[i],
			Leverage:      r.Leverage[i],
		}
		if r.OODPercentile != nil {
			out[i].OODPercentile = &r.OODPercentile[i]
		}
		if err := p.finish(&out[i], i, p.bundle.Manifest.Decisions, b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// predictions turns what Run gave of a batch's examples into what the bundle serves.
func (p *Predictor) predictions(r []Tensor, x *rows.Batch) ([]Prediction, error) {
	return p.predictionsOf(r, nil, p.bundle.Manifest.Decisions, x)
}

// predictionsOf turns what Run gave into predictions with given probabilities, those of r for nil, and
// decisions.
func (p *Predictor) predictionsOf(
	r []Tensor, probabilities []float64, decisions *conformal.Decisions, x *rows.Batch,
) ([]Prediction, error) {
	k, c := p.head.Logits, p.head.Classes()
	logits := r[fuse.Logits].Data.([]float32)
	if err := source.CheckColumn("logit", logits, k, x.Name); err != nil {
		return nil, err
	}
	if probabilities == nil {
		probabilities = widened(r[fuse.Probabilities].Data.([]float32))
	}
	variance := widened(r[fuse.LogitVariance].Data.([]float32))
	ood := r[fuse.Scores].Data.([]float64)
	leverage := r[len(r)-1].Data.([]float32)
	var percentile []float64
	if len(r) > fuse.Scores+2 { // as all bundles have it but old ones
		percentile = r[fuse.Scores+1].Data.([]float64)
	}
	out := make([]Prediction, len(logits)/k)
	for i := range out {
		out[i] = Prediction{
			Probabilities: row(probabilities, i, c),
			Logits:        row(logits, i, k),
			LogitVariance: row(variance, i, k),
			OODScore:      ood[i],
			Leverage:      float64(leverage[i]),
		}
		if percentile != nil {
			out[i].OODPercentile = &percentile[i]
		}
		if err := p.finish(&out[i], i, decisions, x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// finish sets what follows from the numbers of the i-th of some examples, and what is known of it.
func (p *Predictor) finish(one *Prediction, i int, decisions *conformal.Decisions, x *rows.Batch) error {
	sum := one.OODScore + one.Leverage
	for _, list := range [][]float64{one.Probabilities, one.LogitVariance} {
		for _, v := range list {
			sum += v
		}
	}
	// The logits are finite: what is left are absurd numbers.
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("%s: the prediction is not finite: its features are beyond float32, or the bundle's posterior and temperatures do not fit the model", x.Name(i))
	}
	names := p.bundle.Manifest.Labels
	one.follow(p.head, names)
	if len(names) > 0 {
		one.ClassName = names[one.Class]
	}
	one.decide(decisions, names)
	if x.Names != nil || x.From != "" {
		one.Input = x.Name(i)
	}
	if x.Labels != nil && x.Labels[i] >= 0 {
		one.Label = &x.Labels[i]
	}
	if k := p.head.Logits; x.Targets != nil {
		one.Targets = present(k, func(j int) bool { return x.Targets[i*k+j] == 1 })
	}
	return nil
}
