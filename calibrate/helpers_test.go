package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// mixture is a Gaussian mixture with a head for it: features of class k are
// N(m_k, I), for which a_k = m_kᵀφ - |m_k|²/2 gives the true posterior.
type mixture struct {
	head  Head
	means []float64 // [K,d]; of a sigmoid head two rows
	sharp float64   // the logits are this much larger: an overconfident network
	rng   *rand.Rand
}

// newMixture places the means at a distance of spread from the origin.
func newMixture(h Head, spread, sharp float64, seed uint64) *mixture {
	m := &mixture{head: h, sharp: sharp, rng: rand.New(rand.NewPCG(seed, 1))}
	m.means = make([]float64, h.Classes()*h.Features)
	for k := range h.Classes() {
		var norm float64
		row := m.means[k*h.Features : (k+1)*h.Features]
		for i := range row {
			row[i] = m.rng.NormFloat64()
			norm += row[i] * row[i]
		}
		for i := range row {
			row[i] *= spread / math.Sqrt(norm)
		}
	}
	return m
}

// draw returns n examples of the mixture, or with away > 0 examples that far
// from the origin in random directions, which belong to no class.
func (m *mixture) draw(n int, away float64) *Set {
	h, d, classes := m.head, m.head.Features, m.head.Classes()
	s := &Set{Features: make([]float32, n*d), Logits: make([]float32, n*h.Logits)}
	for i := range n {
		label := m.rng.IntN(classes)
		for j := range d {
			if away > 0 {
				s.Features[i*d+j] = float32((1 + away/math.Sqrt(float64(d))) * m.rng.NormFloat64())
			} else {
				s.Features[i*d+j] = float32(m.means[label*d+j] + m.rng.NormFloat64())
			}
		}
		if away == 0 {
			s.Labels = append(s.Labels, int32(label))
		}
	}
	m.relogit(s)
	return s
}

// relogit sets the logits that go with the features.
func (m *mixture) relogit(s *Set) {
	h, d, classes := m.head, m.head.Features, m.head.Classes()
	n := s.Len(h)
	x := make([]float64, n*d)
	for i, v := range s.Features {
		x[i] = float64(v)
	}
	a := make([]float64, n*classes)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(x, n, d), general(m.means, classes, d), 0, general(a, n, classes))
	bias := make([]float64, classes)
	for k := range bias {
		for _, v := range m.means[k*d : (k+1)*d] {
			bias[k] -= v * v / 2
		}
	}
	for i := range n {
		row := a[i*classes : (i+1)*classes]
		for k := range row {
			row[k] = m.sharp * (row[k] + bias[k])
		}
		if h.Link == Sigmoid {
			s.Logits[i] = float32(row[1] - row[0])
			continue
		}
		for k, v := range row {
			s.Logits[i*classes+k] = float32(v)
		}
	}
}

