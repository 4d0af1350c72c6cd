package layer

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
)

// Head is the shape of the last layer, a = Wᵀφ + b, and its link.
type Head struct {
	Features int  `yaml:"feature_dim" json:"feature_dim"` // d: rows of W
	Logits   int  `yaml:"classes" json:"classes"`         // K: columns of W
	Bias     bool `yaml:"bias" json:"bias"`
	Link     Link `yaml:"link" json:"link"`

	// Nonlinear says that the logits come from no linear layer, such as the logarithms of a forest's probabilities.
	// There is then no posterior, and the features, of which there may be none, serve scores alone.
	Nonlinear bool `yaml:"nonlinear,omitempty" json:"nonlinear,omitempty"`
	// Missing says that the features are the columns of a table, with 0 in the place of missing values, followed by as
	// many that are 1 where a value is missing and else 0.
	Missing bool `yaml:"missing,omitempty" json:"missing,omitempty"`
	// Correctness says that the two classes are whether the model's own answer, such as the text of a line, is wrong or
	// right. The answer stands whatever their probabilities: see [Head.Answer].
	Correctness bool `yaml:"correctness,omitempty" json:"correctness,omitempty"`
}

// Right is the class of right answers, under [Head.Correctness].
const Right = 1

// Validate reports a head that the mathematics does not cover.
func (h Head) Validate() error {
	least := 2
	if h.Link == Sigmoid {
		least = 1
	}
	switch {
	case h.Features < 1 && !h.Nonlinear:
		return fmt.Errorf("head has %d features, want at least 1", h.Features)
	case h.Features < 0:
		return fmt.Errorf("head has %d features, want at least 0", h.Features)
	case h.Missing && !(h.Nonlinear && h.Features > 0 && h.Features%2 == 0):
		return fmt.Errorf("head has %d features with missing values and is nonlinear: %t, want an even number and true", h.Features, h.Nonlinear)
	case h.Correctness && (!h.Nonlinear || h.Logits != 2 || h.Link != Softmax):
		return fmt.Errorf("%s head of an answer's correctness has %d logits and is nonlinear: %t, want %s, 2 and true",
			h.Link, h.Logits, h.Nonlinear, Softmax)
	case h.Nonlinear && h.Bias:
		return fmt.Errorf("head has a bias and no linear layer")
	}
	if err := h.Link.Validate(); err != nil {
		return fmt.Errorf("head has %w", err)
	}
	if h.Logits < least {
		return fmt.Errorf("%s head has %d logits, want at least %d", h.Link, h.Logits, least)
	}
	return nil
}

// Dim returns D, the number of parameters per logit: d, plus one for a bias.
func (h Head) Dim() int {
	if h.Bias {
		return h.Features + 1
	}
	return h.Features
}

// Classes returns the number of classes or labels: K, or two for the single logit of a sigmoid head.
func (h Head) Classes() int {
	if h.Link == Sigmoid && h.Logits == 1 {
		return 2
	}
	return h.Logits
}

// MultiLabel reports whether an example may have any number of the K labels. Its ground truth is then K
// targets, not one class.
func (h Head) MultiLabel() bool { return h.Link == Sigmoid && h.Logits > 1 }

// Probabilities returns the number of log-probabilities of an example: one per class or, for a multi-label
// head, two per label, log(1-p_k) and log p_k.
func (h Head) Probabilities() int {
	if h.MultiLabel() {
		return 2 * h.Logits
	}
	return h.Classes()
}

// Categories returns C of a margin (see package meanfield): the number of classes, or 2 for the independent
// labels of a multi-label head.
func (h Head) Categories() int {
	if h.MultiLabel() {
		return 2
	}
	return h.Classes()
}

// Predicted returns the class with the largest logit, the first of several, or [Right] under [Head.Correctness]. For a
// multi-label head it is the most probable label.
func (h Head) Predicted(logits []float32) int {
	if h.Correctness {
		return Right
	}
	if h.Classes() > len(logits) { // a single logit, of the second class
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

// Answer returns the class that probabilities or their logarithms predict: the most probable, the first of several, or
// [Right] under [Head.Correctness].
func (h Head) Answer(p []float64) int {
	if h.Correctness {
		return Right
	}
	return floats.MaxIdx(p)
}
