package calibrate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

// spd returns a symmetric positive definite matrix.
func spd(n int, rng *rand.Rand) *mat.SymDense {
	x := mat.NewDense(n, n+3, nil)
	for i := range n {
		for j := range n + 3 {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	s := mat.NewSymDense(n, nil)
	s.SymOuterK(1, x)
	return s
}

func TestFactorInverts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 4, 5, 6, 10, 37} {
		for _, width := range []int{5, 64} {
			t.Run(fmt.Sprintf("n=%d/width=%d", n, width), func(t *testing.T) {
				s := spd(n, rng)
				f := newFactorOf(width, n, parallel.Go{})
				for i := range n {
					for j := i; j < n; j++ {
						*f.at(i, j) = s.At(i, j)
					}
				}
				const epsilon = 0.5
				if err := f.invert(epsilon); err != nil {
					t.Fatal(err)
				}
				for i := range n {
					s.SetSym(i, i, s.At(i, i)+epsilon)
				}
				var inverse mat.Dense
				if err := inverse.Inverse(s); err != nil {
					t.Fatal(err)
				}
				for _, part := range [][2]int{{0, n}, {n / 3, min(n, n/3+n/2+1)}, {n - 1, n}} {
					first, end := part[0], part[1]
					size := end - first
					got := make([]float64, size*size)
					got[0] = math.NaN() // to be overwritten
					if err := f.gram(got, first, end); err != nil {
						t.Fatal(err)
					}
					for i := range size {
						for j := range size {
							if want := inverse.At(first+i, first+j); !approx.Equal(got[i*size+j], want,
								1e-12*(1+math.Abs(want))) {
								t.Fatalf("rows %d to %d: element (%d,%d) is %v, want %v", first, end, i, j, got[i*size+j], want)
							}
						}
					}
				}
			})
		}
	}
}

func TestFactorRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		diagonal []float64
		epsilon  float64
	}{
		{[]float64{1, 1, -2, 1}, 0.1},
		{[]float64{1, math.NaN(), 1, 1}, 0.1},
		{[]float64{1e20, 1, 1, 1}, 1e-3},
	} {
		f := newFactorOf(3, 4, parallel.Go{})
		for i, v := range c.diagonal {
			*f.at(i, i) = v
		}
		if err := f.invert(c.epsilon); err == nil {
			t.Errorf("diagonal %v, ε %v: no error", c.diagonal, c.epsilon)
		}
	}
	f := newFactorOf(3, 4, &failingProduct{})
	for i := range 4 {
		*f.at(i, i) = 1
	}
	if err := f.invert(1); !errors.Is(err, errProduct) {
		t.Errorf("got %v, want the product's error", err)
	}
}

// A full posterior of 10 classes and 512 features inverts such a matrix.
func BenchmarkInvert(b *testing.B) {
	const n = 2048
	rng := rand.New(rand.NewPCG(1, 1))
	values := make([]float64, n)
	for i := range values {
		values[i] = rng.Float64()
	}
	for b.Loop() {
		f := newFactor(n, parallel.Go{})
		for i := range n {
			for j := i; j < n; j++ {
				*f.at(i, j) = values[i] * values[j]
			}
		}
		if err := f.invert(1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2*float64(n)*n*n/3*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
