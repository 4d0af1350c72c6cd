// Package score has the out-of-distribution scores: one number per example, larger for what is less like the
// training data.
//
// A [Score] is an entry of [All]. Its formula is written once, over [Terms], and used twice: [Fitted.Values]
// computes it in float64 from the outputs of a calibration, and the fused ONNX graph is written by the same
// function over the names of tensors.
//
// To add one that needs only the outputs of a calibration:
//
//	var energy = Score{
//		Name: "energy", Doc: "-log Σ exp a", Source: "Liu et al. 2020, eq. 4",
//		rows: energyOf[Rows], graph: energyOf[string],
//	}
//
//	func energyOf[V any](t Terms[V], _ Tensors) V { return t.Neg(logSumExp(t, t.Logits())) }
//
// A score that is fitted to training data has two more fields: fitted, the names and shapes of its tensors, which
// are checked when a bundle is read, and fit, which computes them from a [Training]. The formula gets them by
// constant(t, tensors, name).
package score

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/parallel"
)

// ErrNoFit says that a score cannot be fitted to this training data.
var ErrNoFit = errors.New("cannot be fitted")

// A Score is one out-of-distribution score.
type Score struct {
	Name   string // in flags, tables and bundles
	Doc    string // one line for tables and help
	Source string // authors, year, equation

	// Similarity says that the score is -g for a similarity g ≥ 0 to the training data. It is served as m/(m+g), not
	// standardised by median and scale, see [Served].
	Similarity bool
	// Baseline says that the score is for comparison: in docs/paper.md another is better, or as good, everywhere. It is
	// not selected or listed, but can be requested by name.
	Baseline bool
	// Margin says that it needs mf0's margin, [Examples.Margin].
	Margin bool

	// Correctness says that the score is for heads of an answer's correctness, which have no other.
	Correctness bool

	// reads says what the formula and fit read of an example and of training.
	reads reads

	// The formula, instantiated for numbers and for names of tensors in a graph. It is any real number, larger for
	// what is more out-of-distribution; values that are not finite count as the largest.
	rows  func(Terms[Rows], Tensors) Rows
	graph func(Terms[string], Tensors) string

	// fitted are the tensors that fit computes; nil for most scores.
	fitted []TensorSpec
	fit    func(*Training) (Tensors, error)
	needs  func(Tensors) []TensorSpec // which of fitted are present; nil: all
}

// reads is what a score reads; the zero value is everything.
type reads int

const (
	layerAndFeatures reads = iota // variances, leverages, margins or weights of the last layer too
	onlyFeatures                  // features, with their classes, and logits
	onlyLogits
)

// Suits reports whether the score can be computed for a head. Most need a linear layer.
func (s *Score) Suits(h layer.Head) bool {
	if s.Correctness != h.Correctness {
		return false
	}
	return !h.Nonlinear || s.reads == onlyLogits || s.reads == onlyFeatures && h.Features > 0
}

func (s *Score) suits(x *Examples) bool {
	return s.Suits(layer.Head{Nonlinear: x.Nonlinear, Features: x.D, Correctness: x.Correctness})
}

// NeedsFitting reports whether the score is fitted to training data. If not, [Score.Fit] takes nil.
func (s *Score) NeedsFitting() bool { return s.fit != nil }

// Fit fits the score. An error that is [ErrNoFit] says that the data lack what it needs, such as two examples of a
// class.
func (s *Score) Fit(t *Training) (*Fitted, error) {
	if s.fit == nil {
		return &Fitted{Score: s}, nil
	}
	tensors, err := s.fitOnce(t)
	if err != nil {
		return nil, fmt.Errorf("score %s: %w", s.Name, err)
	}
	return s.With(t.K, t.D, tensors)
}

// fitOnce calls fit once for the same training data.
func (s *Score) fitOnce(t *Training) (Tensors, error) {
	m, _ := t.fitted.LoadOrStore(s.Name, new(memo))
	return m.(*memo).of(func() (Tensors, error) { return s.fit(t) })
}

// With returns the score with tensors that were fitted before, for k logits and d features. It checks their names and
// shapes, and that all numbers are finite.
func (s *Score) With(k, d int, tensors Tensors) (*Fitted, error) {
	want := s.fitted
	if s.needs != nil {
		want = s.needs(tensors)
	}
	if err := tensors.check(want, k, d); err != nil {
		return nil, fmt.Errorf("score %s: %w", s.Name, err)
	}
	return &Fitted{s, tensors}, nil
}

// MostNumbers bounds the size of the score's tensors for k logits and d features.
func (s *Score) MostNumbers(k, d int) int64 {
	total := 0.0
	for _, l := range s.fitted {
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

// Fitted is a score with its tensors, ready to be computed.
type Fitted struct {
	*Score
	Tensors Tensors // nil if the score needs no fitting
}

// Emit writes the formula into a graph and returns the name of the result, [N,1].
func (f *Fitted) Emit(t Terms[string]) string { return f.graph(t, f.Tensors) }

// Values computes the score of each example. Values that are not finite become +Inf.
func (f *Fitted) Values(x Examples) []float64 {
	out := make([]float64, x.N)
	inBlocks(x, f.Margin, func(t terms, from, to int) { f.valuesTo(out[from:to], t) })
	return out
}

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

// allValues computes several scores of the examples. Products that several need, such as the two Mahalanobis
// distances, are computed once.
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

// inBlocks calls compute for blocks of examples, in parallel. Blocks bound the memory of formulas.
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
