package eigen

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"gonum.org/v1/gonum/mat"
)

// gradedUp is where EigenSym of gonum 0.17 panics or has a residual of 1e13
// nε‖A‖, for it scales blocks of tiny norm wrongly.
const gradedUp = "graded up"

// spectra makes the matrices that eigensolvers have gone wrong on.
var spectra = []struct {
	name string
	make func(n int, rng *rand.Rand) *mat.Dense
}{
	{"zero", func(n int, _ *rand.Rand) *mat.Dense { return dense(n) }},
	{"identity", func(n int, _ *rand.Rand) *mat.Dense {
		return fill(n, func(i, j int) float64 { return 3 * delta(i, j) })
	}},
	{"diagonal", func(n int, rng *rand.Rand) *mat.Dense {
		return fill(n, func(i, j int) float64 { return delta(i, j) * float64(rng.IntN(n)-n/2) })
	}},
	{"indefinite", func(n int, rng *rand.Rand) *mat.Dense {
		a := random(n, n, rng)
		a.Add(mat.DenseCopyOf(a.T()), a)
		return a
	}},
	{"Gram", func(n int, rng *rand.Rand) *mat.Dense { return gram(random(2*n, n, rng)) }},
	{"Gram of few", func(n int, rng *rand.Rand) *mat.Dense { return gram(random(n/4+1, n, rng)) }},
	{"Gram of positive", func(n int, rng *rand.Rand) *mat.Dense { // as of features after a ReLU
		x := random(2*n, n, rng)
		x.Apply(func(_, _ int, v float64) float64 { return max(0, v) }, x)
		return gram(x)
	}},
	{"equal but for rounding", func(n int, rng *rand.Rand) *mat.Dense {
		return similar(n, rng, func(int) float64 { return 1 })
	}},
	{"clusters", func(n int, rng *rand.Rand) *mat.Dense {
		return similar(n, rng, func(i int) float64 { return float64(1+i%3) + float64(i)*1e-15 })
	}},
	{"one huge", func(n int, rng *rand.Rand) *mat.Dense {
		return similar(n, rng, func(i int) float64 { return math.Pow(10, 14*delta(i, 0)) + float64(i)*1e-3 })
	}},
	{"one small", func(n int, rng *rand.Rand) *mat.Dense {
		return similar(n, rng, func(i int) float64 { return 1 - delta(i, 0)*(1-1e-14) })
	}},
	{"geometric", func(n int, rng *rand.Rand) *mat.Dense {
		return similar(n, rng, func(i int) float64 { return math.Pow(0.5, float64(i)) })
	}},
	{gradedUp, func(n int, rng *rand.Rand) *mat.Dense { return graded(n, rng, 1) }},
	{"graded down", func(n int, rng *rand.Rand) *mat.Dense { return graded(n, rng, -1) }},
	{"tiny", func(n int, rng *rand.Rand) *mat.Dense {
		a := gram(random(n, n, rng))
		a.Scale(0x1p-1060, a)
		return a
	}},
	{"large", func(n int, rng *rand.Rand) *mat.Dense {
		a := gram(random(n, n, rng))
		a.Scale(0x1p1000, a)
		return a
	}},
	{"Wilkinson", func(n int, _ *rand.Rand) *mat.Dense { // pairs of nearly equal eigenvalues
		return fill(n, func(i, j int) float64 {
			return delta(i, j)*math.Abs(float64(i)-float64(n-1)/2) + delta(abs(i-j), 1)
		})
	}},
	{"glued Wilkinson", func(n int, _ *rand.Rand) *mat.Dense {
		return fill(n, func(i, j int) float64 {
			if abs(i-j) == 1 && max(i, j)%21 == 0 {
				return 1e-10
			}
			return delta(i, j)*math.Abs(float64(i%21-10)) + delta(abs(i-j), 1)
		})
	}},
	{"second difference", func(n int, _ *rand.Rand) *mat.Dense {
		return fill(n, func(i, j int) float64 { return 2*delta(i, j) - delta(abs(i-j), 1) })
	}},
	{"arrow", func(n int, _ *rand.Rand) *mat.Dense {
		return fill(n, func(i, j int) float64 { return delta(i, j)*float64(i) + max(delta(i, 0), delta(j, 0)) })
	}},
	{"ones", func(n int, _ *rand.Rand) *mat.Dense { return fill(n, func(i, j int) float64 { return 1 }) }},
	{"checkerboard", func(n int, _ *rand.Rand) *mat.Dense {
		return fill(n, func(i, j int) float64 { return float64((i + j) % 2) })
	}},
	{"blocks", func(n int, rng *rand.Rand) *mat.Dense { // T falls apart
		a := gram(random(n, n, rng))
		a.Apply(func(i, j int, v float64) float64 { return v * delta(i/7, j/7) }, a)
		return a
	}},
	{"signs of zero", func(n int, _ *rand.Rand) *mat.Dense {
		return fill(n, func(i, j int) float64 { return math.Copysign(0, float64((i+j)%2)-0.5) })
	}},
}

