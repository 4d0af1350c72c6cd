package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/markdown"
)

// A report is what is written in the end.
type report struct {
	code     string // that made it
	machine  string
	seeds    []int
	sections []*section
	claims   []claim
	all      bool // of the parts
}

// A part is a table or figure of the report.
type part struct {
	name    string
	title   string
	measure func(context.Context, *lab, *section) error // fills what a section keeps
	write   func(*section)                              // makes its text and pictures of that
}

// A section is one part of the report: what was measured, of which the rest is made.
type section struct {
	Name     string
	Seconds  float64
	Rows     []row
	Facts    map[string]float64 // what else was measured, by name
	Measured []picture          // of more than the rows hold

	part     part
	text     bytes.Buffer // Markdown
	pictures []picture
}

// A picture is an SVG file in the folder paper.
type picture struct {
	Name string
	SVG  []byte
}

// add keeps rows.
func (s *section) add(rows ...row) { s.Rows = append(s.Rows, rows...) }

// of returns the rows of trials, without runs where there are none.
func (s *section) of(table, data string, trials []trial) []row {
	var rows []row
	for _, t := range trials {
		rows = append(rows, s.at(place{table, data, t.row}))
	}
	return rows
}

// at returns the row of a place.
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

// draw adds a picture.
func (s *section) draw(p picture) { s.pictures = append(s.pictures, p) }

// results are the rows by their places.
func (r *report) results() results {
	all := results{}
	for _, s := range r.sections {
		for _, row := range s.Rows {
			all[row.place] = row
		}
	}
	return all
}

// A column is a quantity under a name; two are printed as a : b.
type column struct {
	name string
	of   []quantity
}

func columnOf(q quantity) column { return column{q.name, []quantity{q}} }

// named is the column under another name.
func (c column) named(name string) column { return column{name, c.of} }

// inDomain are the columns of a labelled test set.
var inDomain = []column{columnOf(errorOf), columnOf(nllOf), columnOf(eceOf), columnOf(debiasedOf)}

// detecting are the columns of how well a set is told.
func detecting(set string, nll bool) []column {
	in, out := told(set, nll, "PR in : out", auprInOf), told(set, nll, "PR out", auprOutOf)
	return []column{
		columnOf(told(set, nll, "Acc.", accuracyOf)), columnOf(told(set, nll, "ROC", aurocOf)),
		{in.name, []quantity{in, out}},
	}
}

// cell prints a quantity of a row: its mean, and its spread over networks.
func (c column) cell(r row) string {
	var parts []string
	for _, q := range c.of {
		all := r.over(q)
		if len(all) == 0 {
			return "–"
		}
		text := fmt.Sprintf("%.*f", q.digits, q.scale*all.mean())
		if len(all) > 1 {
			text += fmt.Sprintf(" ± %.*f", q.digits, q.scale*all.spread())
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " : ")
}

// printed prints a quantity as the paper does.
func (c column) printed(f figures) string {
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

// render is a table of rows, each with the paper's numbers below it.
func render(rows []row, columns ...column) string {
	head := []string{""}
	for _, c := range columns {
		head = append(head, c.name)
	}
	t := markdown.NewTable(head...)
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
			cells[1] = "not made"
		}
		t.Row(cells...)
		if r.Paper == nil {
			continue
		}
		cells = []string{"*the paper*"}
		for _, c := range columns {
			cells = append(cells, c.printed(*r.Paper))
		}
		if slices.ContainsFunc(cells[1:], func(c string) bool { return c != "" }) {
			t.Row(cells...)
		}
	}
	return t.String() + notes(rows)
}

// notes lists what is to be said of rows.
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
				of = fmt.Sprintf("%d networks of its own", n)
			}
			all = append(all, of)
		}
		if draws := len(r.Runs); draws > max(1, r.networks()) {
			all = append(all, fmt.Sprintf("%d random draws in all", draws))
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
