package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestDocumentedCommands runs what the README and docs show in ```console
// fences: lines that begin with "$ mfgs " or "mfgs ", with what follows a \ at
// their end. They run in order, each file in a folder of its own that holds the
// repository's models.
func TestDocumentedCommands(t *testing.T) {
	lib, err := ort.Find(ort.SetupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commands := documentedCommands(string(text))
		if len(commands) == 0 {
			if filepath.Base(file) == "README.md" {
				t.Errorf("%s: no command found", file)
			}
			continue
		}
		var script strings.Builder
		for _, c := range commands {
			fmt.Fprintf(&script, "exec sh -e -c '%s'\n", strings.ReplaceAll(c, "'", "''"))
		}
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		path := filepath.Join(t.TempDir(), name+".txtar")
		if err := os.WriteFile(path, []byte(script.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		testscript.Run(t, testscript.Params{
			Files: []string{path},
			Setup: func(env *testscript.Env) error {
				env.Setenv(ort.EnvLibrary, lib.Path)
				env.Setenv(ort.EnvNoInstall, "1")
				return os.CopyFS(filepath.Join(env.WorkDir, "models"), os.DirFS("../../models"))
			},
		})
	}
}

func documentedCommands(text string) []string {
	var commands []string
	fenced, continued := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if fence := strings.TrimSpace(line); strings.HasPrefix(fence, "```") {
			fenced, continued = fence == "```console", false
			continue
		}
		if !fenced {
			continue
		}
		switch command := strings.TrimPrefix(line, "$ "); {
		case continued:
			last := &commands[len(commands)-1]
			*last = strings.TrimSuffix(*last, `\`) + strings.TrimSpace(line)
		case strings.HasPrefix(command, "mfgs "):
			commands = append(commands, command)
		default:
			continue // a command of another program, or output
		}
		continued = strings.HasSuffix(line, `\`)
	}
	return commands
}

func TestCommandsAreFoundInDocumentation(t *testing.T) {
	got := documentedCommands("$ mfgs a\n```console\n$ mfgs b 'x y' \\\n    --flag\noutput\n$ make c\nmfgs d\n```\n```go\nmfgs e\n```\n")
	want := []string{"mfgs b 'x y' --flag", "mfgs d"}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%q, want %q", got, want)
	}
}
