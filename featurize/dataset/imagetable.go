package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// pathNames are the columns or keys that may hold paths of images, as many tools call them.
var pathNames = []string{"image", "path", "file", "file_name", "filename", "image_path", "filepath"}

// isPathOfImage reports whether a column or key with this value holds paths of images.
func isPathOfImage(name, value string) bool {
	return slices.Contains(pathNames, strings.ToLower(name)) && isImageName(strings.TrimSpace(value))
}

// An imageTable is a table or JSON lines whose records name image files.
//
// The author of the table need not be trusted: paths must not leave the folder of the table, by .., as
// absolute paths, or through links.
type imageTable struct {
	Base
	table Source
	dir   string
	real  string // dir with links resolved
}

// newImageTable takes over a source whose only input is paths.
func newImageTable(table Source, path string) (Source, error) {
	s := &imageTable{table: table, dir: filepath.Dir(path)}
	b := table.base()
	s.Path, s.Count, s.Labelled = path, b.Count, b.Labelled
	var err error
	if s.real, err = filepath.EvalSymlinks(s.dir); err == nil {
		s.real, err = filepath.Abs(s.real)
	}
	if err != nil {
		table.Close()
		return nil, pathError(s.dir, err)
	}
	return s, nil
}

func (s *imageTable) Close() error { return s.table.Close() }

// A tableRow is one record of the table.
type tableRow struct {
	Example
	path string // "" if bad
	bad  error  // a *RecordError
}

// identity is what the digest says of a record beside its class and its file.
func (r *tableRow) identity() string {
	switch {
	case r.labelMap != nil:
		return r.path + "\x00" + r.labelMap.path
	case r.Text == "":
		return r.path
	}
	return r.path + "\x00" + r.Text
}

// rows reads the table at positions from…to-1. An error is the last.
func (s *imageTable) rows(from, to int) iter.Seq2[tableRow, error] {
	return func(yield func(tableRow, error) bool) {
		for e, err := range s.table.Examples(from, to) {
			if err != nil && !errors.As(err, new(*RecordError)) {
				yield(tableRow{}, err)
				return
			}
			r := tableRow{Example: e, bad: err}
			if r.bad == nil {
				r.path, r.bad = pathIn(&r.Example)
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// pathIn removes the path from a record.
func pathIn(e *Example) (string, error) {
	data := e.Inputs[0].Data
	e.Inputs = nil
	var path []string
	switch d := data.(type) {
	case Text:
		path = d.Cells
	case []string:
		path = d
	}
	if len(path) != 1 || strings.TrimSpace(path[0]) == "" {
		return "", &RecordError{e.Name, e.Index, errors.New("no path of an image")}
	}
	return strings.TrimSpace(path[0]), nil
}

// file resolves the path in a record.
func (s *imageTable) file(path string) (string, error) {
	local := filepath.FromSlash(path)
	if !filepath.IsLocal(local) {
		return "", errors.New("the path leads out of the folder of the table, which is not allowed: make it relative to the table")
	}
	real, err := filepath.EvalSymlinks(filepath.Join(s.real, local))
	if err != nil {
		return "", bareError(err)
	}
	if within, err := filepath.Rel(s.real, real); err != nil || !filepath.IsLocal(within) {
		return "", errors.New("the path follows a link out of the folder of the table: put the table next to its images")
	}
	return real, nil
}

// read reads the file of a path in a record.
func (s *imageTable) read(path string) ([]byte, error) {
	file, err := s.file(path)
	if err != nil {
		return nil, err
	}
	return readImageFile(file)
}

// Examples reads one file after another.
func (s *imageTable) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		for row, err := range s.rows(from, to) {
			if err != nil {
				yield(Example{Label: -1}, err)
				return
			}
			e, bad := row.Example, row.bad
			var image, labels []byte
			if bad == nil {
				e.Name = row.path
				if e.Encoded, err = s.read(row.path); err == nil {
					image, labels, err = e.readLabels(s.read)
				}
				if err != nil {
					bad = &RecordError{e.Name, e.Index, err}
				}
			}
			s.digest.image(e.Index, row.identity(), e.Label, image, labels, func(h hash.Hash) error {
				return s.hashImage(context.Background(), h, row)
			})
			if !yield(e, bad) {
				return
			}
		}
	}
}

func (s *imageTable) hash(ctx context.Context, d *digest, from, to int) error {
	for row, err := range s.rows(from+d.part, to) {
		if err == nil {
			err = d.whole(s.hashImage(ctx, d.h, row))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *imageTable) hashImage(ctx context.Context, h hash.Hash, row tableRow) error {
	fmt.Fprintf(h, imagePart, row.identity(), row.Label)
	paths := []string{row.path}
	if row.labelMap != nil {
		paths = append(paths, row.labelMap.path)
	}
	for _, path := range paths {
		file, err := s.file(path)
		if path == "" || err != nil {
			file = ""
		}
		if err := hashFile(ctx, h, file); err != nil {
			return err
		}
	}
	return nil
}

func (s *imageTable) stamp(w io.Writer, from, to int) (time.Time, error) {
	latest, err := s.table.stamp(w, from, to)
	if err != nil {
		return latest, err
	}
	for row, err := range s.rows(from, to) {
		if err != nil {
			return latest, err
		}
		paths := []string{row.path}
		if row.labelMap != nil {
			paths = append(paths, row.labelMap.path)
		}
		for _, path := range paths {
			file, err := s.file(path)
			if path == "" || err != nil {
				file = ""
			}
			latest = stampPath(w, file, latest)
		}
	}
	return latest, nil
}
