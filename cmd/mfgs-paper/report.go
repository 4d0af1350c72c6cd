package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A report is the whole report.
type report struct {
	code     string // version of mfgs-paper
	machine  string
	seeds    []int
	sections []*section
	claims   []claim
	all      bool // it has all parts
}

// A part is a table or figure of the report.
type part struct {
	name    string
	title   string
	measure func(context.Context, *lab, *section) error // fills the exported fields of a section
	write   func(*section)                              // renders its text and pictures from those
}

// A section is the result of a part. Text and pictures are rendered from its exported fields.
type section struct {
	Name     string
	Seconds  float64
	Rows     []row
	Facts    map[string]float64 // other measurements, by name
	Measured []picture          // pictures that need more than the rows

	part     part
	claims   []claim      // of the report, for its text
	text     bytes.Buffer // Markdown
	pictures []picture
}

// A picture is an SVG file in the folder paper.
type picture struct {
	Name string
	SVG  []byte
}

func (s *section) add(rows ...row) { s.Rows = append(s.Rows, rows...) }

// of returns the rows of trials; those that were not measured have no runs.
func (s *section) of(table, data string, trials []trial) []row {
	var rows []row
	for _, t := range trials {
		rows = append(rows, s.at(place{table, data, t.row}))
	}
	return rows
}

// at returns the row of a place, without runs if there is none.
func (s *section) at(p place) row {
	if i := slices.IndexFunc(s.Rows, func(r row) bool { return r.place == p }); i >= 0 {
		return s.Rows[i]
	}
	return row{place: p}
}

// write adds a paragraph.
func (s *section) write(format string, args ...any) {
	fmt.Fprintf(&s.text, format+"\n\n", args...)
}

func (s *section) draw(p picture) { s.pictures = append(s.pictures, p) }

// results returns all rows by place.
func (r *report) results() results {
	all := results{}
	for _, s := range r.sections {
		for _, row := range s.Rows {
			all[row.place] = row
		}
	}
	return all
}

// A column is a named quantity; two are printed as a : b.
type column struct {
	name string
	of   []quantity
}

func columnOf(q quantity) column { return column{q.title(), []quantity{q}} }

// named renames the column.
func (c column) named(name string) column { return column{name, c.of} }

// inDomain are the columns for a labelled test set.
var inDomain = []column{columnOf(errorOf), columnOf(nllOf), columnOf(eceOf), columnOf(debiasedOf)}

// detectionColumns are the columns for detecting an OOD set.
func detectionColumns(set string, nll bool) []column {
	in, out := oodQuantity(set, nll, "PR in : out", auprInOf), oodQuantity(set, nll, "PR out", auprOutOf)
	return []column{
		columnOf(oodQuantity(set, nll, "Acc.", accuracyOf)), columnOf(oodQuantity(set, nll, "ROC", aurocOf)),
		{in.name, []quantity{in, out}},
	}
}

// cell prints the mean of a row's quantity and its standard deviation over networks.
func (c column) cell(r row) string {
	var parts []string
	for _, q := range c.of {
		all := r.over(q)
		if len(all) == 0 {
			return "–"
		}
		text := fmt.Sprintf("%.*f", q.digits, q.scale*all.mean())
		if len(all) > 1 {
			text += fmt.Sprintf(" ± %.*f", q.digits, q.scale*all.stdDev())
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " : ")
}

// paperCell prints the paper's figure, to the paper's digits.
func (c column) paperCell(f figures) string {
	var parts []string
	for _, q := range c.of {
		v := q.of(f)
		if v == nil {
			return ""
		}
		parts = append(parts, fmt.Sprintf("*%g*", math.Round(*v*q.scale*1e4)/1e4))
	}
	return strings.Join(parts, " : ")
}

// render returns a table of rows, each with the paper's numbers below it.
func render(rows []row, columns ...column) string {
	head := []string{""}
	for _, c := range columns {
		head = append(head, c.name)
	}
	t := numberTable(head...)
	for _, r := range rows {
		cells := []string{"**" + r.row + "**"}
		for _, c := range columns {
			text := c.cell(r)
			if len(r.Runs) == 0 {
				text = ""
			}
			cells = append(cells, text)
		}
		if len(r.Runs) == 0 {
			cells[1] = "not run"
		}
		t.row(cells...)
		if r.Paper == nil {
			continue
		}
		cells = []string{"*paper*"}
		for _, c := range columns {
			cells = append(cells, c.paperCell(*r.Paper))
		}
		if slices.ContainsFunc(cells[1:], func(c string) bool { return c != "" }) {
			t.row(cells...)
		}
	}
	return t.String() + notes(rows)
}

// notes lists notes on the rows: their own, and how many networks and draws they have.
func notes(rows []row) string {
	most, kind := 0, ""
	for _, r := range rows {
		if n := r.networks(); n > most {
			most, kind = n, r.Runs[0].Kind
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var all []string
		if r.Note != "" {
			all = append(all, r.Note)
		}
		if n := r.networks(); n > 0 && n < most && len(r.Runs[0].Networks) == 1 {
			of := fmt.Sprintf("%d of the %d networks", n, most)
			if r.Runs[0].Kind != kind {
				of = fmt.Sprintf("%d networks trained this way", n)
			}
			all = append(all, of)
		}
		if draws := len(r.Runs); draws > max(1, r.networks()) {
			all = append(all, fmt.Sprintf("%d random draws in total", draws))
		}
		if len(all) > 0 {
			fmt.Fprintf(&b, "\n- %s: %s", r.row, strings.Join(all, "; "))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return b.String() + "\n"
}
