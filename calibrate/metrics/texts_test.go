package metrics

import (
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// slowDistance tries all ways, without a table.
func slowDistance(a, b []rune) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return len(a) + len(b)
	case a[0] == b[0]:
		return slowDistance(a[1:], b[1:])
	}
	return 1 + min(slowDistance(a[1:], b), slowDistance(a, b[1:]), slowDistance(a[1:], b[1:]))
}

func TestEditsAreTheFewest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(35, 36))
	for range 300 {
		word := func() (s []rune) {
			for range rng.IntN(7) {
				s = append(s, 'a'+rune(rng.IntN(3)))
			}
			return s
		}
		a, b := word(), word()
		if got, want := distance(a, b), slowDistance(a, b); got != want {
			t.Errorf("%q to %q: %d edits, want %d", string(a), string(b), got, want)
		}
	}
}

func TestFiguresOfTexts(t *testing.T) {
	t.Parallel()
	var x Texts
	if x.Result() != nil {
		t.Error("there are figures without texts")
	}
	x.Add(" right ", "right")               // blanks at the ends do not count
	x.Add("", "gone")                       // 4 characters, a word
	x.Add("Grüße an alle", "Grüsse an all") // ß for ss: 2 edits; e: 1; 2 words
	x.Add("more", "")
	got := *x.Result()
	want := TextFigures{N: 4, Exact: 0.25, CER: (4 + 3 + 4) / (5 + 4 + 13.), WER: (1 + 2 + 1) / (1 + 1 + 3.)}
	if got.N != want.N || got.Exact != want.Exact || !approx.Equal(got.CER, want.CER, 1e-15) ||
		!approx.Equal(got.WER, want.WER, 1e-15) {
		t.Errorf("%+v, want %+v", got, want)
	}
	x = Texts{}
	x.Add("", "")
	if got := *x.Result(); got != (TextFigures{N: 1, Exact: 1}) {
		t.Errorf("of an empty text: %+v", got)
	}
}
