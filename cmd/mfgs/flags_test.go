package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/wrap/bench"
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
		if got, want := parseNamedSpec(test.arg), (bench.NamedSpec{Name: test.name, Spec: test.spec}); got != want {
			t.Errorf("%q: %+v, want %+v", test.arg, got, want)
		}
	}
}

func TestPreprocessingByName(t *testing.T) {
	const model = "../../models/digits-mlp/model.onnx"
	s, err := readPreprocessing("unit", model)
	if err != nil {
		t.Fatal(err)
	}
	if s.Scale != 1./255 {
		t.Errorf("unit has scale %v", s.Scale)
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte("scale: 0.5\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if s, err := readPreprocessing(file, "no model is looked at"); err != nil || s.Scale != 0.5 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := readPreprocessing("unit", "nothing.onnx"); err == nil {
		t.Error("a preset was fitted to a model that is not there")
	}
}
