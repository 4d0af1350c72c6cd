package wrap

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/metrics"
)

// tally gathers one method's figures, block by block.
type tally struct {
	name   string
	head   calibrate.Head
	test   counter
	shifts []counter
	in     scores   // of the test set
	out    []scores // of the out-of-distribution sets
}

// scores are larger for what is more unfamiliar. nll, under the temperatures for
// likelihood, stays empty where it would be the same as ood.
type scores struct{ ood, nll []float64 }

// strangeness makes scores of margins.
func strangeness(margins []float64) []float64 {
	out := make([]float64, len(margins))
	for i, g := range margins {
		out[i] = -g
	}
	return out
}

func (s *scores) add(ood, nll []float64) {
	s.ood, s.nll = append(s.ood, ood...), append(s.nll, nll...)
}

// newTally returns a tally for sets of such numbers.
func newTally(name string, h calibrate.Head, shifts, out int) *tally {
	t := &tally{name: name, head: h, shifts: make([]counter, shifts), out: make([]scores, out)}
	if name == leverage {
		return t // gives no probabilities
	}
	t.test = newCounter(h)
	for i := range t.shifts {
		t.shifts[i] = newCounter(h)
	}
	return t
}

// leverage is the method without probabilities.
const leverage = "leverage"

// counter measures probabilities on one labelled set. One of its fields is set, by
// the head, but for a method without probabilities.
type counter struct {
	head       calibrate.Head
	classifier *metrics.Classifier
	multiLabel *metrics.MultiLabel
}

func newCounter(h calibrate.Head) counter {
	if h.MultiLabel() {
		return counter{head: h, multiLabel: metrics.NewMultiLabel(h.Logits, 0)}
	}
	return counter{head: h, classifier: metrics.NewClassifier(h.Classes(), 0)}
}

// add measures log-probabilities of consecutive examples; labels, or targets where the
// head is multi-label, are theirs.
func (c *counter) add(logp []float64, labels []int, targets []uint8) error {
	width, k := c.head.Outcomes(), c.head.Logits
	for i := 0; len(logp) > 0; i++ {
		var err error
		switch {
		case c.multiLabel != nil:
			err = c.multiLabel.Add(logp[:width], targets[i*k:(i+1)*k])
		case c.classifier != nil:
			err = c.classifier.Add(logp[:width], labels[i])
		default:
			return nil
		}
		if err != nil {
			return err
		}
		logp = logp[width:]
	}
	return nil
}

// result returns the figures, nil of a method without probabilities.
func (c *counter) result() *metrics.InDomain {
	var r metrics.InDomain
	switch {
	case c.multiLabel != nil:
		r = c.multiLabel.Result()
	case c.classifier != nil:
		r = c.classifier.Result()
	default:
		return nil
	}
	return &r
}

// add measures examples of a set.
func (t *tally) add(s *evalSet, logp, ood, nll []float64, labels []int, targets []uint8) error {
	switch s.role {
	case testRole:
		t.in.add(ood, nll)
		return t.test.add(logp, labels, targets)
	case shiftRole:
		return t.shifts[s.index].add(logp, labels, targets)
	}
	t.out[s.index].add(ood, nll)
	return nil
}

// result returns the figures, with the names of the sets.
func (t *tally) result(shifts, oods []NamedSpec) (MethodResult, error) {
	r := MethodResult{Name: t.name, InDomain: t.test.result(), OOD: []OODResult{}, OODNLL: []OODResult{}}
	for i := range t.shifts {
		if in := t.shifts[i].result(); in != nil {
			r.Shifts = append(r.Shifts, ShiftResult{Name: shifts[i].Name, InDomain: *in})
		}
	}
	for i, s := range t.out {
		name := oods[i].Name
		ood, err := metrics.Detect(t.in.ood, s.ood)
		if err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
		nll := ood
		if len(s.nll) > 0 {
			if nll, err = metrics.Detect(t.in.nll, s.nll); err != nil {
				return r, fmt.Errorf("%s: %w", name, err)
			}
		}
		r.OOD = append(r.OOD, OODResult{Name: name, OOD: ood})
		r.OODNLL = append(r.OODNLL, OODResult{Name: name, OOD: nll})
	}
	return r, nil
}
