// Package report says what came of a calibration on one page, for those who have to decide by it.
//
// It is made of what package bench measured, with [bench.Config.Detailed], and of the bundle: nothing is
// computed here but words, places and pictures.
//
//  1. view.go gathers the page: the verdict (verdict.go), then a section for each question.
//  2. html.go writes it as one HTML file that asks for nothing, not even scripts: styles and pictures are
//     in it, and its Content-Security-Policy forbids all else. Figures are those of package chart.
//  3. markdown.go writes the words and tables as Markdown, for pull requests.
//
// What data and bundles say, such as the names of classes, is escaped and shortened.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Check reports a file name that says no format, or a folder that is not there.
func Check(path string) error {
	_, err := writer(path)
	return err
}

func writer(path string) (func(io.Writer, *page) error, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".html", ".htm":
		return writeHTML, nil
	case ".md", ".markdown":
		return writeMarkdown, nil
	default:
		return nil, fmt.Errorf("%s: a report is HTML or Markdown: want a name that ends in .html or .md", path)
	}
}

// Write writes the report of an evaluation, which has its Detail, to a file: HTML or Markdown, as its name
// ends. The file is there as a whole or, after an error, as it was.
func Write(path string, e *bench.Evaluation, o Options) error {
	write, err := writer(path)
	if err != nil {
		return err
	}
	if e.Detail == nil {
		return errors.New("report: the evaluation has no Detail: set Config.Detailed")
	}
	var b bytes.Buffer
	if err := write(&b, newView(e, o).page()); err != nil {
		return err
	}
	return files.Write(path, func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	})
}
