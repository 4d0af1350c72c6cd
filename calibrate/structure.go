package calibrate

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/parallel"
	"gonum.org/v1/gonum/blas/blas64"
)

// Structure is the representation of the last layer's curvature.
type Structure string

const (
	Auto      Structure = "auto" // Full while that is small (see maxFull), else Kronecker
	Full      Structure = "full" // KD × KD; K blocks D × D for separate logits
	Kronecker Structure = "kron" // B ⊗ A: K × K, diagonal for separate logits, and D × D
)

const (
	// MaxDense is the largest K for which a Kronecker factor over classes is dense; beyond it only the
	// diagonal is kept.
	MaxDense = layer.MaxDense
	// BlockSize is the number of source positions in one matrix product.
	BlockSize = rows.BlockSize

	// maxFull is the largest K·D for which Auto takes the full curvature of a softmax head: its Cholesky
	// factor takes 128 MiB and a few seconds. For separate logits the bound is √K·D ≤ maxFull, which takes
	// the same memory.
	maxFull = 4096
	// maxOrder bounds the order of a matrix: 16,384² float64 are 2 GiB, and factorising them takes an hour.
	maxOrder = 16384
	// maxPairs bounds the weights of a block of the full curvature, one per example and pair of coupled
	// logits: 134 MB, and as much again for J. It is the number of pairs of 255 classes.
	maxPairs = 255 * 256 / 2
	// maxDirections is the most features whose directions are summed: 4096² float64 are 128 MiB.
	maxDirections = 4096
	// maxClassSums bounds the feature sums by class: 8Mi float64 are 64 MiB.
	maxClassSums = 8 << 20
)

// Validate reports an unknown structure.
func (s Structure) Validate() error {
	switch s {
	case "", Auto, Full, Kronecker:
		return nil
	}
	return option.Errorf("%s %q: want %s, %s or %s", option.Structure, s, Auto, Full, Kronecker)
}

// Resolve replaces Auto by the structure that suits the head. It refuses a curvature that would not fit into
// memory.
func (s Structure) Resolve(h layer.Head) (Structure, error) {
	if h.Nonlinear && h.Features == 0 {
		return "", nil // there is no curvature
	}
	if h.Logits < 1 || h.Features < 1 {
		return "", fmt.Errorf("the head has %d logits and %d features, want at least 1 of each", h.Logits, h.Features)
	}
	coupled := coupledLogits(h)
	blocks, order := h.Logits/coupled, coupled*h.Dim()
	pairs := blocks * triangle(coupled)
	// In floating point, which does not overflow.
	entries := float64(blocks) * float64(order) * float64(order)
	if s == Auto || s == "" {
		s = Kronecker
		if entries <= maxFull*maxFull && pairs <= maxPairs {
			s = Full
		}
	}
	switch {
	case s == Full && pairs > maxPairs:
		return "", fmt.Errorf("the full curvature of %d %s logits has %d pairs of classes, want at most %d: use the kron structure",
			h.Logits, h.Link, pairs, maxPairs)
	case s == Full && entries > maxOrder*maxOrder:
		return "", fmt.Errorf("the full curvature of %d %s logits × %d parameters has %d × %d² entries, want at most %d²: use the kron structure",
			h.Logits, h.Link, h.Dim(), blocks, order, maxOrder)
	case s == Kronecker && h.Dim() > maxOrder:
		return "", fmt.Errorf("the curvature of %d parameters per logit has at least %d² entries, want at most %d²: such a head is not supported",
			h.Dim(), h.Dim(), maxOrder)
	case s != Full && s != Kronecker:
		return "", fmt.Errorf("structure %q, want auto, full or kron", s)
	}
	return s, nil
}

// CurvatureConfig is the head whose curvature is summed, and the form of the sums.
type CurvatureConfig struct {
	Head      layer.Head
	Structure Structure        // Full or Kronecker; zero and Auto are resolved by the head
	Fisher    bool             // J beside H; every example then needs a label
	Product   parallel.Product // nil: float64 in pure Go
}

// layout is a resolved configuration. It determines the matrices.
type layout struct {
	head      layer.Head
	structure Structure
	fisher    bool
	product   parallel.Product
	coupled   int  // coupledLogits of the head
	diagonal  bool // only the diagonals of the Kronecker factors over classes are kept
	groups    int  // of examples whose features are summed: the classes, or 1
	// directions says that the directions of features are summed too. Sums of an earlier version lack them.
	directions bool
}

func newLayout(cfg CurvatureConfig) (layout, error) {
	if err := cfg.Head.Validate(); err != nil {
		return layout{}, err
	}
	s, err := cfg.Structure.Resolve(cfg.Head)
	if err != nil {
		return layout{}, err
	}
	l := layout{head: cfg.Head, structure: s, fisher: cfg.Fisher, product: parallel.OrGo(cfg.Product),
		coupled: coupledLogits(cfg.Head)}
	l.diagonal = s == Kronecker && (l.head.Logits > MaxDense || l.coupled == 1)
	l.groups = cfg.Head.Classes()
	if cfg.Head.MultiLabel() || l.groups*(cfg.Head.Features+1) > maxClassSums {
		l.groups = 1
	}
	l.directions = l.hasDirections()
	return l, nil
}

