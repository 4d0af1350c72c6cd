package featurize

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Every fixture of package onnx, cut at its head and run, gives the features and logits that its
// generator computed.
func TestFixturesRun(t *testing.T) {
	t.Parallel()
	const fixtures = "../testdata/onnx"
	type golden struct {
		Type  string
		Shape []int64
		Data  []float64
	}
	ran := 0
	for _, folder := range []string{".", "operators"} {
		b, err := os.ReadFile(filepath.Join(fixtures, folder, "golden.json"))
		if err != nil {
			t.Fatal(err)
		}
		var list []struct {
			File        string
			Options     head.Options
			Refused     string
			Inputs      map[string]golden
			Examples    int
			Phi, Logits []float64
			Tolerance   float64
		}
		if err := json.Unmarshal(b, &list); err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			if g.Refused != "" {
				continue
			}
			t.Run(g.File, func(t *testing.T) {
				m, err := onnx.Open(filepath.Join(fixtures, g.File))
				if err != nil {
					t.Fatal(err)
				}
				h, err := head.Find(m, g.Options)
				if err != nil {
					t.Fatal(err)
				}
				e, err := New(Config{Model: m, Head: h})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				var in []tensor.Tensor
				for _, v := range e.Inputs() {
					x := g.Inputs[v.Name]
					data, err := tensor.Type(v.Type).Make(0)
					if err != nil {
						t.Fatal(err)
					}
					switch data.(type) {
					case []float32:
						d := make([]float32, len(x.Data))
						for i, f := range x.Data {
							d[i] = float32(f)
						}
						data = d
					case []float64:
						data = slices.Clone(x.Data)
					case []int64:
						d := make([]int64, len(x.Data))
						for i, f := range x.Data {
							d[i] = int64(f)
						}
						data = d
					default:
						t.Fatalf("input %q has type %v", v.Name, v.Type)
					}
					in = append(in, tensor.Tensor{Name: v.Name, Shape: x.Shape, Data: data})
				}
				rows, err := e.Run(t.Context(), in)
				if err == nil && h.Steps > 0 {
					rows, err = everyStep(t.Context(), e, in, rows)
				}
				if err != nil {
					t.Fatal(err)
				}
				if rows.N != g.Examples {
					t.Fatalf("%d examples, want %d", rows.N, g.Examples)
				}
				// Half precision rounds to 2⁻¹¹; other kernels sum in another order; and for
				// weights of eight bits ONNX Runtime quantises the features as well, whether the
				// model asks for it or not.
				relative := 2e-5
				if name := filepath.Base(g.File); strings.HasPrefix(name, "float16") || name == "dequantized.onnx" {
					relative = 4e-3
				}
				near(t, "features", rows.Columns[0], g.Phi, relative, 0)
				tolerance := 0.0
				if h.Rounding > 0 || h.Approximation != "" {
					tolerance = g.Tolerance + h.Rounding
				}
				if h.Approximation == "" {
					near(t, "logits", rows.Columns[1], g.Logits, relative, tolerance)
				}
			})
			ran++
		}
	}
	if ran < 100 {
		t.Errorf("only %d fixtures ran", ran)
	}
}

// near holds got against want, relative to the largest of them.
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
		if d := math.Abs(float64(got[i]) - x); !(d <= relative*size+absolute) {
			t.Fatalf("%s[%d] = %v, want %v", name, i, got[i], x)
		}
	}
}

// everyStep returns the rows of all steps of all examples, of a network that gives one at a time.
func everyStep(ctx context.Context, e *Network, in []tensor.Tensor, first Results) (Results, error) {
	n, steps := first.N, stepsIn(first.Steps[0])
	all := Results{N: n * steps, Columns: make([][]float32, 2)}
	one := make([]Results, steps)
	for t := range steps {
		one[t] = e.results(n, 1)
		drawn := make([]int64, n)
		for i := range drawn {
			drawn[i] = int64(t + i*steps) // modulo their number
		}
		if err := e.infer(ctx, append(slices.Clip(in), e.stepInput(drawn)), one[t]); err != nil {
			return Results{}, err
		}
	}
	for i := range n {
		for t := range steps {
			for c := range all.Columns {
				all.Columns[c] = append(all.Columns[c], examples(one[t].Columns[c], n, i, i+1)...)
			}
		}
	}
	return all, nil
}
