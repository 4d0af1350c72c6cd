package wrap_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/wraptest"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// A predictor keeps running the model that was verified after its files are overwritten: ONNX Runtime maps large
// weights, and would silently use others, or crash if the file became shorter.
func TestAnOpenPredictorKeepsTheModelThatWasVerified(t *testing.T) {
	const n, small, large = 60, 1000, 300_000 // the largest table is not kept in memory
	damage := map[string]func(t *testing.T, path string, content []byte){
		"other bytes": func(t *testing.T, path string, content []byte) {
			other := make([]byte, len(content))
			for i := range other {
				other[i] = content[i] ^ 0x15
			}
			write(t, filepath.Dir(path), filepath.Base(path), other)
		},
		"cut short": func(t *testing.T, path string, _ []byte) {
			if err := os.Truncate(path, 1); err != nil {
				t.Fatal(err)
			}
		},
		"removed": func(t *testing.T, path string, _ []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, test := range map[string]struct {
		vocabulary       int
		external, inside bool // weights in a file of their own; the bundle holds the model
		noTemporary      bool
	}{
		"small":                     {vocabulary: small, inside: true},
		"large":                     {vocabulary: large, inside: true},
		"large, nowhere to copy":    {vocabulary: large, inside: true, noTemporary: true},
		"external":                  {vocabulary: large, external: true},
		"external, nowhere to copy": {vocabulary: large, external: true, noTemporary: true},
	} {
		t.Run(name, func(t *testing.T) {
			model, temporary := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", temporary)
			files := wraptest.Embedding(1, test.vocabulary, test.external)
			for name, content := range files {
				write(t, model, name, content)
			}
			c := quick(Config{Model: filepath.Join(model, "model.onnx"), Out: filepath.Join(t.TempDir(), "b"), NoModel: !test.inside})
			ids := make([]int64, n)
			labels := make([]int64, n)
			for i := range ids {
				ids[i], labels[i] = int64(i*(test.vocabulary/n)), int64(i%3)
			}
			c.Train = write(t, model, "x.npz", npz(t, map[string]array{"ids": arrayOf(ids, n, 1), "labels": arrayOf(labels, n)}))
			c.Val = c.Train
			mustCalibrate(t, c)
			if test.noTemporary {
				t.Setenv("TMPDIR", filepath.Join(temporary, "none"))
			}
			var warned []string
			o := Options{FreeMemory: true, Warn: func(w string) { warned = append(warned, w) }}
			folder, content := c.Out, map[string][]byte{bundle.ModelName: files["model.onnx"]}
			if !test.inside {
				o.Model, folder, content = c.Model, model, files
			}
			for how, spoil := range damage {
				for name, bytes := range content {
					write(t, folder, name, bytes)
				}
				warned = nil
				p, err := Open(t.Context(), c.Out, o)
				if err != nil {
					t.Fatal(err)
				}
				if test.noTemporary != (len(warned) == 1 && strings.Contains(warned[0], "set TMPDIR")) {
					t.Errorf("warned of %q", warned)
				}
				x := []Tensor{{Shape: []int64{n, 1}, Data: ids}}
				want, err := p.Predict(t.Context(), x)
				if err != nil {
					t.Fatal(err)
				}
				for name, bytes := range content {
					spoil(t, filepath.Join(folder, name), bytes)
				}
				got, err := p.Predict(t.Context(), x)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: the answers changed (%v)", how, err)
				}
				if err := p.Probe(t.Context()); err != nil {
					t.Errorf("%s: %v", how, err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				if _, err := Open(t.Context(), c.Out, o); err == nil {
					t.Errorf("%s: a predictor opens what does not belong to the bundle", how)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(temporary, "*", "*")); len(left) > 0 {
				t.Errorf("copies are left: %q", left)
			}
		})
	}
}
