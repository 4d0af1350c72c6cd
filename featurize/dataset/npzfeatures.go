package dataset

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
)

// npzFeatures reads the features in an .npz.
type npzFeatures struct {
	*Features
	z           *npzFile
	phi, logits *arrays.Array
	labels      *arrays.Array // nil where there are none
	text        labelParser
}

func (f *Features) openNPZ(path string, o Options) (err error) {
	src := &arraySource{Base: Base{Path: path}}
	in := &npzFeatures{Features: f, text: newLabelParser(o)}
	if in.z, err = openNPZFile(&src.Base, path); err != nil {
		return err
	}
	if err := in.arrays(o); err != nil {
		src.Close()
		return err
	}
	src.Count, src.Labelled = in.phi.Count, in.labels != nil
	f.src, f.in = src, in
	return nil
}

func (f *npzFeatures) widths() (features, logits int) { return f.phi.Shape[0], f.logits.Shape[0] }

// arrays finds and checks the arrays.
func (f *npzFeatures) arrays(o Options) error {
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
func (z *npzFile) matrix(names ...string) (*arrays.Array, error) {
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
	return nil, fmt.Errorf("%s: no array %q; there are %s", z.path, names[0], Some(z.names))
}

func (f *npzFeatures) blocks(ctx context.Context, from, to, size int, yield func(*rows.Batch, error) bool) error {
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
		b := nextBlock(start, to, size)
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
				if err := f.setLabel(b, i, y); err != nil {
					return err
				}
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
func floats(r *arrays.Reader, n int) ([]float32, error) {
	data, err := r.Read(n)
	if err != nil {
		return nil, err
	}
	return toFloats(data)
}
