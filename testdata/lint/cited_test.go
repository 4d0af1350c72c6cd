package lint

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	citation = regexp.MustCompile(`\]\(([a-zA-Z0-9_./-]+\.md)?(?:#([^)]*))?\)`)
	// numeral is a number that is not part of a name, and its unit.
	numeral = regexp.MustCompile(`(?:^|[^\w.-])(\d[\d,]*(?:\.\d+)?|\.\d+)( %)?`)
)

// figures returns the numbers of a text, except single digits, without commas and without a zero before the point.
func figures(text string) (all []string) {
	for _, m := range numeral.FindAllStringSubmatch(text, -1) {
		f := strings.ReplaceAll(m[1], ",", "")
		if strings.HasPrefix(f, "0.") {
			f = f[1:]
		}
		if len(f) > 1 || m[2] != "" {
			all = append(all, f)
		}
	}
	return all
}

// section returns the text below the heading with an anchor, subsections included; "" is the whole page.
func section(page, anchor string) string {
	if anchor == "" {
		return page
	}
	begin, level := -1, 0
	for _, at := range heading.FindAllStringIndex(page, -1) {
		title := page[at[0]:at[1]]
		own := len(title) - len(strings.TrimLeft(title, "#"))
		switch {
		case begin >= 0 && own <= level:
			return page[begin:at[0]]
		case begin < 0 && anchors(title)[anchor]:
			begin, level = at[0], own
		}
	}
	if begin < 0 {
		return ""
	}
	return page[begin:]
}

// uncited lists the figures in a page's prose without a link after them in the same paragraph or list item, and those
// that are not in the section of the next link. Only whole numbers may be cited from a whole page, since a long page
// has almost any other figure. read returns a page.
func uncited(name, text string, read func(name string) string) (wrong []string, found int) {
	for _, block := range regexp.MustCompile(`\n\n|\n- `).Split(prose(text), -1) {
		if strings.HasPrefix(block, "|") || strings.HasPrefix(block, "#") {
			continue
		}
		block = inline.ReplaceAllString(block, "")
		from := 0
		for _, m := range citation.FindAllStringSubmatchIndex(block, -1) {
			page, anchor := "", ""
			if m[2] >= 0 {
				page = block[m[2]:m[3]]
			}
			if m[4] >= 0 {
				anchor = block[m[4]:m[5]]
			}
			source := cmp.Or(page, path.Base(name))
			there := figures(section(read(path.Join(path.Dir(name), source)), anchor))
			for _, f := range figures(block[from:m[0]]) {
				switch found++; {
				case anchor == "" && strings.Contains(f, "."):
					wrong = append(wrong, f+" is measured, and "+source+" is cited without a section")
				case !slices.Contains(there, f):
					wrong = append(wrong, f+" is not in "+source+"#"+anchor)
				}
			}
			from = m[1]
		}
		for _, f := range figures(block[from:]) {
			found++
			wrong = append(wrong, f+" has no source in: "+strings.Join(strings.Fields(block), " "))
		}
	}
	return wrong, found
}

// Figures quoted in prose are in the section cited after them. cmd/mfgs-paper checks those in tables.
func TestQuotedFiguresAreThoseOfTheirSources(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, of := range []struct {
		page, section string
		least         int
	}{{"docs/choosing.md", "", 15}, {"README.md", "what-it-does-to-a-network", 3}} {
		name := path.Join(filepath.ToSlash(root), of.page)
		wrong, found := uncited(name, section(read(name), of.section), read)
		for _, w := range wrong {
			t.Errorf("%s: %s", of.page, w)
		}
		if found < of.least {
			t.Errorf("%s: %d figures are quoted, want %d or more", of.page, found, of.least)
		}
	}
}

func TestUncitedFiguresAreFound(t *testing.T) {
	source := "# All\n12.5\n## Some figures\n97.2 and 1,000, 5 %\n### Below\n.75\n## Others\n98.6 of ResNet-20\n"
	read := func(string) string { return source }
	for text, want := range map[string]int{
		"97.2 of 1000 with 0.75 and 5 % ([a](a.md#some-figures)).":  0,
		"98.6 ([a](a.md#some-figures)).":                            1,
		"98.6 ([a](a.md)).":                                         1,
		"1,000 ([a](a.md)).":                                        0,
		"7.2 ([a](a.md)).":                                          1,
		"20 ([a](a.md)).":                                           1,
		"12.5 ([a](a.md#no-such-heading)).":                         1,
		"([a](a.md)) 97.2.":                                         1,
		"97.2\n\n([a](a.md)).":                                      1,
		"- 97.2\n- ([a](a.md)).":                                    1,
		"A ResNet-20, `--alpha 0.05`, two of 3 ([a](a.md#others)).": 0,
	} {
		if wrong, _ := uncited("b.md", text, read); len(wrong) != want {
			t.Errorf("%q: %q, want %d", text, wrong, want)
		}
	}
}
