package lint

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The first screen of the README says what to install, and has the commands of the demo and the tests.
func TestTheReadmeBeginsWithTheSetUp(t *testing.T) {
	const screen = 25 // lines
	text := readText(t, "../../README.md")
	lines := strings.Split(text, "\n")[:screen]
	var commands []string
	for _, line := range lines {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			command, _, _ = strings.Cut(command, "#")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	want := []string{"git clone https://" + module, "cd mfgs", "make demo", "make test"}
	if len(commands) < len(want) || !slices.Equal(commands[:len(want)], want) {
		t.Errorf("the first %d lines of the README have the commands %q, want %q", screen, commands, want)
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readText(t, "../../go.mod"))
	if goVersion == nil {
		t.Fatal("go.mod has no version of Go")
	}
	for _, need := range []string{"git", "Go " + goVersion[1], "C compiler", "make"} {
		if !strings.Contains(strings.Join(lines, "\n"), need) {
			t.Errorf("the first %d lines of the README do not say that it takes %s", screen, need)
		}
	}
	makefile := readText(t, "../../Makefile")
	for _, target := range []string{"demo", "test"} {
		if !strings.Contains(makefile, "\n"+target+": ") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fileName is the first line of a fenced file, which cmd/mfgs runs.
var fileName = regexp.MustCompile(`^(?://|#) ([a-z0-9_]+\.[a-z]+)$`)

// Go code in documents is in an example_test.go, which go test runs, or in a program that TestDocumentedCommands of
// cmd/mfgs runs.
func TestGoInDocumentsRuns(t *testing.T) {
	var examples strings.Builder
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file.path, "example_test.go") {
			examples.WriteString(unindented(string(file.text)))
		}
	}
	found := 0
	for name, text := range documents(t) {
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			if first, _, _ := strings.Cut(block[1], "\n"); fileName.MatchString(first) {
				continue
			}
			found++
			if !strings.Contains(examples.String(), "\n"+unindented(block[1])) {
				t.Errorf("%s: these lines are in no example_test.go:\n%s", name, block[1])
			}
		}
	}
	if found == 0 {
		t.Error("no Go found")
	}
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// unindented removes white space at the ends of lines.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
