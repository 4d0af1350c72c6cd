package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// This file is for packages that register formats of records with named columns, so that labels and
// errors are the same as in the formats here.

// MaxItem bounds the bytes of one example's array, and MaxStrings the strings in it.
const (
	MaxItem    = arrays.MaxItem
	MaxStrings = arrays.MaxStrings
)

// Labels reads labels as the package documentation says.
type Labels struct {
	labelParser
	o Options
}

// NewLabels returns a reader of the labels that o asks for.
func NewLabels(o Options) Labels { return Labels{newLabelParser(o), o} }

// Want says, for messages, what the label in a column or field of this name must be.
func (l Labels) Want(name string) string {
	if l.tags {
		return fmt.Sprintf("%s wants a list with a %s for each step", name, l.stepLabel())
	}
	if l.multi {
		return name + " wants " + wantTargets(l.k)
	}
	return name + " wants one class"
}

// Takes reports whether labels may be lists, or single values, of texts or of numbers.
func (l Labels) Takes(list, texts bool) bool {
	switch {
	case l.tags: // a text may hold all, separated by blanks
		return list || texts
	case l.multi:
		return list && !texts
	}
	return !list
}

// Read sets the label of an example, or its targets, from a value: one number, a list of numbers, or a
// name. none says that there is no value. [Base.Broken] says whether an error concerns this example
// alone.
func (l Labels) Read(e *Example, data any, list, none bool) error {
	texts, isText := data.([]string)
	switch {
	case none && (l.multi || !l.ignoreUnknown):
		return errors.New("no label")
	case none:
		return nil
	case l.tags && list:
		if !isText {
			ints, bad := toInts(data)
			if bad >= 0 {
				return fmt.Errorf("number %d is not a whole number; want a %s for each step", bad, l.stepLabel())
			}
			if l.steps {
				return setClasses(l.labelParser, e, ints)
			}
			texts = make([]string, len(ints))
			for i, n := range ints {
				texts[i] = strconv.Itoa(n)
			}
		}
		return l.setTags(e, slices.Clone(texts))
	case l.multi && (!list || isText):
		return fmt.Errorf("want %s", wantTargets(l.k))
	case !l.multi && list && !l.texts:
		return errors.New("want one class")
	case isText && !list:
		return l.set(e, texts[0])
	case l.texts:
		return errors.New("want a text")
	}
	ints, bad := toInts(data)
	switch {
	case bad >= 0 && list:
		return fmt.Errorf("number %d is not a whole number; want 0 or 1", bad)
	case bad >= 0:
		return errors.New("want a whole number")
	case !l.multi:
		e.Label = ints[0]
		return nil
	case l.k > 0 && len(ints) != l.k:
		return fmt.Errorf("%d numbers; want %s", len(ints), wantTargets(l.k))
	}
	var err error
	e.Targets, err = zeroOrOne(ints)
	return err
}

// Renumber returns for each class of a file, given the file's class names in label order, the model's
// class of that name, -1 for none; nil if the numbers are the model's already. As with class folders
// either all names are the model's or none is.
func (l Labels) Renumber(names []string) ([]int, error) {
	if l.o.LabelClasses == nil || l.multi {
		return nil, nil
	}
	labels, err := matchClasses(names, l.o.LabelClasses)
	switch {
	case labels != nil:
		return labels, nil
	case err == nil && len(names) == len(l.o.LabelClasses):
		return nil, nil
	}
	if !l.ignoreUnknown {
		return nil, fmt.Errorf("its %d classes (%s) are not the model's %d (%s)", len(names), Some(names),
			len(l.o.LabelClasses), Some(l.o.LabelClasses))
	}
	labels = make([]int, len(names))
	for i, name := range names {
		if y, ok := l.byName[name]; ok {
			labels[i] = y
		} else {
			labels[i] = -1
		}
	}
	return labels, nil
}

// Broken returns an error about an example as a *RecordError or, if it concerns the whole file, as one
// that ends the iteration.
func (b *Base) Broken(e *Example, err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return &RecordError{e.Name, e.Index, err}
}

// RecordName names a record of a file or stream, for messages.
func RecordName(file string, position int) string { return file + "[" + strconv.Itoa(position) + "]" }

// ImageLayout guesses the layout of one example's array from the sizes of its axes: only uint8 arrays are
// images.
func ImageLayout(t tensor.Type, shape []int) tensor.Layout {
	return imageLayout(arrays.Type{Type: t}, shape)
}

// CheckEncoded refuses an image file of no bytes or too many.
func CheckEncoded(size int64) error { return checkImageSize(size) }
