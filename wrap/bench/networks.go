package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/calibrate/methods/layers"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	onnxlayers "github.com/mfgs/mfgs/onnx/layers"
	"github.com/mfgs/mfgs/wrap/internal/attach"
	"github.com/mfgs/mfgs/wrap/internal/measure"
	"github.com/mfgs/mfgs/wrap/internal/source"
)

// stochasticBatch is the batch of networks that draw their weights anew in every run,
// which costs as much as many examples.
const stochasticBatch = 512

// runnable prepares another model for the bundle's inputs. The bench closes it.
func (b *bench) runnable(m *onnx.Model) (*network, error) {
	n, err := b.openOther(m, b.Batch)
	if err == nil {
		b.closers = append(b.closers, n.Close)
	}
	return n, err
}

func (b *bench) openOther(m *onnx.Model, batch int) (*network, error) {
	n := &network{model: m}
	run := b.Runtime.Config()
	run.Batch = batch
	err := b.attached.Run(b.Preprocess, run, func(c featurize.Config) (err error) {
		c.Model = m
		n.Network, err = featurize.NewNetwork(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// network is another model than the bundle's, ready to run.
type network struct {
	*featurize.Network
	model *onnx.Model
}

// outputs runs a network over a set and returns its outputs, those of an example one
// pass after another. There must be as many examples as the bundle's network had.
func (b *bench) outputs(ctx context.Context, n *network, s *evalSet, passes int) ([][]float32, error) {
	width := 0
	for _, o := range n.model.Outputs() {
		width += int(max(1, o.Shape[len(o.Shape)-1].Value))
	}
	if err := checkMemory(s.Len(), passes*width, s.Name); err != nil {
		return nil, err
	}
	o := b.opener(n.Network, s.Config.Limit)
	o.Cache = ""
	o.Notes = &source.Notes{Progress: b.notes.Progress}
	other, err := o.Open(s.Name, s.Spec, b.head.Classes(), s.part.Role != measure.OOD)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	other.Config.Passes = passes
	columns := make([][]float32, len(n.model.Outputs()))
	examples, _, err := other.StreamFused(ctx, o.Notes, func(r featurize.Results, _ *rows.Batch) error {
		for i, c := range r.Columns {
			columns[i] = append(columns[i], c...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if want := s.data.N; examples != want {
		return nil, fmt.Errorf("%s: %d examples, %d when they were read first: did the data change?", s.Name, examples, want)
	}
	return columns, nil
}

// fitNetworks predicts with the mean of several networks' probabilities.
func (b *bench) fitNetworks(paths []string) (predictor, error) {
	var members []*network
	for _, path := range paths {
		model, h, err := b.openHead(path)
		if err != nil {
			return nil, err
		}
		if model, err = head.OnlyLogits(model, h); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		n, err := b.runnable(model)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		members = append(members, n)
	}
	k := b.head.Logits
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		n := s.data.N
		if err := checkMemory(n, len(members)*k, s.Name); err != nil {
			return nil, err
		}
		all := make([]float32, n*len(members)*k)
		for m, member := range members {
			columns, err := b.outputs(ctx, member, s, 1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", paths[m], err)
			}
			for i := range n {
				copy(all[(i*len(members)+m)*k:], columns[0][i*k:(i+1)*k])
			}
		}
		return methods.NewEnsemble(all, n, len(members), k)
	}, nil
}

// passes predicts with the mean of the probabilities that a network which draws random
// numbers gives in so many runs. Its one output are logits or, if they look like it,
// probabilities. seeded makes the network for a seed: every set has its own, so that
// what is drawn for one depends on no other.
func (b *bench) passes(samples, batch int, seeded func(seed int) (*onnx.Model, error)) predictor {
	k := b.head.Logits
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		model, err := seeded(int(b.seedOf(s) % maxSeed))
		if err != nil {
			return nil, err
		}
		n, err := b.openOther(model, batch)
		if err != nil {
			return nil, err
		}
		defer n.Close()
		columns, err := b.outputs(ctx, n, s, samples)
		if err != nil {
			return nil, err
		}
		logits := columns[0]
		if measure.ProbabilitiesIn(logits, b.head) != "" {
			for i, p := range logits {
				logits[i] = float32(math.Log(math.Max(float64(p), math.SmallestNonzeroFloat32)))
			}
		}
		return methods.NewEnsemble(logits, s.data.N, samples, k)
	}
}

// maxSeed bounds seeds of ONNX nodes, which are float32.
const maxSeed = 1 << 20

// stochastic opens the network that draws its weights.
func (b *bench) stochastic() (*onnx.Model, error) {
	model, err := onnx.Open(b.VI)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file", b.VI)
	}
	if err != nil {
		return nil, err
	}
	if len(onnxlayers.Random(model)) == 0 {
		return nil, fmt.Errorf("%s: no node draws random numbers, so that every run would give the same: export the network with its weights drawn by RandomNormal or RandomNormalLike", b.VI)
	}
	out := model.Outputs()
	if len(out) != 1 || len(out[0].Shape) != 2 || out[0].Shape[1].Value != int64(b.head.Logits) {
		return nil, fmt.Errorf("%s: its outputs are %v, want logits [N,%d] alone", b.VI, out, b.head.Logits)
	}
	if _, err := onnxlayers.Seeded(model, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", b.VI, err)
	}
	return model, nil
}

// fitStochastic predicts with a network that draws its weights.
func (b *bench) fitStochastic(m method) (predictor, error) {
	model, err := b.stochastic()
	if err != nil {
		return nil, err
	}
	batch := b.Batch
	if batch == 0 {
		batch = stochasticBatch
	}
	predict := b.passes(m.samples, batch, func(seed int) (*onnx.Model, error) { return onnxlayers.Seeded(model, seed) })
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		p, err := predict(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.VI, err)
		}
		return p, nil
	}, nil
}

// dropoutRates are tried where there is none to go by.
var dropoutRates = []float64{0.05, 0.1, 0.2, 0.3, 0.5}

// fitDropout switches the network's own Dropout on or, where it has none, leaves out
// features.
func (b *bench) fitDropout(ctx context.Context, m method) (predictor, string, error) {
	if b.cut != nil {
		cut, err := head.OnlyLogits(b.cut.Model, b.cut.Head)
		if err != nil {
			return nil, "", err
		}
		switched := 0
		stochastic := func(seed int) (model *onnx.Model, err error) {
			model, switched, err = onnxlayers.Stochastic(cut, b.DropoutRate, seed)
			return model, err
		}
		if _, err := stochastic(0); err != nil {
			return nil, "", err
		}
		if switched > 0 {
			return b.passes(m.samples, b.Batch, stochastic), fmt.Sprintf("%d Dropout nodes of the network", switched), nil
		}
	}
	weights, err := b.headWeights()
	if err != nil {
		return nil, "", err
	}
	rates := dropoutRates
	if b.DropoutRate > 0 {
		rates = []float64{b.DropoutRate}
	}
	var best predictor
	var rate float64
	least := math.Inf(1)
	for _, p := range rates {
		drawn, err := methods.NewDropout(ctx, weights, b.head, b.product, p, m.samples, b.Seed)
		if err != nil {
			return nil, "", err
		}
		predict := func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
			return drawn.Predictive(ctx, s.data)
		}
		if len(rates) == 1 {
			best, rate = predict, p
			break
		}
		nll, err := b.heldOutNLL(ctx, predict)
		if err != nil {
			return nil, "", err
		}
		if nll < least {
			least, best, rate = nll, predict, p
		}
	}
	return best, fmt.Sprintf("of features, rate %g", rate), nil
}

// heldOutNLL is the least that temperatures reach.
func (b *bench) heldOutNLL(ctx context.Context, predict predictor) (float64, error) {
	val, err := predict(ctx, b.val)
	if err != nil {
		return 0, err
	}
	tuned, err := calibrate.Tune(ctx, val, b.val.data.Labels, nil, b.limit)
	if err != nil {
		return 0, err
	}
	logp, _, err := calibrate.PredictAll(ctx, val, tuned.Optimum)
	return meanNLL(logp, b.val.data.Labels, b.head.Classes()), err
}

// evidenceKey is the metadata in which an evidential network says what makes evidence
// of its logits.
const evidenceKey = "mfgs.evidence"

// evidential opens the evidential network.
func (b *bench) evidential() (*onnx.Model, *head.Head, methods.Evidence, error) {
	model, h, err := b.openHead(b.Evidential)
	if err != nil {
		return nil, nil, "", err
	}
	evidence := methods.Evidence(b.Evidence)
	if evidence == "" {
		evidence = methods.Evidence(model.Metadata()[evidenceKey])
		if err := evidence.Validate(); err != nil {
			return nil, nil, "", fmt.Errorf("%s: its metadata %s: %w: say with --evidence what makes evidence of its logits", b.Evidential, evidenceKey, err)
		}
	}
	return model, h, evidence, nil
}

// fitEvidential runs an evidential network or fits an evidential last layer.
func (b *bench) fitEvidential(ctx context.Context) (predictor, string, error) {
	if b.Evidential == "" {
		e, err := methods.FitEvidential(ctx, b.train.data, b.head, methods.EvidentialOptions{
			FitOptions: methods.FitOptions{Product: b.product, Seed: b.Seed, Progress: func(done, total int) {
				b.notes.Step("edl: fit", "epochs", done, total)
			}},
			Evidence: methods.Evidence(b.Evidence),
		})
		if err != nil {
			return nil, "", err
		}
		predict := func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) { return e.Predictive(ctx, s.data) }
		return predict, fmt.Sprintf("a last layer, evidence %s", e.Evidence), nil
	}
	model, h, evidence, err := b.evidential()
	if err != nil {
		return nil, "", err
	}
	if model, err = head.OnlyLogits(model, h); err != nil {
		return nil, "", fmt.Errorf("%s: %w", b.Evidential, err)
	}
	n, err := b.runnable(model)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", b.Evidential, err)
	}
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		columns, err := b.outputs(ctx, n, s, 1)
		if err != nil {
			return nil, err
		}
		return methods.NewEvidential(columns[0], b.head.Logits, evidence)
	}, fmt.Sprintf("a network, evidence %s", evidence), nil
}

