package pretrained_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
)

func TestClassNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want []string
		err  string
	}{
		{"cat\ndog\n", []string{"cat", "dog"}, ""},
		{"\ufeffcat\r\n dog, or so \r\n\r\n", []string{"cat", "dog, or so"}, ""},
		{"cat", []string{"cat"}, ""},
		{` ["cat", "a\nb"] `, []string{"cat", "a\nb"}, ""},
		{"", nil, "no class names"},
		{" \n\n", nil, "no class names"},
		{"[]", nil, "no class names"},
		{"cat\n\ndog", nil, "class 1 has no name"},
		{`["cat", " \t"]`, nil, "class 1 has no name"},
		{"cat\ndog\ncat", nil, `classes 0 and 2 are both named "cat"`},
		{`{"id2label": {"0": "a ", "1": "a", "2": "b"}}`, []string{"a (0)", "a (1)", "b"}, ""},
		{`{"id2label": {"0": " ", "1": "a", "2": ""}}`, nil, "class 0 has no name"},
		{`["cat", 7]`, nil, "not a JSON array of class names"},
		{`["cat"`, nil, "not a JSON array of class names"},
	} {
		got, err := pretrained.Classes([]byte(test.text))
		if test.err == "" && (err != nil || !slices.Equal(got, test.want)) {
			t.Errorf("%q: %q, %v, want %q", test.text, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%q: %q, %v, want %q", test.text, got, err, test.err)
		}
	}
}

func FuzzClasses(f *testing.F) {
	f.Add([]byte("cat\ndog\n"))
	f.Add([]byte(`["cat","dog"]`))
	f.Add([]byte("\ufeff\r\n["))
	f.Fuzz(func(t *testing.T, data []byte) {
		names, err := pretrained.Classes(data)
		if err != nil {
			return
		}
		if len(names) == 0 || slices.Contains(names, "") {
			t.Fatalf("%q gave %q", data, names)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
			t.Fatalf("%q gave %q", data, names)
		}
	})
}
