package roff

import (
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	var p Page
	p.Title("mfgs", "2026-01-02", "mfgs v1", `the "manual"`)
	p.Section("Name")
	p.Text(`mfgs - honest \ one`)
	p.Subsection("mfgs eval")
	p.Paragraph("One sentence.  Another −\n.one 'here' ends e.g. so.")
	p.Lines("\n.a  b\n\n  c-d \n")
	p.Term("--out", "DIR", "where")
	p.Term("--force", "", ".hidden")
	var b strings.Builder
	if n, err := p.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatal(n, err)
	}
	want := `.TH "MFGS" 1 "2026-01-02" "mfgs v1" "the \(dqmanual\(dq"
.SH "NAME"
mfgs \- honest \e one
.SS "mfgs eval"
.PP
One sentence.
Another \[u2212] .one \(aqhere\(aq ends e.g.
so.
.PP
.nf
\&.a  b

  c\-d
.fi
.TP
\fB\-\-out\fR \fIDIR\fR
where
.TP
\fB\-\-force\fR
\&.hidden
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// No text can become a macro or an escape.
func FuzzText(f *testing.F) {
	f.Add(".SH x\n'br\n\\fB")
	f.Add("a. .b \\(ha")
	f.Fuzz(func(t *testing.T, text string) {
		var p Page
		p.Text(text)
		p.Lines(text)
		var b strings.Builder
		if _, err := p.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			switch line {
			case ".PP", ".nf", ".fi":
				continue
			}
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				t.Errorf("%q became the request %q", text, line)
			}
		}
	})
}
