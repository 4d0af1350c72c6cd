package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// pathNames are the columns or keys that may hold paths of images, as many tools call them.
var pathNames = []string{"image", "path", "file", "file_name", "filename", "image_path", "filepath"}

// isPathOfImage reports whether a column or key, by one of its values, holds paths of images.
func isPathOfImage(name, value string) bool {
	return slices.Contains(pathNames, strings.ToLower(name)) && isImageName(strings.TrimSpace(value))
}

// An imageTable is a table or JSON lines whose records name image files.
//
// The paths are those of whoever wrote the table, who may be a stranger: they lead to nothing outside
// the folder that it lies in, not by .., nor from the root, nor through a link.
type imageTable struct {
	Base
	table Source
	dir   string
	real  string // the folder without links
}

// newImageTable takes over a source whose only input are paths.
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

// visit calls f with the records at positions from…to-1 and the paths in them, "" where err says why
// there is none. err is f's, or what ended the table.
func (s *imageTable) visit(from, to int, f func(e *Example, path string, err error) (bool, error)) (err error) {
	s.table.Examples(from, to, func(e Example, failed error) bool {
		if failed != nil && !errors.As(failed, new(*RecordError)) {
			err = failed
			return false
		}
		path := ""
		if failed == nil {
			path, failed = pathIn(&e)
		}
		var on bool
		on, err = f(&e, path, failed)
		return on && err == nil
	})
	return err
}

// pathIn takes the path out of a record.
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

// file returns where the file is that a record names.
func (s *imageTable) file(path string) (string, error) {
	local := filepath.FromSlash(path)
	if !filepath.IsLocal(local) {
		return "", errors.New("the path leads out of the folder of the table, and whoever wrote that is not asked for other files: make it relative to the table")
	}
	real, err := filepath.EvalSymlinks(filepath.Join(s.real, local))
	if err != nil {
		return "", bareError(err)
	}
	if within, err := filepath.Rel(s.real, real); err != nil || !filepath.IsLocal(within) {
		return "", errors.New("the path leads through a link out of the folder of the table: put the table where its images are")
	}
	return real, nil
}

// Examples reads one file after another.
func (s *imageTable) Examples(from, to int, yield func(Example, error) bool) {
	err := s.visit(from, to, func(e *Example, path string, err error) (bool, error) {
		var encoded []byte
		if err == nil {
			e.Name = path
			var file string
			if file, err = s.file(path); err == nil {
				encoded, err = readImageFile(file)
			}
			if err != nil {
				err = &RecordError{e.Name, e.Index, err}
			}
		}
		s.digest.image(e.Index, path, e.Label, encoded, func(h hash.Hash) error {
			return s.hashImage(context.Background(), h, path, e.Label)
		})
		e.Encoded = encoded
		return yield(*e, err), nil
	})
	if err != nil {
		yield(Example{Label: -1}, err)
	}
}

func (s *imageTable) hash(ctx context.Context, d *digest, from, to int) error {
	return s.visit(from+d.part, to, func(e *Example, path string, _ error) (bool, error) {
		return true, d.whole(s.hashImage(ctx, d.h, path, e.Label))
	})
}

func (s *imageTable) hashImage(ctx context.Context, h hash.Hash, path string, label int) error {
	fmt.Fprintf(h, imagePart, path, label)
	if file, err := s.file(path); path != "" && err == nil {
		if f, size, err := openRegular(file); err == nil {
			defer f.Close()
			return hashSized(ctx, h, f, size)
		}
	}
	fmt.Fprintln(h, "unreadable") // which is a bad record, not the end
	return context.Cause(ctx)
}

func (s *imageTable) stamp(w io.Writer, from, to int) (time.Time, error) {
	latest, err := s.table.stamp(w, from, to)
	if err != nil {
		return latest, err
	}
	return latest, s.visit(from, to, func(_ *Example, path string, _ error) (bool, error) {
		file, err := s.file(path)
		if err == nil && path != "" {
			if info, err := os.Stat(file); err == nil {
				latest = stampFile(w, file, info, latest)
				return true, nil
			}
		}
		fmt.Fprintln(w, "unreadable")
		return true, nil
	})
}
