package main

import "strings"

// A markdownTable builds a table in Markdown.
type markdownTable struct{ b strings.Builder }

// numberTable begins a table of numbers; its first column is text.
func numberTable(head ...string) *markdownTable {
	t := new(markdownTable)
	t.row(head...)
	t.b.WriteString("|---" + strings.Repeat("|---:", len(head)-1) + "|\n")
	return t
}

// textTable begins a table of text.
func textTable(head ...string) *markdownTable {
	t := new(markdownTable)
	t.row(head...)
	t.b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	return t
}

func (t *markdownTable) row(cells ...string) {
	t.b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func (t *markdownTable) String() string { return t.b.String() }
