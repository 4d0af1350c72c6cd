package score

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// Training is what scores are fitted to: statistics of the training data and the last layer, a = Wφ + b. Matrices are
// row-major. It must not be changed.
type Training struct {
	K, D int // logits, features
	Link layer.Link
	// Missing says that the second half of the features is 1 where a value of the first half is missing, and 0 there.
	Missing bool

	W []float64 // [K,d]; nil if unknown, as with precomputed features
	B []float64 // [K], zeros if the head has no bias; nil if W is

	// Over all N training examples.
	N    int
	Gram []float64 // [d,d], Σφφᵀ
	Sum  []float64 // [d], Σφ

	// ClassSums are Σφ by label, or by predicted class without labels, and ClassCounts the examples of each: [C,d] and
	// [C], C being K, or 2 for a single logit. They are nil for multi-label heads, and where they would take too much
	// memory.
	ClassSums   []float64
	ClassCounts []int

	// Leverages writes the leverages of n training examples with features phi [n,d], each without itself (h/(1-h)), to
	// dst [n].
	Leverages func(dst []float64, phi []float32, n int) error
	// Directions has the same sums, by class too, of the directions φ/|φ|. It is nil where ClassSums are, and for sums
	// of an earlier version.
	Directions *Training

	// Sample is some training examples, whatever the order in which the data were read.
	Sample Sample

	fitted    sync.Map // a memo by score: several scores need the same
	layerOnce memo     // the transposed last layer
}

// memo computes tensors on first use.
type memo struct {
	once    sync.Once
	tensors Tensors
	err     error
}

func (m *memo) of(make func() (Tensors, error)) (Tensors, error) {
	m.once.Do(func() { m.tensors, m.err = make() })
	return m.tensors, m.err
}

// Sample are rows of M training examples.
type Sample struct {
	M        int
	Features []float32 // [M,d]
}

// Tensor is a fitted tensor, row-major.
type Tensor struct {
	Name  string
	Shape []int // one or two dimensions
	Data  []float64
}

// Tensors are those of one score.
type Tensors []Tensor

// Of returns the tensor with a name. It panics if there is none.
func (t Tensors) Of(name string) Tensor {
	i := slices.IndexFunc(t, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		panic("score: there is no tensor " + name)
	}
	return t[i]
}

func (t Tensors) has(name string) bool {
	return slices.ContainsFunc(t, func(t Tensor) bool { return t.Name == name })
}

// TensorSpec is the name and shape of a score's tensor. A dimension is K, d or C (classes: K, or 2 for a single
// logit), a number, or any other word for an open dimension from 1 to [MostOpen], the same in all tensors of the score.
type TensorSpec struct {
	Name  string
	Shape []string
}

// MostOpen bounds open dimensions.
const MostOpen = 1 << 14

// check reports tensors that do not match their specs for k logits and d features.
func (t Tensors) check(want []TensorSpec, k, d int) error {
	if len(t) != len(want) {
		return fmt.Errorf("%d tensors, want %d", len(t), len(want))
	}
	open := map[string]int{}
	for _, w := range want {
		i := slices.IndexFunc(t, func(t Tensor) bool { return t.Name == w.Name })
		if i < 0 {
			return fmt.Errorf("tensor %s is missing", w.Name)
		}
		if len(t[i].Shape) != len(w.Shape) {
			return fmt.Errorf("tensor %s has shape %v, want %v", w.Name, t[i].Shape, w.Shape)
		}
		size := 1
		for j, word := range w.Shape {
			got := t[i].Shape[j]
			size *= got
			if n, fixed := dimension(word, k, d); fixed {
				if got != n {
					return fmt.Errorf("tensor %s has shape %v, want %v with K = %d and d = %d", w.Name, t[i].Shape, w.Shape, k, d)
				}
				continue
			}
			if n, seen := open[word]; seen && got != n || got < 1 || got > MostOpen {
				return fmt.Errorf("tensor %s has shape %v, want %v with %s from 1 to %d, the same in all tensors",
					w.Name, t[i].Shape, w.Shape, word, MostOpen)
			}
			open[word] = got
		}
		if len(t[i].Data) != size {
			return fmt.Errorf("tensor %s has %d numbers, its shape %v", w.Name, len(t[i].Data), t[i].Shape)
		}
		for _, v := range t[i].Data {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("tensor %s has %v, want finite numbers", w.Name, v)
			}
		}
	}
	return nil
}

// dimension returns the size of a dimension of [TensorSpec], unless it is open.
func dimension(word string, k, d int) (n int, fixed bool) {
	switch word {
	case "K":
		return k, true
	case "d":
		return d, true
	case "C":
		return max(k, 2), true
	}
	n, err := strconv.Atoi(word)
	return n, err == nil
}
