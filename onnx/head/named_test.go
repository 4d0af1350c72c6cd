package head

import (
	"slices"
	"testing"
)

func TestNamesInMetadata(t *testing.T) {
	t.Parallel()
	three := []string{"cat", "dog", "it's a bird"}
	for text, want := range map[string][]string{
		`{0: 'cat', 1: 'dog', 2: "it's a bird"}`:       three, // Ultralytics: str(dict)
		`{0: 'cat', 2: 'it\'s a bird', 1: 'dog',}`:     three,
		`{"0": "cat", "1": "dog", "2": "it's a bird"}`: three,
		`["cat", "dog", "it's a bird"]`:                three,
		`('cat', 'dog', "it's a bird")`:                three,
		" cat\ndog\r\nit's a bird\n":                   three,
		"cat, dog, it's a bird":                        three,
		`["k\u00e4fer", "a \"b\"", "c\\d"]`:            {"käfer", `a "b"`, `c\d`},
		`["cat, big", "dog", "x"]`:                     {"cat, big", "dog", "x"},
		`["cat", "dog"]`:                               nil,
		`["cat", "dog", "bird", "fish"]`:               nil,
		`["cat", "dog", "dog"]`:                        nil,
		`{0: 'cat', 1: 'dog', 1: 'bird'}`:              nil,
		`{0: 'cat', 1: 'dog', 3: 'bird'}`:              nil,
		`{0: 'cat', 1: 'dog', -1: 'bird'}`:             nil,
		`{0: 'cat', 1: 'dog', 2: ['bird']}`:            nil,
		`{0 'cat', 1: 'dog', 2: 'bird'}`:               nil,
		`["cat" "dog", "bird"]`:                        nil,
		`["cat", "dog", "bird`:                         nil,
		`["cat", "dog", "bird"}`:                       nil,
		`["cat", "dog", "b\uzzzz"]`:                    nil,
		`[`:                                            nil,
		"cat,dog":                                      nil,
		"":                                             nil,
	} {
		if got, _ := named(map[string]string{"names": text, "other": "a,b,c"}, 3); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, key := named(map[string]string{"names": "one", "classes": "a,b"}, 2); key != "classes" || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q of %q", got, key)
	}
}

func FuzzNamesInMetadata(f *testing.F) {
	f.Add(`{0: 'cat', 1: "dog"}`, 2)
	f.Add(`["a\u00e4", "b\\"]`, 2)
	f.Add("a\nb", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 1 || n > 1000 {
			return
		}
		if got, _ := named(map[string]string{"names": text}, n); got != nil && len(got) != n {
			t.Fatalf("%d names of %d", len(got), n)
		}
	})
}
