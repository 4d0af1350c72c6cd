package calibrate

import (
	"errors"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/internal/parallel"
)

// Structure says how the curvature of the last layer is represented.
type Structure string

const (
	Auto      Structure = "auto" // Full while that is small (see MaxFull), else Kronecker
	Full      Structure = "full" // KD × KD; of separate logits K blocks D × D
	Kronecker Structure = "kron" // B ⊗ A: K × K, of separate logits diagonal, and D × D
)

const (
	// MaxFull is the largest K·D for which Auto takes the full curvature of a
	// softmax head: its Cholesky factor then takes 128 MiB and a few seconds. The K
	// blocks of sigmoid and one-vs-rest heads may take as much, √K·D ≤ MaxFull.
	MaxFull = 4096
	// MaxDense is the largest K for which a Kronecker factor over classes is
	// dense; beyond it only its diagonal is kept.
	MaxDense = 2048
	// BlockSize is the number of source positions whose matrix product is
	// formed at once. Blocks are cut from position 0, so that sums do not depend
	// on how examples were batched, and shards that own whole blocks add up to
	// what one pass gives.
	BlockSize = 512

	// maxOrder bounds matrices: 16,384 squared is 2 GiB of float64, and
	// factorising it takes an hour.
	maxOrder = 16384
	// maxPairs bounds the weights of a block of the full curvature, one for each
	// pair of coupled logits and example: 134 MB, and as much again for J. 255
	// classes have as many pairs.
	maxPairs = 255 * 256 / 2
)

// Resolve replaces Auto by the structure that fits the head, and refuses what
// would not fit into memory.
func (s Structure) Resolve(h Head) (Structure, error) {
	coupled := h.coupled()
	blocks, order := h.Logits/coupled, coupled*h.Dim()
	pairs := blocks * triangle(coupled)
	// In floating point, for lack of overflow.
	entries := float64(blocks) * float64(order) * float64(order)
	if s == Auto || s == "" {
		s = Kronecker
		if entries <= MaxFull*MaxFull && pairs <= maxPairs {
			s = Full
		}
	}
	switch {
	case s == Full && pairs > maxPairs:
		return "", fmt.Errorf("the full curvature of %d %s logits has %d pairs of classes, want at most %d: use the kron structure", h.Logits, h.Link, pairs, maxPairs)
	case s == Full && entries > maxOrder*maxOrder:
		return "", fmt.Errorf("the full curvature of %d %s logits × %d parameters has %d × %d² entries, want at most %d²: use the kron structure", h.Logits, h.Link, h.Dim(), blocks, order, maxOrder)
	case s == Kronecker && h.Dim() > maxOrder:
		return "", fmt.Errorf("the curvature of %d parameters per logit has at least %d² entries, want at most %d²: such a head is not supported", h.Dim(), h.Dim(), maxOrder)
	case s != Full && s != Kronecker:
		return "", fmt.Errorf("structure %q, want auto, full or kron", s)
	}
	return s, nil
}

// CurvatureConfig says what a Curvature accumulates.
type CurvatureConfig struct {
	Head      Head
	Structure Structure // Full or Kronecker; zero and Auto are resolved by the head
	Fisher    bool      // accumulate J beside H; every example then needs a label
	Product   Product   // nil: float64 in pure Go; not called concurrently
}

// Curvature accumulates the second derivatives of the loss with respect to the
// last layer's weights, as sums over examples:
//
//	H = Σᵢ (diag pᵢ - pᵢpᵢᵀ) ⊗ φᵢφᵢᵀ   (paper, eq. 16)
//	J = Σᵢ rᵢrᵢᵀ ⊗ φᵢφᵢᵀ,  r = p - onehot(y)
//
// both at temperature 1, with φ augmented by 1 for a bias. H needs no labels.
// The full structure keeps what is distinct of them, one symmetric D×D block
// for each unordered pair of classes; the Kronecker structure keeps
// A = Σφφᵀ, B = Σ(diag p - ppᵀ) and G = Σrrᵀ.
//
// The logits of sigmoid and one-vs-rest heads are separate problems of two classes:
// H and J are K blocks, H_k = Σᵢ pᵢₖ(1-pᵢₖ) φᵢφᵢᵀ and J_k = Σᵢ (pᵢₖ-yᵢₖ)² φᵢφᵢᵀ with
// p = σ(a), and of B and G there are the diagonals.
//
// A Curvature is deterministic and mergeable. It is not safe for concurrent use.
type Curvature struct {
	head      Head
	structure Structure
	fisher    bool
	product   Product

	coupled       int // of Head.coupled
	probabilities func(p, rest []float64, logits []float32)

	n int       // examples
	a []float64 // Σφφᵀ, D×D; of the full structure packed

	// Full: [K/coupled, pairs of coupled classes, pairs of features], both packed
	// triangles.
	h, j []float64
	// Kronecker: K×K, or the K diagonal entries when diagonal.
	b, g     []float64
	diagonal bool

	block   block
	err     error      // of the product; what it lost is not made good
	eigen   *kronEigen // of the sums as they stand; dropped by Add and Merge
	scratch []float64

	transposed []float64 // weights of the block
}

