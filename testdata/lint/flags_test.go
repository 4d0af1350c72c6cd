package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/option"
)

// flagName matches a flag in the reference or in a message.
var flagName = regexp.MustCompile(`--[a-z][a-z-]*`)

// inProse removes the words of prose that look like options.
var inProse = strings.NewReplacer("false-alarm rate", "", "class-conditional sets", "")

// Messages of a library name options, not flags, since other programs use it too. internal/option lets the command
// replace them. Nor does one spell an option as flags do: target-error. Only a comment in a generated file may name a
// command line.
func TestNoMessageOfALibraryNamesAFlag(t *testing.T) {
	flags := map[string]bool{}
	for _, flag := range flagName.FindAllString(readText(t, root+"/docs/cli.md"), -1) {
		flags[flag] = true
	}
	if !flags["--max-bad"] || !flags["--out"] {
		t.Fatal("docs/cli.md has not the flags of mfgs")
	}
	var kebab []string
	for _, name := range option.All {
		if word := name.Kebab(); strings.Contains(word, "-") {
			kebab = append(kebab, word)
		}
	}
	words := regexp.MustCompile(`(?:^|[^a-z-])(` + strings.Join(kebab, "|") + `)(?:$|[^a-z-])`)
	for _, f := range goFiles(t) {
		if f.test || strings.HasPrefix(f.path, "cmd/") || f.pkg == "internal/demo" { // the demonstration is a command
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !strings.HasPrefix(lit.Value, `"# `) {
				for _, flag := range flagName.FindAllString(lit.Value, -1) {
					if flags[flag] {
						t.Errorf("%s:%d: %s is a flag of mfgs: name the option, by internal/option", f.path, f.line(lit.Pos()), flag)
					}
				}
				for _, found := range words.FindAllStringSubmatch(inProse.Replace(lit.Value), -1) {
					t.Errorf("%s:%d: %s is an option: name it by internal/option", f.path, f.line(lit.Pos()), found[1])
				}
				if strings.Contains(lit.Value, "--%") || lit.Value == `"--"` {
					t.Errorf("%s:%d: %s makes a flag", f.path, f.line(lit.Pos()), lit.Value)
				}
			}
			return true
		})
	}
}
