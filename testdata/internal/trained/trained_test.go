package trained_test

import (
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/testdata/internal/trained"
	"github.com/mfgs/mfgs/wrap"
)

func TestTrainingExamplesGiveTheCurvatureAndTheOthersThePool(t *testing.T) {
	t.Parallel()
	if err := (&wrap.Runtime{Install: true}).Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "..", "models", "digits-mlp")
	n := trained.Network{
		Name: "digits", Model: filepath.Join(dir, "model.onnx"),
		Files:    []string{filepath.Join(dir, "digits-images-idx3-ubyte.gz")},
		Training: func(_, position int) bool { return position%3 > 0 },
	}
	o, err := n.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	const digits = 1797
	if o.Pool.N != digits/3 || o.Curvature.Examples() != digits-digits/3 {
		t.Errorf("%d of %d examples are in the pool, %d in the curvature", o.Pool.N, digits, o.Curvature.Examples())
	}
	i := 0
	for one, err := range o.Examples(t.Context(), n.Files[0]) {
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 && one.Labels[0] != o.Pool.Labels[i/3] {
			t.Fatalf("example %d has the label %d, in the pool %d", i, one.Labels[0], o.Pool.Labels[i/3])
		}
		i++
	}
}
