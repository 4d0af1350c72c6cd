// Package option names options in messages, in the words of their reader. A library writes
//
//	fmt.Errorf("%w: use %s to replace it", err, option.Force)
//
// A Go program reads the name of a field, "use Force to replace it", and the user of a command its flag, "use --force
// to replace it": see [Spell].
package option

import (
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
	Classes             Name = "Classes"
	Covariance          Name = "Covariance"
	FalseAlarm          Name = "FalseAlarm"
	Features            Name = "Features"
	Force               Name = "Force"
	KeepCurvature       Name = "KeepCurvature"
	Link                Name = "Link"
	Logits              Name = "Logits"
	MaxBad              Name = "MaxBad"
	Methods             Name = "Methods"
	Model               Name = "Model"
	NoModel             Name = "NoModel"
	OOD                 Name = "OOD"
	OODScore            Name = "OODScore"
	Out                 Name = "Out"
	Preprocess          Name = "Preprocess"
	PrecomputedFeatures Name = "PrecomputedFeatures"
	Resume              Name = "Resume"
	TargetCoverage      Name = "TargetCoverage"
	TargetError         Name = "TargetError"
	Train               Name = "Train"
	Val                 Name = "Val"
	ValOOD              Name = "ValOOD"
)

// All are the options that errors name.
var All = []Name{
	Alpha, Classes, Covariance, FalseAlarm, Features, Force, KeepCurvature, Link, Logits, MaxBad,
	Methods, Model, NoModel, OOD, OODScore, Out, PrecomputedFeatures, Preprocess, Resume,
	TargetCoverage, TargetError, Train, Val, ValOOD,
}

// Of returns the option whose flag has a name, such as ood-score. It panics if there is none in [All].
func Of(kebab string) Name {
	i := slices.IndexFunc(All, func(n Name) bool { return n.Kebab() == kebab })
	if i < 0 {
		panic("option: no error names the option " + kebab)
	}
	return All[i]
}

// wordEnd matches the boundary between two words of a name.
var wordEnd = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)

// Kebab returns a name in the form of flags: ood-score for OODScore.
func (n Name) Kebab() string {
	return strings.ToLower(wordEnd.ReplaceAllString(string(n), "$1$3-$2$4"))
}
