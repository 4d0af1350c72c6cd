package lint

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// generated are the pages that a command writes: they are the sources of quoted figures and quote none.
var generated = []string{"docs/cli.md", "docs/paper.md", "docs/coverage.md", "docs/benchmarks.md", "docs/evidence/*.md"}

// isGenerated reports whether a page is generated.
func isGenerated(page string) bool {
	return slices.ContainsFunc(generated, func(pattern string) bool {
		ok, err := path.Match(pattern, page)
		return ok && err == nil
	})
}

var (
	// quote matches a quoted figure: [98.0](paper.md#section "row · column").
	quote = regexp.MustCompile(`\[([^\][]*)\]\(([^()\s#]*)#([^()\s]*) "([^"]*)"\)`)
	// decimal matches a figure with a decimal point.
	decimal = regexp.MustCompile(`(?:^|[^\w.])(-?\d+\.\d+)(?:[^\w.]|\.?$|\.\s)`)
	number  = regexp.MustCompile(`[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?`)
)

// section returns the text below the heading with an anchor, subsections included.
func section(page, anchor string) (string, error) {
	begin, level := -1, 0
	for _, at := range heading.FindAllStringIndex(page, -1) {
		title := page[at[0]:at[1]]
		own := len(title) - len(strings.TrimLeft(title, "#"))
		switch {
		case begin >= 0 && own <= level:
			return page[begin:at[0]], nil
		case begin < 0 && anchors(title)[anchor]:
			begin, level = at[0], own
		}
	}
	if begin < 0 {
		return "", fmt.Errorf("no heading #%s", anchor)
	}
	return page[begin:], nil
}

// plain removes emphasis, code marks and units from a cell.
func plain(cell string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("*", "", "`", "").Replace(cell)), " ")
}

// cells splits a line of a table.
func cells(line string) []string {
	all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range all {
		all[i] = plain(all[i])
	}
	return all
}

// lookUp returns the first number in a cell of a section: of the first table with such a row and column, whose caption,
// the last line of text before it, contains caption.
func lookUp(text, row, column, caption string) (float64, error) {
	var last string
	head, fits := []string(nil), false
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			if head = nil; strings.TrimSpace(line) != "" {
				last = line
			}
			continue
		}
		now := cells(line)
		if head == nil {
			head, fits = now, strings.Contains(last, caption)
			continue
		}
		at := slices.Index(head, column)
		if !fits || at < 0 || at >= len(now) || now[0] != row {
			continue
		}
		first := number.FindString(now[at])
		if first == "" {
			return 0, fmt.Errorf("row %q has no number in column %q: %q", row, column, now[at])
		}
		return strconv.ParseFloat(strings.ReplaceAll(first, ",", ""), 64)
	}
	return 0, fmt.Errorf("no table has a row %q and a column %q", row, column)
}

// sourceOf returns the figure that a quote of a page names by its key, rounded to the digits that are quoted.
func sourceOf(page, quoted, file, anchor, key string, read func(string) (string, error)) (string, error) {
	of := path.Join(path.Dir(page), file)
	if !isGenerated(of) {
		return "", fmt.Errorf("%s is not a page of evidence", of)
	}
	parts := strings.Split(key, " · ")
	if len(parts) < 2 || len(parts) > 3 {
		return "", errors.New(`the key is not "row · column" or "row · column · caption"`)
	}
	text, err := read(of)
	if err != nil {
		return "", err
	}
	if text, err = section(text, anchor); err != nil {
		return "", fmt.Errorf("%s: %w", of, err)
	}
	v, err := lookUp(text, parts[0], parts[1], append(parts, "")[2])
	if err != nil {
		return "", fmt.Errorf("%s#%s: %w", of, anchor, err)
	}
	_, digits, _ := strings.Cut(quoted, ".")
	return strconv.FormatFloat(roundTo(v, len(digits)), 'f', len(digits), 64), nil
}

// roundTo rounds half away from zero, as decimal notation is read.
func roundTo(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale+math.Copysign(1e-9, v)) / scale
}

// requote returns the page with each quoted figure as its source has it, and what was wrong.
func requote(page, text string, read func(string) (string, error)) (string, []string) {
	var wrong []string
	text = quote.ReplaceAllStringFunc(text, func(whole string) string {
		m := quote.FindStringSubmatch(whole)
		want, err := sourceOf(page, m[1], m[2], m[3], m[4], read)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("[%s] %q: %v", m[1], m[4], err))
			return whole
		}
		if got := strings.ReplaceAll(m[1], ",", ""); got != want {
			wrong = append(wrong, fmt.Sprintf("quotes %s for %q of %s#%s, which is %s", m[1], m[4], m[2], m[3], want))
			return strings.Replace(whole, "["+m[1]+"]", "["+want+"]", 1)
		}
		return whole
	})
	return text, wrong
}

