// Package option names options in messages, in the words of their reader. A library writes
//
//	fmt.Errorf("%w: use %s to replace it", err, option.Force)
//
// A Go program reads the name of a field, "use Force to replace it", and the user of a command its flag, "use --force
// to replace it": see [Spell].
package option

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Spell returns the name of an option in messages: that of the field in a Config, Options or Settings. A command
// replaces it when it starts, by a function that returns flags.
var Spell = func(n Name) string { return string(n) }

// A Name is the name of a field in a Config, Options or Settings. Formatted, it is spelled by [Spell].
type Name string

// String spells the name for messages.
func (n Name) String() string { return Spell(n) }

// The options that errors name.
const (
	Alpha               Name = "Alpha"
	Alphabet            Name = "Alphabet"
	Approximate         Name = "Approximate"
	Batch               Name = "Batch"
	Bins                Name = "Bins"
	Cache               Name = "Cache"
	ClassConditional    Name = "ClassConditional"
	Classes             Name = "Classes"
	Confidence          Name = "Confidence"
	Covariance          Name = "Covariance"
	Damping             Name = "Damping"
	FalseAlarm          Name = "FalseAlarm"
	Features            Name = "Features"
	Fix                 Name = "Fix"
	Force               Name = "Force"
	KeepClass           Name = "KeepClass"
	KeepCurvature       Name = "KeepCurvature"
	Kind                Name = "Kind"
	Limit               Name = "Limit"
	Link                Name = "Link"
	Logits              Name = "Logits"
	MaxBad              Name = "MaxBad"
	MaxBody             Name = "MaxBody"
	Methods             Name = "Methods"
	Model               Name = "Model"
	NoModel             Name = "NoModel"
	NoProbe             Name = "NoProbe"
	OOD                 Name = "OOD"
	OODScore            Name = "OODScore"
	Out                 Name = "Out"
	Output              Name = "Output"
	Posterior           Name = "Posterior"
	PrecomputedFeatures Name = "PrecomputedFeatures"
	Preprocess          Name = "Preprocess"
	Prior               Name = "Prior"
	Provider            Name = "Provider"
	Resume              Name = "Resume"
	Sets                Name = "Sets"
	Shard               Name = "Shard"
	State               Name = "State"
	Structure           Name = "Structure"
	TargetCoverage      Name = "TargetCoverage"
	TargetError         Name = "TargetError"
	Threads             Name = "Threads"
	Train               Name = "Train"
	Val                 Name = "Val"
	ValOOD              Name = "ValOOD"
)

// All are the options that errors name.
var All = []Name{
	Alpha, Alphabet, Approximate, Batch, Bins, Cache, ClassConditional, Classes, Confidence, Covariance, Damping,
	FalseAlarm, Features, Fix, Force, KeepClass, KeepCurvature, Kind, Limit, Link, Logits, MaxBad, MaxBody, Methods,
	Model, NoModel, NoProbe, OOD, OODScore, Out, Output, Posterior, PrecomputedFeatures, Preprocess, Prior, Provider,
	Resume, Sets, Shard, State, Structure, TargetCoverage, TargetError, Threads, Train, Val, ValOOD,
}

// wordEnd matches the boundary between two words of a name.
var wordEnd = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)

// Kebab returns a name in the form of flags: ood-score for OODScore.
func (n Name) Kebab() string {
	return strings.ToLower(wordEnd.ReplaceAllString(string(n), "$1$3-$2$4"))
}

// Key returns the key of an option in the YAML of jobs, parts and bundles: ood_score for OODScore.
func (n Name) Key() string {
	switch n {
	case Approximate:
		return "approximation"
	case Cache:
		return "features_cache"
	case Classes:
		return "labels"
	}
	return strings.ReplaceAll(n.Kebab(), "-", "_")
}

// Errorf is [fmt.Errorf] for an error about options, such as a value that one cannot have. Its names are arguments, of
// type Name, or in errors of Errorf that are arguments.
func Errorf(format string, args ...any) error {
	return &optionError{fmt.Errorf(format, args...), format, args}
}

type optionError struct {
	error
	format string
	args   []any
}

func (e *optionError) Unwrap() error { return errors.Unwrap(e.error) }

// Respell spells the names in an error of [Errorf] in another way: for a value from a file by the file's keys. It
// returns any other error as it is.
func Respell(err error, spell func(Name) string) error {
	e, ok := err.(*optionError)
	if !ok {
		return err
	}
	args := slices.Clone(e.args)
	for i, arg := range args {
		switch a := arg.(type) {
		case Name:
			args[i] = spell(a)
		case error:
			args[i] = Respell(a, spell)
		}
	}
	return fmt.Errorf(e.format, args...)
}