// block buffers the examples of one block until their product is formed.
type block struct {
	index   int // position / BlockSize
	last    int // position of the last example
	rows    int
	phi     []float64 // [rows, D]
	weights []float64 // what phi is weighted with, [rows, width]; Kronecker: [width/K, BlockSize, K]
	width   int
	p, rest []float64 // of one example
	r       []float64
}

// NewCurvature returns an empty accumulator.
func NewCurvature(cfg CurvatureConfig) (*Curvature, error) {
	if err := cfg.Head.Validate(); err != nil {
		return nil, err
	}
	s, err := cfg.Structure.Resolve(cfg.Head)
	if err != nil {
		return nil, err
	}
	c := &Curvature{head: cfg.Head, structure: s, fisher: cfg.Fisher, product: OrGo(cfg.Product)}
	k, d := cfg.Head.Logits, cfg.Head.Dim()
	c.coupled = cfg.Head.coupled()
	c.probabilities = links[cfg.Head.Link].curvature
	if s == Full {
		pairs := k / c.coupled * triangle(c.coupled)
		c.a = make([]float64, triangle(d))
		c.h = make([]float64, pairs*triangle(d))
		if c.fisher {
			c.j = make([]float64, len(c.h))
		}
		c.block.width = 1 + pairs
		if c.fisher {
			c.block.width += pairs
		}
	} else {
		c.diagonal = k > MaxDense || c.coupled == 1
		size := k * k
		if c.diagonal {
			size = k
		}
		c.a = make([]float64, d*d)
		c.b = make([]float64, size)
		if c.fisher {
			c.g = make([]float64, size)
		}
		if !c.diagonal {
			c.block.width = k
			if c.fisher {
				c.block.width = 2 * k
			}
		}
	}
	c.block.index, c.block.last = -1, -1
	c.block.phi = make([]float64, BlockSize*d)
	c.block.weights = make([]float64, BlockSize*c.block.width)
	c.block.p, c.block.rest, c.block.r = make([]float64, k), make([]float64, k), make([]float64, k)
	return c, nil
}

// triangle returns the number of pairs i ≤ j below n.
func triangle(n int) int { return n * (n + 1) / 2 }

// Head returns the head whose curvature this is.
func (c *Curvature) Head() Head { return c.head }

// Structure returns Full or Kronecker.
func (c *Curvature) Structure() Structure { return c.structure }

// Examples returns how many examples were added, N.
func (c *Curvature) Examples() int { return c.n }

// Add adds the example at a position of the source: its features φ (d values),
// logits (K values) and label, or -1 where there is none. Positions rise;
// they may leave gaps where examples were skipped.
//
// It returns an error for values that are not finite, for labels out of range
// and for a missing label where the Fisher matrix is wanted; the example is
// then left out. An error of the Product is final: every later call returns it.
func (c *Curvature) Add(position int, phi, logits []float32, label int) error {
	return c.add(position, phi, logits, label, nil)
}

// AddTargets is Add for a multi-label head, for which an example has K targets,
// each 0 or 1, or nil.
func (c *Curvature) AddTargets(position int, phi, logits []float32, targets []uint8) error {
	return c.add(position, phi, logits, -1, targets)
}

func (c *Curvature) add(position int, phi, logits []float32, label int, targets []uint8) error {
	b := &c.block
	if len(phi) != c.head.Features || len(logits) != c.head.Logits {
		panic(fmt.Sprintf("calibrate: example has %d features and %d logits, want %d and %d", len(phi), len(logits), c.head.Features, c.head.Logits))
	}
	if position <= b.last {
		panic(fmt.Sprintf("calibrate: position %d after %d, want rising positions", position, b.last))
	}
	if err := checkExample(c.head, position, phi, logits, label, targets); err != nil {
		return err
	}
	if c.fisher && label < 0 && targets == nil {
		return fmt.Errorf("example %d has no label: the Fisher matrix needs one for every training example; use the hessian covariance, which needs none", position)
	}
	if index := position / BlockSize; index != b.index {
		if err := c.Flush(); err != nil {
			return err
		}
		b.index = index
	}
	d := c.head.Dim()
	c.head.augment(b.phi[b.rows*d:(b.rows+1)*d], phi)
	c.probabilities(b.p, b.rest, logits)
	if c.fisher {
		c.head.residuals(b.r, b.p, b.rest, label, targets)
	}
	c.weigh()
	b.rows++
	b.last = position
	c.n++
	c.eigen = nil
	return nil
}

