package featurize

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// Rows reads a dataset's examples as features and logits, for a Network that is cut at its head:
// from c.Cache if that has them, else as Results computes them. A stream is never cached.
func (w *Network) Rows(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[*rows.Batch, error] {
	if w.cut == nil || c.Passes > 1 {
		panic("featurize: Rows needs a network that was cut at its head, and for one pass")
	}
	c.check()
	if c.Cache != nil && ds.Len() >= 0 {
		return w.cached(ctx, ds, c)
	}
	return w.computed(ctx, ds, c)
}

// computed runs the network.
func (w *Network) computed(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[*rows.Batch, error] {
	c.Cache = nil
	return func(yield func(*rows.Batch, error) bool) {
		for r, err := range w.Results(ctx, ds, c) {
			if err != nil {
				yield(nil, err)
				return
			}
			if r.N > 0 && !yield(r.Rows(), nil) {
				return
			}
		}
	}
}

// precomputedBatch is how many precomputed examples are read at a time.
const precomputedBatch = 512

// Precomputed reads the examples of a file of features. Of c it uses From, Limit, Stats and Progress.
// The caller owns a batch; an error is the last.
func Precomputed(ctx context.Context, f *dataset.Features, c StreamConfig) iter.Seq2[*rows.Batch, error] {
	c.check()
	return func(yield func(*rows.Batch, error) bool) {
		want := c.selects(f)
		if err := f.Skip(ctx, want.from); err != nil {
			yield(nil, err)
			return
		}
		total := c.Stats.Examples + want.count
		c.report(c.Stats.Examples, total)
		for b, err := range f.Between(ctx, want.from, want.to, precomputedBatch) {
			if err != nil {
				yield(nil, err)
				return
			}
			if b = want.pick(b); b.N == 0 {
				continue
			}
			b.From = filepath.Base(f.Path())
			c.Stats.Examples += b.N
			if !yield(b, nil) {
				return
			}
			c.report(c.Stats.Examples, total)
		}
		if want.missing(c.Stats.Examples) {
			yield(nil, fmt.Errorf("%s %w", f.Spec(), ErrNoExamples))
		}
	}
}

// pick returns the selected examples of a batch.
func (w *selection) pick(b *rows.Batch) *rows.Batch {
	var wanted []int
	for i, position := range b.Positions {
		if w.wants(position) {
			wanted = append(wanted, i)
		}
	}
	if len(wanted) == b.N {
		return b
	}
	return b.Pick(wanted)
}
