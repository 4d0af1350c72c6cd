package head

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
)

// Heads in functions are found, at the tensors and with the weights that ONNX Runtime computes
// with.
func TestHeadsInFunctions(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(onnxtest.FunctionFixtures, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		File, Refused string
		Head          struct {
			Op, Features, Logits, Link string
			FeatureDim                 int `json:"feature_dim"`
			Classes                    int
			Bias                       bool
			Tail                       []string
		}
		Examples    int
		Phi, Logits []float64
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list) == 0 {
		t.Fatalf("no golden values: %v", err)
	}
	for _, g := range list {
		t.Run(strings.TrimSuffix(g.File, ".onnx"), func(t *testing.T) {
			m := mustOpen(t, filepath.Join(onnxtest.FunctionFixtures, g.File))
			h, err := Find(m, Options{})
			if g.Refused != "" {
				var u *UnsupportedError
				if !errors.As(err, &u) || !strings.Contains(err.Error(), g.Refused) {
					t.Fatalf("got %+v and %v, want it refused: %s", h, err, g.Refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := g.Head
			got.Op, got.Features, got.Logits, got.Link = h.Op, h.FeaturesTensor, h.LogitsTensor, string(h.Link)
			got.FeatureDim, got.Classes, got.Bias, got.Tail = h.Features, h.Logits, h.Bias, h.Tail
			if !reflect.DeepEqual(got, g.Head) {
				t.Errorf("got  %+v\nwant %+v", got, g.Head)
			}
			w, b, err := h.Weights()
			if err != nil {
				t.Fatal(err)
			}
			for n := range g.Examples {
				for k := range h.Logits {
					sum, size := float64(b[k]), 1.0
					for d := range h.Features {
						x := g.Phi[n*h.Features+d] * float64(w[k*h.Features+d])
						sum += x
						size += math.Abs(x)
					}
					// Float32 sums of the runtime: about 1e-5 of what is added.
					if want := g.Logits[n*h.Logits+k]; !approx.Equal(sum, want, 1e-5*size) {
						t.Errorf("example %d class %d: %v, want %v", n, k, sum, want)
					}
				}
			}
			c, err := Cut(m, h)
			if err != nil {
				t.Fatal(err)
			}
			again, err := onnx.Parse("again", onnxtest.BytesOf(t, c))
			if err != nil {
				t.Fatal(err)
			}
			if h2, err := Find(again, Options{Output: c.Outputs()[1].Name}); err != nil || h2.Node != h.Node ||
				h2.FeaturesTensor != h.FeaturesTensor {
				t.Errorf("the cut model has head %+v (%v), want %+v", h2, err, h)
			}
		})
	}
}
