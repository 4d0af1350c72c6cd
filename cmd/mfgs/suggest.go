package main

import (
	"slices"

	"github.com/mfgs/mfgs/internal/text"
	"github.com/urfave/cli/v2"
)

// didYouMean returns ": did you mean …?" with similar names, "" if there are none. Package cli suggests a name
// however different.
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

// flagNames returns the sorted names of all flags, help included.
func flagNames(flags []cli.Flag) []string {
	names := []string{"help"}
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	slices.Sort(names)
	return names
}
