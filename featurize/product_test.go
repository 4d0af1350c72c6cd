package featurize

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

func TestProductEqualsItsSum(t *testing.T) {
	t.Parallel()
	p, err := NewProduct(0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, dim := range [][3]int{{1, 1, 1}, {512, 3, 70}, {77, 130, 5}, {512, 64, 64}} {
		rows, m, n := dim[0], dim[1], dim[2]
		a, b, c := make([]float64, rows*m), make([]float64, rows*n), make([]float64, m*n)
		for _, x := range [][]float64{a, b, c} {
			for i := range x {
				x[i] = rng.NormFloat64()
			}
		}
		want := make([]float64, m*n)
		copy(want, c)
		for r := range rows {
			for i := range m {
				for j := range n {
					want[i*n+j] += a[r*m+i] * b[r*n+j]
				}
			}
		}
		if err := p.AddTransposedProduct(c, a, b, rows, m, n); err != nil {
			t.Fatal(err)
		}
		for i := range c {
			if !approx.Equal(c[i], want[i], 1e-12*math.Sqrt(float64(rows))*10) {
				t.Fatalf("%v: c[%d] = %v, want %v", dim, i, c[i], want[i])
			}
		}

		// aᵀb once more, with aᵀ written out.
		at := make([]float64, m*rows)
		for r := range rows {
			for i := range m {
				at[i*rows+r] = a[r*m+i]
			}
		}
		again, zero := make([]float64, m*n), make([]float64, m*n)
		if err := p.Multiply(again, at, b, m, rows, n); err != nil {
			t.Fatal(err)
		}
		if err := p.AddTransposedProduct(zero, a, b, rows, m, n); err != nil {
			t.Fatal(err)
		}
		single := make([]float32, m*n)
		if err := p.Multiply32(single, singles(at), singles(b), m, rows, n); err != nil {
			t.Fatal(err)
		}
		for i, v := range single {
			if !approx.Equal(float64(v), again[i], 1e-6*math.Sqrt(float64(rows))*10) {
				t.Fatalf("%v: ab[%d] = %v in float32, want %v", dim, i, v, again[i])
			}
		}
		for i := range again {
			if !approx.Equal(again[i], zero[i], 1e-12*math.Sqrt(float64(rows))*10) {
				t.Fatalf("%v: ab[%d] = %v, want %v", dim, i, again[i], zero[i])
			}
		}
	}
}

func singles(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func BenchmarkProduct(b *testing.B) {
	p, err := NewProduct(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for _, dim := range [][3]int{{512, 56, 4096}, {512, 1281, 1281}} {
		rows, m, n := dim[0], dim[1], dim[2]
		x, y, c := make([]float64, rows*m), make([]float64, rows*n), make([]float64, m*n)
		for _, v := range [][]float64{x, y, c} {
			for i := range v {
				v[i] = 1
			}
		}
		each := func(name string, f func() error) {
			b.Run(fmt.Sprintf("%s/%v", name, dim), func(b *testing.B) {
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(2*float64(rows*m*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
		each("transposed", func() error { return p.AddTransposedProduct(c, x, y, rows, m, n) })
		each("plain", func() error { return p.Multiply(y, x, c, rows, m, n) })
		y32, x32, c32 := singles(y), singles(x), singles(c)
		each("float32", func() error { return p.Multiply32(y32, x32, c32, rows, m, n) })
	}
}
