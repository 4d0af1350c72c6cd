package option_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
