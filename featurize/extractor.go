package featurize

import (
	"context"
	"iter"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Extractor is the Network of a model cut at its head: it gives features and
// logits. It is safe for concurrent use.
type Extractor struct {
	*Network
	d, k int // features and logits per example

	// identity of what is run, for cache keys
	model, features, logits, provider, runtime string
}

// New cuts the model and prepares it to run. The runtime's library must be
// loaded (ort.Load), and the caller closes the Extractor.
func New(c Config) (*Extractor, error) {
	e := &Extractor{
		d: c.Head.Features, k: c.Head.Logits,
		model: c.Model.SHA256(), features: c.Head.FeaturesTensor, logits: c.Head.LogitsTensor, provider: c.Provider,
	}
	if e.provider == "" {
		e.provider = ort.CPU
	}
	var err error
	if c.Model, err = head.Cut(c.Model, c.Head); err != nil {
		return nil, err
	}
	if e.Network, err = NewNetwork(c); err != nil {
		return nil, err
	}
	runtime, _ := ort.Loaded()
	e.runtime = runtime.Version
	return e, nil
}

// FeatureDim returns d.
func (e *Extractor) FeatureDim() int { return e.d }

// Logits returns K.
func (e *Extractor) Logits() int { return e.k }

// Run evaluates ready model inputs of n examples each, n being the first
// dimension of all of them. Any n is run, in batches the model can take.
func (e *Extractor) Run(ctx context.Context, inputs []tensor.Tensor) (*rows.Batch, error) {
	r, err := e.Network.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return &rows.Batch{N: r.N, Features: r.Columns[0], Logits: r.Columns[1]}, nil
}

// Batches is that of the Network, as rows of features and logits: from c.Cache where it holds them,
// which it never does of a stream.
func (e *Extractor) Batches(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[*rows.Batch, error] {
	if c.Passes > 1 {
		panic("featurize: an Extractor has one pass, whose rows it may keep")
	}
	c.check()
	if c.Cache != nil && ds.Len() >= 0 {
		return e.cached(ctx, ds, c)
	}
	c.Cache = nil
	return e.computed(ctx, ds, c)
}

// computed runs the network.
func (e *Extractor) computed(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		for r, err := range e.Network.Batches(ctx, ds, c) {
			if err != nil {
				yield(nil, err)
				return
			}
			r.Examples.Features, r.Examples.Logits = r.Columns[0], r.Columns[1]
			if !yield(r.Examples, nil) {
				return
			}
		}
	}
}
