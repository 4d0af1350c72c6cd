package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The build context of docs/serve/Dockerfile has every package that the command is built from, and no folder that has
// none of them.
func TestTheImageIsBuiltFromThePackagesOfTheCommand(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./cmd/mfgs")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		folder, kept := strings.CutPrefix(strings.TrimSpace(line), "!")
		if info, err := os.Stat(filepath.Join(root, folder)); kept && err == nil && info.IsDir() {
			folders = append(folders, folder)
		}
	}
	inside := func(p, folder string) bool { return strings.HasPrefix(p+"/", module+"/"+folder+"/") }
	for _, p := range packages {
		if p != module+"/models" && !slices.ContainsFunc(folders, func(f string) bool { return inside(p, f) }) {
			t.Errorf(".dockerignore leaves out %s, which the command needs", p)
		}
	}
	for _, f := range folders {
		if f != "models/digits-mlp" && !slices.ContainsFunc(packages, func(p string) bool { return inside(p, f) }) {
			t.Errorf(".dockerignore keeps %s, which has no package of the command", f)
		}
	}
}
