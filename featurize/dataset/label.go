package dataset

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/internal/jsontensor"
	"github.com/mfgs/mfgs/internal/pixels"
)

// maxLabelText bounds the bytes of one label as text: 1,024 characters.
const maxLabelText = 4 << 10

// A labelParser parses labels.
type labelParser struct {
	names         []string       // of the classes, in label order
	byName        map[string]int // the first class of each name
	numbered      bool           // some names are integers
	texts, tags   bool           // a label is a text, or a list of tags
	steps         bool           // and the tags are classes
	multi         bool
	k             int  // labels of a multi-label head, 0 unknown
	ignoreUnknown bool // an unknown label is -1
}

func newLabelParser(o Options) labelParser {
	l := labelParser{names: o.LabelClasses, byName: map[string]int{}, texts: o.Texts, tags: o.Tags || o.Steps,
		steps: o.Steps, multi: o.MultiLabel, k: o.Classes,
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
	if path := strings.TrimSpace(s); l.steps && isMapName(path) {
		e.Label, e.labelMap = 0, l.newLabelMap(path)
		return nil
	}
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
		return fmt.Errorf("labels for %d steps, want at most %d", len(tags), maxTags)
	}
	for i, tag := range tags {
		if len(tag) > maxLabelText {
			return fmt.Errorf("the %s of step %d has %d bytes, want at most %d", l.stepLabel(), i, len(tag), maxLabelText)
		}
		if n, err := strconv.Atoi(tag); err == nil && n < 0 || tag == "null" {
			tags[i] = ""
		}
	}
	if !slices.ContainsFunc(tags, func(tag string) bool { return tag != "" }) {
		if l.ignoreUnknown {
			return nil
		}
		return fmt.Errorf("no step has a %s", l.stepLabel())
	}
	if l.steps {
		return l.setSteps(e, tags)
	}
	e.Label, e.Tags = 0, tags
	return nil
}

// setSteps sets the classes of the steps of an example.
func (l labelParser) setSteps(e *Example, names []string, sides ...int) error {
	classes := make([]int, len(names))
	for i, name := range names {
		if classes[i] = -1; name == "" {
			continue
		}
		var err error
		if classes[i], err = l.fromText(name); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return setClasses(l, e, classes, sides...)
}

// setClasses sets the classes of the steps of an example, or of a map of two sides. Negative numbers are none, and so
// is 255 in a map, unless it may be a class.
func setClasses[T int | int32](l labelParser, e *Example, classes []T, sides ...int) error {
	if len(classes) > maxSteps {
		return fmt.Errorf("labels for %d steps, want at most %d", len(classes), maxSteps)
	}
	if len(sides) != 2 {
		sides = nil
	}
	steps, some := make([]int32, len(classes)), false
	for i, y := range classes {
		switch {
		case sides != nil && int(y) == noClass && l.k <= noClass:
			y = -1
		case l.k > 0 && int(y) >= l.k || int(y) > math.MaxInt32:
			if !l.ignoreUnknown {
				return fmt.Errorf("%s: %s", stepName(i, sides), labelRange(int(y), l.k))
			}
			y = -1
		}
		steps[i] = int32(max(y, -1))
		some = some || y >= 0
	}
	switch {
	case some:
		e.Label, e.Steps, e.Sides = 0, steps, sides
	case !l.ignoreUnknown:
		return errNoLabels
	}
	return nil
}

var errNoLabels = errors.New("no step has a label")

// stepLabel is what a step has in place of a label.
func (l labelParser) stepLabel() string {
	if l.steps {
		return "label"
	}
	return "tag"
}

// maxTags bounds the names of the steps of an example, and maxSteps their numbers, such as those of a label map.
const (
	maxTags  = 1 << 20
	maxSteps = pixels.Max
)

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
	case l.steps && c == '[' && nested(p):
		t, err := p.Tensor()
		if err != nil {
			return false, err
		}
		if names, ok := t.Data().([]string); ok {
			return true, l.setSteps(e, names, t.Shape...)
		}
		classes, bad := toInts(t.Data())
		if bad >= 0 {
			return false, errors.New("want rows of names or whole numbers, -100 for a step without a label")
		}
		return true, setClasses(l, e, classes, t.Shape...)
	case l.tags && c == '[':
		tags, err := l.tagList(p)
		if err == nil {
			err = l.setTags(e, tags)
		}
		return true, err
	case l.tags && c != '"':
		return false, fmt.Errorf("want a list with a %s for each step", l.stepLabel())
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

// nested reports whether a list begins with a list.
func nested(p *jsontensor.Parser) bool {
	at := p.Pos
	defer func() { p.Pos = at }()
	p.Pos++
	return p.Peek() == '['
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
				return fmt.Errorf("want a list of names or whole numbers, a %s for each step", l.stepLabel())
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
	if o.Steps && !o.Unlabelled {
		return fmt.Errorf("%s: its labels are one class per example, and the model classifies each step: give a list for each example, in JSON lines, Parquet or Arrow, an array [N,T] or [N,H,W] in an .npz or, for the pixels of images, label maps: a table with the columns image and label, or the folders images and labels", path)
	}
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

// noClass is the number of pixels without a label in label maps, as of Pascal VOC and Cityscapes, unless the model has
// more than 255 classes.
const noClass = 255

// isMapName reports whether a label is the path of a label map: a PNG file, or a JPEG file, which is refused.
func isMapName(s string) bool {
	return slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(filepath.Ext(s)))
}

// stepName names a step in messages.
func stepName(i int, sides []int) string {
	if sides == nil {
		return fmt.Sprintf("step %d", i)
	}
	return fmt.Sprintf("row %d, column %d", i/sides[1], i%sides[1])
}

// newLabelMap returns the label map at a path.
func (l labelParser) newLabelMap(path string) *labelMap {
	return &labelMap{path: path, decode: l.decodeMap}
}

// decodeMap decodes a label map into Steps. Numbers that are no classes concern the whole dataset, not the record
// alone.
func (l labelParser) decodeMap(e *Example, m *labelMap) error {
	e.Label = -1
	bad := func(err error) error {
		if l.ignoreUnknown {
			return nil
		}
		return &RecordError{e.Name, e.Index, fmt.Errorf("label map %s: %w", m.path, err)}
	}
	if m.encoded == nil {
		return bad(errors.New("the record has no path of an image: give it in a column or key image"))
	}
	p, err := pixels.DecodeLabels(m.encoded)
	if err != nil {
		return bad(err)
	}
	if err := l.mask(p); err != nil {
		return bad(err)
	}
	switch err := setClasses(l, e, p.Data, p.Height, p.Width); {
	case errors.Is(err, errNoLabels):
		return bad(errors.New("no pixel has a label"))
	case err != nil:
		return fmt.Errorf("%s: label map %s: %w", e.Name, m.path, err)
	}
	return nil
}

// mask refuses a mask of black and white for two classes: its white pixels would be those without a label.
func (l labelParser) mask(p *pixels.Labels) error {
	if l.k != 2 {
		return nil
	}
	white := false
	for _, y := range p.Data {
		if y != 0 && y != noClass {
			return nil
		}
		white = white || y == noClass
	}
	if !white {
		return nil
	}
	return errors.New("its numbers are 0 and 255, and 255 is for pixels without a label: want 1 for the second class or, if there is none of it, 65535 in 16 bits for pixels without a label")
}

func clip(s string) string { return s[:min(len(s), 20)] }
