// Package measure accumulates the figures of methods that give probabilities, OOD scores or both, block by block, and
// computes the methods that need nothing but a calibration.
package measure

import (
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// Role is the role of a set in an evaluation.
type Role int

const (
	Test  Role = iota
	Shift      // labelled, under distribution shift
	OOD        // out-of-distribution: to be detected
)

// SetID identifies a set: its role, and its index among the sets of that role.
type SetID struct {
	Role  Role
	Index int
}

// Scores are the outputs of a method for some examples. LogP has [layer.Head.Probabilities] numbers for each. OOD
// and NLL are OOD scores under the temperatures for out-of-distribution data and for likelihood; NLL is nil if it
// equals OOD.
type Scores struct{ LogP, OOD, NLL []float64 }

// Figures are the figures of one method. InDomain is nil for a method without probabilities. Shifts, OOD and OODNLL are
// in the order of the sets.
type Figures struct {
	InDomain    *metrics.Labelled
	Shifts      []metrics.Labelled
	OOD, OODNLL []metrics.DetectionResult
}

// Tally accumulates one method's figures.
type Tally struct {
	Name   string
	oods   []string
	test   *counter // nil for a method without probabilities
	shifts []*counter
	in     Scores   // of the test set
	out    []Scores // of the out-of-distribution sets
}

// New returns a tally for a test set, this number of sets under shift, and out-of-distribution sets with these names.
// bins is the number of bins of the ECE, 0 for [metrics.DefaultBins].
func New(name string, h layer.Head, bins, shifts int, oods []string) *Tally {
	t := &Tally{Name: name, oods: oods, shifts: make([]*counter, shifts), out: make([]Scores, len(oods))}
	if IsScore(name) {
		return t
	}
	t.test = newCounter(h, bins)
	for i := range t.shifts {
		t.shifts[i] = newCounter(h, bins)
	}
	return t
}

// Add measures examples of a set, with their labels, or targets for multi-label heads, and the network's logits.
func (t *Tally) Add(p SetID, s Scores, b *rows.Batch) error {
	switch p.Role {
	case Test:
		t.in.add(s)
		return t.test.add(s.LogP, b)
	case Shift:
		return t.shifts[p.Index].add(s.LogP, b)
	}
	t.out[p.Index].add(s)
	return nil
}

func (s *Scores) add(more Scores) {
	s.OOD, s.NLL = append(s.OOD, more.OOD...), append(s.NLL, more.NLL...)
}

// Figures returns the figures of all examples.
func (t *Tally) Figures() (f Figures, err error) {
	f.InDomain = labelled(t.test)
	for _, c := range t.shifts {
		if in := labelled(c); in != nil {
			f.Shifts = append(f.Shifts, *in)
		}
	}
	for i, s := range t.out {
		ood, err := metrics.Detect(t.in.OOD, s.OOD)
		if err != nil {
			return f, fmt.Errorf("%s: %w", t.oods[i], err)
		}
		nll := ood
		if len(s.NLL) > 0 {
			if nll, err = metrics.Detect(t.in.NLL, s.NLL); err != nil {
				return f, fmt.Errorf("%s: %w", t.oods[i], err)
			}
		}
		f.OOD = append(f.OOD, metrics.DetectionResult{OOD: ood})
		f.OODNLL = append(f.OODNLL, metrics.DetectionResult{OOD: nll})
	}
	return f, nil
}

// Classes returns the figures of each class on the test set, nil for a method without
// probabilities. names may be empty.
func (t *Tally) Classes(names []string) []metrics.ClassFigures {
	if t.test == nil {
		return nil
	}
	all := t.test.Classes()
	for i := range min(len(all), len(names)) {
		all[i].Class = names[i]
	}
	return all
}

func labelled(c *counter) *metrics.Labelled {
	if c == nil {
		return nil
	}
	return &metrics.Labelled{
		InDomain: c.Result(), Reliability: c.Reliability(), Selective: c.Selective(), ClassChanges: c.changes,
	}
}

// counter measures probabilities on one labelled set.
type counter struct {
	*metrics.Classifier // of the decisions, for a multi-label head
	head                layer.Head
	multiLabel          *metrics.MultiLabel // nil for other heads
	changes             int                 // see [ChangesClass]
}

func newCounter(h layer.Head, bins int) *counter {
	if h.MultiLabel() {
		m := metrics.NewMultiLabel(h.Logits, bins)
		return &counter{Classifier: m.Decisions(), head: h, multiLabel: m}
	}
	c := &counter{Classifier: metrics.NewClassifier(h.Classes(), bins), head: h}
	if h.Correctness {
		c.Classifier = metrics.NewCorrectness(bins)
	}
	return c
}

// add measures examples. c is nil for a method without probabilities.
func (c *counter) add(logp []float64, b *rows.Batch) error {
	if c == nil {
		return nil
	}
	width, k := c.head.Probabilities(), c.head.Logits
	for i := 0; len(logp) > 0; i++ {
		var err error
		if c.multiLabel != nil {
			err = c.multiLabel.Add(logp[:width], b.Targets[i*k:(i+1)*k])
		} else {
			err = c.Add(logp[:width], b.Labels[i])
		}
		if err != nil {
			return err
		}
		if ChangesClass(c.head, logp[:width], b.Logits[i*k:(i+1)*k]) {
			c.changes++
		}
		logp = logp[width:]
	}
	return nil
}

// ChangesClass reports whether log-probabilities of an example predict another class, or other labels, than the
// network's logits. An answer that is right or wrong does not change.
func ChangesClass(h layer.Head, logp []float64, logits []float32) bool {
	if h.Correctness {
		return false
	}
	if !h.MultiLabel() {
		best := h.Predicted(logits)
		return slices.ContainsFunc(logp, func(v float64) bool { return v > logp[best] })
	}
	for k, a := range logits {
		if (logp[2*k+1] > logp[2*k]) != (a > 0) {
			return true
		}
	}
	return false
}

// DefaultBins is the number of bins of the ECE of a head's probabilities, unless another is asked for.
func DefaultBins(h layer.Head) int {
	if h.MultiLabel() {
		return metrics.DefaultBins(2) // each label is a decision between two classes
	}
	return metrics.DefaultBins(h.Classes())
}

// LooksLikeProbabilities says why logits look like probabilities: all rows are distributions or, for a multi-label
// head, all numbers probabilities. It is "" if they do not.
func LooksLikeProbabilities(logits []float32, h layer.Head) string {
	k := h.Logits
	if k == 1 {
		return ""
	}
	for rows := logits; len(rows) > 0; rows = rows[k:] {
		var sum float64
		for _, v := range rows[:k] {
			if v < 0 || v > 1 {
				return ""
			}
			sum += float64(v)
		}
		if !h.MultiLabel() && math.Abs(sum-1) > 1e-3 {
			return ""
		}
	}
	if h.MultiLabel() {
		return "all logits lie in [0,1]"
	}
	return "every row of logits lies in [0,1] and sums to 1"
}
