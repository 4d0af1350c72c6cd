package dataset

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
)

// StreamJSONL reads JSON lines as they come, from a reader that may never end. Each line is parsed
// alone: it need not have the keys of others, and may lack a label. Examples are named name[0], name[1]
// and so on. As in [Dataset.Examples], a broken line is a *RecordError, and any other error, r's own, is
// the last. Memory is bounded by the longest line; lines above 64 MiB are skipped as broken.
func StreamJSONL(r io.Reader, name string, o Options) iter.Seq2[Example, error] {
	labels := newLabelParser(o)
	return func(yield func(Example, error) bool) {
		lines := newLineReader(r)
		for i := 0; ; i++ {
			e := Example{Index: i, Name: name + "[" + strconv.Itoa(i) + "]", Label: -1}
			line, err := lines.Next()
			switch {
			case err == io.EOF:
				return
			case err == nil:
				err = parseAlone(&e, line, labels, o)
			case err != errLong:
				yield(e, fmt.Errorf("%s: %w", name, bareError(err)))
				return
			}
			if err != nil {
				e.Inputs, e.Targets, e.Label, e.Stream = nil, nil, -1, ""
				err = &RecordError{e.Name, i, err}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// parseAlone parses a line without knowledge of others.
func parseAlone(e *Example, line []byte, labels labelParser, o Options) error {
	s := &jsonlSource{labelled: !o.Unlabelled, labels: labels, streams: o.Streams}
	if err := s.learn(line, e.Index, o); err != nil {
		return err
	}
	if err := s.parse(e, line); err != nil {
		return err
	}
	if s.labelKey == "" || o.MultiLabel || e.Label >= 0 && (o.Classes == 0 || e.Label < o.Classes) {
		return nil
	}
	if !o.IgnoreUnknownLabels {
		return errors.New(labelRange(e.Label, o.Classes))
	}
	e.Label = -1
	return nil
}
