package calibrate

import (
	"fmt"
	"math"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
)

func TestInterpolatedSandwichEqualsAllRows(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 12, Features: 600, Bias: true, Link: layer.Softmax}
	m := newMixture(h, 4, 2, 700)
	for name, test := range map[string]struct {
		examples int
		decay    float64 // of the features' scale, from first to last
	}{
		"a flat spectrum":            {2000, 1},
		"a steep spectrum":           {2000, 1e-3},
		"fewer examples than D":      {300, 1},
		"a steep one of low rank":    {300, 1e-3},
		"eigenvalues below rounding": {2000, 1e-12},
	} {
		train := m.draw(test.examples, 0)
		for i := range train.Features {
			train.Features[i] *= float32(math.Pow(test.decay, float64(i%h.Features)/float64(h.Features)))
		}
		c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
		for _, rho := range []float64{10, 1, 0.01} {
			unit, err := c.MeanEigenvalue(Sandwich)
			if err != nil {
				t.Fatal(err)
			}
			p := mustPosterior(t, c, Sandwich, rho*unit) // by all rows: K is small
			row, rows := c.sandwichRow(p, p.QB), 0
			got := make([]float64, len(p.V))
			if !interpolateRows(got, p.LambdaA, 1e-10*p.Epsilon/p.LambdaB[h.Logits-1], func(dst []float64, x float64) {
				rows++
				row(dst, x)
			}) {
				t.Errorf("%s, ρ = %v: gave up after %d rows", name, rho, rows)
				continue
			}
			for i, la := range p.LambdaA {
				for k := range h.Logits {
					got[i*h.Logits+k] *= la
				}
			}
			// The floor allows 2e-10, the doubling much less.
			wantRelative(t, fmt.Sprintf("%s, ρ = %v: V", name, rho), got, p.V, 1e-9)
			if 2*rows > h.Dim() {
				t.Errorf("%s, ρ = %v: %d rows of %d", name, rho, rows, h.Dim())
			}
		}
	}
}

func TestSandwichOfManyClassesIsInterpolated(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 300, Features: 400, Link: layer.Softmax} // 1.1e10 multiplications
	c := accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, newMixture(h, 4, 2,
		701).draw(BlockSize, 0), 0)
	unit, err := c.MeanEigenvalue(Sandwich)
	if err != nil {
		t.Fatal(err)
	}
	p := mustPosterior(t, c, Sandwich, unit)
	row, want := c.sandwichRow(p, p.QB), make([]float64, h.Logits)
	for _, i := range []int{0, 57, 200, h.Dim() - 1} {
		row(want, p.LambdaA[i])
		for k := range want {
			want[k] *= p.LambdaA[i]
		}
		wantRelative(t, fmt.Sprintf("row %d of V", i), p.V[i*h.Logits:(i+1)*h.Logits], want, 1e-9)
	}
}

func TestInterpolationGivesUpUnlessFIsSmooth(t *testing.T) {
	t.Parallel()
	x := logSpace(1e-4, 1e4, 400)
	dst := make([]float64, 2*len(x))
	step := func(dst []float64, x float64) {
		dst[0], dst[1] = 1, 1
		if x > 3 {
			dst[1] = 2
		}
	}
	if interpolateRows(dst, x, 0, step) {
		t.Error("a step was interpolated")
	}
}

func TestInterpolationAtTheEdges(t *testing.T) {
	t.Parallel()
	f := func(dst []float64, x float64) {
		x = math.Max(x, 1e-3) // constant below the floor
		dst[0], dst[1], dst[2] = 1/(1+x), 0, 1e-200*x
	}
	for name, x := range map[string][]float64{
		"one value":      repeat(5, 100),
		"all zero":       repeat(0, 100),
		"zeros and more": append(repeat(0, 50), logSpace(1e-6, 30, 250)...),
	} {
		dst := make([]float64, 3*len(x))
		if !interpolateRows(dst, x, 1e-3, f) {
			t.Errorf("%s: gave up", name)
			continue
		}
		for i, v := range x {
			want := make([]float64, 3)
			f(want, v)
			wantSame(t, fmt.Sprintf("%s: x = %v", name, v), dst[3*i:3*i+3], want, 1e-9)
		}
	}
}

func repeat(v float64, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = v
	}
	return x
}
