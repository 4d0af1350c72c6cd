package wrap

import (
	"context"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx"
)

func (r *Runtime) check() error {
	if r.Threads < 0 || r.Batch < 0 {
		return fmt.Errorf("threads are %d and batch %d, want no negative numbers", r.Threads, r.Batch)
	}
	return nil
}

// load makes ONNX Runtime ready.
func (r *Runtime) load(ctx context.Context) error {
	if _, ok := ort.Loaded(); ok && r.Setup.Flag == "" {
		return nil
	}
	lib, err := ort.Ensure(ctx, r.Setup)
	if err != nil {
		return err
	}
	return ort.Load(lib)
}

// network is a model ready to run: cut at its head, for features and logits, or
// with the mean-field head behind it, for predictions.
type network struct {
	*featurize.Network

	// Of a cut one.
	model     *onnx.Model
	head      *onnx.Head
	extractor *featurize.Extractor

	// Of a fused one: which of its outputs is what.
	columns fusedColumns
}

type fusedColumns struct{ probabilities, logits, variance, oodScore, leverage int }

// headOf returns a model's head in the terms of package calibrate.
func headOf(h *onnx.Head) calibrate.Head {
	return calibrate.Head{Logits: h.Classes, Features: h.FeatureDim, Bias: h.Bias, Link: calibrate.Link(h.Link)}
}

// config is that of a network; the model, and how images become its input, are set by
// the caller.
func (r *Runtime) config() featurize.Config {
	return featurize.Config{Batch: r.Batch, Threads: r.Threads, Provider: r.Provider}
}

// openNetwork cuts a model.
func openNetwork(model *onnx.Model, head *onnx.Head, c featurize.Config) (*network, error) {
	c.Model, c.Head = model, head
	e, err := featurize.New(c)
	if err != nil {
		return nil, err
	}
	return &network{Network: e.Network, model: model, head: head, extractor: e}, nil
}

// openFused prepares a model that fuse has made.
func openFused(model *onnx.Model, names onnx.FusedOutputs, c featurize.Config) (*network, error) {
	outputs := model.Outputs()
	find := func(name string) int {
		return slices.IndexFunc(outputs, func(o onnx.ValueInfo) bool { return o.Name == name })
	}
	c.Model, c.Doubles = model, true
	net, err := featurize.NewNetwork(c)
	if err != nil {
		return nil, err
	}
	return &network{Network: net, columns: fusedColumns{
		probabilities: find(names.Probabilities),
		logits:        find(names.Logits),
		variance:      find(names.LogitVariance),
		oodScore:      find(names.OODScore),
		leverage:      find(names.Leverage),
	}}, nil
}

func (n *network) close() error { return n.Network.Close() }

// info describes the model.
func (n *network) info() *ModelInfo { return modelInfo(n.model) }

func modelInfo(m *onnx.Model) *ModelInfo {
	return &ModelInfo{
		Path: m.Path(), SHA256: m.SHA256(), Opset: m.Opset(), Producer: m.Producer(),
		Inputs: m.Inputs(), Outputs: m.Outputs(),
	}
}

// logitTolerance is how far φW + b may be from the network's own logits,
// relative to the largest of them: float16 bodies round to 1e-3, other kernels
// for the same product in float32 differ by 1e-5.
const logitTolerance = 5e-3

// checkProducts bounds the multiplications of checkLogits: a fraction of a second.
const checkProducts = 100_000_000

// checkLogits proves the head on real examples: φW + b must be the logits, as
// far as a quantised network does not round them and cut them off. It returns the
// largest difference relative to the largest logit, of an approximation too, which
// may differ as it does.
func checkLogits(h *onnx.Head, b *rows.Batch) (float64, error) {
	w, bias, err := h.Weights()
	if err != nil {
		return 0, err
	}
	d, k := h.FeatureDim, h.Classes
	var worst, size float64
	sums := make([]float64, k)
	for i := range max(1, min(b.N, checkProducts/(d*k))) {
		phi, logits := b.Row(i)
		var common float64 // what the logits hold besides, on average over the classes
		for j, got := range logits {
			var sum float64
			for l, v := range w[j*d : (j+1)*d] {
				sum += float64(v) * float64(phi[l])
			}
			if bias != nil {
				sum += float64(bias[j])
			}
			sums[j] = min(max(sum, h.Low), h.High)
			if h.Shifted {
				common += (float64(got) - sums[j]) / float64(k)
			}
		}
		for j, got := range logits {
			sum := sums[j] + common
			worst = max(worst, abs(sum-float64(got))-h.Rounding)
			size = max(size, abs(float64(got)))
		}
	}
	if size == 0 {
		size = 1
	}
	worst = max(worst, 0)
	// Written so that NaN fails.
	if h.Approximation == "" && !(worst/size <= logitTolerance) {
		return 0, fmt.Errorf("%s times the weights of %s is not %s: they differ by %.2g of the largest logit, want at most %.2g; name the right tensors with --features and --logits",
			h.Features, h.Node, h.Logits, worst/size, logitTolerance)
	}
	return worst / size, nil
}

func abs(x float64) float64 { return max(x, -x) }