// sizes are near those of leaves, panels and tiles.
var sizes = []int{1, 2, 3, 4, 31, 32, 33, 64, 65, 130, 200}

func TestSymAgainstEigenSym(t *testing.T) {
	t.Parallel()
	for _, spectrum := range spectra {
		t.Run(spectrum.name, func(t *testing.T) {
			for _, n := range sizes {
				a := spectrum.make(n, rand.New(rand.NewPCG(1, uint64(n))))
				values, q := decompose(t, a)
				check(t, a, values, q)
				if spectrum.name == gradedUp {
					continue
				}
				want := eigenSym(t, a)
				norm := math.Max(math.Abs(values[0]), math.Abs(values[n-1]))
				for i, v := range values {
					// Both have errors, and differ by up to 31 ε‖A‖ here.
					if !approx.Equal(v, want[i], 50*epsilon*norm+0x1p-1070) {
						t.Fatalf("n = %d: eigenvalue %d is %v, want %v of EigenSym: apart by %.3g ε‖A‖",
							n, i, v, want[i], math.Abs(v-want[i])/norm/epsilon)
					}
				}
			}
		})
	}
}

// Beyond the sizes at which work is shared out and cut into tiles.
func TestSymLarge(t *testing.T) {
	t.Parallel()
	const n = 545
	rng := rand.New(rand.NewPCG(2, 0))
	for _, a := range []*mat.Dense{gram(random(n/2, n, rng)), gram(random(n, n, rng))} {
		values, q := decompose(t, a)
		check(t, a, values, q)
	}
}

// The eigenvalues of A_ij = min(i, j), whose inverse is tridiagonal, are
// 1/(4 sin²((2k−1)π/(4n+2))): the errors are known exactly.
func TestSymOfKnownSpectrum(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10, 50, 100, 300} {
		a := fill(n, func(i, j int) float64 { return float64(min(i, j) + 1) })
		values, _ := decompose(t, a)
		theirs := eigenSym(t, a)
		var ours, other float64
		for i, v := range values {
			s := math.Sin(float64(2*(n-i)-1) * math.Pi / float64(4*n+2))
			want := 1 / (4 * s * s)
			ours = math.Max(ours, math.Abs(v-want))
			other = math.Max(other, math.Abs(theirs[i]-want))
		}
		unit := epsilon * values[n-1]
		if !(ours <= other+2*unit && ours <= 4*unit) {
			t.Errorf("n = %d: eigenvalues off by up to %.3g ε‖A‖, EigenSym's by %.3g", n, ours/unit, other/unit)
		}
	}
}

// A Gram matrix of few examples with small integers for features is exact, and so is its rank.
func TestSymOfZeroEigenvalues(t *testing.T) {
	t.Parallel()
	for _, n := range []int{40, 150, 300} {
		rng := rand.New(rand.NewPCG(3, uint64(n)))
		examples := n / 5
		x := mat.NewDense(examples, n, nil)
		x.Apply(func(int, int, float64) float64 { return float64(rng.IntN(9) - 3) }, x)
		a := gram(x)
		values, _ := decompose(t, a)
		theirs := eigenSym(t, a)
		var ours, other float64
		for i := range n - examples {
			ours, other = math.Max(ours, math.Abs(values[i])), math.Max(other, math.Abs(theirs[i]))
		}
		unit := epsilon * values[n-1]
		if !(ours <= math.Max(other, 2*unit)) {
			t.Errorf("n = %d: zero eigenvalues up to %.3g ε‖A‖, EigenSym's up to %.3g", n, ours/unit, other/unit)
		}
		if values[n-examples] < 1e6*unit {
			t.Errorf("n = %d: eigenvalue %d is %v: the test's matrix is not of rank %d", n, n-examples, values[n-examples], examples)
		}
	}
}

func TestSymDoesNotDependOnProcessors(t *testing.T) {
	const n = 450
	a := gram(random(n/2, n, rand.New(rand.NewPCG(4, 0))))
	values, q := decompose(t, a)
	for _, processors := range []int{1, 2, 5} {
		previous := runtime.GOMAXPROCS(processors)
		v, p := decompose(t, a)
		runtime.GOMAXPROCS(previous)
		if !slices.Equal(v, values) || !slices.Equal(p.RawMatrix().Data, q.RawMatrix().Data) {
			t.Errorf("another result on %d processors", processors)
		}
	}
}

