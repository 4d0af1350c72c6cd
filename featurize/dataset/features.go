package dataset

import (
	"context"
	"fmt"
	"iter"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// Features is an open file of precomputed features: "features" (or "phi") of d numbers per example,
// "logits" of K and, optionally, "labels" (or "label"). An .npz has them as arrays [N,d], [N,K] and [N],
// or [N,K] under Options.MultiLabel; features and logits are float16, float32 or float64, and the
// labels may also be called y. Files of records, such as JSON lines, have them as lists.
type Features struct {
	opened
	in            featureReader
	ignoreUnknown bool
	multi         bool
}

// A featureReader reads one format of features.
type featureReader interface {
	// widths returns d and K.
	widths() (features, logits int)
	// blocks reads examples as Features.Between does.
	blocks(ctx context.Context, from, to, size int, yield func(*rows.Batch, error) bool) error
}

// OpenFeatures opens the features file named by spec, a path with an optional slice. It uses
// o.LabelClasses, o.Classes, o.Unlabelled, o.IgnoreUnknownLabels, o.MultiLabel, o.Shard and
// o.Fingerprint.
func OpenFeatures(spec string, o Options) (*Features, error) {
	s, err := ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	if s.Path == stdinPath {
		return nil, fmt.Errorf("%s: precomputed features cannot be streamed: give a file", s.Path)
	}
	f := &Features{opened: opened{spec: spec}, ignoreUnknown: o.IgnoreUnknownLabels, multi: o.MultiLabel}
	format := formatOf(s.Format)
	if s.Format == "" && !s.several {
		if format, err = sniff(s.Path); err != nil {
			return nil, err
		}
	}
	if !s.several && format.Name == "npz" {
		err = f.openNPZ(s.Path, o)
	} else {
		err = f.openRecords(s, o)
	}
	if err != nil {
		return nil, err
	}
	count := f.src.base().Count
	if err = f.open(s, count, "features", o); err == nil {
		if k := f.Logits(); o.Classes > 0 && o.Classes != f.Classes() {
			err = fmt.Errorf("%s: %d logits per example for a head of %d classes", s.Path, k, o.Classes)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Dim returns d.
func (f *Features) Dim() int {
	d, _ := f.in.widths()
	return d
}

// Logits returns the number of logits an example.
func (f *Features) Logits() int {
	_, k := f.in.widths()
	return k
}

// Classes returns the number of classes: the number of logits, or two for a single one without
// MultiLabel.
func (f *Features) Classes() int {
	if f.multi {
		return f.Logits()
	}
	return max(2, f.Logits())
}

// Blocks reads the examples of the shard in order, at most size at a time, with their positions in the
// file. Blocks end at multiples of size in the file, whatever the slice. Numbers are not checked: they
// may be NaN or infinite. An error is the last.
func (f *Features) Blocks(ctx context.Context, size int) iter.Seq2[*rows.Batch, error] {
	return f.Between(ctx, f.from, f.to, size)
}

// Between reads the examples at positions from…to-1 of the slice, as Blocks does.
func (f *Features) Between(ctx context.Context, from, to, size int) iter.Seq2[*rows.Batch, error] {
	if size <= 0 {
		panic(fmt.Sprintf("dataset: blocks of %d examples", size))
	}
	if from < f.slice.from || to > f.slice.to {
		panic(fmt.Sprintf("dataset: positions %d to %d of a slice [%d:%d]", from, to, f.slice.from, f.slice.to))
	}
	return func(yield func(*rows.Batch, error) bool) {
		if from >= to {
			return
		}
		if err := f.in.blocks(ctx, from, to, size, yield); err != nil {
			yield(nil, err)
		}
	}
}

// setLabel sets the label of the i-th example of a block.
func (f *Features) setLabel(b *rows.Batch, i, y int) error {
	if y < 0 || y >= f.Classes() {
		if !f.ignoreUnknown {
			return fmt.Errorf("%s: label %d of example %d is outside [0,%d)", f.Path(), y, b.Positions[i], f.Classes())
		}
		y = -1
	}
	b.Labels[i] = y
	return nil
}

// nextBlock returns the block that begins at start, and ends at a multiple of size or at to.
func nextBlock(start, to, size int) *rows.Batch {
	b := &rows.Batch{N: min(to, start-start%size+size) - start}
	for i := range b.N {
		b.Positions = append(b.Positions, start+i)
	}
	return b
}