func checkExample(h Head, position int, phi, logits []float32, label int, targets []uint8) error {
	for i, v := range phi {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("example %d: feature %d is %v, want a finite number: does the preprocessing fit the model?", position, i, v)
		}
	}
	for i, v := range logits {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("example %d: logit %d is %v, want a finite number: does the preprocessing fit the model?", position, i, v)
		}
	}
	if label < -1 || label >= h.Classes() {
		return fmt.Errorf("example %d has label %d, want 0 to %d: the model has %d classes", position, label, h.Classes()-1, h.Classes())
	}
	switch {
	case h.MultiLabel() && label >= 0:
		return fmt.Errorf("example %d has label %d, want %d targets of 0 or 1: the head is multi-label", position, label, h.Logits)
	case !h.MultiLabel() && targets != nil:
		return fmt.Errorf("example %d has %d targets, want one label: the head is not multi-label", position, len(targets))
	case targets != nil && len(targets) != h.Logits:
		return fmt.Errorf("example %d has %d targets, want %d", position, len(targets), h.Logits)
	}
	for k, y := range targets {
		if y > 1 {
			return fmt.Errorf("example %d: target %d is %d, want 0 or 1", position, k, y)
		}
	}
	return nil
}

// residuals writes p - y, y the targets or the one-hot code of the label, from p
// and 1-p: where y is 1 it is -(1-p).
func (h Head) residuals(r, p, rest []float64, label int, targets []uint8) {
	copy(r, p)
	switch {
	case targets != nil:
		for k, y := range targets {
			if y == 1 {
				r[k] = -rest[k]
			}
		}
	case h.Logits == 1:
		if label == 1 {
			r[0] = -rest[0]
		}
	default:
		r[label] = -rest[label]
	}
}

// weigh writes the weights of the current example, whose p, 1-p and r are set.
func (c *Curvature) weigh() {
	b := &c.block
	p, rest, r := b.p, b.rest, b.r
	k := len(p)
	switch {
	case c.structure == Full:
		w := b.weights[b.rows*b.width : (b.rows+1)*b.width]
		// A 1 for A, then w_kl of every coupled pair k ≤ l for H, then for J.
		w[0] = 1
		at := 1
		for first := 0; first < k; first += c.coupled {
			end := first + c.coupled
			for i := first; i < end; i++ {
				w[at] = p[i] * rest[i]
				at++
				for l := i + 1; l < end; l++ {
					w[at] = -p[i] * p[l]
					at++
				}
			}
		}
		for first := 0; first < k && c.fisher; first += c.coupled {
			for i := first; i < first+c.coupled; i++ {
				for l := i; l < first+c.coupled; l++ {
					w[at] = r[i] * r[l]
					at++
				}
			}
		}
	case c.diagonal:
		for i := range k {
			c.b[i] += p[i] * rest[i]
			if c.fisher {
				c.g[i] += r[i] * r[i]
			}
		}
	default:
		copy(b.weights[b.rows*k:], p)
		if c.fisher {
			copy(b.weights[(BlockSize+b.rows)*k:], r)
		}
		// The diagonal is summed here from p(1-p); the product gives the rest.
		for i := range k {
			c.b[i*k+i] += p[i] * rest[i]
		}
	}
}

// Flush adds the block that is being gathered. It must be called after the
// last Add; the other methods do so themselves.
func (c *Curvature) Flush() error {
	if c.block.rows == 0 || c.err != nil {
		return c.err
	}
	if c.structure == Full {
		c.err = c.flushFull()
	} else {
		c.err = c.flushKronecker()
	}
	c.block.rows = 0
	return c.err
}

