package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A word is one that names, comments, messages and documents do not use, and the field's word for it.
type word struct {
	pattern *regexp.Regexp
	use     string
}

// words matches whole words, without regard to case.
func words(pattern, use string) word {
	return word{regexp.MustCompile(`(?i)` + pattern), use}
}

// unused are the words. Keys of files that must stay readable, such as held_out, are no words.
var unused = []word{
	words(`unfamiliar`, "out-of-distribution, OOD"),
	words(`\bfamiliar`, "in-distribution"),
	words(`\bstrang`, "out-of-distribution, unusual"),
	words(`\bheld[- ]out\b`, "validation (data, examples)"),
	words(`\bstand-?ins?\b`, "synthetic OOD images; replacement"),
	words(`\bdoubt`, "uncertainty, uncertain"),
	words(`\btold\b`, "reported, notified"),
	words(`\btell(s|ing)?\b[^.|]{0,60}\bfrom\b`, "separates, detects; AUROC of A against B"),
	words(`\bbeyond chance\b`, "significant"),
	words(`\bmay be chance\b`, "not significant"),
	words(`\bpromis(e|es|ed|ing)\b`, "guarantee"),
	words(`\bbeliev`, "calibrated; assumed"),
	words(`\bready-made\b`, "precomputed"),
	words(`\bmend(s|ed|ing)?\b`, "fix"),
	words(`\bamiss\b`, "wrong"),
	words(`\banew\b`, "again"),
	words(`\bhangs? on\b`, "depends on"),
	words(`\bheld to be\b`, "assumed, flagged as"),
	words(`\bis said\b`, "is reported"),
	words(`\bwhose probabilities\b`, "which probabilities"),
	words(`\bthe network as it is\b`, "the network (uncalibrated)"),
}

// foreign are files and folders whose words are not ours to choose: data, what other programs wrote, bundles of older
// builds, and this list.
var foreign = []string{
	"LICENSE", "NOTICE", "testdata/lint/words_test.go", "wrap/bundle/testdata", "wrap/testdata", "docs/paper.json",
	"testdata/examples", "models/digits-mlp/drawings-names.txt",
}

// texts are the extensions of files that people read.
var texts = []string{".go", ".md", ".html", ".css", ".yaml", ".yml", ".json", ".txtar", ".sh", ".py", ".cff", ".js", ".mjs", ""}

// Names, comments, messages and documents use the words of the field, by which they are found and understood.
func TestTextsUseTheWordsOfTheField(t *testing.T) {
	files := 0
	var patterns []string
	for _, w := range unused {
		patterns = append(patterns, w.pattern.String())
	}
	any := regexp.MustCompile(strings.Join(patterns, "|"))
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if slices.Contains(foreign, name) || d.IsDir() && (d.Name() == "node_modules" || name != "." && d.Name() == ".git") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !slices.Contains(texts, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil || slices.Contains(text, 0) { // a program
			return err
		}
		files++
		if !any.Match(text) {
			return nil
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, w := range unused {
				found := w.pattern.FindString(line)
				if found == "" || found == "Promise" && slices.Contains([]string{".js", ".mjs", ".html"}, filepath.Ext(name)) {
					continue
				}
				t.Errorf("%s:%d: %q: use %s", name, i+1, found, w.use)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("only %d files were read: the test looks in the wrong place", files)
	}
}
