package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// Sums accumulate the second derivatives of the training loss with respect to the last layer's weights:
//
//	H = Σᵢ (diag pᵢ - pᵢpᵢᵀ) ⊗ φᵢφᵢᵀ   (paper, eq. 16)
//	J = Σᵢ rᵢrᵢᵀ ⊗ φᵢφᵢᵀ,  r = p - onehot(y)
//
// both at temperature 1, with φ augmented by 1 for a bias. H needs no labels. The full structure keeps the
// distinct entries, one symmetric D×D block for each unordered pair of classes; the Kronecker structure keeps
// A = Σφφᵀ, B = Σ(diag p - ppᵀ) and G = Σrrᵀ.
//
// The logits of sigmoid and one-vs-rest heads are separate binary problems: H and J are K blocks,
// H_k = Σᵢ pᵢₖ(1-pᵢₖ) φᵢφᵢᵀ and J_k = Σᵢ (pᵢₖ-yᵢₖ)² φᵢφᵢᵀ with p = σ(a), and only the diagonals of B and G
// are kept.
//
// Sums also hold Σφ, Σφ/|φ| and the number of examples of each class, by label or, without one, by prediction, and the
// second moments of φ/|φ|. Scores are fitted to them.
//
// Sums change by whole blocks of 512 source positions (see [rows.InBlocks]) and record the blocks they cover.
// They can be written and read between any two blocks ([Sums.Encode], [DecodeSums]): resuming from there gives
// the same bits as an uninterrupted run. Sums of other blocks can be merged. The same parts give the same bits
// in any order: parts stay apart until they are joined or finished, and are then added by position. Another
// division into parts agrees to about 1e-12.
//
// Sums are not safe for concurrent use.
type Sums struct {
	layout
	parts    []*part // by first block
	err      error   // of the product, which is final
	finished bool
	work     *gram // nil before the first block
}

// A part is the sum of blocks added one after another, or of several such parts.
type part struct {
	matrices
	blocks []span // covered, ascending
}

// A span is the blocks [from,to).
type span struct{ from, to int }

// NewSums returns empty sums.
func NewSums(cfg CurvatureConfig) (*Sums, error) {
	l, err := newLayout(cfg)
	if err != nil {
		return nil, err
	}
	return &Sums{layout: l}, nil
}

// Examples returns N, the number of examples added.
func (s *Sums) Examples() int {
	n := 0
	for _, p := range s.parts {
		n += p.n
	}
	return n
}

// AddBlock adds a block: all examples in 512 source positions, with features and logits. Earlier blocks need
// not have been added.
//
// It returns an error, and adds nothing, if the block is covered already, a value is not finite, a label is out
// of range, or a label that the Fisher matrix needs is missing. An error of the Product is final: every later
// call returns it.
func (s *Sums) AddBlock(b *rows.Batch) error {
	if s.err != nil || b.N == 0 {
		return s.err
	}
	if s.finished {
		panic("calibrate: a block is added to sums that are finished")
	}
	if err := s.check(b); err != nil {
		return err
	}
	index := rows.Block(b.Positions[0])
	if s.covers(index) {
		return coveredTwice(index)
	}
	if s.work == nil {
		s.work = newGram(&s.layout)
	}
	p := s.partBefore(index)
	if s.err = s.work.add(&p.matrices, b); s.err != nil {
		return s.err
	}
	p.cover(index)
	return nil
}

// check refuses examples that cannot be added. It panics for a batch that is not a block.
func (s *Sums) check(b *rows.Batch) error {
	if len(b.Positions) != b.N || len(b.Features) != b.N*s.head.Features || len(b.Logits) != b.N*s.head.Logits {
		panic(fmt.Sprintf("calibrate: %d positions, %d features and %d logits for %d examples, want 1, %d and %d each",
			len(b.Positions), len(b.Features), len(b.Logits), b.N, s.head.Features, s.head.Logits))
	}
	for i, position := range b.Positions {
		if position < 0 || rows.Block(position) >= rows.MaxBlocks {
			panic(fmt.Sprintf("calibrate: position %d, want 0 or more, in fewer than %d blocks", position, rows.MaxBlocks))
		}
		if rows.Block(position) != rows.Block(b.Positions[0]) || i > 0 && position <= b.Positions[i-1] {
			panic(fmt.Sprintf("calibrate: position %d after %d, want rising positions of one block", position, b.Positions[max(0, i-1)]))
		}
		phi, logits := b.Row(i)
		err := checkExample(s.head, position, phi, logits, b.Label(i), b.Target(i))
		if err == nil && s.fisher && b.Label(i) < 0 && b.Targets == nil {
			err = fmt.Errorf("example %d has no label: the Fisher matrix needs one for every training example; use the hessian covariance, which needs none", position)
		}
		if err != nil {
			if b.Names != nil || b.From != "" {
				err = fmt.Errorf("%s: %w", b.Name(i), err)
			}
			return err
		}
	}
	return nil
}

func coveredTwice(block int) error {
	return fmt.Errorf("the examples from %d to %d were already added: add each part of the data once", block*BlockSize, (block+1)*BlockSize-1)
}

