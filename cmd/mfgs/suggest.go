package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// didYouMean asks for the names that one may stand for, as a clause to end an error
// with; "" where none is near. Package cli always suggests one, however far.
func didYouMean(got, dashes string, names []string) string {
	near := nearest(got, names)
	if near == nil {
		return ""
	}
	for i, name := range near {
		near[i] = dashes + name
	}
	return ": did you mean " + alternatives(near) + "?"
}

// nearest returns those of some names that got is most likely a slip for, at most three: the fewest
// edits away, no more than a third of the letters, or else those that begin as it does.
func nearest(got string, names []string) []string {
	const most = 3
	got = strings.ReplaceAll(strings.ToLower(got), "_", "-")
	var near, longer []string
	least := max(1, len(got)/3)
	for _, name := range names {
		switch d := edits(got, name); {
		case d < least:
			near, least = []string{name}, d
		case d == least && d < len(got):
			near = append(near, name)
		}
		if len(got) > 1 && strings.HasPrefix(name, got) {
			longer = append(longer, name)
		}
	}
	if near == nil {
		near = longer
	}
	if len(near) > most {
		return nil
	}
	return near
}

// edits returns how many letters must be put in, left out, changed or exchanged with
// their neighbour, to get from a to b: the optimal string alignment distance.
func edits(a, b string) int {
	// Rows of the table of distances between the first letters of a and those of b.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// flagNames returns the names of all flags, help too.
func flagNames(flags []cli.Flag) []string {
	names := []string{"help"}
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	slices.Sort(names)
	return names
}
