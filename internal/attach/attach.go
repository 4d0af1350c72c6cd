// Package attach opens a bundle together with its model, and checks that they belong together. Predictions,
// comparisons of methods and exports start here.
package attach

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Attached is a bundle with its model. Model and Head are nil if the bundle was made from
// precomputed features. The model is a private copy, so that what was verified is what runs, whatever is written
// to the bundle's folder meanwhile. Close it once all networks are open.
type Attached struct {
	Bundle *bundle.Bundle
	Model  *onnx.Model
	Head   *head.Head
}

// Open opens the model of a bundle, at path or, if path is "", in the bundle itself, and
// finds the head that was calibrated. For a bundle made from precomputed features, path must be "" and spec nil.
func Open(ctx context.Context, b *bundle.Bundle, path string, spec *preprocess.Spec) (*Attached, error) {
	a := &Attached{Bundle: b}
	if b.Manifest.Model == nil {
		if path != "" || spec != nil {
			return nil, errors.New("the bundle was calibrated with precomputed features and takes no model and no preprocessing")
		}
		return a, nil
	}
	var err error
	if a.Model, err = openModel(ctx, b, path); err != nil {
		return nil, err
	}
	fixed, err := head.Fix(a.Model, b.Manifest.Head.Fix)
	if err == nil {
		fixed, a.Head, err = FindHead(fixed, b.Manifest.Head)
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Join(b.Dir(), bundle.ManifestName), err)
	}
	a.Model = fixed
	return a, nil
}

// Close removes the private copy of the model, which cannot be read any more. Open networks stay usable.
func (a *Attached) Close() error {
	if a.Model == nil {
		return nil
	}
	return a.Model.Close()
}

// FindHead finds the calibrated head in a model. The record in the manifest does not replace the search: it has
// neither the types of the tensors, nor a pooling or selection between them and the layer, nor the weights. The model
// that it returns is the one that the head is of: where the manifest has states, it is unrolled.
func FindHead(model *onnx.Model, want bundle.Head) (*onnx.Model, *head.Head, error) {
	h, err := head.Find(model, head.Options{
		Features: want.FeaturesTensor, Logits: want.LogitsTensor,
		Link: want.Link, Approximate: want.Approximation, Kind: want.Kind,
	})
	if unsupported := (*head.UnsupportedError)(nil); errors.As(err, &unsupported) {
		return nil, nil, fmt.Errorf("the model does not have the recorded head, from the tensor %.70q to %.70q: %s",
			want.FeaturesTensor, want.LogitsTensor, unsupported.Reason)
	}
	if err != nil {
		return nil, nil, err
	}
	if h.Steps > 0 && want.Steps == 0 { // one step, by what follows the logits
		from := head.Options{Link: want.Link, Approximate: want.Approximation}
		if whole, err := head.Find(model, from); err == nil && whole.LogitsTensor == want.LogitsTensor {
			h = whole
		}
	}
	if want.Decoding != nil {
		if h, err = h.Read(*want.Decoding); err != nil {
			return nil, nil, err
		}
	}
	if model, h, err = head.Unroll(model, h, want.State); err != nil {
		return nil, nil, err
	}
	if h.Steps != want.Steps {
		return nil, nil, fmt.Errorf("the model's head has %d axes of steps, want %d as calibrated: give the calibrated model", h.Steps, want.Steps)
	}
	h.Bias = h.Bias || want.Bias // of 0, which exporters leave out: a posterior may have its variance
	if got, want := h.Head, want.Head; got != want {
		return nil, nil, fmt.Errorf("the model's head has %d features, %d logits, bias %t and link %s, want %d, %d, %t and %s as calibrated: give the calibrated model",
			got.Features, got.Logits, got.Bias, got.Link, want.Features, want.Logits, want.Bias, want.Link)
	}
	return model, h, nil
}

// Describe returns what a manifest records of a model's head.
func Describe(h *head.Head) bundle.Head {
	return bundle.Head{
		Op: h.Op, Node: h.Node, FeaturesTensor: h.FeaturesTensor, LogitsTensor: h.LogitsTensor,
		Head: h.Head, Tail: h.Tail, Approximation: h.Approximation, Kind: h.Kind, Decoding: h.Decoding,
		Steps: h.Steps,
	}
}

