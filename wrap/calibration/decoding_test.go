package calibration

import (
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

// An alphabet has all symbols of a model, or leaves the blank out, or the blank and the space as PaddleOCR does.
func TestAlphabetsAreCompleted(t *testing.T) {
	t.Parallel()
	first, last, middle := []int{9, 1, 1, 1}, []int{1, 1, 1, 9}, []int{1, 9, 1, 1}
	for name, tt := range map[string]struct {
		alphabet []string
		steps    []int
		blank    int
		want     []string
		err      string
	}{
		"all, blank first":              {[]string{"", "a", "b", "c"}, first, 0, []string{"", "a", "b", "c"}, ""},
		"all, blank last":               {[]string{"a", "b", "c", ""}, last, 3, []string{"a", "b", "c", ""}, ""},
		"all, blank between":            {[]string{"a", "", "b", "c"}, middle, 1, []string{"a", "", "b", "c"}, ""},
		"all, against the steps":        {[]string{"", "a", "b", "c"}, last, 0, []string{"", "a", "b", "c"}, ""},
		"without the first":             {[]string{"a", "b", "c"}, first, 0, []string{"", "a", "b", "c"}, ""},
		"without the last":              {[]string{"a", "b", "c"}, last, 3, []string{"a", "b", "c", ""}, ""},
		"as often":                      {[]string{"a", "b", "c"}, []int{3, 3, 3, 3}, 0, nil, "do not show whether it comes before or after them: give all 4"},
		"never":                         {[]string{"a", "b", "c"}, []int{0, 3, 3, 0}, 0, nil, "give all 4, with an empty line for the blank"},
		"an empty line at the end":      {[]string{"a", "b", ""}, first, 0, nil, "it has 3 symbols, of which one is empty"},
		"an empty line in a dictionary": {[]string{"a", ""}, first, 0, nil, "it has 2 symbols, of which one is empty"},
		"a dictionary":                  {[]string{"a", "b"}, first, 0, []string{"", "a", "b", " "}, ""},
		"one with a space":              {[]string{"a", " "}, first, 0, nil, "it has 2 symbols, want the model's 4, or 3 without the blank"},
		"one with the blank last": {[]string{"a", "b"}, last, 0, nil,
			"it has 2 symbols, want the model's 4, or 3 without the blank"},
		"none":             {nil, first, 0, nil, "give Alphabet, a file with a symbol in each line, 3 without the blank"},
		"too few":          {[]string{"a"}, first, 0, nil, "it has 1 symbols"},
		"too many":         {[]string{"a", "b", "c", "d", "e"}, first, 0, nil, "it has 5 symbols"},
		"another encoding": {[]string{"a", "b", "\xe9"}, first, 0, nil, "it is not in UTF-8: convert it"},
		"no blank":         {[]string{"-", "a", "b", "c"}, first, 0, nil, "none is the blank: leave its line empty, or leave it out"},
		"several blanks":   {[]string{"", "a", "", "c"}, first, 0, nil, "several empty symbols"},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tt.alphabet)
			blank, all, err := alphabetOf(tt.alphabet, "it", tt.steps)
			switch {
			case tt.err != "":
				testerr.OneLine(t, err, tt.err)
			case err != nil || blank != tt.blank || !slices.Equal(all, tt.want):
				t.Errorf("blank %d of %q, %v, want %d of %q", blank, all, err, tt.blank, tt.want)
			}
			if !slices.Equal(tt.alphabet, before) {
				t.Errorf("the alphabet is now %q", tt.alphabet)
			}
		})
	}
}
