package compare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bench"
)

// passes averages the probabilities of several runs of a network with random nodes. Its only output is logits or,
// if they look like it, probabilities. seeded returns the network for a seed: each set has its own, so that its
// draws do not depend on the other sets.
func (b *comparison) passes(r *request, batch int, seeded func(seed int) (*onnx.Model, error)) predictor {
	k := b.head.Logits
	return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
		model, err := seeded(int(s.Seed(r.seed) % maxSeed))
		if err != nil {
			return nil, err
		}
		n, err := b.session.OpenNetwork(model, batch)
		if err != nil {
			return nil, err
		}
		defer n.Close()
		columns, err := n.Outputs(ctx, s, r.samples)
		if err != nil {
			return nil, err
		}
		logits := columns[0]
		if measure.LooksLikeProbabilities(logits, b.head) != "" {
			for i, p := range logits {
				logits[i] = float32(math.Log(math.Max(float64(p), math.SmallestNonzeroFloat32)))
			}
		}
		return methods.NewEnsemble(logits, s.Data().N, r.samples, k)
	}
}

// maxSeed bounds the seeds of ONNX nodes, which are float32.
const maxSeed = 1 << 20

// openHead opens another network for the bundle's classes.
func (b *comparison) openHead(path string) (*onnx.Model, *head.Head, error) {
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
	if h.Logits != b.head.Logits || h.Link != layer.Softmax {
		return nil, nil, fmt.Errorf("%s: it has %d logits with link %s, want a softmax of %d as the bundle's", path, h.Logits, h.Link, b.head.Logits)
	}
	return model, h, nil
}
