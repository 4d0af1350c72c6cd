package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/internal/text"
)

// printable escapes what could control a terminal.
func printable(s string) string { return text.Printable(s) }

// A table is text in columns.
type table struct {
	align string // a letter a column: l or r
	rows  [][]string
}

// row adds a row: its first cell, and the others.
func (t *table) row(term string, cells ...string) {
	cells = append([]string{term}, cells...)
	if len(cells) > len(t.align) {
		panic(fmt.Sprintf("a row of %d cells in a table of %d columns", len(cells), len(t.align)))
	}
	t.rows = append(t.rows, printables(cells))
}

func printables(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = printable(cell)
	}
	return out
}

// write prints the table, columns two spaces apart and without trailing blanks. To fit textWidth, cells of the first
// column are shortened in the middle.
func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.align))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	others := 0
	for _, n := range widths[1:] {
		others += 2 + n
	}
	widths[0] = min(widths[0], max(textWidth-others, 8))
	var b strings.Builder
	for _, row := range t.rows {
		row[0] = shortenMiddle(row[0], widths[0])
		b.WriteString(formatRow(t.align, widths, row))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// formatRow writes one line.
func formatRow(align string, widths []int, row []string) string {
	var line strings.Builder
	for i, cell := range row {
		if i > 0 {
			line.WriteString("  ")
		}
		blanks := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
		if align[i] == 'r' {
			line.WriteString(blanks + cell)
		} else {
			line.WriteString(cell + blanks)
		}
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

// shortenMiddle leaves out the middle of a name longer than n.
func shortenMiddle(name string, n int) string {
	runes := []rune(name)
	if len(runes) <= n {
		return name
	}
	n = max(n, 1) - 1
	return string(runes[:(n+1)/2]) + "…" + string(runes[len(runes)-n/2:])
}

// shortenFront leaves out the beginning of a name longer than n.
func shortenFront(name string, n int) string {
	runes := []rune(name)
	if len(runes) <= n {
		return name
	}
	return "…" + string(runes[len(runes)-max(n, 1)+1:])
}

// shortenEnd leaves out the end of a text longer than n.
func shortenEnd(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:max(n, 1)-1]) + "…"
}

// percent writes a fraction in per cent.
func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + "%" }

// number writes a number to four significant digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// nats writes a likelihood.
func nats(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// seconds writes a duration, without its unit.
func seconds(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// facts are terms with their values.
type facts [][2]string

func (f *facts) add(term, value string) { *f = append(*f, [2]string{term, printable(value)}) }

// text returns a line for each fact, or several if it is long.
func (f facts) text() string {
	width := 0
	for _, fact := range f {
		width = max(width, utf8.RuneCountInString(fact[0]))
	}
	var b strings.Builder
	for _, fact := range f {
		b.WriteString(wrapText(fact[0]+strings.Repeat(" ", width+2-utf8.RuneCountInString(fact[0])), fact[1]))
	}
	return b.String()
}

// textWidth is the width that sentences are wrapped to.
const textWidth = 80

// wrapText wraps a text to textWidth: the first line begins with prefix, the others with as many blanks.
func wrapText(prefix, words string) string { return text.Wrap(textWidth, prefix, words) }

// oneLine returns a message on one printable line.
func oneLine(s string) string { return text.Line(s) }

// alternatives writes "a, b or c".
func alternatives[S ~string](names []S) string {
	var b strings.Builder
	for i, name := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}
