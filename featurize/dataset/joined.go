package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mfgs/mfgs/featurize/dataset/internal/pattern"
)

// keptOpen is how many files of a pattern stay open. The others are opened again when they are read.
const keptOpen = 16

// A joinedSource is the files of a pattern, one after another.
type joinedSource struct {
	Base
	o       Options
	format  *Format
	paths   []string
	starts  []int    // the first position of each, and the end
	sources []Source // nil for files that are not kept open

	mu   sync.Mutex
	sums []string // fingerprints of files that have been read completely
}

// openJoined opens each file once, to count its examples.
func openJoined(spec Spec, f *Format, o Options) (_ Source, err error) {
	o.Shard.Count, o.Shard.Index = 0, 0 // the shard is of all files together
	paths, err := pattern.Files(spec.Path)
	if err != nil {
		return nil, err
	}
	s := &joinedSource{o: o, format: f, paths: paths, starts: []int{0}}
	s.sources, s.sums = make([]Source, len(s.paths)), make([]string, len(s.paths))
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var l listing
	for i, path := range s.paths {
		kind := f
		if kind == nil {
			if kind, err = sniff(path); err != nil {
				return nil, err
			}
		}
		if s.format == nil {
			s.format = kind
		}
		if kind.Name != s.format.Name {
			return nil, fmt.Errorf("%s is of format %s, and %s %s: files of one SPEC have one format", path, kind.Name,
				s.paths[0], s.format.Name)
		}
		src, err := openFile(path, kind, s.o)
		if err != nil {
			return nil, err
		}
		if i < keptOpen {
			s.sources[i] = src
		}
		b := src.base()
		for _, ig := range b.Ignored {
			l.ignore(ig.Reason, filepath.Join(filepath.Base(path), ig.First), ig.Count)
		}
		err = s.join(i, b)
		if i >= keptOpen {
			err = errors.Join(err, src.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	s.Path, s.Ignored = spec.Path, l.ignored
	return s, nil
}

// join adds a file, which must match those before it.
func (s *joinedSource) join(i int, b *Base) error {
	end := s.starts[i] + b.Count
	if s.starts = append(s.starts, end); end < s.starts[i] || end >= StreamPositions {
		return fmt.Errorf("%s: with this file there are more than %d examples", s.paths[i], StreamPositions)
	}
	s.Count = end
	if i == 0 {
		s.Format = b.Format
		s.Labelled, s.Ragged, s.Text, s.Classes, s.Labels = b.Labelled, b.Ragged, b.Text, b.Classes, b.Labels
		s.Columns, s.o.Columns = b.Columns, b.Columns // the other files' are found by name
		return nil
	}
	first := s.paths[0]
	has := map[bool]string{true: "has labels", false: "has none"}
	switch {
	case b.Labelled != s.Labelled:
		return fmt.Errorf("%s %s, and %s %s: either all files of a SPEC are labelled, or no file is", s.paths[i], has[b.Labelled],
			first, has[s.Labelled])
	case !slices.Equal(b.Classes, s.Classes) && s.Labelled:
		if !s.named(b.Classes) || !s.named(s.Classes) {
			return fmt.Errorf("%s has other class folders (%s) than %s (%s): name them by class name or by integer label",
				s.paths[i], Some(b.Classes), first, Some(s.Classes))
		}
		s.Classes, s.Labels = nil, nil // no file has them all
	}
	s.Ragged = s.Ragged || b.Ragged
	return nil
}

// named reports whether class folders give labels by their names alone, not by their order.
func (s *joinedSource) named(folders []string) bool {
	labels, err := matchClasses(folders, s.o.LabelClasses)
	integer := func(name string) bool { _, err := strconv.ParseUint(name, 10, 32); return err == nil }
	return err == nil && labels != nil || !slices.ContainsFunc(folders, func(f string) bool { return !integer(f) })
}

// open returns the source of a file; done closes it unless it is kept open.
func (s *joinedSource) open(i int) (src Source, done func() error, err error) {
	if s.sources[i] != nil {
		return s.sources[i], func() error { return nil }, nil
	}
	if src, err = openFile(s.paths[i], s.format, s.o); err != nil {
		return nil, nil, err
	}
	b := src.base()
	if want := s.starts[i+1] - s.starts[i]; b.Count != want || b.Labelled != s.Labelled {
		src.Close()
		return nil, nil, fmt.Errorf("%s: changed while in use: it had %d examples and has %d", s.paths[i], want, b.Count)
	}
	return src, src.Close, nil
}

// whole returns a file with all of its examples, for its fingerprint.
func (s *joinedSource) whole(i int, src Source) *opened {
	o := &opened{src: src, keep: true}
	o.to = s.starts[i+1] - s.starts[i]
	o.slice.to = o.to
	o.header = fmt.Sprintf("%s %t\n", s.Format, s.Labelled)
	return o
}

// within returns the range of files that hold positions from…to-1.
func (s *joinedSource) within(from, to int) (first, last int) {
	first = sort.SearchInts(s.starts, from+1) - 1
	if to <= from {
		return first, first
	}
	return first, max(first, sort.SearchInts(s.starts, to))
}

// Examples reads one file after another.
func (s *joinedSource) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		for i, last := s.within(from, to); i < last; i++ {
			more, err := s.file(i, from, to, yield)
			if err != nil {
				yield(Example{Label: -1}, err)
			}
			if !more || err != nil {
				return
			}
		}
	}
}

// file yields those of the i-th file's examples that lie at positions from…to-1, and reports whether
// more are wanted.
func (s *joinedSource) file(i, from, to int, yield func(Example, error) bool) (more bool, err error) {
	src, done, err := s.open(i)
	if err != nil {
		return false, err
	}
	defer func() {
		if closed := done(); more {
			err = cmp.Or(err, closed)
		}
	}()
	s.mu.Lock()
	known := s.sums[i] != ""
	s.mu.Unlock()
	w := s.whole(i, src)
	if s.o.Fingerprint && !known {
		d := &src.base().digest
		d.mu.Lock()
		d.begin(w.header, 0, w.to)
		d.mu.Unlock()
	}
	start, base := s.starts[i], filepath.Base(s.paths[i])
	for e, err := range src.Examples(max(0, from-start), min(w.to, to-start)) {
		if e.Name != base && !strings.HasPrefix(e.Name, base+"[") && e.Name != "" {
			e.Name = base + "/" + e.Name
		}
		e.Index += start
		var bad *RecordError
		if errors.As(err, &bad) {
			err = &RecordError{e.Name, e.Index, bad.Err}
		}
		if !yield(e, err) || err != nil && bad == nil {
			return false, nil
		}
	}
	if !s.o.Fingerprint || known || from > start || to < start+w.to {
		return true, nil
	}
	// The file is open, and nearly all of it has been hashed.
	return true, s.identify(context.Background(), i, w)
}

// identify computes and keeps the fingerprint of a file.
func (s *joinedSource) identify(ctx context.Context, i int, w *opened) error {
	sum, err := w.Fingerprint(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums[i] = sum
	return nil
}

// hash adds the fingerprints of the whole files that hold the positions.
func (s *joinedSource) hash(ctx context.Context, d *digest, from, to int) error {
	first, last := s.within(from, to)
	for i := first + d.part; i < last; i++ {
		s.mu.Lock()
		sum := s.sums[i]
		s.mu.Unlock()
		if sum == "" {
			src, done, err := s.open(i)
			if err != nil {
				return err
			}
			if err := cmp.Or(s.identify(ctx, i, s.whole(i, src)), done()); err != nil {
				return err
			}
			s.mu.Lock()
			sum = s.sums[i]
			s.mu.Unlock()
		}
		fmt.Fprintf(d.h, "%d %s\n", s.starts[i+1]-s.starts[i], sum)
		d.part++
	}
	return nil
}

func (s *joinedSource) stamp(w io.Writer, from, to int) (latest time.Time, err error) {
	for i, last := s.within(from, to); i < last; i++ {
		src, done, err := s.open(i)
		if err != nil {
			return latest, err
		}
		changed, err := src.stamp(w, 0, s.starts[i+1]-s.starts[i])
		if err = cmp.Or(err, done()); err != nil {
			return latest, err
		}
		if changed.After(latest) {
			latest = changed
		}
	}
	return latest, nil
}

// Close closes the files that are kept open.
func (s *joinedSource) Close() error {
	var errs []error
	for _, src := range s.sources {
		if src != nil {
			errs = append(errs, src.Close())
		}
	}
	return errors.Join(errs...)
}