// exact are decimals in prose that nobody measured.
var exact = map[string][]string{
	"README.md":            {"1.26", "2.0"},
	"docs/guide.md":        {"0.7", "0.1"},
	"docs/alternatives.md": {"1.24"},
}

// unquoted lists the decimals in prose and tables that are in no quote.
func unquoted(page, text string) (found []string) {
	text = target.ReplaceAllString(inline.ReplaceAllString(quote.ReplaceAllString(prose(text), " "), " "), "]")
	for _, m := range decimal.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(exact[page], m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}

// A figure that a page quotes is a link to its place in a page of evidence, with its row and column as the key:
// -update writes the figures of the sources into the pages. The README and the guide quote all their figures so.
func TestQuotedFiguresAreThoseOfTheirSources(t *testing.T) {
	texts := documents(t)
	read := func(page string) (string, error) {
		text, ok := texts[page]
		if !ok {
			return "", fmt.Errorf("there is no %s", page)
		}
		return text, nil
	}
	quotes := 0
	for page, text := range texts {
		if isGenerated(page) {
			continue
		}
		quotes += len(quote.FindAllString(text, -1))
		now, wrong := requote(page, text, read)
		if *update && now != text {
			if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(page)), []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", page, w)
		}
	}
	if quotes < 40 {
		t.Errorf("%d figures are quoted, want at least 40", quotes)
	}
	for _, page := range []string{"README.md", "docs/guide.md", "docs/alternatives.md"} {
		for _, figure := range unquoted(page, texts[page]) {
			t.Errorf("%s: %s has no source: want a link with the row and column of a page of evidence", page, figure)
		}
	}
}

func TestQuotesAreLookedUpByTheirKeys(t *testing.T) {
	pages := map[string]string{"docs/paper.md": "# A\n## B\nOf x:\n\n| | NLL | ECE % |\n|---|---|---|\n| **mf0** | 0.0478 ± 0.001 | 0.31 |\n" +
		"\nOf y:\n\n| | NLL |\n|---|---|\n| mf0 | 1,234.5 |\n| `a`, b | – |\n## C\n| | NLL |\n|---|---|\n| ts | 7 |\n"}
	read := func(page string) (string, error) { return pages[page], nil }
	for link, want := range map[string]string{
		`[0.048](paper.md#b "mf0 · NLL")`:            "",
		`[0.0478](paper.md#b "mf0 · NLL")`:           "",
		`[1234.5](paper.md#b "mf0 · NLL · Of y")`:    "",
		`[1,234.5](paper.md#b "mf0 · NLL · Of y")`:   "",
		`[0.047](paper.md#b "mf0 · NLL")`:            "which is 0.048",
		`[0.31](paper.md#b "mf0 · ECE %")`:           "",
		`[7](paper.md#b "ts · NLL")`:                 `no table has a row "ts"`,
		`[7](paper.md#a "ts · NLL")`:                 "",
		`[0.31](paper.md#b "mf0 · ECE")`:             `and a column "ECE"`,
		`[0.31](paper.md#b "mf0 · NLL · Of z")`:      "no table",
		`[1](paper.md#b "a, b · NLL")`:               "has no number",
		`[1](paper.md#d "mf0 · NLL")`:                "no heading #d",
		`[1](guide.md#b "mf0 · NLL")`:                "not a page of evidence",
		`[1](paper.md#b "mf0")`:                      "the key is not",
		`[1](paper.md#b "mf0 · NLL · Of y · again")`: "the key is not",
	} {
		_, wrong := requote("docs/guide.md", link, read)
		if got := strings.Join(wrong, " "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
	now, _ := requote("docs/guide.md", `[0.1](paper.md#b "mf0 · ECE %")`, read)
	if want := `[0.3](paper.md#b "mf0 · ECE %")`; now != want {
		t.Errorf("corrected to %s, want %s", now, want)
	}
	text := "A 97.2 and `0.5`, [98.0](paper.md#b \"mf0 · NLL\").\n\n    0.25\n\n| 1.5 |\nGo 1.26"
	if got := unquoted("docs/other.md", text); !slices.Equal(got, []string{"97.2", "1.5", "1.26"}) {
		t.Errorf("unquoted: %q", got)
	}
}