// tail is the dense layers on top of the network.
type tail struct {
	cut        *network
	dense      *layers.Network
	posteriors map[calibrate.Covariance]*layers.Posterior
	sets       map[*evalSet]*rows.Batch // what goes into them, for Features
}

// openTail finds the layers and cuts the network below them.
func (b *bench) openTail() (*tail, error) {
	if b.tail != nil {
		return b.tail, nil
	}
	model, head := b.cut.Model, b.cut.Head
	found, err := onnxlayers.Find(model, head, b.Layers)
	if err != nil {
		return nil, err
	}
	var all []layers.Layer
	for _, d := range found.Layers {
		w, bias, err := d.Weights()
		if err != nil {
			return nil, err
		}
		all = append(all, layers.Layer{In: d.In, Out: d.Out, Weights: w, Bias: bias, Activation: d.Activation.At})
	}
	t := &tail{posteriors: map[calibrate.Covariance]*layers.Posterior{}, sets: map[*evalSet]*rows.Batch{}}
	if t.dense, err = layers.NewNetwork(all, b.product); err != nil {
		return nil, err
	}
	cut, err := onnxlayers.Cut(model, head, found)
	if err != nil {
		return nil, err
	}
	if t.cut, err = b.runnable(cut); err != nil {
		return nil, err
	}
	b.tail = t
	return t, nil
}

