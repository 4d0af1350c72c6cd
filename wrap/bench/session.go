package bench

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Session is a running evaluation, as comparators see it. It is for one goroutine, and what it opens is closed at the
// end of Evaluate.
type Session struct{ b *bench }

// Bundle returns the bundle.
func (s *Session) Bundle() *bundle.Bundle { return s.b.attached.Bundle }

// Calibration returns the bundle's calibration, with the runtime's matrix product, which is nil for precomputed
// features.
func (s *Session) Calibration() *calibrate.Calibration { return s.b.calibration }

// Model returns the bundle's network and its head, nil for precomputed features.
func (s *Session) Model() (*onnx.Model, *head.Head) {
	if s.b.cut == nil {
		return nil, nil
	}
	return s.b.cut.Model, s.b.cut.Head
}

// Sets returns the measured sets. Their data are there once Comparator.Measure is called.
func (s *Session) Sets() []*Set { return s.b.sets }

// Open opens the data at a SPEC or, for "", the data that had this role in the calibration, if unchanged; nil if there
// were none. It must not be a stream. Only data for bundle.OOD may lack labels.
func (s *Session) Open(ctx context.Context, role bundle.Role, spec string) (*Set, error) {
	b := s.b
	if dataset.IsStream(spec) {
		return nil, streamed(optionOf[role].Kebab(), spec)
	}
	set, err := b.openRole(ctx, role, spec)
	if err != nil || set == nil {
		return nil, err
	}
	if err := b.checkMemory(set.source.Len(), set.Name()); err != nil {
		return nil, err
	}
	if role != bundle.OOD && !set.source.Labelled() {
		return nil, fmt.Errorf("%s: %s has no labels", set.Name(), set.source.Spec)
	}
	b.warnOfShared(set)
	return set, nil
}

// Read reads the rows of a set, unless they are there.
func (s *Session) Read(ctx context.Context, set *Set) (err error) {
	if set.data == nil {
		set.data, err = set.source.Collect(ctx)
	}
	return err
}

// Step reports progress.
func (s *Session) Step(stage, unit string, done, total int) { s.b.notes.Step(stage, unit, done, total) }

// Network is another network than the bundle's, with the same inputs and preprocessing.
type Network struct {
	b       *bench
	model   *onnx.Model
	network *featurize.Network
	cut     *attach.Cut // nil unless from OpenCut
}

// OpenNetwork opens a model; a batch of 0 is that of Config.
func (s *Session) OpenNetwork(m *onnx.Model, batch int) (*Network, error) {
	b := s.b
	n := &Network{b: b, model: m}
	run := attach.RunConfig(b.Runtime.Provider, b.Runtime.Threads, b.Runtime.Batch)
	if batch > 0 {
		run.Batch = batch
	}
	err := b.attached.Run(b.Preprocess, run, func(c featurize.Config) (err error) {
		c.Model = m
		n.network, err = featurize.New(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, n.Close)
	return n, nil
}

// OpenCut opens a model cut at its head, as the bundle's own is. The features cache, if any, keeps its logits for all
// comparisons.
func (s *Session) OpenCut(m *onnx.Model, h *head.Head) (*Network, error) {
	b := s.b
	n := &Network{b: b, model: m}
	run := b.runtimeConfig() // the bundle's batch size, as for entries of the cache
	err := b.attached.Run(b.Preprocess, run, func(c featurize.Config) (err error) {
		n.cut, err = attach.OpenCut(m, h, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	n.network = n.cut.Network
	b.closers = append(b.closers, n.Close)
	return n, nil
}

// Close releases the network, at the end of Evaluate at the latest.
func (n *Network) Close() error {
	if n.cut != nil {
		return n.cut.Close()
	}
	return n.network.Close()
}

// Logits returns the logits [n,K] of a network from OpenCut.
func (n *Network) Logits(ctx context.Context, s *Set) (logits []float32, err error) {
	o := n.b.opener(nil, s.source.Config.Limit)
	o.Network = n.cut.Network
	err = n.read(ctx, s, o, func(other *source.Set) (examples int, err error) {
		for batch, err := range other.Batches(ctx) {
			if err != nil {
				return 0, err
			}
			logits = append(logits, batch.Logits...)
			examples += batch.N
		}
		return examples, nil
	})
	return logits, err
}

// Outputs returns all outputs of the network over a set, with all passes of an example in a row.
func (n *Network) Outputs(ctx context.Context, s *Set, passes int) ([][]float32, error) {
	width := 0
	for _, o := range n.model.Outputs() {
		width += int(max(1, o.Shape[len(o.Shape)-1].Value))
	}
	if err := checkNumbers(s.source.Len(), passes*width, s.Name()); err != nil {
		return nil, err
	}
	o := n.b.opener(n.network, s.source.Config.Limit)
	o.Cache = ""
	columns := make([][]float32, len(n.model.Outputs()))
	err := n.read(ctx, s, o, func(other *source.Set) (examples int, err error) {
		other.Config.Passes = passes
		for r, err := range other.Results(ctx) {
			if err != nil {
				return 0, err
			}
			for i, c := range r.Columns {
				columns[i] = append(columns[i], c...)
			}
			examples += r.N
		}
		return examples, nil
	})
	return columns, err
}

// read opens a set again, for another network, and checks that it has as many examples as before.
func (n *Network) read(
	ctx context.Context, s *Set, o *source.Opener, stream func(*source.Set) (int, error),
) error {
	o.Notes = &source.Notes{Progress: n.b.notes.Progress, Warn: n.b.notes.Warn}
	other, err := o.Open(ctx, s.Name(), s.source.Spec, n.b.head.Classes(), s.labelled())
	if err != nil {
		return err
	}
	defer other.Close()
	examples, err := stream(other)
	if err != nil {
		return err
	}
	if want := s.data.N; examples != want {
		return fmt.Errorf("%s: %d examples, and %d in the first pass: the data changed while it was read", s.Name(), examples, want)
	}
	return nil
}
