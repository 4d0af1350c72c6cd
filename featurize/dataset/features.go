package dataset

import (
	"context"
	"fmt"
	"iter"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset/internal/classnames"
	"github.com/mfgs/mfgs/featurize/dataset/internal/numpy"
)

// Features is an open .npz of ready-made features: arrays "features" (or
// "phi") [N,d], "logits" [N,K] and, optionally, "labels" (or "label", "y"): [N],
// also class names, or [N,K] under Options.MultiLabel. Numbers may be float16, float32 or float64.
type Features struct {
	opened
	z           *npzFile
	phi, logits *numpy.Array
	labels      *numpy.Array // nil where there are none
	text        labelParser
	stray       bool
	multi       bool
}

// OpenFeatures opens the features file named by spec, a path to an .npz with an
// optional slice. o.LabelClasses, o.Classes, o.Unlabelled, o.StrayLabels,
// o.MultiLabel, o.Shard and o.Fingerprint are heeded.
func OpenFeatures(spec string, o Options) (*Features, error) {
	s, err := ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	if s.Path == stdinPath {
		return nil, fmt.Errorf("%s: features come as .npz, which cannot be read front to back: give a file", s.Path)
	}
	if s.Format != "" && s.Format != "npz" {
		return nil, fmt.Errorf("%s: features come as .npz, not as %s", s.Path, s.Format)
	}
	src := &arraySource{Base: Base{Path: s.Path}}
	f := &Features{opened: opened{spec: spec, src: src}, text: newLabelParser(o), stray: o.StrayLabels,
		multi: o.MultiLabel}
	if f.z, err = openNPZFile(&src.Base, s.Path); err != nil {
		return nil, err
	}
	err = f.arrays(o)
	if err == nil {
		src.Labelled = f.labels != nil
		err = f.open(s, f.phi.Count, "features", o)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// arrays finds and checks the arrays.
func (f *Features) arrays(o Options) error {
	var err error
	if f.phi, err = f.z.matrix("features", "phi"); err != nil {
		return err
	}
	if f.logits, err = f.z.matrix("logits"); err != nil {
		return err
	}
	if f.logits.Count != f.phi.Count {
		return fmt.Errorf("%s: %d rows of logits for %d of features", f.z.path, f.logits.Count, f.phi.Count)
	}
	if k := f.logits.Shape[0]; o.Classes > 0 && o.Classes != f.Classes() {
		return fmt.Errorf("%s: %d logits an example for a head of %d classes", f.z.path, k, o.Classes)
	}
	if o.Unlabelled {
		return nil
	}
	if _, f.labels, err = f.z.labelsArray(o, f.logits.Shape[0]); err != nil {
		return err
	}
	if f.labels != nil && f.labels.Count != f.phi.Count {
		return fmt.Errorf("%s: %d labels for %d rows of features", f.z.path, f.labels.Count, f.phi.Count)
	}
	return nil
}

// matrix returns the first of the named arrays, which must be [N,n] floats.
func (z *npzFile) matrix(names ...string) (*numpy.Array, error) {
	for _, name := range names {
		a := z.arrays[name]
		if a == nil {
			continue
		}
		if len(a.Shape) != 1 || a.Shape[0] > maxFeatures || !a.Type.IsFloat() {
			return nil, fmt.Errorf("%s: %s of shape %v; want floats of shape [N,n], n at most %d", a.Name, a.Type,
				append([]int{a.Count}, a.Shape...), maxFeatures)
		}
		return a, nil
	}
	return nil, fmt.Errorf("%s: no array %q; there are %s", z.path, names[0], classnames.Some(z.names))
}

// Dim returns d.
func (f *Features) Dim() int { return f.phi.Shape[0] }

// Logits returns the number of logits an example.
func (f *Features) Logits() int { return f.logits.Shape[0] }

// Classes returns the number of classes that labels distinguish: as many as there are logits, and
// two where there is a single one that is not one of MultiLabel's.
func (f *Features) Classes() int {
	if f.multi {
		return f.logits.Shape[0]
	}
	return max(2, f.logits.Shape[0])
}

// Blocks reads the examples of the shard in order, at most size at a time, with their positions in
// the file. Blocks end at multiples of size in the file, so they do not depend on the slice. Numbers
// are passed on as they are, NaN and infinities too. An error ends the iteration.
func (f *Features) Blocks(ctx context.Context, size int) iter.Seq2[*rows.Batch, error] {
	return f.Between(ctx, f.from, f.to, size)
}

// Between reads as Blocks does, from one position of the slice to before another.
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
		if err := f.blocks(ctx, from, to, size, yield); err != nil {
			yield(nil, err)
		}
	}
}

func (f *Features) blocks(ctx context.Context, from, to, size int, yield func(*rows.Batch, error) bool) error {
	phi, err := f.phi.From(from)
	if err != nil {
		return err
	}
	defer phi.Close()
	logits, err := f.logits.From(from)
	if err != nil {
		return err
	}
	defer logits.Close()
	var labels *labelReader
	if f.labels != nil {
		if labels, err = newLabelReader(f.labels, f.text, from, to); err != nil {
			return err
		}
		defer labels.Close()
	}
	for start := from; start < to; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b := &rows.Batch{N: min(to, start-start%size+size) - start}
		for i := range b.N {
			b.Positions = append(b.Positions, start+i)
		}
		if b.Features, err = floats(phi, b.N); err != nil {
			return err
		}
		if b.Logits, err = floats(logits, b.N); err != nil {
			return err
		}
		switch {
		case labels != nil && f.multi:
			for range b.N {
				row, err := labels.targets()
				if err != nil {
					return err
				}
				b.Targets = append(b.Targets, row...)
			}
		case labels != nil:
			b.Labels = make([]int, b.N)
			for i := range b.Labels {
				y, err := labels.next()
				if err != nil {
					return err
				}
				if y < 0 || y >= f.Classes() {
					if !f.stray {
						return fmt.Errorf("%s: label %d of example %d is outside [0,%d)", f.z.path, y, start+i,
							f.Classes())
					}
					y = -1
				}
				b.Labels[i] = y
			}
		}
		if !yield(b, nil) {
			return nil
		}
		start += b.N
	}
	return nil
}

// floats returns the next n items as float32.
func floats(r *numpy.Reader, n int) ([]float32, error) {
	data, err := r.Read(n)
	if err != nil {
		return nil, err
	}
	switch d := data.(type) {
	case []float32:
		return d, nil
	case []float64:
		out := make([]float32, len(d))
		for i, v := range d {
			out[i] = float32(v)
		}
		return out, nil
	}
	panic(fmt.Sprintf("dataset: features of type %T", data)) // matrix lets only floats pass
}