func TestSymReadsTheLowerTriangleOnly(t *testing.T) {
	t.Parallel()
	const n = 70
	a := gram(random(n, n, rand.New(rand.NewPCG(5, 0))))
	values, q := decompose(t, a)
	for i := range n {
		for j := i + 1; j < n; j++ {
			a.Set(i, j, math.NaN())
		}
	}
	v, p := decompose(t, a)
	if !slices.Equal(v, values) || !slices.Equal(p.RawMatrix().Data, q.RawMatrix().Data) {
		t.Error("what is above the diagonal changes the result")
	}
}

func TestSymOfNothing(t *testing.T) {
	t.Parallel()
	values, err := Sym(nil, 0)
	if err != nil || len(values) != 0 {
		t.Errorf("%v, %v for an empty matrix", values, err)
	}
}

func TestSymRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		a    []float64
		want string
	}{
		{"NaN", []float64{1, 0, math.NaN(), 1}, "entry (1,0) of a 2×2 matrix is NaN"},
		{"infinity", []float64{1, 0, 0, math.Inf(-1)}, "entry (1,1) of a 2×2 matrix is -Inf"},
		{"overflow", []float64{math.MaxFloat64, 0, math.MaxFloat64, math.MaxFloat64}, "beyond the largest float64"},
	} {
		if _, err := Sym(test.a, 2); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic for 3 numbers as a 2×2 matrix")
		}
	}()
	Sym(make([]float64, 3), 2)
}

// FuzzConquer divides any tridiagonal matrix of some leaves.
func FuzzConquer(f *testing.F) {
	f.Add(uint8(50), []byte{})
	f.Add(uint8(100), []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f})
	var pattern []byte
	for _, v := range []float64{1, 1e-8, 1, -1e-16, 1 + 1e-15, 1e-160, -3, 0.5, 1e160} {
		pattern = binary.LittleEndian.AppendUint64(pattern, math.Float64bits(v))
	}
	f.Add(uint8(150), pattern)
	f.Fuzz(func(t *testing.T, size uint8, data []byte) {
		n := int(size)
		if n == 0 {
			return
		}
		next := 0
		number := func() float64 { // the data over and over
			if len(data) < 8 {
				return 1
			}
			v := math.Float64frombits(binary.LittleEndian.Uint64(data[next:]))
			if next += 8; next+8 > len(data) {
				next = 0
			}
			if !approx.Equal(v, 0, 1e300) {
				return 1
			}
			return v
		}
		a := dense(n)
		for i := range n {
			a.Set(i, i, number())
			if i > 0 {
				v := number()
				a.Set(i, i-1, v)
				a.Set(i-1, i, v)
			}
		}
		values, q := decompose(t, a)
		check(t, a, values, q)
	})
}

var large = flag.Bool("large", false, "benchmark EigenSym at 2048, which takes half a minute, and Sym at 4097")

// BenchmarkSym compares the two on random matrices.
func BenchmarkSym(b *testing.B) {
	for _, n := range []int{512, 1024, 2048, 4097} {
		if n > 2048 && !*large {
			continue
		}
		a := random(n, n, rand.New(rand.NewPCG(6, 0)))
		a.Add(mat.DenseCopyOf(a.T()), a)
		b.Run(fmt.Sprintf("Sym/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			q := make([]float64, n*n)
			for b.Loop() {
				copy(q, a.RawMatrix().Data)
				if _, err := Sym(q, n); err != nil {
					b.Fatal(err)
				}
			}
		})
		if n > 2048 || n > 1024 && !*large {
			continue
		}
		b.Run(fmt.Sprintf("EigenSym/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var e mat.EigenSym
				var q mat.Dense
				if !e.Factorize(symmetric(a), true) {
					b.Fatal("no convergence")
				}
				e.VectorsTo(&q)
			}
		})
	}
}

// decompose leaves a as it is.
func decompose(t *testing.T, a *mat.Dense) (values []float64, q *mat.Dense) {
	t.Helper()
	n, _ := a.Dims()
	q = mat.DenseCopyOf(a)
	values, err := Sym(q.RawMatrix().Data, n)
	if err != nil {
		t.Fatalf("n = %d: %v", n, err)
	}
	return values, q
}

