// Package text makes untrusted text safe to print, on a terminal or in one line of an error. Names of classes,
// columns, tensors and files come from files, and may contain control sequences or a megabyte.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName = 80   // characters of a name
	maxLine = 2000 // and of a whole message
)

// Printable escapes, as Go strings do, what would move a terminal's cursor, break the line or reverse the text.
func Printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsControl(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		case unprintable(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// Name returns a name from a file, printable, and without its middle if it is long.
func Name(s string) string { return cut(s, maxName) }

// Line returns a message in one line, printable, and without its middle if it is long: the problem is at the
// beginning, the remedy at the end.
func Line(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return cut(strings.Join(lines, "; "), maxLine)
}

// cut returns s printable, in at most so many characters.
func cut(s string, most int) string {
	if len(s) > 8*most { // look at no more than this
		s = s[:4*most] + s[len(s)-4*most:]
	} else if p := Printable(s); utf8.RuneCountInString(p) <= most {
		return p
	}
	r := []rune(Printable(s))
	end := (most - 1) / 3
	return string(r[:most-1-end]) + "…" + string(r[len(r)-end:])
}
