package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/internal/jsontensor"
)

// A labelParser parses labels.
type labelParser struct {
	names         []string       // of the classes, in label order
	byName        map[string]int // the first class of each name
	numbered      bool           // some names are integers
	multi         bool
	k             int  // labels of a multi-label head, 0 unknown
	ignoreUnknown bool // an unknown label is -1
}

func newLabelParser(o Options) labelParser {
	l := labelParser{names: o.LabelClasses, byName: map[string]int{}, multi: o.MultiLabel, k: o.Classes,
		ignoreUnknown: o.IgnoreUnknownLabels}
	for i, name := range slices.Backward(l.names) {
		l.byName[name] = i
		_, err := strconv.Atoi(name)
		l.numbered = l.numbered || err == nil
	}
	return l
}

// fromText parses a class name or an integer, which is the number of a class unless class names are
// integers.
func (l labelParser) fromText(s string) (int, error) {
	if i, ok := l.byName[s]; ok {
		if j := slices.Index(l.names[i+1:], s); j >= 0 {
			return -1, refuse("the class name %q is used for both %d and %d; label by number", s, i, i+1+j)
		}
		return i, nil
	}
	y, err := wholeText(s, strconv.ParseInt)
	switch {
	case err == nil && !l.numbered:
		return int(y), nil
	case l.ignoreUnknown:
		return -1, nil
	case l.names == nil:
		return -1, refuse("label %q is not a whole number, and there are no class names: give the class names",
			clip(s))
	}
	if near := slices.IndexFunc(l.names, func(name string) bool { return plainName(name) == plainName(s) }); near >= 0 {
		return -1, refuse("label %q is not one of the %d class names: did you mean %q?", clip(s), len(l.names),
			l.names[near])
	}
	return -1, refuse("label %q is not one of the %d class names (%s)", clip(s), len(l.names), Some(l.names))
}

// plainName normalises a name, to find misspellings.
func plainName(s string) string {
	return strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(strings.TrimSpace(s)))
}

// fromJSON parses the value of an example's label. It returns false for null.
func (l labelParser) fromJSON(p *jsontensor.Parser, e *Example) (bool, error) {
	switch c := p.Peek(); {
	case p.Literal("null"):
		return false, nil
	case l.multi:
		return true, l.targets(p, e)
	case c == '[' || c == '{':
		return false, errors.New("want one class")
	case c == '"':
		s, err := p.String()
		if err == nil {
			e.Label, err = l.fromText(s)
		}
		return true, err
	}
	t, err := p.Tensor()
	if err != nil {
		return false, err
	}
	ints, bad := toInts(t.Data())
	if bad >= 0 {
		return false, errors.New("want a whole number")
	}
	e.Label = ints[0]
	return true, nil
}

// targets parses a list of zeros and ones.
func (l labelParser) targets(p *jsontensor.Parser, e *Example) error {
	t, err := p.Tensor()
	if err != nil {
		return err
	}
	if len(t.Shape) != 1 || t.IsText() || l.k > 0 && t.Shape[0] != l.k {
		return fmt.Errorf("want %s", wantTargets(l.k))
	}
	ints, bad := toInts(t.Data())
	if bad >= 0 {
		return fmt.Errorf("number %d is not a whole number; want 0 or 1", bad)
	}
	e.Targets, err = zeroOrOne(ints)
	return err
}

// zeroOrOne converts the labels of a multi-label head.
func zeroOrOne(ints []int) ([]uint8, error) {
	targets := make([]uint8, len(ints))
	for i, y := range ints {
		if y != 0 && y != 1 {
			return nil, refuse("number %d is %d; want 0 or 1", i, y)
		}
		targets[i] = uint8(y)
	}
	return targets, nil
}

// wholeText parses an integer, which may be written 3.0.
func wholeText[T int64 | uint64](s string, parse func(string, int, int) (T, error)) (T, error) {
	v, err := parse(s, 10, 64)
	if err == nil {
		return v, nil
	}
	f, floatErr := strconv.ParseFloat(s, 64)
	if i, ok := jsontensor.Whole(f); floatErr == nil && ok && (i >= 0 || T(0)-1 < 0) {
		return T(i), nil
	}
	return 0, err
}

func labelRangeError(e Example, classes int) error {
	return fmt.Errorf("%s: %s", e.Name, labelRange(e.Label, classes))
}

// labelRange says that a label is out of range.
func labelRange(label, classes int) string {
	if classes == 0 {
		return fmt.Sprintf("label %d is negative", label)
	}
	return fmt.Sprintf("label %d is outside [0,%d), the model's classes, which count from 0", label, classes)
}

// singleLabels is the error about labels of one class per example under MultiLabel.
func singleLabels(path string, o Options) error {
	if !o.MultiLabel || o.Unlabelled {
		return nil
	}
	return fmt.Errorf("%s: its labels are one class per example; want %s: labels [N,K] in an .npz, or lists in JSON lines",
		path, wantTargets(o.Classes))
}

// wantTargets says what labels a multi-label head of k labels needs.
func wantTargets(k int) string {
	if k == 0 {
		return "a 0 or 1 for each of the head's labels"
	}
	return fmt.Sprintf("a 0 or 1 for each of the head's %d labels", k)
}

func clip(s string) string { return s[:min(len(s), 20)] }
