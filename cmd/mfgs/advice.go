package main

import "github.com/mfgs/mfgs/internal/option"

// message returns the message of an error, with flags for the options it names.
func message(err error) string { return option.Text(err, flagOf) }

// flagOf returns the flag of an option: --max-bad for MaxBad.
func flagOf(n option.Name) string {
	if n == option.PrecomputedFeatures {
		return "--train-features" // and for the other sets alike
	}
	return "--" + n.Kebab()
}
