// Package option makes errors whose messages name options, for Go programs and for commands. A library writes
//
//	option.Errorf("%w: use %s to replace it", err, option.Force)
//
// whose message has the name of the field: "use Force to replace it". A command prints the same message with its
// flags: see [Text].
package option

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Name is the name of a field in a Config, Options or Settings.
type Name string

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
	MaxOODScore         Name = "MaxOODScore"
	MaxUncertainty      Name = "MaxUncertainty"
	Methods             Name = "Methods"
	Model               Name = "Model"
	NoModel             Name = "NoModel"
	OOD                 Name = "OOD"
	OODScore            Name = "OODScore"
	Out                 Name = "Out"
	Preprocess          Name = "Preprocess"
	PrecomputedFeatures Name = "PrecomputedFeatures"
	Resume              Name = "Resume"
	TAct                Name = "TAct"
	TargetCoverage      Name = "TargetCoverage"
	TargetError         Name = "TargetError"
	TEns                Name = "TEns"
	Train               Name = "Train"
	Val                 Name = "Val"
	ValOOD              Name = "ValOOD"
)

// All are the options that errors name.
var All = []Name{
	Alpha, Classes, Covariance, FalseAlarm, Features, Force, KeepCurvature, Link, Logits, MaxBad, MaxOODScore,
	MaxUncertainty, Methods, Model, NoModel, OOD, OODScore, Out, PrecomputedFeatures, Preprocess, Resume, TAct,
	TargetCoverage, TargetError, TEns, Train, Val, ValOOD,
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

// Error is an error whose message names options.
type Error struct {
	format  string
	args    []any
	message error // with the names of fields
}

// Errorf is fmt.Errorf for a message with Names among its arguments.
func Errorf(format string, args ...any) *Error {
	return &Error{format, args, fmt.Errorf(format, args...)}
}

func (e *Error) Error() string { return e.message.Error() }

// Unwrap returns the errors of %w.
func (e *Error) Unwrap() []error {
	switch w := e.message.(type) {
	case interface{ Unwrap() error }:
		return []error{w.Unwrap()}
	case interface{ Unwrap() []error }:
		return w.Unwrap()
	}
	return nil
}

// words returns the message with each name replaced.
func (e *Error) words(of func(Name) string) string {
	args := make([]any, len(e.args))
	for i, arg := range e.args {
		if name, ok := arg.(Name); ok {
			arg = of(name)
		}
		args[i] = arg
	}
	return fmt.Errorf(e.format, args...).Error()
}

// Text returns the message of err, in which of replaces each name of an option, in wrapped errors too.
func Text(err error, of func(Name) string) string {
	text := err.Error()
	reword(err, func(e *Error) { text = strings.Replace(text, e.Error(), e.words(of), 1) })
	return text
}

// reword calls each for every Error in the tree of err. Outer ones come first: their new words still contain the old
// message of what they wrap.
func reword(err error, each func(*Error)) {
	if e := (*Error)(nil); errors.As(err, &e) {
		each(e)
		for _, inner := range e.Unwrap() {
			reword(inner, each)
		}
	}
}
