package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"":                      "",
		"tench, Tinca":          "tench, Tinca",
		"鮫 é 🙂":                 "鮫 é 🙂",
		"\x1b[31mred\x1b]0;x\a": `\x1b[31mred\x1b]0;x\a`,
		"a\tb\nc\rd\x00\x7f":    `a\tb\nc\rd\x00\x7f`,
		"\u009b31m":             `\u009b31m`,
		"\u202eabc\u2028":       `\u202eabc\u2028`,
		"\xff\xfe":              `\xff\xfe`,
	} {
		if got := Printable(s); got != want {
			t.Errorf("%q is written %s, want %s", s, got, want)
		}
	}
}

func TestLongTextLosesItsMiddle(t *testing.T) {
	for _, middle := range []string{"x", "\x00", "é", "🙂", "\xff", "\n"} {
		for _, n := range []int{1, 50, 79, 80, 81, 500, 700, 2100, 20000, 400000} {
			s := "begin " + strings.Repeat(middle, n) + " end"
			for name, got := range map[string]string{"Name": Name(s), "Line": Line(s)} {
				most := map[string]int{"Name": maxName, "Line": maxLine}[name]
				if !utf8.ValidString(got) || strings.ContainsFunc(got, unprintable) ||
					utf8.RuneCountInString(got) > most {
					t.Errorf("%s of %d times %q has %d characters", name, n, middle, utf8.RuneCountInString(got))
				}
				if !strings.HasPrefix(got, "begin ") || !strings.HasSuffix(got, " end") {
					t.Errorf("%s of %d times %q is %q", name, n, middle, got)
				}
			}
		}
	}
	if s := strings.Repeat("é", maxName); Name(s) != s {
		t.Error("a name that fits was cut")
	}
	if got := Line("a\nb\r\n\nc"); got != "a; b; c" {
		t.Errorf("got %q", got)
	}
}
