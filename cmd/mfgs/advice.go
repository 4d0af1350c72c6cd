package main

import "github.com/mfgs/mfgs/internal/option"

// message is that of an error, with flags for the options that it names.
func message(err error) string { return option.Text(err, flagOf) }

// flagOf is the flag of an option: MaxBad is --max-bad.
func flagOf(n option.Name) string {
	if n == option.PrecomputedFeatures {
		return "--train-features" // and its like
	}
	return "--" + n.Kebab()
}
