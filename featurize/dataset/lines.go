package dataset

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
)

const (
	// indexStep is how many examples apart the offsets are that are kept of a text file, so that reading
	// can start in the middle.
	indexStep = 1024
)

// A textSource is a text file, plain or gzipped, with an index of its examples. The type that embeds it
// parses them.
type textSource struct {
	Base
	open   func(skip int64) (io.ReadCloser, error) // reads the text from byte skip on
	places []int64                                 // offset of example i*indexStep in the text
	// reader returns a function that reads the next example, into e unless that is nil. broken concerns
	// this example only, unless it is a *refusal; fatal ends the text.
	reader func(io.Reader) func(e *Example) (broken, fatal error)
}

// openText opens the text and calls scan to index its examples.
func (t *textSource) openText(path string, scan func(io.Reader) error) error {
	f, err := t.Open(path)
	if err != nil {
		return err
	}
	t.Path, t.Text, t.open = path, true, arrays.Plain(f, 0, f.Size())
	magic := make([]byte, 2)
	if _, err = f.ReadAt(magic, 0); err == nil && bytes.Equal(magic, gzipMagic) {
		t.open = arrays.Gzip(f, 0, f.Size())
	}
	var r io.ReadCloser
	if err == nil || err == io.EOF {
		r, err = t.open(0)
	}
	if err != nil {
		err = t.readError(err)
	} else {
		err = scan(r)
		r.Close()
	}
	if err != nil {
		t.Close()
	}
	return err
}

// add records an example at an offset, perhaps after blank lines.
func (t *textSource) add(place int64) {
	if t.Count%indexStep == 0 {
		t.places = append(t.places, place)
	}
	t.Count++
}

// from opens the text at the last indexed example up to position i, and returns its position.
func (t *textSource) from(i int) (r io.ReadCloser, at int, err error) {
	if t.stream != nil {
		in, err := t.stream.Reader()
		if err != nil {
			err = t.readError(err)
		}
		return io.NopCloser(in), i, err
	}
	at = i / indexStep
	if r, err = t.open(t.places[at]); err != nil {
		return nil, 0, t.readError(err)
	}
	return r, at * indexStep, nil
}

// Examples reads one example after another.
func (t *textSource) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		r, at, err := t.from(from)
		if err != nil {
			yield(Example{Label: -1}, err)
			return
		}
		defer r.Close()
		next, base := t.reader(r), filepath.Base(t.Path)
		for ; at < to; at++ {
			e := Example{Index: at, Name: base + "[" + strconv.Itoa(at) + "]", Label: -1}
			into := &e
			if at < from {
				into = nil
			}
			broken, fatal := next(into)
			if fatal != nil {
				if fatal == io.EOF && t.stream != nil {
					return
				}
				if fatal == io.EOF {
					fatal = t.changed(at)
				} else {
					fatal = t.readError(fatal)
				}
				yield(Example{Label: -1}, fatal)
				return
			}
			if at < from {
				continue
			}
			var refused *refusal
			if errors.As(broken, &refused) {
				yield(e, fmt.Errorf("%s: %w", e.Name, broken))
				return
			}
			if broken != nil {
				broken = &RecordError{e.Name, at, broken}
			}
			if !yield(e, broken) {
				return
			}
		}
	}
}

// readError describes an error in reading the text.
func (t *textSource) readError(err error) error {
	switch {
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: broken or truncated gzip: %w", t.Path, err)
	}
	return fmt.Errorf("%s: %w", t.Path, bareError(err))
}

// changed is the error about a text that has fewer examples than when it was opened.
func (t *textSource) changed(got int) error {
	return fmt.Errorf("%s: changed while in use: it had %d examples and has %d", t.Path, t.Count, got)
}
