package onnxlayers_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// dense computes logits from what goes into a tail, n rows, in float64.
func dense(t *testing.T, tail *onnxlayers.Tail, x []float64, n int) []float64 {
	t.Helper()
	for _, d := range tail.Layers {
		w, b, err := d.Weights()
		if err != nil {
			t.Fatal(err)
		}
		y := make([]float64, n*d.Out)
		for r := range n {
			for i := range d.Out {
				sum := 0.0
				if b != nil {
					sum = float64(b[i])
				}
				for j, a := range x[r*d.In:][:d.In] {
					sum += a * float64(w[i*d.In+j])
				}
				y[r*d.Out+i], _ = d.Activation.At(sum)
			}
		}
		x = y
	}
	return x
}

// runTail cuts a model below its dense layers, runs it, and holds its logits against what the
// layers make of their input.
func runTail(
	t *testing.T, m *onnx.Model, depth int, in tensor.Tensor, tolerance float64,
) (wide int, r featurize.Results) {
	t.Helper()
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tail, err := onnxlayers.Find(m, h, depth)
	if err != nil {
		t.Fatal(err)
	}
	c, err := onnxlayers.Cut(m, h, tail)
	if err != nil {
		t.Fatal(err)
	}
	w, err := featurize.New(featurize.Config{Model: c})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if r, err = w.Run(t.Context(), []tensor.Tensor{in}); err != nil {
		t.Fatal(err)
	}
	x := make([]float64, len(r.Columns[0]))
	for i, v := range r.Columns[0] {
		x[i] = float64(v)
	}
	near(t, "logits", r.Columns[1], dense(t, tail, x, r.N), 2e-5, tolerance)
	return tail.Layers[0].In, r
}

// Each fixture is cut below all its dense layers.
func TestCutTailsRunAsGenerated(t *testing.T) {
	t.Parallel()
	const fixtures = "../../../../testdata/onnx/dense"
	b, err := os.ReadFile(filepath.Join(fixtures, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		File   string
		Inputs struct {
			X struct {
				Type  string
				Shape []int64
				Data  []float64
			}
		}
		Tolerance    float64
		Layers       []any
		Tail, Logits []float64
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) < 50 {
		t.Fatalf("only %d fixtures", len(list))
	}
	for _, g := range list {
		t.Run(strings.TrimSuffix(g.File, ".onnx"), func(t *testing.T) {
			m, err := onnx.Open(filepath.Join(fixtures, g.File))
			if err != nil {
				t.Fatal(err)
			}
			in := tensor.Tensor{Name: "x", Shape: g.Inputs.X.Shape}
			switch g.Inputs.X.Type {
			case "float32":
				in.Data = converted[float32](g.Inputs.X.Data)
			case "int32":
				in.Data = converted[int32](g.Inputs.X.Data)
			default:
				t.Fatalf("input of type %s", g.Inputs.X.Type)
			}
			for layers := range len(g.Layers) + 1 { // 0 is all
				_, r := runTail(t, m, layers, in, g.Tolerance)
				if layers == 0 {
					near(t, "inputs of the tail", r.Columns[0], g.Tail, 2e-5, g.Tolerance)
				}
				near(t, "logits", r.Columns[1], g.Logits, 2e-5, g.Tolerance)
			}
		})
	}
}

func converted[T float32 | int32](x []float64) []T {
	y := make([]T, len(x))
	for i, v := range x {
		y[i] = T(v)
	}
	return y
}

func TestTheMNISTNetworkIsThreeDenseLayers(t *testing.T) {
	t.Parallel()
	m, err := onnx.Open("../../../../models/mnist-mlp/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	shape := []int64{7}
	for _, d := range m.Inputs()[0].Shape[1:] {
		shape = append(shape, d.Value)
	}
	x := wraptest.Random(6, 7*784)
	wide, r := runTail(t, m, 3, tensor.Tensor{Shape: shape, Data: x}, 0)
	if wide != 784 {
		t.Errorf("%d numbers go into the lowest layer, want 784", wide)
	}
	for i, v := range r.Columns[0] {
		if v != x[i] {
			t.Fatalf("number %d that goes into the lowest layer is %v, and that of the input is %v", i, v, x[i])
		}
	}
}

// near compares numbers with a tolerance, relative to the largest of them and absolute.
func near(t *testing.T, name string, got []float32, want []float64, relative, absolute float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d %s, want %d", len(got), name, len(want))
	}
	size := 1.0
	for _, x := range want {
		size = max(size, math.Abs(x))
	}
	for i, x := range want {
		if !approx.Equal(float64(got[i]), x, relative*size+absolute) {
			t.Fatalf("%s[%d] = %v, want %v", name, i, got[i], x)
		}
	}
}
