package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// runnable prepares another model for the bundle's inputs. The bench closes it.
func (b *bench) runnable(m *onnx.Model) (*network, error) {
	n, err := b.openOther(m, b.Runtime.Batch)
	if err == nil {
		b.closers = append(b.closers, n.Close)
	}
	return n, err
}

func (b *bench) openOther(m *onnx.Model, batch int) (*network, error) {
	n := &network{model: m}
	run := attach.RunConfig(b.Runtime.Provider, b.Runtime.Threads, b.Runtime.Batch)
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
	other, err := o.Open(ctx, s.Name, s.Spec, b.head.Classes(), s.part.Role != measure.OOD)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	other.Config.Passes = passes
	columns := make([][]float32, len(n.model.Outputs()))
	examples := 0
	for r, err := range other.Results(ctx, o.Notes) {
		if err != nil {
			return nil, err
		}
		for i, c := range r.Columns {
			columns[i] = append(columns[i], c...)
		}
		examples += r.N
	}
	if want := s.data.N; examples != want {
		return nil, fmt.Errorf("%s: %d examples, %d when they were read first: did the data change?", s.Name, examples, want)
	}
	return columns, nil
}

// passes predicts with the mean of the probabilities that a network which draws random
// numbers gives in so many runs. Its one output are logits or, if they look like it,
// probabilities. seeded makes the network for a seed: every set has its own, so that
// what is drawn for one depends on no other.
func (b *bench) passes(r *request, batch int, seeded func(seed int) (*onnx.Model, error)) predictor {
	k := b.head.Logits
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		model, err := seeded(int(r.seedOf(s) % maxSeed))
		if err != nil {
			return nil, err
		}
		n, err := b.openOther(model, batch)
		if err != nil {
			return nil, err
		}
		defer n.Close()
		columns, err := b.outputs(ctx, n, s, r.samples)
		if err != nil {
			return nil, err
		}
		logits := columns[0]
		if measure.ProbabilitiesIn(logits, b.head) != "" {
			for i, p := range logits {
				logits[i] = float32(math.Log(math.Max(float64(p), math.SmallestNonzeroFloat32)))
			}
		}
		return methods.NewEnsemble(logits, s.data.N, r.samples, k)
	}
}

// maxSeed bounds seeds of ONNX nodes, which are float32.
const maxSeed = 1 << 20

// openHead opens another network for the bundle's classes.
func (b *bench) openHead(path string) (*onnx.Model, *head.Head, error) {
	model, err := onnx.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: no such file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	h, err := head.Find(model, head.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if h.LogitDim != b.head.Logits || h.Link != head.Softmax {
		return nil, nil, fmt.Errorf("%s: it has %d logits with link %s, want a softmax of %d as the bundle's", path, h.LogitDim, h.Link, b.head.Logits)
	}
	return model, h, nil
}
