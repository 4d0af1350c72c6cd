package bench

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNamedSpecs(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a=b", "plain", "sub/c=d", "e[1:2]"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ arg, name, spec string }{
		{"x=plain", "x", "plain"},
		{"x=plain[3:]", "x", "plain[3:]"},
		{"x=idx:plain[3:]", "x", "idx:plain[3:]"},
		{"x=y=z", "x", "y=z"},
		{"two words=plain", "two words", "plain"},
		{"x=a=b", "x", "a=b"},
		// What is there as it stands has no name in front.
		{"a=b", "a=b", "a=b"},
		{"a=b[2:5]", "a=b", "a=b[2:5]"},
		{"idx:a=b[:5]", "a=b", "idx:a=b[:5]"},
		{"e[1:2]", "e[1:2]", "e[1:2]"},
		// A name holds no path separator.
		{"sub/c=d[1:]", "c=d", "sub/c=d[1:]"},
		{"nowhere/c=d", "c=d", "nowhere/c=d"},
		{"plain", "plain", "plain"},
		{"plain[1:]", "plain", "plain[1:]"},
		{"sub/", "sub", "sub/"},
		{"nowhere/images.gz[:9]", "images.gz", "nowhere/images.gz[:9]"},
		{"npy:nowhere/x.bin", "x.bin", "npy:nowhere/x.bin"},
		{"=plain", "=plain", "=plain"},
	} {
		if got, want := ParseNamedSpec(test.arg), (NamedSpec{test.name, test.spec}); got != want {
			t.Errorf("%q: %+v, want %+v", test.arg, got, want)
		}
	}
}
