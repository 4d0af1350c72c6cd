package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// csvLabel is the name of the column that holds the label.
const csvLabel = "label"

type csvSource struct {
	textSource
	comma  rune
	width  int // cells of a record
	inputs []csvInput
	label  int  // the label's column, -1 for none
	images bool // the input is paths of images
	labels labelParser
}

// A csvInput is a model input and the columns that feed it.
type csvInput struct {
	name    string
	columns []int
	names   []string
	shape   []int
}

func openCSV(path string, o Options) (Source, error) {
	s := &csvSource{labels: newLabelParser(o)}
	s.reader = s.records
	if err := s.openText(path, func(r io.Reader) error { return s.scan(r, o) }); err != nil {
		return nil, err
	}
	s.Labelled = s.label >= 0
	if s.images {
		return newImageTable(s, path)
	}
	return s, nil
}

// scan reads the header, and indexes the records.
func (s *csvSource) scan(r io.Reader, o Options) error {
	buf := bufio.NewReaderSize(r, 64<<10)
	head, err := buf.Peek(64 << 10)
	if err != nil && err != io.EOF {
		return s.readError(err)
	}
	start := 0
	if bytes.HasPrefix(head, byteOrderMark) {
		start = len(byteOrderMark)
	}
	begin := bytes.Clone(head[start:]) // reading on overwrites head
	if _, err := buf.Discard(start); err != nil {
		return s.readError(err)
	}
	s.comma = separator(head[start:], s.Path)
	records := newCSVReader(buf, s.comma, int64(start))
	header, err := records.Next()
	if err == io.EOF {
		return fmt.Errorf("%s: %w: it has no lines", s.Path, ErrNoExamples)
	}
	if err != nil {
		return s.readError(fmt.Errorf("header: %w", bareParseError(err)))
	}
	if column := s.imageColumn(header, begin); column != "" {
		o.Inputs, o.Widths, s.images = []string{column}, []int{1}, true
	}
	if err := s.assign(slices.Clone(header), o); err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	records.ReuseRecord = true
	for {
		place := records.Place()
		_, err := records.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !isParseError(err) {
			return s.readError(fmt.Errorf("example %d: %w", s.Count, err))
		}
		s.add(place)
	}
	if s.Count == 0 {
		return fmt.Errorf("%s: %w, only a header", s.Path, ErrNoExamples)
	}
	return nil
}

// imageColumn returns the column that holds a path of an image in the first record, or "".
func (s *csvSource) imageColumn(header []string, head []byte) string {
	records := newCSVReader(bytes.NewReader(head), s.comma, 0)
	if _, err := records.Next(); err != nil {
		return ""
	}
	record, err := records.Next()
	for i := range min(len(header), len(record)) {
		if name := strings.TrimSpace(header[i]); err == nil && isPathOfImage(name, record[i]) {
			return name
		}
	}
	return ""
}

// separator guesses the separator: a comma unless the header has none.
func separator(head []byte, path string) rune {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(path, ".gz")))
	switch {
	case ext == ".tsv", !bytes.ContainsRune(line, ',') && bytes.ContainsRune(line, '\t'):
		return '\t'
	case !bytes.ContainsRune(line, ',') && bytes.ContainsRune(line, ';'):
		return ';'
	}
	return ','
}

// assign decides which columns feed which inputs, and which is the label.
func (s *csvSource) assign(header []string, o Options) error {
	s.width = len(header)
	if s.width > maxFeatures {
		return fmt.Errorf("%d columns, want at most %d", s.width, maxFeatures)
	}
	numbers := 0
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
		if _, err := strconv.ParseFloat(header[i], 64); err == nil {
			numbers++
		}
	}
	if numbers == len(header) {
		return fmt.Errorf("the first line is numbers (%s); want a header with the names of the columns", Some(header))
	}
	s.label = slices.Index(header, csvLabel)
	if slices.Contains(o.Inputs, csvLabel) {
		s.label = -1
	}
	var rest []int
	for i := range header {
		if i != s.label {
			rest = append(rest, i)
		}
	}
	names := make([]string, len(rest))
	for i, c := range rest {
		names[i] = header[c]
	}
	missing := slices.DeleteFunc(slices.Clone(o.Inputs), func(name string) bool { return slices.Contains(names, name) })
	width := func(i int) int {
		if i < len(o.Widths) {
			return o.Widths[i]
		}
		return 0
	}
	switch {
	case len(rest) == 0:
		return fmt.Errorf("no columns but %s", csvLabel)
	case o.Inputs == nil, len(o.Inputs) == 1 && (len(missing) == 1 || len(rest) > 1 && width(0) > 1):
		places, known, err := InOrder(names, o)
		if err != nil {
			return err
		}
		if w := width(0); w > 0 && w != len(places) {
			return fmt.Errorf("%d columns besides label (%s) for the model's input %q, which takes %d numbers per example",
				len(places), Some(names), o.Inputs[0], w)
		}
		s.Columns = known
		s.inputs = []csvInput{{"", picked(rest, places), picked(names, places), []int{len(places)}}}
	case len(missing) > 0:
		return fmt.Errorf("no column %q for the model's input; there are %s", missing[0], Some(names))
	default:
		for i, name := range o.Inputs {
			if w := width(i); w > 1 {
				return fmt.Errorf("the model's input %q takes %d numbers per example and a column has one; use JSON lines or an .npz",
					name, w)
			}
			c := slices.Index(header, name)
			if slices.Contains(header[c+1:], name) {
				return fmt.Errorf("two columns are called %q", name)
			}
			s.inputs = append(s.inputs, csvInput{name, []int{c}, []string{name}, []int{1}})
		}
		if len(s.inputs) == 1 {
			s.inputs[0].name = ""
		}
	}
	switch {
	case o.Unlabelled:
		s.label = -1
	case s.label < 0:
	case slices.Contains(header[s.label+1:], csvLabel):
		return fmt.Errorf("two columns are called %q", csvLabel)
	case !o.Texts && !o.Tags && !o.Steps:
		return singleLabels("column "+csvLabel, o)
	}
	return nil
}

// picked returns the elements at some places.
func picked[T any](x []T, places []int) []T {
	out := make([]T, len(places))
	for i, at := range places {
		out[i] = x[at]
	}
	return out
}

// records returns a function that reads the next record.
func (s *csvSource) records(r io.Reader) func(*Example) (broken, fatal error) {
	records := newCSVReader(bufio.NewReaderSize(r, 64<<10), s.comma, 0)
	return func(e *Example) (broken, fatal error) {
		cells, err := records.Next()
		switch {
		case isParseError(err):
			return bareParseError(err), nil
		case err != nil:
			return nil, err
		case e == nil:
			return nil, nil
		}
		return bareParseError(s.fill(e, cells)), nil
	}
}

// fill fills an example from a record.
func (s *csvSource) fill(e *Example, record []string) error {
	if len(record) != s.width {
		return fmt.Errorf("%d cells; want %d, as the header has", len(record), s.width)
	}
	if s.label >= 0 {
		cell := strings.TrimSpace(record[s.label])
		switch {
		case cell != "" || s.labels.texts || s.labels.tags:
			if err := s.labels.set(e, cell); err != nil {
				return err
			}
		case !s.labels.ignoreUnknown:
			return errors.New("no label")
		}
	}
	inputs := make([]Array, len(s.inputs))
	for i, in := range s.inputs {
		t := Text{make([]string, len(in.columns)), in.names}
		for j, c := range in.columns {
			t.Cells[j] = record[c]
		}
		inputs[i] = Array{Name: in.name, Shape: in.shape, Data: t}
	}
	e.Inputs = inputs
	return nil
}
