package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// mixture is a Gaussian mixture with a head for it: features of class k are
// N(m_k, I), for which a_k = m_kᵀφ - |m_k|²/2 gives the true posterior. For a
// multi-label head features are N(0, I), and label k has the logit m_kᵀφ.
type mixture struct {
	head  layer.Head
	means []float64 // [K,d]; of a sigmoid head two rows
	sharp float64   // the logits are this much larger: an overconfident network
	rng   *rand.Rand
}

// newMixture places the means at a distance of spread from the origin.
func newMixture(h layer.Head, spread, sharp float64, seed uint64) *mixture {
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
func (m *mixture) draw(n int, away float64) *rows.Batch {
	h, d, classes := m.head, m.head.Features, m.head.Classes()
	s := &rows.Batch{N: n, Features: make([]float32, n*d), Logits: make([]float32, n*h.Logits)}
	for i := range n {
		label := m.rng.IntN(classes)
		for j := range d {
			switch {
			case away > 0:
				s.Features[i*d+j] = float32((1 + away/math.Sqrt(float64(d))) * m.rng.NormFloat64())
			case h.MultiLabel():
				s.Features[i*d+j] = float32(m.rng.NormFloat64())
			default:
				s.Features[i*d+j] = float32(m.means[label*d+j] + m.rng.NormFloat64())
			}
		}
		if away == 0 && !h.MultiLabel() {
			s.Labels = append(s.Labels, label)
		}
	}
	m.relogit(s)
	if away == 0 && h.MultiLabel() {
		for _, a := range s.Logits {
			s.Targets = append(s.Targets, m.toss(1/(1+math.Exp(-float64(a)/m.sharp))))
		}
	}
	return s
}

// toss returns 1 with probability p, else 0.
func (m *mixture) toss(p float64) uint8 {
	if m.rng.Float64() < p {
		return 1
	}
	return 0
}

// relogit sets the logits that go with the features.
func (m *mixture) relogit(s *rows.Batch) {
	h, d, classes := m.head, m.head.Features, m.head.Classes()
	n := s.N
	x := make([]float64, n*d)
	for i, v := range s.Features {
		x[i] = float64(v)
	}
	a := make([]float64, n*classes)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(x, n, d), general(m.means, classes, d), 0, general(a, n, classes))
	bias := make([]float64, classes)
	for k := range bias {
		if h.MultiLabel() {
			break
		}
		for _, v := range m.means[k*d : (k+1)*d] {
			bias[k] -= v * v / 2
		}
	}
	for i := range n {
		row := a[i*classes : (i+1)*classes]
		for k := range row {
			row[k] = m.sharp * (row[k] + bias[k])
		}
		switch {
		case h.Logits == 1:
			s.Logits[i] = float32(row[1] - row[0])
			continue
		case h.Link == layer.OneVsRest: // log p_k/(1-p_k)
			odds := make([]float64, classes)
			for k := range row {
				var others float64
				for l, v := range row {
					if l != k {
						others += math.Exp(v)
					}
				}
				odds[k] = row[k] - math.Log(others)
			}
			row = odds
		}
		for k, v := range row {
			s.Logits[i*classes+k] = float32(v)
		}
	}
}

