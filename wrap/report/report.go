// Package report writes the results of a calibration on one page, for the people who decide by them.
//
// It presents what package bench measured, with [bench.Config.Detailed], and the bundle; it measures nothing.
//
//  1. view.go builds the page: the verdict (verdict.go), then a section for each question.
//  2. html.go writes it as one HTML file without scripts or external resources: styles and pictures are in it, and its
//     Content-Security-Policy forbids everything else. Charts are those of package chart.
//  3. markdown.go writes the text and tables as Markdown, for pull requests.
//
// Text from data and bundles, such as the names of classes, is escaped and shortened.
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

// Check reports a file name without a known extension.
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

// Write writes the report of an evaluation, which must have its Detail, to a file: HTML or Markdown by its extension.
// After an error the file is as it was before.
func Write(path string, e *bench.Evaluation, o Options) error {
	write, err := writer(path)
	if err != nil {
		return err
	}
	if e.Detail == nil {
		return errors.New("report: the evaluation has no Detail: set Config.Detailed")
	}
	var b bytes.Buffer
	if err := write(&b, newView(e, o, e.Detail.Probabilities, e.Detail.Score).page()); err != nil {
		return err
	}
	return files.Write(path, func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	})
}
