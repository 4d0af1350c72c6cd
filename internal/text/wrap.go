package text

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text into lines of at most width columns, each ended by a newline: the first begins with prefix, the
// others with as many blanks. Longer words are not broken.
func Wrap(width int, prefix, s string) string {
	var b strings.Builder
	indent := strings.Repeat(" ", utf8.RuneCountInString(prefix))
	line, empty := prefix, true
	for word := range strings.FieldsSeq(s) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
