// Package text makes what files say fit to be shown: in an error's one line, on a
// terminal. Names of classes, columns, tensors and files are whatever the files
// they come from say, which may be control sequences, or a megabyte.
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

// Printable writes s as a terminal may be given it: what would move its cursor,
// break the line or turn the text around is written as Go writes it in strings.
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

// Name writes a name that a file gives, printable, and without the middle where it is long.
func Name(s string) string { return cut(s, maxName) }

// Line writes a message in one line, printable, and without the middle where it
// is long: what went wrong is at the beginning, the way out at the end.
func Line(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return cut(strings.Join(lines, "; "), maxLine)
}

// cut returns s printable, in at most that many characters.
func cut(s string, most int) string {
	if len(s) > 8*most { // no more than this is looked at
		s = s[:4*most] + s[len(s)-4*most:]
	} else if p := Printable(s); utf8.RuneCountInString(p) <= most {
		return p
	}
	r := []rune(Printable(s))
	end := (most - 1) / 3
	return string(r[:most-1-end]) + "…" + string(r[len(r)-end:])
}
