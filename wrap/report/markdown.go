package report

import (
	"fmt"
	"io"
	"strings"
)

// writeMarkdown writes the words and the tables of the page, those of figures folded.
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
			fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n", escape(f.Title))
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
			if c.Beyond {
				s += `\*`
			}
			if c.Within != "" {
				s += " (" + escape(c.Within) + ")"
			}
			fmt.Fprintf(b, " %s |", s)
		}
		b.WriteString("\n")
	}
	if t.Note != "" {
		fmt.Fprintf(b, "\n%s\n", escape(t.Note))
	}
}

// writeGallery lists the examples of one by their names.
func writeGallery(b *strings.Builder, g gallery) {
	fmt.Fprintf(b, "\n<details><summary>%s</summary>\n\n%s\n\n", escape(g.Title), escape(g.Lead))
	for _, c := range g.Cards {
		var facts []string
		for _, f := range c.Facts {
			facts = append(facts, escape(f[0]+" "+f[1]))
		}
		fmt.Fprintf(b, "- %s: %s\n", escape(c.Name), strings.Join(facts, ", "))
	}
	b.WriteString("\n</details>\n")
}

// escape writes a text so that Markdown shows it as it is: whatever could be markup, HTML or a mention.
func escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == ':' && strings.HasPrefix(s[i:], "://"), r == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www"):
			fmt.Fprintf(&b, "&#%d;", r) // or it were a link
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '@':
			b.WriteString("&#64;")
		case r == '\n' || r == '\r':
			b.WriteByte(' ')
		case strings.ContainsRune("\\`*_[]|~#$", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
