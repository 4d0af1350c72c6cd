package calibrate

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// Head describes the last layer, a = Wᵀφ + b.
type Head struct {
	Features int        `yaml:"feature_dim" json:"feature_dim"` // d: rows of W
	Logits   int        `yaml:"classes" json:"classes"`         // K: columns of W
	Bias     bool       `yaml:"bias" json:"bias"`
	Link     layer.Link `yaml:"link" json:"link"`
}

// Dim returns D, the parameters per logit: d, plus one for a bias.
func (h Head) Dim() int {
	if h.Bias {
		return h.Features + 1
	}
	return h.Features
}

// Classes returns the number of classes, or of labels that are told apart: K, or
// two for a sigmoid head's one logit.
func (h Head) Classes() int {
	if h.Link == layer.Sigmoid && h.Logits == 1 {
		return 2
	}
	return h.Logits
}

// MultiLabel reports whether an example has any number of the K labels, rather
// than one of the classes: what is true of it are K targets, not one label.
func (h Head) MultiLabel() bool { return h.Link == layer.Sigmoid && h.Logits > 1 }

// Predicted returns the class that logits say, the first among equals: of a multi-label head the most
// probable label.
func (h Head) Predicted(logits []float32) int {
	if h.Classes() > len(logits) { // one logit, of the second class
		if logits[0] > 0 {
			return 1
		}
		return 0
	}
	best := 0
	for k, v := range logits {
		if v > logits[best] {
			best = k
		}
	}
	return best
}

// Probabilities returns how many log-probabilities an example has: one for each class,
// or of a multi-label head two for each label, log(1-p_k) and log p_k.
func (h Head) Probabilities() int {
	if h.MultiLabel() {
		return 2 * h.Logits
	}
	return h.Classes()
}

// categories returns C of a margin (see package meanfield): the classes, or two of labels
// that are told independently.
func (h Head) categories() int {
	if h.MultiLabel() {
		return 2
	}
	return h.Classes()
}

// CheckBatch reports shapes that do not fit the head or each other, values that are not
// finite and labels out of range. A labelled batch needs a label for every example, or of a
// multi-label head targets; the labels of another are not looked at.
func (h Head) CheckBatch(b *rows.Batch, labelled bool) error {
	if b == nil || b.N == 0 {
		return fmt.Errorf("no examples")
	}
	n := b.N
	if len(b.Logits) != n*h.Logits || len(b.Features) != n*h.Features {
		return fmt.Errorf("%d features and %d logits for %d examples, want %d and %d each", len(b.Features), len(b.Logits), n, h.Features, h.Logits)
	}
	if labelled && h.MultiLabel() && len(b.Targets) != n*h.Logits {
		return fmt.Errorf("%d targets for %d examples: every example needs %d", len(b.Targets), n, h.Logits)
	}
	if labelled && !h.MultiLabel() && len(b.Labels) != n {
		return fmt.Errorf("%d labels for %d examples: every example needs one", len(b.Labels), n)
	}
	for i := range n {
		label := -1
		var targets []uint8
		switch {
		case labelled && h.MultiLabel():
			targets = b.Target(i)
		case labelled:
			if label = b.Labels[i]; label < 0 {
				return fmt.Errorf("example %d has no label", i)
			}
		}
		features, logits := b.Row(i)
		if err := checkExample(h, i, features, logits, label, targets); err != nil {
			return err
		}
	}
	return nil
}

// augment writes φ and, where the head has a bias, the constant 1 to dst (D).
func (h Head) augment(dst []float64, phi []float32) {
	for i, v := range phi {
		dst[i] = float64(v)
	}
	if h.Bias {
		dst[len(phi)] = 1
	}
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
