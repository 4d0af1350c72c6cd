package calibrate

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// CheckBatch reports shapes that do not fit the head or each other, values that are not finite, and labels out
// of range. A labelled batch needs a label for every example, or targets for a multi-label head; the labels of
// an unlabelled one are ignored.
func CheckBatch(h layer.Head, b *rows.Batch, labelled bool) error {
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

func checkExample(h layer.Head, position int, phi, logits []float32, label int, targets []uint8) error {
	for i, v := range phi {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("example %d: feature %d is %v, want a finite number: is an input value missing, or the preprocessing wrong?", position, i, v)
		}
	}
	for i, v := range logits {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("example %d: logit %d is %v, want a finite number: is an input value missing, or the preprocessing wrong?", position, i, v)
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