// openModel opens the model at path or else the bundle's own.
func openModel(ctx context.Context, b *bundle.Bundle, path string) (m *onnx.Model, err error) {
	defer func() {
		if err != nil && m != nil {
			m.Close()
			m = nil
		}
	}()
	want := b.Manifest.Model
	if path != "" {
		if m, err = onnx.OpenCopyContext(ctx, path); err != nil {
			return nil, err
		}
		// The bundle's copy has another hash if the weights were in other files.
		if m.SHA256() != want.SHA256 && (want.File == nil || m.SHA256() != copySHA256(want)) {
			return m, fmt.Errorf("%s has SHA-256 %.12s…, the bundle needs the model with %.12s…: give that one, or calibrate this one", path, m.SHA256(), want.SHA256)
		}
		return m, nil
	}
	if want.File == nil {
		return nil, fmt.Errorf("the bundle has no model: give the file with %s (SHA-256 %.12s…)", option.Model, want.SHA256)
	}
	if m, err = bundledModel(ctx, b); err != nil {
		return nil, err
	}
	switch {
	// The bundle has no hashes of other files.
	case want.Data == nil && !m.SelfContained():
		return m, fmt.Errorf("%s: it has weights in other files that the bundle does not list: calibrate again", bundle.ModelName)
	case want.Data != nil && m.SelfContained():
		return m, fmt.Errorf("%s: it has no weights in %s, which the bundle lists: calibrate again", bundle.ModelName, bundle.ModelDataName)
	}
	// The hashes were checked when the bundle was opened, but the copy was read later.
	if m.SHA256() != copySHA256(want) {
		reason := "it was replaced while the bundle was opened"
		if want.Data != nil {
			reason += ", or has weights in other files than " + bundle.ModelDataName
		}
		return m, fmt.Errorf("%s: %w: %s", bundle.ModelName, bundle.ErrHash, reason)
	}
	return m, nil
}

// copySHA256 is the [onnx.Model.SHA256] of the bundle's copy.
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

func bundledModel(ctx context.Context, b *bundle.Bundle) (*onnx.Model, error) {
	if dir := b.Dir(); dir != "" {
		return onnx.OpenCopyContext(ctx, filepath.Join(dir, bundle.ModelName))
	}
	if b.Manifest.Model.Data != nil {
		return nil, fmt.Errorf("%s: its weights, %s, are read from a folder of the operating system only: copy the bundle into one and open that, or give the model's file as Options.Model", bundle.ModelName, bundle.ModelDataName)
	}
	data, err := fs.ReadFile(b.FS(), bundle.ModelName)
	if err != nil {
		return nil, err
	}
	return onnx.Parse(bundle.ModelName, data)
}

// Batch returns the batch size of the calibration, or a smaller one with many classes: the fused head has some 64
// numbers for each class and example, and is slow if they exceed the processor's caches.
func (a *Attached) Batch() int {
	return min(a.Bundle.Manifest.Batch, max(1, 2_500_000/64/a.Head.Logits/a.Head.StepCount()))
}

// Preprocessing returns spec, with the bundle's Exif if it has none, or the bundle's preprocessing, which may
// be nil, if spec is nil.
func (a *Attached) Preprocessing(spec *preprocess.Spec) *preprocess.Spec {
	own := a.Bundle.Manifest.Preprocess
	if spec == nil || own == nil || spec.Exif != nil {
		return cmp.Or(spec, own)
	}
	s := *spec
	s.Exif = own.Exif
	return &s
}

// Run calls open with the preprocessing of spec or, if that is nil, of the bundle.
func (a *Attached) Run(spec *preprocess.Spec, c featurize.Config, open func(featurize.Config) error) error {
	if c.Preprocess = a.Preprocessing(spec); spec != nil {
		return open(c)
	}
	m := &a.Bundle.Manifest
	c.ArraysOnly = c.Preprocess == nil && !m.Bytes
	err := open(c)
	if errors.Is(err, featurize.ErrSeveralInputs) { // format 1 records an empty preprocessing for these
		c.Preprocess, c.ArraysOnly = nil, false
		return open(c)
	}
	return err
}

// Cut is a model cut at its head: it computes features and logits.
type Cut struct {
	*featurize.Network
	Model *onnx.Model // before it was cut
	Head  *head.Head
}

// Close releases the runtime's memory, and closes the model.
func (c *Cut) Close() error { return errors.Join(c.Network.Close(), c.Model.Close()) }

// OpenCut cuts a model. Closing the Cut closes the model.
func OpenCut(model *onnx.Model, head *head.Head, c featurize.Config) (*Cut, error) {
	c.Model, c.Head = model, head
	w, err := featurize.New(c)
	if err != nil {
		return nil, err
	}
	return &Cut{w, model, head}, nil
}

// RunConfig says how a network is run. The caller sets the model and the preprocessing.
func RunConfig(provider string, threads, batch int) featurize.Config {
	return featurize.Config{Batch: batch, Threads: threads, Provider: provider}
}