// hasDirections reports whether sums of the current version have directions.
func (l *layout) hasDirections() bool { return l.groups > 1 && l.head.Features <= maxDirections }

// Head returns the head.
func (l *layout) Head() layer.Head { return l.head }

// Structure returns Full or Kronecker.
func (l *layout) Structure() Structure { return l.structure }

// Fisher reports whether J is summed too.
func (l *layout) Fisher() bool { return l.fisher }

// pairs returns the number of pairs of logits that have a block in the full structure.
func (l *layout) pairs() int { return l.head.Logits / l.coupled * triangle(l.coupled) }

func (l *layout) String() string {
	with := ""
	if l.fisher {
		with = ", with Fisher matrix"
	}
	return fmt.Sprintf("the %s curvature of %d %s logits × %d parameters%s", l.structure, l.head.Logits, l.head.Link, l.head.Dim(), with)
}

// matrices are sums over examples. The layout determines which of them are not nil, and their form.
type matrices struct {
	n int       // examples
	a []float64 // Σφφᵀ, D×D; packed in the full structure

	// Full: [K/coupled, pairs of coupled classes, pairs of features], both packed triangles.
	h, j []float64
	// Kronecker: K×K, or the K diagonal entries.
	b, g []float64

	// For each group the sum of its features, then its number of examples: [groups, d+1].
	c []float64

	// Of the directions u = φ/|φ|, zero for φ = 0: Σuuᵀ, d×d, and for each group Σu, [groups, d].
	u, v []float64
}

// A matrix is one of matrices, with its name and size in encoded sums.
type matrix struct {
	name  string
	data  *[]float64
	size  int
	order int // of a symmetric matrix kept whole, order·order; else 0
}

// encoded returns the entries to encode: all of them, or the rows of the upper triangle of a symmetric matrix
// kept whole.
func (m *matrix) encoded() [][]float64 {
	if m.order == 0 {
		return [][]float64{*m.data}
	}
	rows := make([][]float64, m.order)
	for i := range rows {
		rows[i] = (*m.data)[i*m.order+i : (i+1)*m.order]
	}
	return rows
}

// encodedSize returns the number of encoded entries.
func (m *matrix) encodedSize() int {
	if m.order == 0 {
		return m.size
	}
	return triangle(m.order)
}

// decode sets the matrix from encoded entries.
func (m *matrix) decode(entries []float64) {
	if m.order == 0 {
		*m.data = entries
		return
	}
	*m.data = make([]float64, m.size)
	for _, row := range m.encoded() {
		entries = entries[copy(row, entries):]
	}
	mirror(*m.data, m.order)
}

// mirror copies the upper triangle of a square matrix to the lower one.
func mirror(m []float64, n int) {
	for i := range n {
		for j := i + 1; j < n; j++ {
			m[j*n+i] = m[i*n+j]
		}
	}
}

// of lists the matrices of a layout: a, h or b, j or g with the Fisher matrix, c, and u and v with directions.
func (m *matrices) of(l *layout) []matrix {
	k, d := l.head.Logits, l.head.Dim()
	var list []matrix
	switch {
	case l.structure == Full:
		size := l.pairs() * triangle(d)
		list = []matrix{{"a", &m.a, triangle(d), 0}, {"h", &m.h, size, 0}, {"j", &m.j, size, 0}}
	case l.diagonal:
		list = []matrix{{"a", &m.a, d * d, d}, {"b", &m.b, k, 0}, {"g", &m.g, k, 0}}
	default:
		list = []matrix{{"a", &m.a, d * d, d}, {"b", &m.b, k * k, k}, {"g", &m.g, k * k, k}}
	}
	if !l.fisher {
		list = list[:2]
	}
	f := l.head.Features
	list = append(list, matrix{"c", &m.c, l.groups * (f + 1), 0})
	if l.directions {
		list = append(list, matrix{"u", &m.u, f * f, f}, matrix{"v", &m.v, l.groups * f, 0})
	}
	return list
}

// add adds the sums of other examples.
func (m *matrices) add(o *matrices) {
	m.n += o.n
	add(m.a, o.a)
	add(m.h, o.h)
	add(m.j, o.j)
	add(m.b, o.b)
	add(m.g, o.g)
	add(m.c, o.c)
	add(m.u, o.u)
	add(m.v, o.v)
}

// triangle returns the number of pairs i ≤ j below n.
func triangle(n int) int { return n * (n + 1) / 2 }

// packedRow returns the start of row i in a packed upper triangle of order n.
func packedRow(i, n int) int { return i*n - i*(i-1)/2 }

func add(dst, src []float64) {
	for i, v := range src {
		dst[i] += v
	}
}

// scaleTo writes a·x to dst.
func scaleTo(dst []float64, a float64, x []float64) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = a * v
	}
}

func grow(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}

// augment writes φ and, where the head has a bias, the constant 1 to dst (D).
func augment(h layer.Head, dst []float64, phi []float32) {
	for i, v := range phi {
		dst[i] = float64(v)
	}
	if h.Bias {
		dst[len(phi)] = 1
	}
}

// coupledLogits returns how many logits each block of the curvature couples. The full curvature is K/coupled
// blocks, each of coupled·D parameters.
func coupledLogits(h layer.Head) int {
	if h.Link.Separate() {
		return 1
	}
	return h.Logits
}

func general(x []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
