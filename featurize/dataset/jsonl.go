package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/mfgs/mfgs/internal/jsontensor"
)

// tryLines is how many lines may be broken before the first valid one.
const tryLines = 1000

// jsonLabelNames are the keys that hold the label.
var jsonLabelNames = []string{"label", "labels"}

type jsonlSource struct {
	textSource
	inputs   []string // keys
	names    []string // of the arrays
	labelled bool     // labels are wanted
	labelKey string   // "" if there is none, or none is wanted
	labels   labelParser
	images   bool // the input is paths of images
	streams  bool // lines may continue streams
}

// The keys of a line that continues a stream.
const (
	streamKey    = "stream"
	streamEndKey = "stream_end"
)

// errStream refuses such a line in a dataset, whose records have no order.
var errStream = fmt.Errorf("%s: a record of a dataset is a whole stream: give lines that continue streams on standard input, as the input -, or leave the key out",
	streamKey)

// continues reports whether a key says which stream a line continues.
func (s *jsonlSource) continues(key string, inputs []string) bool {
	return s.streams && (key == streamKey || key == streamEndKey) && !slices.Contains(inputs, key)
}

// continued reads the value of such a key.
func continued(p *jsontensor.Parser, key string, e *Example) (err error) {
	switch c := p.Peek(); {
	case p.Literal("null"):
	case key == streamKey && c == '"':
		if e.Stream, err = p.String(); err == nil && e.Stream == "" {
			err = fmt.Errorf("%s: the name is empty: leave it out for a whole stream", key)
		}
	case key == streamEndKey && p.Literal("true"):
		e.StreamEnd = true
	case key == streamEndKey && p.Literal("false"):
	case key == streamKey:
		return fmt.Errorf("%s: want a string, the name of the stream that the line continues", key)
	default:
		return fmt.Errorf("%s: want true in the last line of a stream, else false", key)
	}
	return err
}

func openJSONL(path string, o Options) (Source, error) {
	s := &jsonlSource{labelled: !o.Unlabelled, labels: newLabelParser(o), streams: o.Streams}
	s.reader = s.lines
	if err := s.openText(path, func(r io.Reader) error { return s.scan(r, o) }); err != nil {
		return nil, err
	}
	s.Labelled, s.Ragged = s.labelKey != "", true
	if s.images {
		return newImageTable(s, path)
	}
	return s, nil
}

// streamJSONL reads the first lines, up to a valid one.
func streamJSONL(in *Stream, o Options) (Source, error) {
	s := &jsonlSource{labelled: !o.Unlabelled, labels: newLabelParser(o), streams: o.Streams}
	s.reader, s.Path, s.stream = s.lines, in.Name(), in
	r, err := in.Reader()
	if err != nil {
		return nil, s.readError(err)
	}
	if err := s.scan(r, o); err != nil {
		return nil, err
	}
	if s.images {
		return nil, fmt.Errorf("%s: image paths need a file next to the images, not a stream", s.Path)
	}
	s.Labelled, s.Ragged, s.Text = s.labelKey != "", true, true
	return s, nil
}

// sniffJSONL recognises files by name, and a stream by its first byte.
func sniffJSONL(p *Peek) (bool, error) {
	text := bytes.TrimLeft(bytes.TrimPrefix(p.Head, byteOrderMark), " \t\r\n")
	return p.Ext == ".jsonl" || p.Ext == ".ndjson" || p.Stream && bytes.HasPrefix(text, []byte("{")), nil
}

// scan indexes the lines, and learns the keys from the first valid one.
func (s *jsonlSource) scan(r io.Reader, o Options) error {
	lines := newLineReader(r)
	var broken error
	for {
		place := lines.At
		line, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil && err != errLong {
			return s.readError(err)
		}
		if s.inputs == nil {
			if err == nil {
				err = s.learn(line, s.Count, o)
			}
			var refused *refusal
			if errors.As(err, &refused) {
				return fmt.Errorf("%s: %w", s.Path, err)
			}
			if err != nil && broken == nil {
				broken = err
			}
			if err != nil && s.Count == tryLines {
				return fmt.Errorf("%s: no line of the first %d can be read; the first: %w", s.Path, tryLines, broken)
			}
			if s.inputs != nil && s.stream != nil {
				return nil
			}
		}
		s.add(place)
	}
	switch {
	case s.Count == 0:
		return fmt.Errorf("%s: %w: it has no lines", s.Path, ErrNoExamples)
	case s.inputs == nil:
		return fmt.Errorf("%s: no line can be read; the first: %w", s.Path, broken)
	}
	return nil
}

