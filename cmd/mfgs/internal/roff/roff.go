// Package roff writes manual pages in the macros of man(7), as groff and mandoc read them.
package roff

import (
	"fmt"
	"io"
	"strings"
)

// A Page is a manual page that is being written: from its title on, heading by heading. The zero value
// is an empty one.
type Page struct{ b strings.Builder }

// Title begins the page NAME(1). The date, as 2006-01-02, may be empty.
func (p *Page) Title(name, date, source, manual string) {
	fmt.Fprintf(&p.b, ".TH %s 1 %q %s %s\n", quoted(strings.ToUpper(name)), date, quoted(source), quoted(manual))
}

// Section begins a section.
func (p *Page) Section(heading string) { p.macro(".SH", strings.ToUpper(heading)) }

// Subsection begins a part of a section.
func (p *Page) Subsection(heading string) { p.macro(".SS", heading) }

// Paragraph writes text that is broken into lines to fit.
func (p *Page) Paragraph(text string) {
	p.b.WriteString(".PP\n")
	p.fill(text)
}

// Text writes text right below a heading.
func (p *Page) Text(text string) { p.fill(text) }

// Lines writes lines as they stand.
func (p *Page) Lines(lines string) {
	p.b.WriteString(".PP\n.nf\n")
	for line := range strings.SplitSeq(strings.Trim(lines, "\n"), "\n") {
		p.b.WriteString(escaped(strings.TrimRight(line, " ")) + "\n")
	}
	p.b.WriteString(".fi\n")
}

// Term writes what is explained, in bold, what follows it, in italics, and the explanation.
func (p *Page) Term(term, value, text string) {
	p.b.WriteString(".TP\n\\fB" + escape(term) + "\\fR")
	if value != "" {
		p.b.WriteString(" \\fI" + escape(value) + "\\fR")
	}
	p.b.WriteString("\n")
	p.fill(text)
}

// WriteTo writes the page.
func (p *Page) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, p.b.String())
	return int64(n), err
}

func (p *Page) macro(name, argument string) { p.b.WriteString(name + " " + quoted(argument) + "\n") }

// fill writes words in lines that are not long. Each sentence begins one: it is then spaced as
// sentences are.
func (p *Page) fill(text string) {
	const most = 78 // bytes of a line
	line := ""
	flush := func() {
		if line != "" {
			p.b.WriteString(escaped(line) + "\n")
		}
		line = ""
	}
	for word := range strings.FieldsSeq(text) {
		if len(escaped(line+" "+word)) > most {
			flush()
		}
		if line != "" {
			line += " "
		}
		if line += word; strings.HasSuffix(word, ".") {
			flush()
		}
	}
	flush()
}

// quoted is an argument of a macro.
func quoted(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }

// escaped is a line of text: a dot at its beginning would make it a macro.
func escaped(line string) string {
	if strings.HasPrefix(line, ".") {
		return `\&` + escape(line)
	}
	return escape(line)
}

// escape writes a text so that roff shows it as it stands: hyphens that can be copied, and characters
// beyond ASCII by their number.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r >= 0x7f:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