// accumulate sums all examples of a set, whose positions count from first on unless it has some.
func accumulate(t testing.TB, cfg CurvatureConfig, s *rows.Batch, first int) *Curvature {
	t.Helper()
	c, err := sumsOf(t, cfg, s, first).Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newSums(t testing.TB, cfg CurvatureConfig) *Sums {
	t.Helper()
	s, err := NewSums(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sumsOf(t testing.TB, cfg CurvatureConfig, s *rows.Batch, first int) *Sums {
	t.Helper()
	sums := newSums(t, cfg)
	if err := addAll(sums, s, first); err != nil {
		t.Fatal(err)
	}
	return sums
}

// addAll adds a set block by block.
func addAll(sums *Sums, s *rows.Batch, first int) error {
	b := *s
	if b.Positions == nil {
		for i := range b.N {
			b.Positions = append(b.Positions, first+i)
		}
	}
	for block := range rows.InBlocks(func(yield func(*rows.Batch, error) bool) { yield(&b, nil) }) {
		if err := sums.AddBlock(block); err != nil {
			return err
		}
	}
	return nil
}

func phiOf(s *rows.Batch, i int) []float32 {
	phi, _ := s.Row(i)
	return phi
}

func logitsOf(s *rows.Batch, i int) []float32 {
	_, a := s.Row(i)
	return a
}

// randomSet returns n examples with no structure in them: normal features,
// normal logits of the given size and uniform labels.
func randomSet(h layer.Head, n int, size float64, seed uint64) *rows.Batch {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := &rows.Batch{
		N:        n,
		Features: make([]float32, n*h.Features),
		Logits:   make([]float32, n*h.Logits),
	}
	if h.MultiLabel() {
		s.Targets = make([]uint8, n*h.Logits)
	} else {
		s.Labels = make([]int, n)
	}
	for i := range s.Features {
		s.Features[i] = float32(rng.NormFloat64())
	}
	for i := range s.Logits {
		s.Logits[i] = float32(size * rng.NormFloat64())
	}
	for i := range s.Labels {
		s.Labels[i] = rng.IntN(h.Classes())
	}
	for i := range s.Targets {
		s.Targets[i] = uint8(rng.IntN(2))
	}
	return s
}

// naive holds every sum by its definition, dense and class-major. Of separate
// logits there are only the diagonals of diag p - ppᵀ and rrᵀ.
type naive struct {
	a, b, g []float64 // Σφφᵀ, Σ(diag p - ppᵀ), Σrrᵀ
	h, j    []float64 // Σ(diag p - ppᵀ) ⊗ φφᵀ, Σ rrᵀ ⊗ φφᵀ
}

func newNaive(h layer.Head, s *rows.Batch) naive {
	k, d := h.Logits, h.Dim()
	m := naive{
		a: make([]float64, d*d), b: make([]float64, k*k), g: make([]float64, k*k),
		h: make([]float64, k*d*k*d), j: make([]float64, k*d*k*d),
	}
	for i := range s.N {
		phi, p, r := naivePhi(h, s, i), naiveP(h, logitsOf(s, i)), naiveR(h, s, i)
		outer(m.a, phi, phi)
		w, rr := make([]float64, k*k), make([]float64, k*k)
		for x := range k {
			for y := range k {
				if x != y && h.Link != layer.Softmax {
					continue
				}
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

func naivePhi(h layer.Head, s *rows.Batch, i int) []float64 {
	phi := make([]float64, 0, h.Dim())
	for _, v := range phiOf(s, i) {
		phi = append(phi, float64(v))
	}
	if h.Bias {
		phi = append(phi, 1)
	}
	return phi
}

// naiveP returns the probabilities of the K logits.
func naiveP(h layer.Head, logits []float32) []float64 {
	p := make([]float64, len(logits))
	if h.Link != layer.Softmax {
		for k, a := range logits {
			p[k] = 1 / (1 + math.Exp(-float64(a)))
		}
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

// naiveR returns p - y.
func naiveR(h layer.Head, s *rows.Batch, i int) []float64 {
	r := naiveP(h, logitsOf(s, i))
	for k := range r {
		if (s.Labels != nil || s.Targets != nil) && truth(h, s, i, k) {
			r[k]--
		}
	}
	return r
}

// truth reports whether what the k-th logit speaks for is true of example i.
func truth(h layer.Head, s *rows.Batch, i, k int) bool {
	switch {
	case h.MultiLabel():
		return s.Targets[i*h.Logits+k] == 1
	case h.Logits == 1:
		return s.Labels[i] == 1
	}
	return s.Labels[i] == k
}

// whole assembles the KD×KD matrix of a packed sum.
func (c *Curvature) whole(packed []float64) []float64 {
	n, m := c.head.Logits*c.head.Dim(), c.coupled*c.head.Dim()
	all := make([]float64, n*n)
	for first := 0; first < c.head.Logits; first += c.coupled {
		block, at := c.dense(packed, first), first*c.head.Dim()
		for i := range m {
			copy(all[(at+i)*n+at:], block[i*m:(i+1)*m])
		}
	}
	return all
}

// wholeB is the K×K matrix of a Kronecker factor over classes.
func (c *Curvature) wholeB(b []float64) []float64 {
	if !c.diagonal {
		return b
	}
	k := len(b)
	all := make([]float64, k*k)
	for i, v := range b {
		all[i*k+i] = v
	}
	return all
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
	for i := range want {
		if !approx.Equal(got[i], want[i], tolerance*size) {
			t.Errorf("%s: value %d is %v, want %v: off by %.1e of the largest, %v; want %.0e", what, i, got[i], want[i], math.Abs(got[i]-want[i])/size, size, tolerance)
			return
		}
	}
}

// wantRelative compares slices element by element, relative to each.
func wantRelative(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !approx.Relative(got[i], want[i], tolerance) {
			t.Errorf("%s: value %d is %v, want %v: off by %.1e, want %.0e", what, i, got[i], want[i], math.Abs(got[i]/want[i]-1), tolerance)
			return
		}
	}
}
