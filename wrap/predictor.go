package wrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/probe"
)

// Tensor is one input of a model: its name, which may be empty if the model has one input only, its shape
// [n, …], and its elements in row-major order, a slice of the type that [Predictor.Inputs] gives:
//
//	wrap.Tensor{Shape: []int64{2, 3, 224, 224}, Data: make([]float32, 2*3*224*224)}
type Tensor = tensor.Tensor

// A reader reads a bundle.
type reader = func(context.Context) (*bundle.Bundle, error)

// textOutputs is the number of outputs of a model that reads text: its symbols, and their probabilities.
const textOutputs = 2

// Predictor gives predictions with uncertainty. It is safe for concurrent use.
//
// The bundle's model and the mean-field head after it run in one session of ONNX Runtime, with the network and
// its variances in float32. PredictFeatures computes in float64. Decisions, which are rules on the results, are
// computed by package conformal in every case; the graph of an exported model computes them again.
type Predictor struct {
	read       reader
	bundle     *bundle.Bundle // without its posterior if the network is fused
	head       layer.Head
	network    *featurize.Network // with the mean-field head; nil for a bundle without a model
	outputs    []onnx.ValueInfo   // of the network
	decoding   *head.Decoding     // of a network that reads text, else nil
	unlabelled bool

	mu          sync.Mutex
	calibration *calibrate.Calibration // the float64 formulas; nil until they are needed

	probe *expected // nil for a bundle without a probe
}

// expected holds the probe's inputs and what the float64 formulas make of its features.
type expected struct {
	inputs   []Tensor // in the model's order
	outcomes []probe.Outcome
	err      error // of the formulas, in place of outcomes
}

// ErrNoModel is the error of calls that run the network, for a bundle that was calibrated from precomputed
// features and has none.
var ErrNoModel = errors.New("the bundle was calibrated with precomputed features and has no model")

var errUseFeatures = fmt.Errorf("%w: use PredictFeatures", ErrNoModel)

// ErrBundleChanged is the error of [Predictor.PredictFeatures] if the folder holds another bundle than the one
// that was opened.
var ErrBundleChanged = errors.New("the bundle has changed since it was opened: open it again")

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