// inputs returns what of a set goes into the tail, as features.
func (t *tail) inputs(ctx context.Context, b *bench, s *evalSet) (*rows.Batch, error) {
	if x := t.sets[s]; x != nil {
		return x, nil
	}
	if s.whole != nil {
		x, err := t.inputs(ctx, b, s.whole)
		if err != nil {
			return nil, err
		}
		return spread(x, s.data.N), nil
	}
	if err := b.collect(ctx, s); err != nil {
		return nil, err
	}
	columns, err := b.outputs(ctx, t.cut, s, 1)
	if err != nil {
		return nil, err
	}
	x := &rows.Batch{N: s.data.N, Features: columns[0], Logits: columns[1], Labels: s.data.Labels}
	if err := t.check(x); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	t.sets[s] = x
	return x, nil
}

// check proves the layers on the first examples: they must give the network's logits.
func (t *tail) check(x *rows.Batch) error {
	d, k := t.dense.Inputs(), t.dense.Logits()
	n := min(32, len(x.Logits)/k)
	got := make([]float64, n*k)
	if err := t.dense.Forward(got, x.Features[:n*d]); err != nil {
		return err
	}
	var worst, size float64
	for i, v := range x.Logits[:n*k] {
		worst = math.Max(worst, math.Abs(got[i]-float64(v)))
		size = math.Max(size, math.Abs(float64(v)))
	}
	if !(worst <= attach.LogitTolerance*math.Max(size, 1e-30)) {
		return fmt.Errorf("the dense layers do not give the network's logits: they differ by %.2g of the largest, want at most %.2g; take fewer --layers", worst/size, attach.LogitTolerance)
	}
	return nil
}