// accumulate adds all examples of a set, from position first on.
func accumulate(t testing.TB, cfg CurvatureConfig, s *Set, first int) *Curvature {
	t.Helper()
	c, err := NewCurvature(cfg)
	if err != nil {
		t.Fatal(err)
	}
	addAll(t, c, s, first)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

func addAll(t testing.TB, c *Curvature, s *Set, first int) {
	t.Helper()
	h := c.Head()
	for i := range s.Len(h) {
		label := -1
		if s.Labels != nil {
			label = int(s.Labels[i])
		}
		if err := c.Add(first+i, s.phi(h, i), s.logits(h, i), label); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Set) phi(h Head, i int) []float32 { return s.Features[i*h.Features : (i+1)*h.Features] }

func (s *Set) logits(h Head, i int) []float32 { return s.Logits[i*h.Logits : (i+1)*h.Logits] }

// randomSet returns n examples with no structure in them: normal features,
// normal logits of the given size and uniform labels.
func randomSet(h Head, n int, size float64, seed uint64) *Set {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := &Set{
		Features: make([]float32, n*h.Features),
		Logits:   make([]float32, n*h.Logits),
		Labels:   make([]int32, n),
	}
	for i := range s.Features {
		s.Features[i] = float32(rng.NormFloat64())
	}
	for i := range s.Logits {
		s.Logits[i] = float32(size * rng.NormFloat64())
	}
	for i := range s.Labels {
		s.Labels[i] = int32(rng.IntN(h.Classes()))
	}
	return s
}

// slice returns the examples [from,to), which share memory with s.
func (s *Set) slice(h Head, from, to int) *Set {
	part := &Set{Features: s.Features[from*h.Features : to*h.Features], Logits: s.Logits[from*h.Logits : to*h.Logits]}
	if s.Labels != nil {
		part.Labels = s.Labels[from:to]
	}
	return part
}

// naive holds every sum by its definition, dense and class-major.
type naive struct {
	a, b, g []float64 // Σφφᵀ, Σ(diag p - ppᵀ), Σrrᵀ
	h, j    []float64 // Σ(diag p - ppᵀ) ⊗ φφᵀ, Σ rrᵀ ⊗ φφᵀ
}

func newNaive(h Head, s *Set) naive {
	k, d := h.Logits, h.Dim()
	m := naive{
		a: make([]float64, d*d), b: make([]float64, k*k), g: make([]float64, k*k),
		h: make([]float64, k*d*k*d), j: make([]float64, k*d*k*d),
	}
	for i := range s.Len(h) {
		phi, p, r := naivePhi(h, s, i), naiveP(h, s.logits(h, i)), naiveR(h, s, i)
		outer(m.a, phi, phi)
		w, rr := make([]float64, k*k), make([]float64, k*k)
		for x := range k {
			for y := range k {
				w[x*k+y] = -p[x] * p[y]
				if x == y {
					w[x*k+y] += p[x]
				}
				rr[x*k+y] = r[x] * r[y]
			}
		}
		add(m.b, w)
		add(m.g, rr)
		ff := make([]float64, d*d)
		outer(ff, phi, phi)
		addKronecker(m.h, w, ff, k, d)
		addKronecker(m.j, rr, ff, k, d)
	}
	return m
}

func naivePhi(h Head, s *Set, i int) []float64 {
	phi := make([]float64, 0, h.Dim())
	for _, v := range s.phi(h, i) {
		phi = append(phi, float64(v))
	}
	if h.Bias {
		phi = append(phi, 1)
	}
	return phi
}

// naiveP returns the probabilities of the K logits.
func naiveP(h Head, logits []float32) []float64 {
	p := make([]float64, len(logits))
	if h.Link == Sigmoid {
		p[0] = 1 / (1 + math.Exp(-float64(logits[0])))
		return p
	}
	var sum float64
	for k, a := range logits {
		p[k] = math.Exp(float64(a))
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// naiveR returns p - onehot(y), of a sigmoid head p - y.
func naiveR(h Head, s *Set, i int) []float64 {
	r := naiveP(h, s.logits(h, i))
	if s.Labels == nil {
		return r
	}
	if h.Link == Sigmoid {
		r[0] -= float64(s.Labels[i])
	} else {
		r[s.Labels[i]]--
	}
	return r
}

// outer adds xyᵀ to m.
func outer(m, x, y []float64) {
	for i, v := range x {
		for j, u := range y {
			m[i*len(y)+j] += v * u
		}
	}
}

// addKronecker adds b ⊗ a, b of order k and a of order d, to m.
func addKronecker(m, b, a []float64, k, d int) {
	n := k * d
	for x := range k {
		for y := range k {
			for i := range d {
				for j := range d {
					m[(x*d+i)*n+y*d+j] += b[x*k+y] * a[i*d+j]
				}
			}
		}
	}
}

// wantSame compares slices element by element, relative to the largest.
func wantSame(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d values, want %d", what, len(got), len(want))
	}
	var size float64
	for _, v := range want {
		size = math.Max(size, math.Abs(v))
	}
	worst, at := -1.0, 0
	for i := range want {
		if e := math.Abs(got[i] - want[i]); !(e <= worst) { // true for NaN
			worst, at = e, i
		}
	}
	if len(want) > 0 && !(worst <= tolerance*size) {
		t.Errorf("%s: value %d is %v, want %v: off by %.1e of the largest, %v; want %.0e", what, at, got[at], want[at], worst/size, size, tolerance)
	}
}

// wantRelative compares slices element by element, relative to each.
func wantRelative(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*math.Abs(want[i])) {
			t.Errorf("%s: value %d is %v, want %v: off by %.1e, want %.0e", what, i, got[i], want[i], math.Abs(got[i]/want[i]-1), tolerance)
			return
		}
	}
}
