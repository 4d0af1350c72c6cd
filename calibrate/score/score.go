// Package score lists the scores of unfamiliarity: one number an example, larger for what
// is less like the training data.
//
// A [Score] is one entry of [All], in a file of its kin. Its formula is written
// once, over [Terms], and serves twice: [Fitted.Values] computes it in float64 from what a
// calibration gives, and the fused ONNX graph is written by the same function over the
// names of tensors.
//
// To add one that needs nothing but what a calibration gives:
//
//	var energy = Score{
//		Name: "energy", Doc: "-log Σ exp a", Source: "Liu et al. 2020, eq. 4",
//		rows: energyOf[Rows], graph: energyOf[string],
//	}
//
//	func energyOf[V any](t Terms[V], _ Tensors) V { return t.Neg(logSumExp(t, t.Logits())) }
//
// One that learns from training data has two fields more: learns, the names and the shapes of its
// tensors, by which they are checked when a bundle is read, and fit, which makes them of a
// [Training]. The formula finds them with constant(t, tensors, name).
package score

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/internal/parallel"
)

// ErrNoFit says that a score cannot be fitted to the training data there are.
var ErrNoFit = errors.New("cannot be fitted")

// A Score is one score of unfamiliarity.
type Score struct {
	Name   string // in flags, tables and bundles
	Doc    string // one line for tables and help
	Source string // where it comes from: authors, year, equation

	// Familiarity says that the score is -g of a familiarity g ≥ 0, which is 0 for the strangest:
	// served it is m/(m+g) rather than made from median and spread, see [Served].
	Similarity bool
	// Margin says that it is made of mf0's margin, [Examples.Margin], which others need not have.
	Margin bool

	// The formula, instantiated for numbers and for names of tensors in a graph. It is larger for
	// what is stranger; any real number will do. What is not finite counts as the strangest.
	rows  func(Terms[Rows], Tensors) Rows
	graph func(Terms[string], Tensors) string

	// learns are the tensors that fit makes, and formulas find. Of most scores there are none.
	learns []TensorSpec
	fit    func(*Training) (Tensors, error)
	needs  func(Tensors) []TensorSpec // which of learns there are with some; nil: all
}

// Learns reports whether the score is fitted to training data: else [Score.Fit] takes nil.
func (s *Score) Learns() bool { return s.fit != nil }

// Fit makes the score ready to be computed. An error that is [ErrNoFit] says that the data have not
// what it needs, such as two examples of a class.
func (s *Score) Fit(t *Training) (*Fitted, error) {
	if s.fit == nil {
		return &Fitted{Score: s}, nil
	}
	tensors, err := s.learn(t)
	if err != nil {
		return nil, fmt.Errorf("score %s: %w", s.Name, err)
	}
	return s.With(t.K, t.D, tensors)
}

// learn is fit, once for the same training data.
func (s *Score) learn(t *Training) (Tensors, error) {
	m, _ := t.learned.LoadOrStore(s.Name, new(memo))
	return m.(*memo).of(func() (Tensors, error) { return s.fit(t) })
}

// With is the score with tensors that it learned before, which it checks: names, shapes and that all
// numbers are finite. k and d are how many logits and features there are.
func (s *Score) With(k, d int, tensors Tensors) (*Fitted, error) {
	learns := s.learns
	if s.needs != nil {
		learns = s.needs(tensors)
	}
	if err := tensors.check(learns, k, d); err != nil {
		return nil, fmt.Errorf("score %s: %w", s.Name, err)
	}
	return &Fitted{s, tensors}, nil
}

// MostNumbers bounds the numbers of what the score learned for k logits and d features.
func (s *Score) MostNumbers(k, d int) int64 {
	total := 0.0
	for _, l := range s.learns {
		size := 1.0
		for _, word := range l.Shape {
			n, fixed := dimension(word, k, d)
			if !fixed {
				n = MostOpen
			}
			size *= float64(n)
		}
		total += size
	}
	return int64(math.Min(total, 1<<40))
}

// Fitted is a score with the tensors that it learned, ready to be computed.
type Fitted struct {
	*Score
	Tensors Tensors // nil of a score that learns nothing
}

// Emit writes the formula into a graph and returns the name of the result, [N,1].
func (f *Fitted) Emit(t Terms[string]) string { return f.graph(t, f.Tensors) }

// Values computes the score of the examples, one number each. What is not finite is the strangest:
// +Inf.
func (f *Fitted) Values(x Examples) []float64 {
	out := make([]float64, x.N)
	inBlocks(x, f.Margin, func(t terms, from, to int) { f.valuesTo(out[from:to], t) })
	return out
}

// valuesTo sets values of some examples.
func (f *Fitted) valuesTo(out []float64, t terms) {
	values := f.rows(t, f.Tensors)
	if values.Width != 1 {
		panic(fmt.Sprintf("score: %s gives %d numbers an example", f.Name, values.Width))
	}
	for i := range out {
		if out[i] = values.at(i, 0); out[i]-out[i] != 0 {
			out[i] = math.Inf(1)
		}
	}
}

// allValues computes several scores of the examples, in their order. What these have in common, as the
// two Mahalanobis distances, is computed once.
func allValues(ctx context.Context, list []*Fitted, x *Examples) ([][]float64, error) {
	all := make([][]float64, len(list))
	for i := range all {
		all[i] = make([]float64, x.N)
	}
	margin := slices.ContainsFunc(list, func(f *Fitted) bool { return f.Margin })
	inBlocks(*x, margin, func(t terms, from, to int) {
		t.products = new([]cachedProduct)
		for i, f := range list {
			if ctx.Err() == nil {
				f.valuesTo(all[i][from:to], t)
			}
		}
	})
	return all, context.Cause(ctx)
}

// inBlocks has formulas computed for some examples after others, which bounds the memory that they
// take.
func inBlocks(x Examples, margin bool, compute func(t terms, from, to int)) {
	x.check(margin)
	const block = 64
	parallel.For((x.N+block-1)/block, func(first, last int) {
		for ; first < last; first++ {
			from, to := first*block, min(x.N, (first+1)*block)
			compute(terms{x: x.slice(from, to)}, from, to)
		}
	})
}
