package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// featureNames are the accepted names of features.
var featureNames = []string{"features", "phi"}

// recordFeatures reads features and logits from a format of records, as inputs of these names.
type recordFeatures struct {
	*Features
	d, k int
}

func (f *Features) openRecords(s Spec, o Options) error {
	var first error
	for _, name := range featureNames {
		o.Inputs, o.Widths = []string{name, "logits"}, nil
		src, err := openSource(s, o)
		if err == nil {
			in := &recordFeatures{Features: f}
			if err = in.learn(src, s); err == nil {
				f.src, f.in = src, in
				return nil
			}
			src.Close()
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("%w; features come as arrays of an .npz, or as lists of records, by the names features and logits",
		first)
}

// learn takes the widths from the first example that can be read.
func (f *recordFeatures) learn(src Source, s Spec) error {
	from, to, err := s.bounds(src.base().Count)
	if err != nil {
		return err
	}
	var e Example
	for e, err = range src.Examples(from, min(to, from+tryLines)) {
		if errors.As(err, new(*RecordError)) {
			continue
		}
		if err != nil {
			return err
		}
		phi, logits, err := f.numbers(&e)
		f.d, f.k = len(phi), len(logits)
		return err
	}
	return err
}

func (f *recordFeatures) widths() (features, logits int) { return f.d, f.k }

// numbers returns the features and logits of an example.
func (f *recordFeatures) numbers(e *Example) (phi, logits []float32, err error) {
	if len(e.Inputs) != 2 {
		return nil, nil, fmt.Errorf("%s: no features and logits", e.Name)
	}
	var lists [2][]float32
	for i, a := range e.Inputs {
		if len(a.Shape) != 1 || a.Shape[0] > maxFeatures {
			return nil, nil, fmt.Errorf("%s: %s of shape %v; want a list of numbers, %d at most", e.Name, a.Name, a.Shape,
				maxFeatures)
		}
		if lists[i], err = toFloats(a.Data); err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", e.Name, a.Name, err)
		}
	}
	if f.d > 0 && (len(lists[0]) != f.d || len(lists[1]) != f.k) {
		return nil, nil, fmt.Errorf("%s: %d features and %d logits, and the first example has %d and %d", e.Name,
			len(lists[0]), len(lists[1]), f.d, f.k)
	}
	return lists[0], lists[1], nil
}

func (f *recordFeatures) blocks(ctx context.Context, from, to, size int, yield func(*rows.Batch, error) bool) error {
	var b *rows.Batch
	for e, err := range f.src.Examples(from, to) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if b == nil {
			b = nextBlock(e.Index, to, size)
		}
		if err := f.add(b, &e); err != nil {
			return err
		}
		if e.Index != b.Positions[b.N-1] {
			continue
		}
		if !yield(b, nil) {
			return nil
		}
		b = nil
	}
	return nil
}

// add adds an example to a block.
func (f *recordFeatures) add(b *rows.Batch, e *Example) error {
	phi, logits, err := f.numbers(e)
	if err != nil {
		return err
	}
	b.Features, b.Logits = append(b.Features, phi...), append(b.Logits, logits...)
	switch {
	case !f.HasLabels():
	case f.multi:
		if len(e.Targets) != f.k {
			return fmt.Errorf("%s: %d labels for %d logits", e.Name, len(e.Targets), f.k)
		}
		b.Targets = append(b.Targets, e.Targets...)
	default:
		if b.Labels == nil {
			b.Labels = make([]int, b.N)
		}
		return f.setLabel(b, e.Index-b.Positions[0], e.Label)
	}
	return nil
}
