package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPreprocessingByName(t *testing.T) {
	t.Parallel()
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