// End returns the block after the last one covered, or 0 without examples.
func (s *Sums) End() int {
	end := 0
	for _, p := range s.parts {
		end = max(end, p.end())
	}
	return end
}

// covers reports whether a block was added.
func (s *Sums) covers(index int) bool {
	return slices.ContainsFunc(s.parts, func(p *part) bool {
		return slices.ContainsFunc(p.blocks, func(b span) bool { return b.from <= index && index < b.to })
	})
}

func (p *part) first() int { return p.blocks[0].from }
func (p *part) end() int   { return p.blocks[len(p.blocks)-1].to }

// partBefore returns the last part that ends before a block, or else a new one.
func (s *Sums) partBefore(index int) *part {
	var before *part
	for _, p := range s.parts {
		if p.end() <= index && (before == nil || p.end() > before.end()) {
			before = p
		}
	}
	if before != nil {
		return before
	}
	p := &part{}
	for _, m := range p.of(&s.layout) {
		*m.data = make([]float64, m.size)
	}
	p.blocks = []span{{index, index}}
	at, _ := slices.BinarySearchFunc(s.parts, index, func(p *part, index int) int {
		return cmp.Compare(p.first(), index)
	})
	s.parts = slices.Insert(s.parts, at, p)
	return p
}

// cover records that a block after all others was added.
func (p *part) cover(index int) {
	if p.end() < index {
		p.blocks = append(p.blocks, span{index, index})
	}
	p.blocks[len(p.blocks)-1].to = index + 1
}

// Merge moves the sums of o, which is left empty, into s. It refuses sums of another configuration and blocks
// that both cover.
func (s *Sums) Merge(o *Sums) error {
	if s.head != o.head || s.structure != o.structure || s.fisher != o.fisher {
		return fmt.Errorf("cannot merge %s into %s", &o.layout, &s.layout)
	}
	if err := errors.Join(s.err, o.err); err != nil {
		return err
	}
	if s.finished || o.finished {
		panic("calibrate: sums are merged that are finished")
	}
	parts := append(slices.Clone(s.parts), o.parts...)
	if block, twice := overlap(parts); twice {
		return coveredTwice(block)
	}
	if s.directions != o.directions { // one is of an earlier version
		s.dropDirections()
		o.dropDirections()
	}
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(a.first(), b.first()) })
	s.parts, o.parts = parts, nil
	return nil
}

// DropFisher makes of sums with a Fisher matrix those without.
func (s *Sums) DropFisher() {
	if s.finished {
		panic("calibrate: a matrix is taken from sums that are finished")
	}
	s.fisher, s.work = false, nil
	for _, p := range s.parts {
		p.j, p.g = nil, nil
	}
}

// dropDirections makes of sums with directions those without.
func (s *Sums) dropDirections() {
	s.directions, s.work = false, nil
	for _, p := range s.parts {
		p.u, p.v = nil, nil
	}
}

// Join adds up, in the order of their positions, the parts that lie in the blocks from one to before
// another: they then take the memory of one. Sums are the same in any order of merging if the same
// blocks are joined in all of them, each time when all of these have been merged.
func (s *Sums) Join(from, to int) {
	var sum *part
	s.parts = slices.DeleteFunc(s.parts, func(p *part) bool {
		if p.first() < from || p.end() > to {
			return false
		}
		if sum == nil {
			sum = p
			return false
		}
		sum.matrices.add(&p.matrices)
		sum.blocks = joined(append(sum.blocks, p.blocks...))
		return true
	})
}

// joined sorts disjoint spans and joins adjacent ones.
func joined(all []span) []span {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	rising := all[:1]
	for _, b := range all[1:] {
		if last := &rising[len(rising)-1]; last.to == b.from {
			last.to = b.to
		} else {
			rising = append(rising, b)
		}
	}
	return rising
}

// overlap returns a block that two parts cover, if any.
func overlap(parts []*part) (block int, twice bool) {
	var all []span
	for _, p := range parts {
		all = append(all, p.blocks...)
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(all); i++ {
		if all[i].from < all[i-1].to {
			return all[i].from, true
		}
	}
	return 0, false
}

// Finish returns the curvature. No more can be added to the sums.
func (s *Sums) Finish() (*Curvature, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.finished, s.work = true, nil
	var total matrices
	if len(s.parts) == 1 {
		total = s.parts[0].matrices
	} else {
		for _, m := range total.of(&s.layout) {
			*m.data = make([]float64, m.size)
		}
		for _, p := range s.parts {
			total.add(&p.matrices)
		}
	}
	return newCurvature(s.layout, total), nil
}

// NewCurvature returns the curvature of examples in memory, with positions that count from 0. The error is that
// of NewSums, or names the example.
func NewCurvature(cfg CurvatureConfig, examples *rows.Batch) (*Curvature, error) {
	s, err := NewSums(cfg)
	if err != nil {
		return nil, err
	}
	for from := 0; from < examples.N; from += BlockSize {
		block := examples.Slice(from, min(from+BlockSize, examples.N))
		block.Positions = make([]int, block.N)
		for i := range block.Positions {
			block.Positions[i] = from + i
		}
		if err := s.AddBlock(block); err != nil {
			return nil, err
		}
	}
	return s.Finish()
}
