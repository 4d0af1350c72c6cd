package complete

import (
	"slices"
	"strings"
	"testing"
)

var verbs = []Verb{
	{Name: "fit", About: "fit it", Flags: []Flag{
		{Name: "data", About: "SPEC of data", Value: Value{Paths: Files, Words: []string{"auto"}, Formats: []string{"csv"}}},
		{Name: "more", Many: true, Value: Value{Paths: Files, Named: true, Words: []string{"swag=", "vi="}, Formats: []string{"csv"}}},
		{Name: "out", Value: Value{Paths: Folders}},
		{Name: "kind", Value: Value{Words: []string{"full", "kron"}}},
		{Name: "only", Value: Value{Words: []string{"a", "b", "ab"}, List: true}},
		{Name: "count", Value: Value{}},
		{Name: "force", Switch: true},
	}},
	{Name: "show", About: "show it", Arguments: &Value{Paths: Files}},
	{Name: "shell", Arguments: &Value{Words: []string{"bash", "zsh"}}},
}

func TestLine(t *testing.T) {
	const flags = "--data --more --out --kind --only --count --force --help"
	without := func(given ...string) string {
		left := slices.DeleteFunc(strings.Fields(flags), func(f string) bool { return slices.Contains(given, f) })
		return strings.Join(left, " ")
	}
	for _, test := range []struct {
		line  string // with | between words
		words string
		paths Paths
		front string
	}{
		{"", "fit show shell", None, ""},
		{"sh", "show shell", None, ""},
		{"x", "", None, ""},
		{"x|", "", None, ""},
		{"--", "", None, ""},

		// Flags: those not given yet.
		{"fit|", flags, None, ""},
		{"fit|-", flags, None, ""},
		{"fit|--", flags, None, ""},
		{"fit|--o", "--out --only", None, ""},
		{"fit|-o", "--out --only", None, ""},
		{"fit|--force|--kind|full|--more|x|-", without("--force", "--kind"), None, ""},
		{"fit|--force|--kind=full|-", without("--force", "--kind"), None, ""},
		{"fit|-force|", without("--force"), None, ""},
		{"fit|--unknown|-", flags, None, ""},
		{"show|", "", Files, ""},
		{"show|-", "--help", None, ""},
		{"show|x|y", "", Files, ""},
		{"show|--|-", "", Files, ""},
		{"fit|--|-", "", None, ""},
		{"shell|", "bash zsh", None, ""},

		// Their values.
		{"fit|--kind|", "full kron", None, ""},
		{"fit|-kind|k", "kron", None, ""},
		{"fit|--kind|-", "", None, ""},
		{"fit|--kind=", "--kind=full --kind=kron", None, ""},
		{"fit|--kind=f", "--kind=full", None, ""},
		{"fit|-kind=f", "-kind=full", None, ""},
		{"fit|--unknown=f", "", None, ""},
		{"fit|--force=f", "", None, ""},
		{"fit|--kind|kron|", without("--kind"), None, ""},
		{"fit|--count|", "", None, ""},
		{"fit|--only|", "a b ab", None, ""},
		{"fit|--only|a", "a ab", None, ""},
		{"fit|--only|a,", "a,b a,ab", None, ""},
		{"fit|--only=b,a", "--only=b,a --only=b,ab", None, ""},

		// Paths, and what stands in front of them in the same word.
		{"fit|--out|", "", Folders, ""},
		{"fit|--out=x/", "", Folders, "--out="},
		{"fit|--data|", "auto", Files, ""},
		{"fit|--data|au", "auto", Files, ""},
		{"fit|--data|x/y", "", Files, ""},
		{"fit|--data|csv:x", "", Files, "csv:"},
		{"fit|--data|idx:x", "", Files, ""},
		{"fit|--data=csv:x", "", Files, "--data=csv:"},
		{"fit|--more|", "swag= vi=", Files, ""},
		{"fit|--more|swag=x", "", Files, "swag="},
		{"fit|--more=v", "--more=vi=", Files, "--more="},
		{"fit|--more=n=csv:x", "", Files, "--more=n=csv:"},
		{"fit|--more|a/b=c", "", Files, ""},
	} {
		r := Line(verbs, strings.Split(test.line, "|"))
		var words []string
		for _, w := range r.Words {
			words = append(words, w.Text)
		}
		if got := strings.Join(words, " "); got != test.words || r.Paths != test.paths || r.Before != test.front {
			t.Errorf("%q: %q, %s behind %q; want %q, %s behind %q", test.line, got, r.Paths, r.Before, test.words, test.paths, test.front)
		}
	}
	if r := Line(verbs, nil); len(r.Words) != len(verbs) {
		t.Errorf("no words: %+v", r)
	}
}

// Lines for a shell hold no tab or line break but those that mean something.
func TestReplyIsLines(t *testing.T) {
	r := Reply{Paths: Files, Before: "--x=\n", Words: []Word{{"--a", "first\tone\n" + strings.Repeat("é", 200)}, {"--b", ""}}}
	var b strings.Builder
	n, err := r.WriteTo(&b)
	lines := strings.Split(b.String(), "\n")
	if err != nil || n != int64(b.Len()) || len(lines) != 4 || lines[3] != "" {
		t.Fatalf("%d bytes, %v: %q", n, err, b.String())
	}
	for i, want := range []string{"files\t--x=", "--a\tfirst", "--b\t"} {
		if !strings.HasPrefix(lines[i], want) || strings.Count(lines[i], "\t") != 1 {
			t.Errorf("line %d is %q", i, lines[i])
		}
	}
	if len([]rune(lines[1])) != len("--a\t")+100 {
		t.Errorf("line 1 has %d characters", len([]rune(lines[1])))
	}
}

func FuzzLine(f *testing.F) {
	for _, line := range []string{"", "fit|--more=vi=csv:", "fit|--only=a,,b,", "fit|--|--", "fit|--kind|--kind", "show|=|:"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, "|")
		last := words[len(words)-1]
		r := Line(verbs, words)
		if !strings.HasPrefix(last, r.Before) {
			t.Errorf("%q: %q does not stand in front", line, r.Before)
		}
		for _, w := range r.Words {
			if !strings.HasPrefix(w.Text, last) && !strings.HasPrefix(w.Text, "-"+last) {
				t.Errorf("%q: %q does not begin so", line, w.Text)
			}
		}
	})
}

func TestScripts(t *testing.T) {
	for _, shell := range Shells {
		if s := Script(shell); !strings.Contains(s, "__complete") || !strings.Contains(s, "mfgs completion "+shell) {
			t.Errorf("%s: %q", shell, s)
		}
	}
}
