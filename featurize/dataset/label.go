package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/internal/jsontensor"
)

// maxLabelText bounds the bytes of one label as text: 1,024 characters.
const maxLabelText = 4 << 10

// A labelParser parses labels.
type labelParser struct {
	names         []string       // of the classes, in label order
	byName        map[string]int // the first class of each name
	numbered      bool           // some names are integers
	texts, tags   bool           // a label is a text, or a list of tags
	multi         bool
	k             int  // labels of a multi-label head, 0 unknown
	ignoreUnknown bool // an unknown label is -1
}

func newLabelParser(o Options) labelParser {
	l := labelParser{names: o.LabelClasses, byName: map[string]int{}, texts: o.Texts, tags: o.Tags,
		multi: o.MultiLabel, k: o.Classes,
		ignoreUnknown: o.IgnoreUnknownLabels}
	for i, name := range slices.Backward(l.names) {
		l.byName[name] = i
		_, err := strconv.Atoi(name)
		l.numbered = l.numbered || err == nil
	}
	return l
}

// set sets the label of an example from a text: a class name, a number, or the text of a line.
func (l labelParser) set(e *Example, s string) (err error) {
	if l.tags {
		return l.setTags(e, strings.Fields(s))
	}
	if !l.texts {
		e.Label, err = l.fromText(s)
		return err
	}
	if len(s) > maxLabelText {
		return fmt.Errorf("a text of %d bytes, want at most %d", len(s), maxLabelText)
	}
	if !utf8.ValidString(s) {
		return errNoUTF8
	}
	e.Label, e.Text = 0, s
	return nil
}

var errNoUTF8 = errors.New("the text is not in UTF-8: convert it")

// setTags sets the tags of an example. Those of steps that do not count are "", "null", or negative as PyTorch's -100.
func (l labelParser) setTags(e *Example, tags []string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("%d tags, want at most %d", len(tags), maxTags)
	}
	for i, tag := range tags {
		if len(tag) > maxLabelText {
			return fmt.Errorf("tag %d has %d bytes, want at most %d", i, len(tag), maxLabelText)
		}
		if n, err := strconv.Atoi(tag); err == nil && n < 0 || tag == "null" {
			tags[i] = ""
		}
	}
	if !slices.ContainsFunc(tags, func(tag string) bool { return tag != "" }) {
		if l.ignoreUnknown {
			return nil
		}
		return errors.New("no step has a tag")
	}
	e.Label, e.Tags = 0, tags
	return nil
}

// maxTags bounds the steps of an example.
const maxTags = 1 << 20

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
	case l.tags && c == '[':
		tags, err := l.tagList(p)
		if err == nil {
			err = l.setTags(e, tags)
		}
		return true, err
	case l.tags && c != '"':
		return false, errors.New("want a list of tags")
	case l.multi:
		return true, l.targets(p, e)
	case (c == '[' || c == '{') && !l.texts:
		return false, errors.New("want one class")
	case c == '"':
		s, err := p.String()
		if err == nil {
			err = l.set(e, s)
		}
		return true, err
	case l.texts:
		return false, errors.New("want a text")
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

// tagList parses a list of names, numbers and nulls.
func (l labelParser) tagList(p *jsontensor.Parser) (tags []string, err error) {
	tags = []string{}
	p.Pos++
	_, err = p.Elements(func() error {
		tag := ""
		switch c := p.Peek(); {
		case p.Literal("null"):
		case c == '"':
			if tag, err = p.String(); err != nil {
				return err
			}
		default:
			t, err := p.Tensor()
			if err != nil {
				return err
			}
			ints, bad := toInts(t.Data())
			if bad >= 0 || len(ints) != 1 {
				return errors.New("want names of tags, or whole numbers")
			}
			tag = strconv.Itoa(ints[0])
		}
		tags = append(tags, tag)
		return nil
	})
	return tags, err
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
	if o.Tags && !o.Unlabelled {
		return fmt.Errorf("%s: its labels are classes, and the model tags steps: give JSON lines, Parquet or Arrow with a list of tags for each example", path)
	}
	if o.Texts && !o.Unlabelled {
		return fmt.Errorf("%s: its labels are classes, and the model reads text: give a table with the columns image and label, JSON lines, Parquet, or a folder with the text of each image in a .txt file beside it", path)
	}
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
