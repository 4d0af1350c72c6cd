package calibrate

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// testdata/laplace/golden.json is what laplace-torch makes of the same last layers;
// golden.py beside it made it.
//
// Its precision is H/temperature + prior·I, the prior on the bias too: temperature·(H + εI)⁻¹ with
// ε = temperature·prior is its covariance, T_ens = 1/temperature. Its Kronecker factors are the
// mean of φφᵀ and the sum of diag p - ppᵀ, whose product is that of the sum and the mean here.
func TestPosteriorEqualsLaplaceTorch(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/laplace/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Structure              Structure
		K, D                   int
		Bias                   bool
		Features, Logits, Test []float32
		Hessian, A, B          []float64
		Posteriors             []struct {
			Prior, Temperature float64
			Variances          []float64
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range golden {
		h := layer.Head{Logits: g.K, Features: g.D, Bias: g.Bias, Link: layer.Softmax}
		name := fmt.Sprintf("%s %s", g.Structure, nameOf(h))
		c := accumulate(t, CurvatureConfig{Head: h, Structure: g.Structure}, &rows.Batch{N: len(g.Logits) / g.K,
			Features: g.Features, Logits: g.Logits}, 0)

		// Sums of some seventy terms, of which the larger are of one sign.
		const sums = 1e-13
		n := float64(c.Examples())
		if g.Structure == Full {
			wantSame(t, name+": H", biasesLast(h, c.whole(c.h)), g.Hessian, sums)
		} else {
			wantSame(t, name+": A", scaled(c.a, 1/n), g.A, sums)
			wantSame(t, name+": B", c.b, g.B, sums)
		}

		for _, want := range g.Posteriors {
			epsilon := want.Temperature * want.Prior
			p := mustPosterior(t, c, Hessian, epsilon)
			got := scaled(p.variancesOf(&rows.Batch{N: len(g.Test) / g.D, Features: g.Test, Logits: make([]float32,
				len(g.Test)/g.D*g.K)}), want.Temperature)
			// Two inverses that magnify the rounding of H, and a square root of its
			// inverse there, as rounding() does.
			wantRelative(t, fmt.Sprintf("%s, prior %v, temperature %v: variances", name, want.Prior, want.Temperature),
				got, want.Variances, 10*rounding(Hessian, epsilon))
		}
		seen[fmt.Sprint(g.Structure, g.K)] = len(g.Posteriors) > 1
	}
	for _, key := range []string{"full3", "full10", "kron3", "kron10"} {
		if !seen[key] {
			t.Errorf("golden.json has no posteriors for %s", key)
		}
	}
}

// biasesLast reorders a class-major KD×KD matrix: all weights, then all biases.
func biasesLast(h layer.Head, m []float64) []float64 {
	if !h.Bias {
		return m
	}
	k, d := h.Logits, h.Features
	var order []int
	for class := range k {
		for i := range d {
			order = append(order, class*h.Dim()+i)
		}
	}
	for class := range k {
		order = append(order, class*h.Dim()+d)
	}
	out := make([]float64, 0, len(m))
	for _, row := range order {
		for _, column := range order {
			out = append(out, m[row*len(order)+column])
		}
	}
	return out
}

func scaled(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = by * v
	}
	return out
}
