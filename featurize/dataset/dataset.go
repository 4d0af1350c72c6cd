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

// Open opens the dataset named by spec; see the package documentation for its syntax. The error is
// one line that names the file. ctx bounds the wait for a stream's first bytes.
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

// IgnoresUnknownLabels returns [Options.IgnoreUnknownLabels].
func (d *Dataset) IgnoresUnknownLabels() bool { return d.ignoreUnknown }

// Ragged reports whether examples may have arrays of different shapes, such as sequences in JSON lines.
// It does not count encoded images.
func (d *Dataset) Ragged() bool { return d.src.base().Ragged }

// IsText reports whether examples are written value by value, or as lists of any length. One that does
// not suit the model is then a bad record, not an error.
func (d *Dataset) IsText() bool { return d.src.base().Text }

// Columns returns the columns of a table that feed the model's only input together, in order. It is nil if their names
// are empty or repeated, or if there are more than 4,096.
func (d *Dataset) Columns() []string { return d.src.base().Columns }

// Classes returns the names of the class folders in byte-wise order, nil if there are none. FolderLabels
// has their labels.
func (d *Dataset) Classes() []string { return d.src.base().Classes }

// FolderLabels returns the label of each of Classes, nil if class folders do not label the examples.
func (d *Dataset) FolderLabels() []int { return d.src.base().Labels }

// LabelledByOrder reports whether FolderLabels are the order of the class folders, because neither class names nor
// numbers name them.
func (d *Dataset) LabelledByOrder() bool { return d.src.base().ByOrder }

// Ignored returns the files in the dataset's folder or archive that are not read.
func (d *Dataset) Ignored() []Ignored { return d.src.base().Ignored }

// Examples reads the examples of the shard in order. A *RecordError concerns the one record that comes
// with it (its Index, Name and Label are set), and the iteration goes on; any other error is the last.
//
// A stream can be read once: another pass is an error.
func (d *Dataset) Examples(ctx context.Context) iter.Seq2[Example, error] {
	return d.Between(ctx, d.from, d.to)
}

// Between reads the examples at positions from…to-1 of the slice.
//
// Of a stream it reads and drops the examples before from. Unless to is the end of the shard, it keeps
// in memory what it reads, and the next pass begins with that.
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
			err = fmt.Errorf("%s: a stream can have at most %d examples: split it", d.Path(), StreamPositions)
		}
		if err != nil {
			yield(Example{Label: -1}, err)
		}
	}
}

// pass reads from the source, and checks labels.
func (d *Dataset) pass(ctx context.Context, from, to int) iter.Seq2[Example, error] {
	checked := d.HasLabels() && !d.multi // targets are checked when they are read
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

// openSource opens one file or folder, or several. It detects the format unless s names it.
func openSource(s Spec, o Options) (Source, error) {
	f := formatOf(s.Format)
	if s.several {
		return openJoined(s, f, o)
	}
	return openFile(s.Path, f, o)
}

// openStdin opens a stream. It detects the format unless spec names it.
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
		return nil, fmt.Errorf("%s: %s cannot be streamed: want one of %s, or a file", s.Name(),
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