// flushFull adds Σ w_kl φφᵀ of the block for each pair of classes.
//
// H has K(K+1)/2 · D(D+1)/2 distinct entries, a quarter of its (KD)². They are
// the product of two thin matrices over the examples, weights by pairs of
// classes and φ_iφ_j by pairs of features; the second is formed a few rows of
// the triangle at a time. With few classes forming it would cost more than the
// product, and one product a pair of classes is better.
func (c *Curvature) flushFull() error {
	b, d := &c.block, c.head.Dim()
	rows, width := b.rows, b.width
	weights := b.weights[:rows*width]
	const fewPairs = 16
	if width < fewPairs {
		return c.flushFullByPair()
	}
	c.transposed = grow(c.transposed, width*rows)
	for r := range rows {
		for i, w := range weights[r*width : (r+1)*width] {
			c.transposed[i*rows+r] = w
		}
	}
	// Columns formed at once; [512, 4096] float64 is 16 MiB.
	const columns = 4096
	for first := 0; first < d; {
		last, n := first, 0
		for last < d && (n == 0 || n+d-last <= columns) {
			n += d - last
			last++
		}
		c.scratch = grow(c.scratch, rows*n+width*n)
		q, sum := c.scratch[:rows*n], c.scratch[rows*n:]
		parallel.For(rows, func(from, to int) {
			for r := from; r < to; r++ {
				phi, row := b.phi[r*d:(r+1)*d], q[r*n:(r+1)*n]
				for i := first; i < last; i++ {
					scaleTo(row[:d-i], phi[i], phi[i:])
					row = row[d-i:]
				}
			}
		})
		if err := c.product.Multiply(sum, c.transposed, q, width, rows, n); err != nil {
			return err
		}
		offset := packedRow(first, d)
		c.eachSum(func(pair int, dst []float64) {
			add(dst[offset:offset+n], sum[pair*n:(pair+1)*n])
		})
		first = last
	}
	return nil
}

// flushFullByPair forms (w_kl ⊙ Φ)ᵀΦ for one pair of classes after another.
func (c *Curvature) flushFullByPair() (err error) {
	b, d := &c.block, c.head.Dim()
	rows := b.rows
	c.scratch = grow(c.scratch, rows*d+d*d)
	weighted, sum := c.scratch[:rows*d], c.scratch[rows*d:]
	c.eachSum(func(pair int, dst []float64) {
		if err != nil {
			return
		}
		for r := range rows {
			w := b.weights[r*b.width+pair]
			for i, v := range b.phi[r*d : (r+1)*d] {
				weighted[r*d+i] = w * v
			}
		}
		clear(sum)
		if err = c.product.AddTransposedProduct(sum, weighted, b.phi[:rows*d], rows, d, d); err != nil {
			return
		}
		for i := range d {
			add(dst[packedRow(i, d):packedRow(i+1, d)], sum[i*d+i:(i+1)*d])
		}
	})
	return err
}

// eachSum calls f with each packed D×D sum of the full structure, in the order
// of the weights: A, then H and J by pairs of classes.
func (c *Curvature) eachSum(f func(column int, dst []float64)) {
	f(0, c.a)
	size, column := len(c.a), 1
	for _, m := range [][]float64{c.h, c.j} {
		for at := 0; at < len(m); at += size {
			f(column, m[at:at+size])
			column++
		}
	}
}

func (c *Curvature) flushKronecker() error {
	b, k, d := &c.block, c.head.Logits, c.head.Dim()
	rows := b.rows
	phi := b.phi[:rows*d]
	if err := c.product.AddTransposedProduct(c.a, phi, phi, rows, d, d); err != nil || c.diagonal {
		return err
	}
	// B's diagonal was summed by itself: 1 - p of a network that is sure of its
	// training examples is not to be found in a sum of p².
	c.scratch = grow(c.scratch, rows*k+k)
	minus, diagonal := c.scratch[:rows*k], c.scratch[rows*k:]
	p := b.weights[:rows*k]
	for i, v := range p {
		minus[i] = -v
	}
	for i := range diagonal {
		diagonal[i] = c.b[i*k+i]
	}
	if err := c.product.AddTransposedProduct(c.b, minus, p, rows, k, k); err != nil {
		return err
	}
	for i, v := range diagonal {
		c.b[i*k+i] = v
	}
	if !c.fisher {
		return nil
	}
	r := b.weights[BlockSize*k : (BlockSize+rows)*k]
	return c.product.AddTransposedProduct(c.g, r, r, rows, k, k)
}

// Merge adds the sums of another accumulator of the same configuration, such
// as one that saw another shard of the data.
func (c *Curvature) Merge(o *Curvature) error {
	if c.head != o.head || c.structure != o.structure || c.fisher != o.fisher {
		return fmt.Errorf("cannot merge %s into %s", o.describe(), c.describe())
	}
	if err := errors.Join(c.Flush(), o.Flush()); err != nil {
		return err
	}
	add(c.a, o.a)
	add(c.h, o.h)
	add(c.j, o.j)
	add(c.b, o.b)
	add(c.g, o.g)
	c.n += o.n
	c.eigen = nil
	return nil
}

func (c *Curvature) describe() string {
	with := ""
	if c.fisher {
		with = ", with Fisher matrix"
	}
	return fmt.Sprintf("the %s curvature of %d %s logits × %d parameters%s", c.structure, c.head.Logits, c.head.Link, c.head.Dim(), with)
}

// packedRow returns where row i of a packed upper triangle of order n begins.
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
