package report

import (
	"html/template"

	"github.com/mfgs/mfgs/internal/chart"
)

// page is the content of a report, in order, for both formats.
type page struct {
	Title    string // the name of the bundle
	Headline string
	Verdict  []string // sentences
	Caveats  []string // before the figures
	Sections []section
}

type section struct {
	ID, Title string
	Lead      []string // paragraphs
	Tables    []table
	Figures   []figure
	Galleries []gallery
}

// table has a head; the first cell of each row names the row.
type table struct {
	Caption string
	Head    []string
	Rows    [][]cell
	Note    string
}

// cell is a figure with its interval.
type cell struct {
	Text        string
	Interval    string
	Significant bool // differs significantly from the network's own
}

func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, t := range texts {
		row[i].Text = t
	}
	return row
}

// figure is a chart with its caption, legend and numbers.
type figure struct {
	Title   string
	Caption string
	SVG     template.HTML // of package chart, which escapes
	Legend  []swatch
	Table   table
}

// swatch is an entry of a legend.
type swatch struct {
	Name   string
	Sample template.HTML
}

func newFigure(title, caption string, c chart.Chart, t table) figure {
	f := figure{Title: title, Caption: caption, Table: t}
	if c.Name == "" {
		c.Name = title
	}
	f.SVG = template.HTML(c.SVG())
	for _, s := range c.Series {
		if s.Name != "" {
			f.Legend = append(f.Legend, swatch{s.Name, template.HTML(s.Swatch())})
		}
	}
	return f
}

type gallery struct {
	Title, Lead string
	Cards       []card
}

// card is an example.
type card struct {
	Name    string
	Picture template.URL // a data URL, "" where there is none
	Small   bool         // show the picture's pixels as squares
	Text    string
	Values  [][2]string // names and values
	More    string      // what Values leaves out
	Facts   [][2]string
}
