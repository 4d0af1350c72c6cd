package head

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

func TestDecodingsThatContradictThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	good := Decoding{Of: Scores, Blank: 1, Alphabet: []string{"a", "", "ch"}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*Decoding)
		want   string
	}{
		"another kind":      {func(d *Decoding) { d.Of = None }, `decoding.of is "none", want probabilities, log-probabilities or scores`},
		"no kind":           {func(d *Decoding) { d.Of = "" }, `decoding.of is ""`},
		"one symbol":        {func(d *Decoding) { d.Alphabet, d.Blank = []string{""}, 0 }, "decoding.alphabet has 1 symbols, want 2 to 131072"},
		"too many":          {func(d *Decoding) { d.Alphabet = make([]string, MaxAlphabet+1) }, "decoding.alphabet has 131073 symbols"},
		"a negative blank":  {func(d *Decoding) { d.Blank = -2 }, "decoding.blank is -2, want 0 to 2, or -1 for tags"},
		"tags with a blank": {func(d *Decoding) { d.Blank = -1 }, `decoding.alphabet has "" for symbol 1`},
		"a mask of text":    {func(d *Decoding) { d.Mask = "mask" }, "a mask or steps to skip, which are for tags"},
		"negative steps":    {func(d *Decoding) { d.Blank, d.Alphabet, d.SkipLast = -1, []string{"a", "b"}, -1 }, "skips 0 and -1 steps, want 0 to 1024"},
		"a blank beyond":    {func(d *Decoding) { d.Blank = 3 }, "decoding.blank is 3, want 0 to 2"},
		"no blank":          {func(d *Decoding) { d.Blank = 0 }, `decoding.alphabet has "a" for symbol 0`},
		"two blanks":        {func(d *Decoding) { d.Alphabet = []string{"", "", "a"} }, `decoding.alphabet has "" for symbol 0`},
		"another encoding":  {func(d *Decoding) { d.Alphabet = []string{"\xe9", "", "a"} }, "for symbol 0, want UTF-8"},
		"a long symbol":     {func(d *Decoding) { d.Alphabet = []string{"a", "", strings.Repeat("b", 65)} }, "for symbol 2, want at most 64 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			d := good
			tt.change(&d)
			testerr.OneLine(t, d.Validate(), tt.want)
		})
	}
	for i, want := range map[int64]string{0: "a", 1: "", 2: "ch", 3: "", -1: "", math.MaxInt64: ""} {
		if got := good.Symbol(i); got != want {
			t.Errorf("symbol %d is %q, want %q", i, got, want)
		}
	}
}

func TestAlphabetsAreLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a\nb\n":            {"a", "b"},
		"a\nb":              {"a", "b"},
		"\ufeffa\r\nb\r\n":  {"a", "b"},
		"\na\n":             {"", "a"},
		"a\n\n":             {"a", ""},
		" \na \n\u3000\nch": {" ", "a ", "\u3000", "ch"},
		"":                  {""},
	} {
		if got := ParseAlphabet(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The lines of an alphabet make it again, unless they were written with other ends.
func FuzzParseAlphabet(f *testing.F) {
	for _, text := range []string{"", "a\nb\n", "\ufeffa\r\n\r\n", "\n\n", "a\rb", "\xff\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		symbols := ParseAlphabet(text)
		if len(symbols) == 0 || slices.ContainsFunc(symbols, func(s string) bool { return strings.Contains(s, "\n") }) {
			t.Fatalf("%q: %q", text, symbols)
		}
		plain := strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
		if again := strings.Join(symbols, "\n"); again != strings.TrimSuffix(plain, "\n") {
			t.Fatalf("%q: %q", text, again)
		}
	})
}

func TestStepsAreSeenInFigures(t *testing.T) {
	t.Parallel()
	type figures [stepsFigures]float32
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, tt := range map[string]struct {
		given []figures // one for each example
		want  Steps
		err   string
	}{
		"probabilities":           {[]figures{{1, 9, 5, 0, 1e-6, 2}, {1, 7, 5, 0.1, 1e-7, 1.7}}, Steps{Probabilities, false, 5}, ""},
		"log-probabilities":       {[]figures{{1, 9, 5, -20, 90, 1e-6}}, Steps{LogProbabilities, false, 5}, ""},
		"of impossible symbols":   {[]figures{{1, 9, 5, -inf, inf, 1e-6}}, Steps{LogProbabilities, false, 5}, ""},
		"scores":                  {[]figures{{1, 9, 5, -3, 4, 40}}, Steps{Scores, false, 5}, ""},
		"large scores":            {[]figures{{1, 9, 5, -3, 4, inf}}, Steps{Scores, false, 5}, ""},
		"numbers that are NaN":    {[]figures{{1, 9, 5, nan, nan, nan}}, Steps{Scores, false, 5}, ""},
		"scores that sum to 1":    {[]figures{{1, 9, 5, -3, 0, 40}}, Steps{Scores, false, 5}, ""},
		"scores in one example":   {[]figures{{1, 9, 5, 0, 0, 2}, {1, 9, 5, -3, 4, 40}}, Steps{Scores, false, 5}, ""},
		"steps first":             {[]figures{{9, 1, 5, 0, 0, 2}}, Steps{Probabilities, true, 5}, ""},
		"one step, then several":  {[]figures{{1, 1, 5, 0, 0, 2}, {9, 1, 5, 0, 0, 2}}, Steps{Probabilities, true, 5}, ""},
		"several, then one step":  {[]figures{{9, 1, 5, 0, 0, 2}, {1, 1, 5, 0, 0, 2}}, Steps{Probabilities, true, 5}, ""},
		"one step":                {[]figures{{1, 1, 5, 0, 0, 2}}, Steps{}, "all examples have one step"},
		"a larger batch":          {[]figures{{4, 9, 5, 0, 0, 2}}, Steps{}, "it is [4,9,5] for one example"},
		"another axis":            {[]figures{{1, 9, 5, 0, 0, 2}, {9, 1, 5, 0, 0, 2}}, Steps{}, "on one axis for some examples and on another"},
		"another number":          {[]figures{{1, 9, 5, 0, 0, 2}, {1, 9, 6, 0, 0, 2}}, Steps{}, "5 numbers for a step of one example, and 6 of another"},
		"one number":              {[]figures{{1, 9, 1, 0, 0, 2}}, Steps{}, "it has 1 numbers for a step, want 2 to 131072"},
		"more numbers than there": {[]figures{{1, 9, 1 << 18, 0, 0, 2}}, Steps{}, "want 2 to 131072"},
		"no examples":             {nil, Steps{}, "it has 0 numbers for a step"},
	} {
		t.Run(name, func(t *testing.T) {
			var logits []float32
			for _, f := range tt.given {
				logits = append(logits, f[:]...)
			}
			got, err := StepsOf(logits)
			if tt.err != "" {
				testerr.OneLine(t, err, tt.err)
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}
