package main

import (
	"slices"

	"github.com/mfgs/mfgs/internal/text"
	"github.com/urfave/cli/v2"
)

// didYouMean asks for the names that one may stand for, as a clause to end an error
// with; "" where none is near. Package cli always suggests one, however far.
func didYouMean(got, dashes string, names []string) string {
	near := text.Nearest(got, names)
	if near == nil {
		return ""
	}
	for i, name := range near {
		near[i] = dashes + name
	}
	return ": did you mean " + alternatives(near) + "?"
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
