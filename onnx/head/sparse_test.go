package head

import (
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
)

func TestSparseInitializers(t *testing.T) {
	t.Parallel()
	var want map[string][]float64
	onnxtest.ReadJSON(t, filepath.Join(onnxtest.Fixtures, "types", "sparse.json"), &want)
	m, err := onnx.Open(filepath.Join(onnxtest.Fixtures, "types", "sparse.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		v, err := m.View().Evaluate(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slicesAlmostEqual(v.Data, w, 0) {
			t.Errorf("%s is %v, want %v", name, v.Data, w)
		}
	}
	h, err := Find(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := h.Weights()
	if err != nil {
		t.Fatal(err)
	}
	for k := range h.Logits {
		for d := range h.Features {
			if got, want := float64(w[k*h.Features+d]), want["w"][d*h.Logits+k]; got != want {
				t.Errorf("weight of feature %d for class %d is %v, want %v", d, k, got, want)
			}
		}
	}
	// The cut model keeps them sparse.
	c, err := Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Proto().Graph.SparseInitializer); n != 2 {
		t.Errorf("%d sparse initializers after the cut", n)
	}
}

func slicesAlmostEqual(a, b []float64, tol float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !approx.Equal(a[i], b[i], tol) {
			return false
		}
	}
	return true
}
