package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
)

// tryLines is how many lines may be broken before the first that shows what the
// file holds.
const tryLines = 1000

// jsonLabelNames are the keys that hold the label.
var jsonLabelNames = []string{"label", "labels"}

type jsonlSource struct {
	meta     info
	text     *textFile
	inputs   []string // keys
	names    []string // of the arrays made of them
	labelled bool     // labels are wanted
	labelKey string   // "" where there is none, or none is wanted
	labels   labelParser
}

func openJSONL(path string, o Options) (_ source, err error) {
	t, err := openText(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.f.Close()
		}
	}()
	s := &jsonlSource{text: t, labelled: !o.Unlabelled, labels: newLabelParser(o)}
	if err := s.scan(o); err != nil {
		return nil, err
	}
	s.meta = info{path: path, format: "jsonl", count: t.count, labelled: s.labelKey != "", ragged: true, text: true}
	return s, nil
}

// scan reads all lines, to find where they are, and looks into the first that
// are needed to know what they hold.
func (s *jsonlSource) scan(o Options) error {
	r, err := s.text.open(0)
	if err != nil {
		return s.text.readError(err)
	}
	defer r.Close()
	lines := newLineReader(r)
	var broken error
	for {
		place := lines.at
		line, err := lines.next()
		if err == io.EOF {
			break
		}
		if err != nil && err != errLongLine {
			return s.text.readError(err)
		}
		if s.inputs == nil {
			if err == nil {
				err = s.learn(line, s.text.count, o)
			}
			var refused *refusal
			if errors.As(err, &refused) {
				return fmt.Errorf("%s: %w", s.text.path, err)
			}
			if err != nil && broken == nil {
				broken = err
			}
			if err != nil && s.text.count == tryLines {
				return fmt.Errorf("%s: no line of the first %d can be read; the first: %w", s.text.path, tryLines, broken)
			}
		}
		s.text.add(place)
	}
	switch {
	case s.text.count == 0:
		return fmt.Errorf("%s: holds no lines", s.text.path)
	case s.inputs == nil:
		return fmt.Errorf("%s: no line can be read; the first: %w", s.text.path, broken)
	}
	return nil
}

// A refusal is what is wrong with a whole file, not with a line.
type refusal struct{ msg string }

func (e *refusal) Error() string { return e.msg }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// learn settles by an example what keys are inputs and which the label.
func (s *jsonlSource) learn(line []byte, position int, o Options) error {
	var keys []string
	labelAt := map[string]int{} // where its value begins
	p := parserOf(line, position)
	err := p.object(func(key string) error {
		if slices.Contains(jsonLabelNames, key) && !slices.Contains(o.Inputs, key) {
			labelAt[key] = p.pos
			s.labelKey = key
		} else {
			keys = append(keys, key)
		}
		return p.skip(0)
	})
	if err != nil {
		s.labelKey = ""
		return err
	}
	slices.Sort(keys)
	s.names = keys
	switch {
	case len(labelAt) > 1:
		return refuse("both %q and %q could be the label", jsonLabelNames[0], jsonLabelNames[1])
	case len(keys) == 0:
		return refuse("no inputs: want an object of the model's inputs by name and, optionally, label")
	case len(o.Inputs) == 1 && len(keys) == 1: // whatever its name
	case o.Inputs != nil:
		for _, want := range o.Inputs {
			if !slices.Contains(keys, want) {
				return refuse("no key %q for the model's input; there are %s", want, some(keys))
			}
		}
		keys, s.names = o.Inputs, o.Inputs
	}
	s.inputs = slices.Clone(keys)
	if len(keys) == 1 {
		s.names = []string{""}
	}
	if o.Unlabelled {
		s.labelKey = ""
	}
	if s.labelKey == "" {
		return nil
	}
	// What the head does not want is told before anything is read.
	p.pos = labelAt[s.labelKey]
	switch c := p.peek(); {
	case c == 'n' && !o.StrayLabels:
		return refuse("%s of the first example is null; want a label for each example, or for none", s.labelKey)
	case c == '[' && !o.MultiLabel:
		return refuse("%s is a list; want one class, for a head whose classes exclude each other", s.labelKey)
	case c != '[' && o.MultiLabel:
		return refuse("%s is no list; want %s", s.labelKey, wantTargets(o.Classes))
	case c == '[' && s.labels.k == 0: // those that follow have as many
		p.pos++
		n, err := p.elements(func() error { return p.skip(0) })
		s.labels.k = n
		return err
	}
	return nil
}

// parserOf returns a parser of a line.
func parserOf(line []byte, position int) *jsonParser {
	if position == 0 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return &jsonParser{text: line}
}

func (s *jsonlSource) info() *info  { return &s.meta }
func (s *jsonlSource) Close() error { return s.text.f.Close() }

func (s *jsonlSource) examples(from, to int, yield func(Example, error) bool) {
	s.text.examples(from, to, yield, func(r io.Reader) func(*Example) (error, error) {
		lines := newLineReader(r)
		return func(e *Example) (broken, fatal error) {
			line, err := lines.next()
			switch {
			case err == errLongLine:
				return err, nil
			case err != nil:
				return nil, err
			case e == nil:
				return nil, nil
			}
			if err := s.parse(e, line); err != nil {
				e.Inputs = nil
				return err, nil
			}
			return nil, nil
		}
	})
}

// parse reads a line into an example.
func (s *jsonlSource) parse(e *Example, line []byte) error {
	e.Inputs = make([]Array, len(s.inputs))
	var labelled bool
	var seen []string
	p := parserOf(line, e.Index)
	err := p.object(func(key string) error {
		if slices.Contains(seen, key) {
			return fmt.Errorf("the key %q stands twice", key)
		}
		if key == s.labelKey {
			seen = append(seen, key)
			var err error
			if labelled, err = s.labels.fromJSON(p, e); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		}
		i := slices.Index(s.inputs, key)
		if i < 0 {
			if s.labelled && s.labelKey == "" && slices.Contains(jsonLabelNames, key) {
				return fmt.Errorf("a %s, and the first example has none", key)
			}
			return p.skip(0)
		}
		seen = append(seen, key)
		t, err := p.tensor()
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		e.Inputs[i] = Array{Name: s.names[i], Shape: t.shape, Data: t.data()}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range s.inputs {
		if !slices.Contains(seen, key) {
			return fmt.Errorf("no key %q, which the first example has", key)
		}
	}
	if s.labelKey != "" && !labelled && (s.labels.multi || !s.labels.stray) {
		return fmt.Errorf("no %s, which the first example has", s.labelKey)
	}
	return nil
}

func (s *jsonlSource) hash(ctx context.Context, h hash.Hash, _, _ int) error {
	if err := hashReader(ctx, h, s.text.f, s.text.size); err != nil {
		return s.text.readError(err)
	}
	return nil
}