// check holds that A = QΛQᵀ and QᵀQ = I to rounding, that the eigenvalues
// ascend, and that they have A's trace and Frobenius norm.
func check(t *testing.T, a *mat.Dense, values []float64, q *mat.Dense) {
	t.Helper()
	n := len(values)
	if !slices.IsSorted(values) {
		t.Fatalf("n = %d: eigenvalues do not ascend", n)
	}
	// A power of two brings all sums of squares into range.
	_, exponent := math.Frexp(mat.Max(absolute(a)))
	scale := func(v float64) float64 { return math.Ldexp(v, -exponent) }
	scaled := dense(n)
	scaled.Apply(func(_, _ int, v float64) float64 { return scale(v) }, a)
	lambda := dense(n)
	var norm, trace, squares float64 // trace: of the eigenvalues less A's
	for i, v := range values {
		lambda.Set(i, i, scale(v))
		norm = math.Max(norm, math.Abs(scale(v)))
		trace += scale(v) - scaled.At(i, i)
		squares += scale(v) * scale(v)
	}
	var left, right, gram mat.Dense
	left.Mul(scaled, q)
	right.Mul(q, lambda)
	left.Sub(&left, &right)
	gram.Mul(q.T(), q)
	for i := range n {
		gram.Set(i, i, gram.At(i, i)-1)
	}
	// Rounding gives about √n ε in each row, and the test's own products as
	// much: in the Frobenius norm nε, as a bound with room to spare.
	bound := 3 * float64(n) * epsilon
	subnormal := scale(0x1p-1074) * float64(n) // what the eigenvalues are rounded to
	if r := mat.Norm(&left, 2); !(r <= bound*norm+subnormal) {
		t.Errorf("n = %d: ‖AQ − QΛ‖ is %.3g nε‖A‖", n, r/(float64(n)*epsilon*norm))
	}
	if r := mat.Norm(&gram, 2); !(r <= bound) {
		t.Errorf("n = %d: ‖QᵀQ − I‖ is %.3g nε", n, r/(float64(n)*epsilon))
	}
	if r := math.Abs(trace); !(r <= bound*norm+subnormal) {
		t.Errorf("n = %d: the eigenvalues and the diagonal add to sums %.3g nε‖A‖ apart", n, r/(float64(n)*epsilon*norm))
	}
	if f := mat.Norm(scaled, 2); !approx.Equal(f, math.Sqrt(squares), bound*f+subnormal) {
		t.Errorf("n = %d: the eigenvalues have norm %v, the matrix %v", n, math.Sqrt(squares), f)
	}
}

// eigenSym is gonum's, of a matrix brought into the range where it works.
func eigenSym(t *testing.T, a *mat.Dense) []float64 {
	t.Helper()
	_, exponent := math.Frexp(mat.Max(absolute(a)))
	scaled := mat.DenseCopyOf(a)
	scaled.Apply(func(_, _ int, v float64) float64 { return math.Ldexp(v, -exponent) }, scaled)
	var e mat.EigenSym
	if !e.Factorize(symmetric(scaled), true) {
		t.Fatal("EigenSym did not converge")
	}
	values := e.Values(nil)
	for i, v := range values {
		values[i] = math.Ldexp(v, exponent)
	}
	return values
}

func symmetric(a *mat.Dense) *mat.SymDense {
	n, _ := a.Dims()
	return mat.NewSymDense(n, slices.Clone(a.RawMatrix().Data))
}

func absolute(a *mat.Dense) *mat.Dense {
	b := mat.DenseCopyOf(a)
	b.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, b)
	return b
}

func dense(n int) *mat.Dense { return mat.NewDense(n, n, nil) }

func fill(n int, f func(i, j int) float64) *mat.Dense {
	a := dense(n)
	a.Apply(func(i, j int, _ float64) float64 { return f(i, j) }, a)
	return a
}

func random(rows, cols int, rng *rand.Rand) *mat.Dense {
	a := mat.NewDense(rows, cols, nil)
	a.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, a)
	return a
}

// gram is xᵀx.
func gram(x *mat.Dense) *mat.Dense {
	var s mat.SymDense
	s.SymOuterK(1, x.T())
	return mat.DenseCopyOf(&s)
}

// similar has the eigenvalues f(0) … f(n−1), to rounding, and random vectors.
func similar(n int, rng *rand.Rand, f func(i int) float64) *mat.Dense {
	var qr mat.QR
	qr.Factorize(random(n, n, rng))
	var q, a mat.Dense
	qr.QTo(&q)
	scaled := mat.DenseCopyOf(&q)
	scaled.Apply(func(_, j int, v float64) float64 { return v * f(j) }, scaled)
	a.Mul(scaled, q.T())
	return fill(n, func(i, j int) float64 { return (a.At(i, j) + a.At(j, i)) / 2 })
}

// graded has entries from 1e-300 to 1e300.
func graded(n int, rng *rand.Rand, direction float64) *mat.Dense {
	x := random(n, n, rng)
	a := gram(x)
	power := func(i int) float64 {
		return math.Pow(10, direction*(300*float64(i)/math.Max(1, float64(n-1))-150))
	}
	a.Apply(func(i, j int, v float64) float64 { return v / float64(n) * power(i) * power(j) }, a)
	return a
}

func delta(i, j int) float64 {
	if i == j {
		return 1
	}
	return 0
}

func abs(i int) int { return max(i, -i) }
