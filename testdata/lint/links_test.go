package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	// inline matches inline code.
	inline = regexp.MustCompile("`[^`\n]*`")
	// target matches the target of a link or picture.
	target = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// heading matches a heading and its text.
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
)

// documents returns the Markdown files by path from the root, without those in testdata folders of packages.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() && d.Name() == "testdata" && filepath.Dir(file) != root {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		texts[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// prose removes fenced and indented code.
func prose(text string) string {
	var kept []string
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced && !strings.HasPrefix(line, "    ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// anchors returns the anchors that GitHub makes for headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{"": true}
	for _, h := range heading.FindAllStringSubmatch(prose(text), -1) {
		words := target.ReplaceAllString(strings.NewReplacer("[", "", "`", "", "*", "").Replace(h[1]), "")
		var b strings.Builder
		for _, r := range strings.ToLower(words) {
			switch {
			case r == ' ':
				b.WriteRune('-')
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				b.WriteRune(r)
			}
		}
		all[b.String()] = true
	}
	return all
}

// Every link inside the repository leads to a file, a heading or a package.
func TestLinksLeadSomewhere(t *testing.T) {
	const packages = "https://pkg.go.dev/github.com/mfgs/mfgs"
	texts := documents(t)
	followed := 0
	for name, text := range texts {
		for _, l := range target.FindAllStringSubmatch(inline.ReplaceAllString(prose(text), ""), -1) {
			path, anchor, _ := strings.Cut(l[1], "#")
			to := filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			switch inside, ours := strings.CutPrefix(path, packages); {
			case ours:
				to, anchor = strings.TrimPrefix(inside, "/"), ""
			case strings.Contains(path, ":"):
				continue
			case path == "":
				to = name
			}
			followed++
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: a link to %s: there is no %s", name, l[1], to)
			} else if text, ok := texts[to]; anchor != "" && (!ok || !anchors(text)[anchor]) {
				t.Errorf("%s: a link to %s: %s has no heading %q", name, l[1], to, anchor)
			}
		}
	}
	if followed < 100 {
		t.Errorf("%d links found, want at least 100", followed)
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	got := anchors("# `mfgs eval`: a [link](x.md), *too*\n```\n# none\n```\n## Several machines, and more data later\n### int8\n")
	for _, want := range []string{"mfgs-eval-a-link-too", "several-machines-and-more-data-later", "int8"} {
		if !got[want] {
			t.Errorf("no %q among %v", want, got)
		}
	}
	if got["none"] {
		t.Error("a comment in code is taken for a heading")
	}
}
