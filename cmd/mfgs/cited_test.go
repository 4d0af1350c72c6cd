package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	citation = regexp.MustCompile(`\]\(([a-zA-Z0-9_./-]+\.md)(?:#[^)]*)?\)`)
	fraction = regexp.MustCompile(`\d*\.\d+`)
)

// The figures that a page quotes are in the page that it names behind them; those of a table in one that is
// named just before it or after.
func TestQuotedFiguresAreThoseOfTheirSources(t *testing.T) {
	const page = "../../docs/choosing.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]map[string]bool{} // figures, by page
	has := func(link, figure string) bool {
		name := path.Join(path.Dir(filepath.ToSlash(page)), link)
		if sources[name] == nil {
			source, err := os.ReadFile(filepath.FromSlash(name))
			if err != nil {
				t.Fatal(err)
			}
			sources[name] = map[string]bool{}
			for _, f := range fraction.FindAllString(string(source), -1) {
				sources[name][strings.TrimPrefix(f, "0")] = true
			}
		}
		return sources[name][strings.TrimPrefix(figure, "0")]
	}
	blocks := regexp.MustCompile(`\n\n|\n- `).Split(string(text), -1)
	links := func(i int) (all []string) {
		if i < 0 || i >= len(blocks) {
			return nil
		}
		for _, m := range citation.FindAllStringSubmatch(blocks[i], -1) {
			all = append(all, m[1])
		}
		return all
	}
	quoted := 0
	for i, block := range blocks {
		if strings.HasPrefix(block, "|") {
			near := slices.Concat(links(i-1), links(i+1))
			for _, f := range fraction.FindAllString(block, -1) {
				if quoted++; !slices.ContainsFunc(near, func(link string) bool { return has(link, f) }) {
					t.Errorf("%s is in a table, and in none of %v", f, near)
				}
			}
			continue
		}
		from := 0
		for _, m := range citation.FindAllStringSubmatchIndex(block, -1) {
			link := block[m[2]:m[3]]
			for _, f := range fraction.FindAllString(block[from:m[0]], -1) {
				if quoted++; !has(link, f) {
					t.Errorf("%s is quoted of %s, which has no such figure: %s", f, link, strings.Join(strings.Fields(block), " "))
				}
			}
			from = m[1]
		}
	}
	if quoted < 40 {
		t.Errorf("%d figures are quoted, want those of the page", quoted)
	}
}