// fitLayers is fit for posteriors over several layers.
func (b *bench) fitLayers(ctx context.Context, m method) (predictor, string, error) {
	t, err := b.openTail()
	if err != nil {
		return nil, "", err
	}
	cov := b.likelihoodCovariance()
	if m.covariance != "" {
		cov = calibrate.Covariance(m.covariance)
	}
	p, damping, err := b.posteriorOf(ctx, t, cov)
	if err != nil {
		return nil, "", err
	}
	note := fmt.Sprintf("%d layers, damping %s", b.Layers, damping)
	if b.manifest.Damping.Rule == (calibrate.Damping{}).String() {
		note += ", as was chosen for the last"
	}
	if m.name == "bnn-kfac" {
		if n := b.val.data.N; n > costlyHeldOut {
			note += fmt.Sprintf("; tuned on %d of %d held-out examples and nine T_ens", costlyHeldOut, n)
		}
		return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
			x, err := t.inputs(ctx, b, s)
			if err != nil {
				return nil, err
			}
			return layers.NewSampled(ctx, p, x.Features, m.samples, b.Seed)
		}, note, nil
	}
	return b.integrate(m, p, func(ctx context.Context, s *evalSet) (*rows.Batch, error) { return t.inputs(ctx, b, s) }), note, nil
}

// posteriorOf is damped as the bundle's: by the same ε or, where that was relative to
// the mean eigenvalue, by the same part of each layer's own.
func (b *bench) posteriorOf(ctx context.Context, t *tail, cov calibrate.Covariance) (*layers.Posterior, calibrate.Damping, error) {
	d := b.manifest.Damping
	damping, err := calibrate.ParseDamping(d.Rule)
	if err != nil {
		return nil, damping, err
	}
	if damping == (calibrate.Damping{}) {
		damping.Relative = d.Rho
	}
	if p := t.posteriors[cov]; p != nil {
		return p, damping, nil
	}
	x, err := t.inputs(ctx, b, b.train)
	if err != nil {
		return nil, damping, err
	}
	c, err := layers.NewCurvature(t.dense, cov)
	if err != nil {
		return nil, damping, err
	}
	if err := c.Add(ctx, x.Features, x.Labels); err != nil {
		return nil, damping, fmt.Errorf("train: %w", err)
	}
	p, err := c.Posterior(ctx, damping)
	if err != nil {
		return nil, damping, err
	}
	delete(t.sets, b.train)
	t.posteriors[cov] = p
	return p, damping, nil
}
