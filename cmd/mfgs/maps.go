package main

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/wrap"
)

// predictMaps writes the maps of all inputs to a folder, and a summary of each picture to standard output.
func (p *program) predictMaps(
	ctx context.Context, predictor *wrap.Predictor, inputs []string, dir, format string, maxBad int,
) (err error) {
	if !predictor.HasMaps() {
		return fmt.Errorf("--maps: %w: leave it out", wrap.ErrNoMaps)
	}
	if err := os.MkdirAll(dir, files.FolderMode); err != nil {
		return fmt.Errorf("--maps %s: %w", dir, fileError(dir, err))
	}
	d := predictor.Bundle().Decisions
	out := &mapSummaries{format: format, decided: d != nil && d.Abstains()}
	bar := p.progress()
	defer bar.done()
	defer func() { err = errors.Join(err, out.write(p.stdout, err != nil)) }() // what has been predicted is on disk
	for _, input := range inputs {
		folder := ""
		if len(inputs) > 1 { // records of different inputs may have the same name
			folder = folderOf(input)
		}
		var report wrap.DatasetReport
		var bad []string
		done := 0
		for m, err := range predictor.PredictMaps(ctx, input, &report) {
			if record := (*wrap.RecordError)(nil); errors.As(err, &record) {
				if bad = append(bad, record.Error()); len(bad) > maxBad {
					return fmt.Errorf("input: %w", &featurize.TooManyBadError{Allowed: maxBad, Bad: bad})
				}
				continue
			}
			if err != nil {
				return err
			}
			done++
			bar.work(wrap.Progress{Stage: "predicting", Done: done + len(bad), Total: report.Total, Unit: "examples"})
			if err := writeMap(dir, &m, predictor.Head().Classes()); err != nil {
				return err
			}
			out.add(filepath.Join(folder, m.Input), &m)
		}
		bar.done()
		for i := range bad {
			bad[i] = "input: " + bad[i]
		}
		p.warn(report.Warnings...)
		p.warnRecords(bad, report.Ignored)
		out.doc.Bad, out.doc.Ignored = append(out.doc.Bad, bad...), append(out.doc.Ignored, report.Ignored...)
		out.doc.Warnings = append(out.doc.Warnings, report.Warnings...)
	}
	return nil
}

// The folders of --maps, as those of datasets are: one of each kind, with a file for each picture.
const (
	classMaps      = "classes"    // PNG: the predicted class of each pixel
	answerMaps     = "answers"    // PNG: the same, and the largest number where the bundle abstains
	confidenceMaps = "confidence" // .npy: float32 [H,W]
	oodScoreMaps   = "ood_score"  // .npy: float32 [H,W]
)

// writeMap writes the files of a picture, all of them or none.
func writeMap(dir string, m *wrap.Map, classes int) error {
	stem := filepath.FromSlash(m.Input)
	switch ext := strings.ToLower(filepath.Ext(stem)); ext {
	case ".png", ".jpg", ".jpeg", ".jpe", ".jfif":
		stem = stem[:len(stem)-len(ext)]
	}
	if !filepath.IsLocal(stem) {
		return fmt.Errorf("input: %s: the name of the record leads out of the folder of --maps: rename it", m.Input)
	}
	type file struct {
		name    string
		content func(io.Writer) error
	}
	all := []file{
		{filepath.Join(classMaps, stem+".png"), func(w io.Writer) error { return writeClasses(w, m, classes, false) }},
		{filepath.Join(confidenceMaps, stem+".npy"), func(w io.Writer) error { return writeNPY(w, m, m.Confidence) }},
		{filepath.Join(oodScoreMaps, stem+".npy"), func(w io.Writer) error { return writeNPY(w, m, m.OODScore) }},
	}
	if m.Uncertain != nil || m.OOD != nil {
		all = append(all, file{filepath.Join(answerMaps, stem+".png"),
			func(w io.Writer) error { return writeClasses(w, m, classes, true) }})
	}
	draft, err := files.NewDraft(dir)
	if err != nil {
		return err
	}
	defer draft.Close()
	for _, f := range all {
		path := filepath.Join(dir, f.name)
		if _, err := os.Lstat(path); err == nil {
			return notReplaced(path)
		}
		if err := os.MkdirAll(filepath.Dir(path), files.FolderMode); err != nil {
			return err
		}
		if err := draft.Put(f.name, f.content); err != nil {
			return err
		}
	}
	for _, f := range all {
		if err := draft.MoveNew(f.name); errors.Is(err, fs.ErrExist) {
			return notReplaced(filepath.Join(dir, f.name))
		} else if err != nil {
			return err
		}
	}
	return nil
}

func notReplaced(path string) error {
	return fmt.Errorf("%s exists, as the map of another picture of this name or of an earlier run: give --maps another folder", path)
}

// noAnswer is the value of pixels without an answer in maps of 8 bits; those of 16 bits have 65,535.
const noAnswer = 255