// learn decides by a line which keys are inputs, and which is the label.
func (s *jsonlSource) learn(line []byte, position int, o Options) error {
	var keys []string
	path := ""                  // the key that holds paths of images
	labelAt := map[string]int{} // where its value begins
	p := parserOf(line, position)
	err := p.Object(func(key string) error {
		if slices.Contains(jsonLabelNames, key) && !slices.Contains(o.Inputs, key) {
			labelAt[key] = p.Pos
			s.labelKey = key
		} else if s.continues(key, o.Inputs) {
			return p.Skip(0)
		} else {
			keys = append(keys, key)
		}
		if p.Peek() == '"' {
			value, err := p.String()
			if isPathOfImage(key, value) && path == "" {
				path = key
			}
			return err
		}
		return p.Skip(0)
	})
	if err != nil {
		s.labelKey = ""
		return err
	}
	if path != "" {
		o.Inputs, keys, s.images = nil, []string{path}, true
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
				return refuse("no key %q for the model's input; there are %s", want, Some(keys))
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
	// Refuse labels that do not suit the head before anything is read.
	p.Pos = labelAt[s.labelKey]
	switch c := p.Peek(); {
	case c == 'n' && !o.IgnoreUnknownLabels:
		return refuse("%s of the first example is null; want a label for each example, or for none", s.labelKey)
	case o.Tags, o.Steps:
	case c == '[' && o.Texts:
		return refuse("%s is a list; want a text", s.labelKey)
	case c == '[' && !o.MultiLabel:
		return refuse("%s is a list; want one class, for a head whose classes exclude each other", s.labelKey)
	case c != '[' && o.MultiLabel:
		return refuse("%s is not a list; want %s", s.labelKey, wantTargets(o.Classes))
	case c == '[' && s.labels.k == 0: // all lines must have as many
		p.Pos++
		n, err := p.Elements(func() error { return p.Skip(0) })
		s.labels.k = n
		return err
	}
	return nil
}

// parserOf returns a parser of a line.
func parserOf(line []byte, position int) *jsontensor.Parser {
	if position == 0 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return &jsontensor.Parser{Text: line}
}

// lines returns a function that reads the next line.
func (s *jsonlSource) lines(r io.Reader) func(*Example) (broken, fatal error) {
	lines := newLineReader(r)
	return func(e *Example) (broken, fatal error) {
		line, err := lines.Next()
		switch {
		case err == errLong:
			return err, nil
		case err != nil:
			return nil, err
		case e == nil:
			return nil, nil
		}
		if err = s.parse(e, line); err == nil && e.Stream != "" {
			err = errStream
		}
		if err != nil {
			e.Inputs = nil
		}
		return err, nil
	}
}

// parse parses a line into an example.
func (s *jsonlSource) parse(e *Example, line []byte) error {
	e.Inputs = make([]Array, len(s.inputs))
	var labelled bool
	var seen []string
	p := parserOf(line, e.Index)
	err := p.Object(func(key string) error {
		if slices.Contains(seen, key) {
			return fmt.Errorf("the key %q appears twice", key)
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
		if i < 0 && s.continues(key, s.inputs) {
			seen = append(seen, key)
			return continued(p, key, e)
		}
		if i < 0 {
			if s.labelled && s.labelKey == "" && slices.Contains(jsonLabelNames, key) {
				return fmt.Errorf("a %s, and the first example does not", key)
			}
			return p.Skip(0)
		}
		seen = append(seen, key)
		t, err := p.Tensor()
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		e.Inputs[i] = Array{Name: s.names[i], Shape: t.Shape, Data: t.Data()}
		return nil
	})
	if err != nil {
		return err
	}
	if e.StreamEnd && e.Stream == "" {
		return fmt.Errorf("%s: the line names no stream that could end: want %s as well", streamEndKey, streamKey)
	}
	for _, key := range s.inputs {
		if !slices.Contains(seen, key) {
			return fmt.Errorf("no key %q, which the first example has", key)
		}
	}
	if s.labelKey != "" && !labelled && (s.labels.multi || !s.labels.ignoreUnknown) {
		return fmt.Errorf("no %s, which the first example has", s.labelKey)
	}
	return nil
}
