package score

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// Training is what scores are fitted to: what a calibration knows of its training data, and the last
// layer, a = Wφ + b. Matrices are row-major. Nothing of it may be changed.
type Training struct {
	K, D int // logits, features
	Link layer.Link

	W []float64 // [K,d]; nil where it is not known, as with ready-made features
	B []float64 // [K], zeros where the head has no bias; nil where W is

	// Over all N training examples.
	N    int
	Gram []float64 // [d,d], Σφφᵀ
	Sum  []float64 // [d], Σφ

	// ClassSums are Σφ by label, or by predicted class where there are no labels, and ClassCounts how
	// many examples: [C,d] and [C], C being K, and 2 where a single logit tells two classes. They are nil
	// of a multi-label head, and where they would take too much memory.
	ClassSums   []float64
	ClassCounts []int

	// Sample are some training examples, the same whatever the order in which the data were read.
	Sample Sample

	learned   sync.Map // what scores learned of it, a memo each by their names: several ask for the same
	layerOnce memo     // the last layer, which two scores have in common
}

// memo is made when it is first asked for.
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

// Tensor is what a score learned, row-major.
type Tensor struct {
	Name  string
	Shape []int // one or two dimensions
	Data  []float64
}

// Tensors are those of one score.
type Tensors []Tensor

// Of returns the tensor with a name, which must be there.
func (t Tensors) Of(name string) Tensor {
	i := slices.IndexFunc(t, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		panic("score: there is no tensor " + name)
	}
	return t[i]
}

// Learned says what tensor a score has. A dimension is K or d, a number, or any other word for what
// is open, from 1 to [MostOpen]: it must be the same wherever it stands.
type TensorSpec struct {
	Name  string
	Shape []string
}

// MostOpen bounds dimensions that follow neither from the head nor from the score.
const MostOpen = 1 << 14

// check reports tensors that are not those of a score for k logits and d features.
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
				return fmt.Errorf("tensor %s has shape %v, want %v with %s from 1 to %d, the same everywhere",
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

// dimension returns what a word of [Learned] stands for, where that is known.
func dimension(word string, k, d int) (n int, fixed bool) {
	switch word {
	case "K":
		return k, true
	case "d":
		return d, true
	}
	n, err := strconv.Atoi(word)
	return n, err == nil
}
