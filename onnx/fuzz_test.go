package onnx

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
)

// Parse returns for any bytes, and a model that it accepts can be written and read again.
func FuzzParse(f *testing.F) {
	for _, path := range onnxtest.FixturePaths(f) {
		f.Add(onnxtest.Fixture(f, path))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("model", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		b, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again", b)
		if err != nil {
			t.Fatalf("Parse refuses what it accepted before: %v", err)
		}
		if got, want := len(again.pb.Graph.Node), len(m.pb.Graph.Node); got != want {
			t.Errorf("%d nodes became %d", want, got)
		}
	})
}

// A model that Parse accepts can be written and read again, with any functions.
func FuzzFunctions(f *testing.F) {
	models := onnxtest.SeedFunctions(f)
	f.Fuzz(func(t *testing.T, which uint16, edits []byte) {
		pb := onnxtest.Unmarshal(t, models[int(which)%len(models)])
		onnxtest.EditFunctions(pb, edits)
		m, err := Parse("model", onnxtest.Marshal(t, pb))
		if err != nil {
			return
		}
		if _, err := Parse("again", onnxtest.BytesOf(t, m)); err != nil {
			t.Error(err)
		}
	})
}
