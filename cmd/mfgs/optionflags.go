package main

import "github.com/mfgs/mfgs/internal/option"

// Messages of libraries name options; those of this command name its flags.
func init() { option.Spell = flagOf }

// flagOf returns the flag of an option: --max-bad for MaxBad.
func flagOf(n option.Name) string {
	switch n {
	case option.PrecomputedFeatures:
		return "--train-features" // and for the other sets alike
	case option.Cache:
		return "--features-cache"
	case option.Kind:
		return "--head"
	}
	return "--" + n.Kebab()
}