// writeClasses writes classes as a PNG of 8 bits, or of 16 for more than 255 classes. Where the bundle abstains,
// answers have the largest number, which label maps have for pixels without a label.
func writeClasses(w io.Writer, m *wrap.Map, classes int, answers bool) error {
	r := image.Rect(0, 0, m.Width, m.Height)
	if classes <= noAnswer && slices.Max(m.Class) < noAnswer {
		g := image.NewGray(r)
		for i, y := range m.Class {
			if g.Pix[i] = uint8(y); answers && m.Abstains(i) {
				g.Pix[i] = noAnswer
			}
		}
		return png.Encode(w, g)
	}
	g := image.NewGray16(r)
	for i, y := range m.Class {
		if answers && m.Abstains(i) {
			y = 1<<16 - 1
		}
		binary.BigEndian.PutUint16(g.Pix[2*i:], uint16(y))
	}
	return png.Encode(w, g)
}

// writeNPY writes a NumPy array [H,W] of float32, in version 1.0 of the format.
func writeNPY(w io.Writer, m *wrap.Map, data []float32) error {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", m.Height, m.Width)
	const before, align = 10, 64 // bytes before the header, and what the data begin at a multiple of
	header += strings.Repeat(" ", align-1-(before+len(header))%align) + "\n"
	head := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	if _, err := w.Write(append(head, header...)); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}

// A mapSummary is the line about a picture.
type mapSummary struct {
	Input    string   `json:"input"`
	Height   int      `json:"height"`
	Width    int      `json:"width"`
	Answered *float64 `json:"answered,omitempty"` // the fraction of pixels, for bundles that abstain
	// Means over pixels; and the fraction above the bundle's OOD threshold, if there is one.
	Confidence float64  `json:"confidence"`
	OODScore   float64  `json:"ood_score"`
	Flagged    *float64 `json:"flagged,omitempty"`
}

// mapSummaries gathers the summaries of pictures.
type mapSummaries struct {
	format  string
	decided bool
	flags   bool
	doc     mapDocument
}

type mapDocument struct {
	Pictures []mapSummary `json:"pictures"`
	Bad      []string     `json:"bad_records"`
	Ignored  []string     `json:"ignored"`
	Warnings []string     `json:"warnings"`
}

func (s *mapSummaries) add(name string, m *wrap.Map) {
	one := mapSummary{Input: name, Height: m.Height, Width: m.Width}
	n := float64(len(m.Class))
	answered, flagged := 0, 0
	for i := range m.Class {
		one.Confidence += float64(m.Confidence[i]) / n
		one.OODScore += float64(m.OODScore[i]) / n
		if !m.Abstains(i) {
			answered++
		}
		if m.OOD != nil && m.OOD[i] {
			flagged++
		}
	}
	if s.decided {
		part := float64(answered) / n
		one.Answered = &part
	}
	if m.OOD != nil {
		part := float64(flagged) / n
		one.Flagged, s.flags = &part, true
	}
	s.doc.Pictures = append(s.doc.Pictures, one)
}

// write writes the summaries. A JSON document is all or nothing.
func (s *mapSummaries) write(w io.Writer, failed bool) error {
	switch s.format {
	case "json":
		if failed {
			return nil
		}
		for _, list := range []*[]string{&s.doc.Bad, &s.doc.Ignored, &s.doc.Warnings} {
			*list = append([]string{}, *list...)
		}
		s.doc.Pictures = append([]mapSummary{}, s.doc.Pictures...)
		return writeLongJSON(w, s.doc)
	case "jsonl":
		e := json.NewEncoder(jsonText{w})
		e.SetEscapeHTML(false)
		for _, one := range s.doc.Pictures {
			if err := e.Encode(one); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		c := csv.NewWriter(w)
		for _, row := range s.rows(full, csvText) {
			if err := c.Write(row); err != nil {
				return err
			}
		}
		c.Flush()
		return c.Error()
	}
	if len(s.doc.Pictures) == 0 {
		return nil
	}
	t := table{align: "lrrrrrr"}
	for i, row := range s.rows(short, func(name string) string { return name }) {
		for j := range row {
			if i == 0 {
				row[j] = headerWords.Replace(row[j])
			}
		}
		t.row(row[0], row[1:]...)
	}
	return t.write(w)
}

// short writes a number for people.
func short(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// rows returns a header and a row for each picture.
func (s *mapSummaries) rows(number func(float64) string, name func(string) string) [][]string {
	header := []string{"input", "height", "width"}
	if s.decided {
		header = append(header, "answered")
	}
	header = append(header, "confidence", "ood_score")
	if s.flags {
		header = append(header, "flagged")
	}
	rows := [][]string{header}
	for _, one := range s.doc.Pictures {
		row := []string{name(one.Input), strconv.Itoa(one.Height), strconv.Itoa(one.Width)}
		if s.decided {
			row = append(row, number(*one.Answered))
		}
		row = append(row, number(one.Confidence), number(one.OODScore))
		if s.flags {
			row = append(row, number(*one.Flagged))
		}
		rows = append(rows, row)
	}
	return rows
}
