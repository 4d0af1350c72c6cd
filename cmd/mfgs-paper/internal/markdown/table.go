// Package markdown writes tables of Markdown.
package markdown

import "strings"

// A Table is a table of Markdown.
type Table struct{ b strings.Builder }

// NewTable is a table of numbers, whose first column are words.
func NewTable(head ...string) *Table {
	t := new(Table)
	t.Row(head...)
	t.b.WriteString("|---" + strings.Repeat("|---:", len(head)-1) + "|\n")
	return t
}

// NewList is a table of words.
func NewList(head ...string) *Table {
	t := new(Table)
	t.Row(head...)
	t.b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	t.b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// String is the Markdown.
func (t *Table) String() string { return t.b.String() }
