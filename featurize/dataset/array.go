package dataset

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A labelReader reads labels from an array: one per example, or as many as an item has numbers. Text is
// read as in a table.
type labelReader struct {
	r       *arrays.Reader
	text    labelParser
	to      int
	each    int
	shape   []int // of the labels of an example
	pending []int
}

func newLabelReader(a *arrays.Array, text labelParser, from, to int) (*labelReader, error) {
	r, err := a.From(from)
	if err != nil {
		return nil, err
	}
	return &labelReader{r: r, text: text, to: to, each: a.Item / a.Type.Size, shape: a.Shape}, nil
}

func (l *labelReader) Close() error { return l.r.Close() }

// next returns the label of the next example.
func (l *labelReader) next() (int, error) {
	y, err := l.row()
	if err != nil {
		return 0, err
	}
	return y[0], nil
}

// targets returns the labels of the next example, each of which must be 0 or 1.
func (l *labelReader) targets() ([]uint8, error) {
	row, err := l.row()
	if err != nil {
		return nil, err
	}
	t := make([]uint8, len(row))
	for k, y := range row {
		if y != 0 && y != 1 {
			at := l.r.Pos - len(l.pending)/l.each - 1
			return nil, fmt.Errorf("%s: label %d of example %d is %d; want 0 or 1", l.r.Name, k, at, y)
		}
		t[k] = uint8(y)
	}
	return t, nil
}

// steps sets the classes of the steps of the next example.
func (l *labelReader) steps(e *Example) error {
	row, err := l.row()
	if err == nil {
		if err = setClasses(l.text, e, row, l.shape...); err != nil {
			err = fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return err
}

// row returns the numbers of the next example.
func (l *labelReader) row() ([]int, error) {
	if len(l.pending) == 0 {
		at := l.r.Pos
		data, err := l.r.Read(min(max(1, 4096/l.each), l.to-at))
		if err != nil {
			return nil, err
		}
		var bad int
		if texts, ok := data.([]string); ok {
			if l.pending, bad, err = l.fromTexts(texts); err != nil {
				return nil, fmt.Errorf("%s: example %d: %w", l.r.Name, at+bad, err)
			}
		} else if l.pending, bad = toInts(data); bad >= 0 {
			return nil, fmt.Errorf("%s: label %d is not a whole number", l.r.Name, at+bad/l.each)
		}
	}
	row := l.pending[:l.each]
	l.pending = l.pending[l.each:]
	return row, nil
}

// fromTexts reads labels that are class names or numbers. bad is the index of the first that is neither.
func (l *labelReader) fromTexts(texts []string) (labels []int, bad int, err error) {
	labels = make([]int, len(texts))
	for i, s := range texts {
		if labels[i], err = l.text.fromText(strings.TrimSpace(s)); err != nil {
			return nil, i, err
		}
	}
	return labels, 0, nil
}

// imageLayout guesses the layout of a uint8 array from its axes; other arrays are not images.
func imageLayout(t arrays.Type, shape []int) tensor.Layout {
	channels := func(c int) bool { return c == 1 || c == 3 }
	switch {
	case t.Type != tensor.Uint8:
		return tensor.NoImage
	case len(shape) == 2:
		return tensor.HW
	case len(shape) == 3 && channels(shape[2]) && !channels(shape[0]):
		return tensor.HWC
	case len(shape) == 3 && channels(shape[0]) && !channels(shape[2]):
		return tensor.CHW
	}
	return tensor.NoImage
}

type namedArray struct {
	name   string
	layout tensor.Layout
	*arrays.Array
}

// An arraySource reads examples from arrays side by side.
type arraySource struct {
	Base
	names  string // examples are named names[index]
	inputs []namedArray
	labels *arrays.Array // may be nil
	text   labelParser
	multi  bool // labels are targets
	steps  bool // labels are those of steps
}

// Examples reads the arrays side by side.
func (s *arraySource) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		fail := func(err error) { yield(Example{Label: -1}, err) }
		readers := make([]*arrays.Reader, len(s.inputs))
		for i, in := range s.inputs {
			r, err := in.From(from)
			if err != nil {
				fail(err)
				return
			}
			defer r.Close()
			readers[i] = r
		}
		var labels *labelReader
		if s.labels != nil {
			var err error
			if labels, err = newLabelReader(s.labels, s.text, from, to); err != nil {
				fail(err)
				return
			}
			defer labels.Close()
		}
		for i := from; i < to; i++ {
			e := Example{Index: i, Name: s.names + "[" + strconv.Itoa(i) + "]", Label: -1,
				Inputs: make([]Array, len(readers))}
			for j, r := range readers {
				data, err := r.Read(1)
				if err != nil {
					fail(err)
					return
				}
				in := &s.inputs[j]
				e.Inputs[j] = Array{Name: in.name, Shape: in.Shape, Layout: in.layout, Data: data}
			}
			if labels != nil {
				var err error
				if s.steps {
					err = labels.steps(&e)
				} else if s.multi {
					e.Targets, err = labels.targets()
				} else {
					e.Label, err = labels.next()
				}
				if err != nil {
					fail(err)
					return
				}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
