package report

import (
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
)

// writeMarkdown writes the text and the tables of the page, those of figures folded.
func writeMarkdown(w io.Writer, p *page) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", escape(p.Headline))
	for _, s := range p.Verdict {
		fmt.Fprintf(&b, "- %s\n", escape(s))
	}
	for _, c := range p.Caveats {
		fmt.Fprintf(&b, "\n> %s\n", escape(c))
	}
	for _, s := range p.Sections {
		fmt.Fprintf(&b, "\n### %s\n", escape(s.Title))
		for _, l := range s.Lead {
			fmt.Fprintf(&b, "\n%s\n", escape(l))
		}
		for _, t := range s.Tables {
			writeTable(&b, t)
		}
		for _, f := range s.Figures {
			if len(f.Table.Rows) == 0 {
				continue
			}
			fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n", escapeHTML(f.Title))
			if f.Caption != "" {
				fmt.Fprintf(&b, "\n%s\n", escape(f.Caption))
			}
			writeTable(&b, f.Table)
			b.WriteString("\n</details>\n")
		}
		for _, g := range s.Galleries {
			writeGallery(&b, g)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeTable(b *strings.Builder, t table) {
	if t.Caption != "" {
		fmt.Fprintf(b, "\n%s\n", escape(t.Caption))
	}
	b.WriteString("\n|")
	for _, h := range t.Head {
		fmt.Fprintf(b, " %s |", escape(h))
	}
	b.WriteString("\n|" + "---|" + strings.Repeat("---:|", max(0, len(t.Head)-1)) + "\n")
	for _, row := range t.Rows {
		b.WriteString("|")
		for _, c := range row {
			s := escape(c.Text)
			if c.Significant {
				s += `\*`
			}
			if c.Interval != "" {
				s += " (" + escape(c.Interval) + ")"
			}
			fmt.Fprintf(b, " %s |", s)
		}
		b.WriteString("\n")
	}
	if t.Note != "" {
		fmt.Fprintf(b, "\n%s\n", escape(t.Note))
	}
}

// writeGallery lists the examples by name, with texts and values but without pictures.
func writeGallery(b *strings.Builder, g gallery) {
	fmt.Fprintf(b, "\n<details><summary>%s</summary>\n\n%s\n\n", escapeHTML(g.Title), escape(g.Lead))
	for _, c := range g.Cards {
		fmt.Fprintf(b, "- %s: %s\n", escape(c.Name), escape(pairs(c.Facts)))
		for _, content := range []string{c.Text, pairs(c.Values)} {
			if content != "" {
				fmt.Fprintf(b, "  > %s\n", escape(content))
			}
		}
		if c.More != "" && c.Picture == "" {
			fmt.Fprintf(b, "  > %s\n", escape(c.More))
		}
	}
	b.WriteString("\n</details>\n")
}

// pairs writes terms with their values.
func pairs(list [][2]string) string {
	all := make([]string, len(list))
	for i, p := range list {
		all[i] = p[0] + " " + p[1]
	}
	return strings.Join(all, ", ")
}

// apart, a space of no width, breaks what GitHub would turn into a mention or a reference: it looks for these in the
// rendered text, after escapes are gone.
const apart = "&#8203;"

// listed matches what starts an item of a list.
var listed = regexp.MustCompile(`^([-+]|[0-9]{1,9}[.)])( |$)`)

// escape makes Markdown show a text as it is, without markup, HTML, mentions or references.
func escape(s string) string {
	var b strings.Builder
	if at := listed.FindStringSubmatchIndex(s); at != nil {
		b.WriteString(s[:at[3]-1] + `\`)
		b.WriteByte(s[at[3]-1])
		s = s[at[3]:]
	}
	for i, r := range s {
		switch {
		case r == ':' && strings.HasPrefix(s[i:], "://"), r == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www"):
			fmt.Fprintf(&b, "&#%d;", r) // else it becomes a link
		case r == '-' && i >= 2 && strings.EqualFold(s[i-2:i], "gh"):
			b.WriteString("-" + apart)
		case r == '@':
			b.WriteString("&#64;" + apart)
		case r == '#':
			b.WriteString(`\#` + apart)
		case r == '\n' || r == '\r':
			b.WriteByte(' ')
		case strings.ContainsRune("&<>", r):
			b.WriteString(html.EscapeString(string(r)))
		case strings.ContainsRune("\\`*_[]|~$", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapeHTML is escape for text inside HTML.
func escapeHTML(s string) string {
	return strings.NewReplacer("@", "@"+apart, "#", "#"+apart, "GH-", "GH-"+apart).Replace(html.EscapeString(s))
}
