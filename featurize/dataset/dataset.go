package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// A Dataset is an open source of examples. Its methods may be called
// concurrently, each pass of Examples on its own.
type Dataset struct {
	opened
	classes              int
	ignoreUnknown, multi bool
}

// Open opens the dataset named by spec; see the package documentation for its
// syntax. The error is one line that names the file. The end of ctx ends the waiting for a stream's first
// bytes, by which it is opened.
func Open(ctx context.Context, spec string, o Options) (*Dataset, error) {
	if o.Classes < 0 {
		panic(fmt.Sprintf("dataset: Options.Classes is %d", o.Classes))
	}
	if o.LabelClasses != nil && o.Classes > 0 && len(o.LabelClasses) != o.Classes {
		return nil, fmt.Errorf("there are %d class names for a model of %d classes", len(o.LabelClasses), o.Classes)
	}
	s, err := ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	var src Source
	if s.Path == stdinPath {
		src, err = openStdin(ctx, s, o)
	} else {
		src, err = openSource(s, o)
	}
	if err != nil {
		return nil, err
	}
	d := &Dataset{
		opened: opened{spec: spec, src: src}, classes: o.Classes,
		ignoreUnknown: o.IgnoreUnknownLabels, multi: o.MultiLabel,
	}
	if err := d.open(s, src.base().Count, src.base().Format, o); err != nil {
		src.Close()
		return nil, err
	}
	return d, nil
}

// Format returns the recognised format, as in format:path.
func (d *Dataset) Format() string { return d.src.base().Format }

// Ragged reports whether the arrays of one example may have another shape than those of the next,
// as sequences do that are written as JSON lines. Encoded images are none of them.
func (d *Dataset) Ragged() bool { return d.src.base().Ragged }

// IsText reports whether examples are written value by value, or as lists of any length: one that
// does not suit the model is then no more than a bad record.
func (d *Dataset) IsText() bool { return d.src.base().Text }

// Classes returns the names of the class folders in byte-wise order, nil where there are none. The
// order is not that of the labels where folders are mapped by class name or integer.
func (d *Dataset) Classes() []string { return d.src.base().Classes }

// FolderLabels returns the label of each of Classes, nil where class folders do not label the examples.
func (d *Dataset) FolderLabels() []int { return d.src.base().Labels }

// Ignored returns what lay in the dataset's folder or archive and was passed over.
func (d *Dataset) Ignored() []Ignored { return d.src.base().Ignored }

// Examples reads the examples of the shard in order. An error of type *RecordError concerns
// the one record that comes with it (its Index, Name and Label are set), and
// the iteration goes on; any other error ends it.
//
// A stream is read once: another pass is an error.
func (d *Dataset) Examples(ctx context.Context) iter.Seq2[Example, error] {
	return d.Between(ctx, d.from, d.to)
}

// Between reads as Examples does, from one position of the slice to before another. Examples before
// it are skipped, without being decoded where the format allows that.
//
// Of a stream the examples before it are read and dropped, and what is read of one whose end is not
// wanted is kept in memory: the pass that follows begins with it.
func (d *Dataset) Between(ctx context.Context, from, to int) iter.Seq2[Example, error] {
	if from < d.slice.from || to > d.slice.to {
		panic(fmt.Sprintf("dataset: positions %d to %d of a slice [%d:%d]", from, to, d.slice.from, d.slice.to))
	}
	stream := d.src.base().stream
	if stream == nil {
		return d.pass(ctx, from, to)
	}
	return func(yield func(Example, error) bool) {
		last := to == d.to
		end, err := stream.begin(ctx, last)
		if err != nil {
			yield(Example{Label: -1}, fmt.Errorf("%s: %w", d.Path(), err))
			return
		}
		defer end()
		position := d.from
		for e, err := range d.pass(ctx, d.from, to) {
			position++
			if position > from && !yield(e, err) || err != nil && !errors.As(err, new(*RecordError)) {
				return
			}
		}
		if !last {
			return
		}
		if err = stream.drain(); position == d.to {
			err = fmt.Errorf("%s: a stream has room for %d examples: cut it into several", d.Path(), StreamPositions)
		}
		if err != nil {
			yield(Example{Label: -1}, err)
		}
	}
}

// pass reads from the source from one position to before another.
func (d *Dataset) pass(ctx context.Context, from, to int) iter.Seq2[Example, error] {
	checked := d.HasLabels() && !d.multi // targets are checked where they are read
	return func(yield func(Example, error) bool) {
		if from >= to {
			return
		}
		for e, err := range d.src.Examples(from, to) {
			if cause := context.Cause(ctx); cause != nil {
				yield(Example{Label: -1}, cause)
				return
			}
			if err == nil && checked && (e.Label < 0 || d.classes > 0 && e.Label >= d.classes) {
				if !d.ignoreUnknown {
					yield(e, labelRangeError(e, d.classes))
					return
				}
				e.Label = -1
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// openSource recognises the format where s leaves it open, and opens it.
func openSource(s Spec, o Options) (Source, error) {
	f := formatOf(s.Format)
	if s.several {
		return openJoined(s, f, o)
	}
	return openFile(s.Path, f, o)
}

// openStdin recognises the format of a stream where that is left open, and opens it.
func openStdin(ctx context.Context, spec Spec, o Options) (Source, error) {
	s, f := o.Stream, formatOf(spec.Format)
	if s == nil {
		s = stdin()
	}
	end, err := s.begin(ctx, false)
	if err != nil {
		return nil, err
	}
	defer end()
	if f == nil {
		if f, err = sniffStream(s); err != nil {
			return nil, err
		}
	}
	if f.Stream == nil {
		return nil, fmt.Errorf("%s: %s cannot be read front to back, as a stream is: want one of %s, or a file", s.Name(),
			f.Name, strings.Join(streamNames(), ", "))
	}
	src, err := f.Stream(s, o)
	if err != nil {
		return nil, err
	}
	b := src.base()
	b.Path, b.Count, b.stream = s.Name(), -1, s
	if b.Format == "" {
		b.Format = f.Name
	}
	return src, nil
}
