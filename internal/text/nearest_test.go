package text

import (
	"slices"
	"testing"
)

func TestTyposAreRecognised(t *testing.T) {
	names := []string{"help", "model", "train", "train-features", "val", "val-features", "ood", "out", "max-bad", "json", "force", "no_probe"}
	for _, test := range []struct {
		got  string
		want []string
	}{
		{"modle", []string{"model"}},
		{"Model", []string{"model"}},
		{"JSON", []string{"json"}},
		{"max_bad", []string{"max-bad"}},
		{"maxbad", []string{"max-bad"}},
		{"tran", []string{"train"}},
		{"train-feature", []string{"train-features"}},
		{"val-f", []string{"val-features"}},
		{"oot", []string{"ood", "out"}},
		{"trai", []string{"train"}},
		{"no-prob", []string{"no_probe"}},
		{"frobnicate", nil},
		{"x", nil},
		{"", nil},
	} {
		if got := Nearest(test.got, names); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.got, got, test.want)
		}
	}
}

// The distance is the length of the shortest way through all single edits.
func TestEditsIsTheShortestWay(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1},
		{"abc", "ac", 1}, {"abc", "bac", 1}, {"abcd", "badc", 2}, {"kitten", "sitting", 3}, {"ab", "xyz", 3},
	} {
		if got, back := edits(test.a, test.b), edits(test.b, test.a); got != test.want || back != test.want {
			t.Errorf("%q and %q: %d and %d, want %d", test.a, test.b, got, back, test.want)
		}
	}
}
