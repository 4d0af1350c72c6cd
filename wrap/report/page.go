package report

import (
	"html/template"

	"github.com/mfgs/mfgs/internal/chart"
)

// page is what a report says, in the order in which it says it, whatever it is written as.
type page struct {
	Title    string // the name of the bundle
	Headline string
	Verdict  []string // sentences
	Caveats  []string // what a reader must know before the figures
	Sections []section
}

type section struct {
	ID, Title string
	Lead      []string // paragraphs
	Tables    []table
	Figures   []figure
	Galleries []gallery
}

// table has a row for its head; the first cell of each row says what the row is of.
type table struct {
	Caption string
	Head    []string
	Rows    [][]cell
	Note    string
}

// cell is a figure, and below it how sure that is.
type cell struct {
	Text        string
	Interval    string // an interval
	Significant bool   // it differs from the network's own beyond chance
}

func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, t := range texts {
		row[i].Text = t
	}
	return row
}

// figure is a picture with what explains it, and its numbers.
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
	Small   bool         // the picture has so few pixels that they are shown as such
	Text    string
	Values  [][2]string // names and values
	More    string      // what is left out of these
	Facts   [][2]string
}
