package option_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strconv"
	"testing"

	"github.com/mfgs/mfgs/internal/option"
)

func TestAMessageNamesFieldsToProgramsAndFlagsToUsersOfACommand(t *testing.T) {
	if got := fmt.Sprintf("use %s", option.OODScore); got != "use OODScore" {
		t.Errorf("a program reads %q", got)
	}
	defer func(before func(option.Name) string) { option.Spell = before }(option.Spell)
	option.Spell = func(n option.Name) string { return "--" + n.Kebab() }
	if got := fmt.Errorf("use %s", option.OODScore).Error(); got != "use --ood-score" {
		t.Errorf("the user of a command reads %q", got)
	}
}

func TestAnErrorIsRespelledWithWhatItWraps(t *testing.T) {
	key := func(n option.Name) string { return "<" + n.Kebab() + ">" }
	inner := option.Errorf("%s %d is negative: %w", option.MaxBad, -1, io.EOF)
	outer := option.Errorf("of %s: %w, not %s", option.OOD, inner, option.Limit)
	if got := outer.Error(); got != "of OOD: MaxBad -1 is negative: EOF, not Limit" {
		t.Errorf("by itself %q", got)
	}
	got := option.Respell(outer, key)
	if got.Error() != "of <ood>: <max-bad> -1 is negative: EOF, not <limit>" {
		t.Errorf("respelled %q", got)
	}
	for _, err := range []error{inner, outer, got} {
		if !errors.Is(err, io.EOF) {
			t.Errorf("%v is not the error that it wraps", err)
		}
	}
	if option.Respell(io.EOF, key) != io.EOF || option.Respell(nil, key) != nil {
		t.Error("another error is changed")
	}
}

func TestKeysAreThoseOfYAML(t *testing.T) {
	for name, want := range map[option.Name]string{
		option.MaxBad: "max_bad", option.OODScore: "ood_score", option.Cache: "features_cache", option.Classes: "labels",
		option.Approximate: "approximation", option.Damping: "damping",
	} {
		if got := name.Key(); got != want {
			t.Errorf("%s: %s, want %s", string(name), got, want)
		}
	}
}

// The names are written down twice, as constants and in All, whose flags tests look for.
func TestAllHasEveryName(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "option.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			name, _ := strconv.Unquote(value.Value)
			if n++; spec.Names[0].Name != name || !slices.Contains(option.All, option.Name(name)) {
				t.Errorf("%s = %q: want its own name, and its place in All", spec.Names[0].Name, name)
			}
		}
		return true
	})
	if n != len(option.All) {
		t.Errorf("%d constants, %d names in All", n, len(option.All))
	}
}
