package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// installation matches a line that installs Python packages.
var installation = regexp.MustCompile(`(?m)^(?:    |\t|\$ )?[^|\x60\n]*\bpip install +(.*)$`)

// installed maps pages that name packages to the requirements that their test installs.
var installed = map[string]string{
	"docs/scale.md": "testdata/spark/requirements.txt",
}

// A page installs what its test installs: an existing file of requirements, or exactly the packages of the test's.
func TestPagesSayToInstallWhatTheirTestsInstall(t *testing.T) {
	found := 0
	for page, text := range documents(t) {
		var packages []string
		for _, line := range installation.FindAllStringSubmatch(text, -1) {
			found++
			words := strings.Fields(strings.SplitN(line[1], " #", 2)[0])
			if i := slices.Index(words, "-r"); i >= 0 {
				if file := filepath.Join(root, filepath.Dir(page), words[i+1]); len(requirements(t, file)) == 0 {
					t.Errorf("%s: %s names no packages", page, words[i+1])
				}
				continue
			}
			option := func(word string) bool { return strings.HasPrefix(word, "-") }
			packages = append(packages, slices.DeleteFunc(words, option)...)
		}
		if len(packages) == 0 {
			continue
		}
		slices.Sort(packages)
		if file := installed[page]; file == "" {
			if !strings.HasPrefix(page, "testdata/") {
				t.Errorf("%s says to install %s: name the file that its test installs here", page, packages)
			}
		} else if want := requirements(t, filepath.Join(root, file)); !slices.Equal(packages, want) {
			t.Errorf("%s says to install %s, and %s has %s", page, packages, file, want)
		}
	}
	if found < 5 {
		t.Errorf("%d installations found, want at least 5", found)
	}
}

// requirements lists the packages of a file, sorted.
func requirements(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	packages := strings.Fields(regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(string(text), ""))
	slices.Sort(packages)
	return packages
}
