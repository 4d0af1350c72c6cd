package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/cli.md is the output of mfgs help; -update writes it.
func TestReferenceIsTheHelp(t *testing.T) {
	t.Parallel()
	const file = "../../docs/cli.md"
	var b strings.Builder
	b.WriteString("# Commands\n\nThis page is the output of `mfgs help` for every command. `mfgs man` prints the same as a manual page.\n")
	section := func(title string, args ...string) {
		code, help, stderr := invoke(t.Context(), args...)
		if code != 0 || help == "" {
			t.Fatalf("mfgs %s: status %d, %s", strings.Join(args, " "), code, stderr)
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", title, strings.TrimSpace(help))
	}
	section("mfgs", "help")
	for _, c := range new(program).app().Commands {
		section("mfgs "+c.Name, "help", c.Name)
	}
	if *updateDocs {
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.String() {
		t.Errorf("%s is not what mfgs help says: go test ./cmd/mfgs -run TestReferenceIsTheHelp -update writes it", file)
	}
}
