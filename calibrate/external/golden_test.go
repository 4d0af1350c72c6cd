package external_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// The files in testdata are as laplace-torch, vbll and SNGP save them, and the variances beside them are what these
// compute, in float64, for some features of digits. testdata/posterior/run.sh of the repository made them.
func TestVariancesAreThoseOfTheLibraries(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(strings.TrimSuffix(path, ".safetensors") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var golden struct {
			Logits    int
			Features  [][]float32
			Variances [][]float64
		}
		if err := json.Unmarshal(text, &golden); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		h := layer.Head{Logits: golden.Logits, Features: len(golden.Features[0]), Link: layer.Softmax}
		h.Bias = !strings.Contains(path, "sngp") && !strings.Contains(path, "vbll") // as torch exports these
		p, err := external.Read(f, info.Size(), h)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		seen[p.Program+" "+string(p.Form)] = true
		post, err := p.Posterior(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, h.Logits)
		for i, phi := range golden.Features {
			post.Variances(got, phi, 1)
			for k, want := range golden.Variances[i] {
				if !approx.Relative(got[k], want, 1e-10) { // rounding of float64 in inverses
					t.Errorf("%s: example %d, logit %d: variance %v, want %v", path, i, k, got[k], want)
				}
			}
		}
	}
	for _, want := range []string{"laplace-torch diagonal", "laplace-torch kron", "laplace-torch full", "vbll diagonal",
		"vbll per-logit", "sngp shared"} {
		if !seen[want] {
			t.Errorf("there is no file of %s", want)
		}
	}
}
